// The classes: a card each, with a button that teaches what is shown.

import { $, make, number } from "./dom.js";
import { key, paint } from "./labels.js";
import { copy, filesOf } from "./pictures.js";

const KEPT = 60; // pictures of a card; the latest are seen, those before them come back when a lesson is taken back

export class Classes {
  /** `on` is told: begin(label), end(), remove(label), files(label, files). */
  constructor(on) {
    this.on = on;
    this.cards = new Map();
  }

  /** [{label, samples, waiting, taught}], in the order of their places. `offer`: what a button teaches; null: none does. */
  show(classes, offer) {
    const wanted = new Set(classes.map((each) => key(each.label)));
    for (const [id, card] of this.cards) {
      if (!wanted.has(id)) {
        card.item.remove();
        this.cards.delete(id);
      }
    }
    classes.forEach((each, place) => {
      const id = key(each.label);
      if (!this.cards.has(id)) this.cards.set(id, this.#card(each.label));
      const card = this.cards.get(id);
      paint(card.item, place);
      if ($("cards").children[place] !== card.item) $("cards").insertBefore(card.item, $("cards").children[place] ?? null);
      card.count.textContent = number(each.samples);
      card.waiting.textContent = each.waiting > 0 ? ` + ${number(each.waiting)}` : "";
      card.remove.hidden = each.taught;
      card.button.hidden = offer === null;
      card.text.textContent = offer ?? "";
    });
    $("welcome").hidden = classes.length > 0;
  }

  /** Pictures that a lesson just taught. */
  add(label, canvases, lesson) {
    const strip = this.cards.get(key(label))?.strip;
    if (!strip) return;
    const copies = canvases.slice(-KEPT).reverse().map(copy);
    for (const each of copies) each.dataset.lesson = lesson;
    strip.prepend(...copies);
    while (strip.children.length > KEPT) strip.lastChild.remove();
  }

  /** The pictures of a lesson go when it is taken back. */
  clear(label, lesson) {
    for (const each of [...(this.cards.get(key(label))?.strip.children ?? [])]) if (each.dataset.lesson === String(lesson)) each.remove();
  }

  focus(label) {
    this.cards.get(key(label))?.button.focus();
  }

  active(label, is) {
    this.cards.get(key(label))?.item.classList.toggle("active", is);
  }

  #card(label) {
    const count = make("span", { className: "count" });
    const waiting = make("span", { className: "quiet" });
    const strip = make("div", { className: "strip", "aria-hidden": "true" });
    const text = make("span", {});
    const button = make("button", { type: "button", className: "teach" }, text, make("span", { className: "aside", textContent: `: ${label}` }));
    const remove = make("button", { type: "button", className: "plain", textContent: "×", "aria-label": `Remove ${label}`, title: "Remove" });
    const name = make("h3", { textContent: String(label), title: String(label) });
    const number = make("p", { className: "samples" }, count, waiting, make("span", { className: "aside", textContent: " samples" }));
    const item = make("li", { className: "card" }, make("div", { className: "heading" }, name, number, remove), strip, button);
    this.#hold(button, label);
    this.#drop(item, label);
    remove.addEventListener("click", () => this.on.remove(label));
    return { item, button, text, count, waiting, strip, remove };
  }

  /** A button that is held by the pointer, by Space or by Enter; a click without either, as screen readers make it, is short. */
  #hold(button, label) {
    let held = false;
    let handled = false;
    const begin = () => {
      held = handled = true;
      this.on.begin(label);
    };
    const end = () => {
      if (held) this.on.end();
      held = false;
    };
    button.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      button.setPointerCapture(event.pointerId);
      begin();
    });
    for (const name of ["pointerup", "pointercancel", "blur"]) button.addEventListener(name, end);
    button.addEventListener("contextmenu", (event) => event.preventDefault()); // a long touch
    button.addEventListener("keydown", (event) => {
      if (event.key !== " " && event.key !== "Enter") return;
      event.preventDefault();
      if (!event.repeat) begin();
    });
    button.addEventListener("keyup", (event) => {
      if (event.key === " " || event.key === "Enter") end();
    });
    button.addEventListener("click", () => {
      if (!handled) {
        begin();
        end();
      }
      handled = false;
    });
  }

  #drop(item, label) {
    const over = (is) => item.classList.toggle("over", is);
    item.addEventListener("dragover", (event) => {
      event.preventDefault();
      over(true);
    });
    item.addEventListener("dragleave", () => over(false));
    item.addEventListener("drop", async (event) => {
      event.preventDefault();
      event.stopPropagation();
      over(false);
      this.on.files(label, await filesOf(event.dataTransfer));
    });
  }
}
