// What the model says of what is shown: five bars. A bar is a button: it says that this is the right name.

import { $, make, percent, plural } from "./dom.js";
import { key, paint } from "./labels.js";

const BARS = 5;
const QUIET = 1500; // milliseconds between two things that a screen reader says

export class Guesses {
  /** `correct(label)` is called for the right name; `place(label)` is a class's place among all. */
  constructor(correct, place) {
    this.correct = correct;
    this.place = place;
    this.rows = new Map();
    this.said = "";
    this.next = 0;
    this.frozen = false; // bars do not change places below a pointer
    $("bars").addEventListener("pointerenter", () => (this.frozen = true));
    $("bars").addEventListener("pointerleave", () => (this.frozen = false));
  }

  /** Nothing to predict, and why. */
  empty(why) {
    $("winner").textContent = $("guesses-which").textContent = "";
    $("bars").replaceChildren();
    this.rows.clear();
    $("guesses-note").textContent = why;
  }

  /** `few`: there are no more classes than bars, so each has a place of its own. `which`: of several things that are shown. */
  show({ label, confidence, top }, learned, few, which) {
    const winner = $("winner");
    winner.replaceChildren(make("span", { className: "name", textContent: String(label) }), " ", make("span", { className: "quiet", textContent: percent(confidence) }));
    $("guesses-which").textContent = which;
    paint(winner, this.place(label));
    const guesses = top.slice(0, BARS);
    if (few) guesses.sort((a, b) => this.place(a.label) - this.place(b.label));
    this.#bars(guesses, key(label));
    $("guesses-note").textContent = `After ${plural(learned, "sample")}. Wrong? Click the right name. Something new? Add a class and teach it.`;
    this.#say(String(label), confidence);
  }

  #bars(guesses, best) {
    const wanted = new Map(guesses.map((guess) => [key(guess.label), guess]));
    const held = this.frozen || $("bars").contains(document.activeElement);
    const order = held && this.rows.size > 0 ? [...this.rows.keys()] : [...wanted.keys()];
    for (const id of wanted.keys()) if (!order.includes(id) && order.length < BARS) order.push(id);
    const rows = order.map((id) => [id, this.rows.get(id) ?? this.#bar(wanted.get(id).label)]);
    if (rows.map(([id]) => id).join() !== [...this.rows.keys()].join() || $("bars").children.length !== rows.length) {
      this.rows = new Map(rows);
      $("bars").replaceChildren(...rows.map(([, row]) => row.item));
    }
    for (const [id, row] of rows) {
      const share = wanted.get(id)?.confidence ?? 0;
      row.fill.style.width = `${share * 100}%`;
      row.value.textContent = percent(share);
      row.item.classList.toggle("best", id === best);
    }
  }

  #bar(label) {
    const fill = make("span", { className: "fill" });
    const value = make("span", { className: "value" });
    const name = make("span", { className: "name", textContent: String(label) });
    const button = make("button", { type: "button", title: "This is the right name" }, name, make("span", { className: "track" }, fill), value);
    button.setAttribute("aria-label", `Correct: this is ${label}`);
    button.addEventListener("click", () => this.correct(label));
    const item = paint(make("li", {}, button), this.place(label));
    return { item, fill, value };
  }

  #say(label, confidence) {
    const now = performance.now();
    if (label === this.said || now < this.next) return;
    this.said = label;
    this.next = now + QUIET;
    $("spoken").textContent = `${label}, ${percent(confidence)}`;
  }
}
