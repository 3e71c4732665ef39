// Pictures that are chosen, dropped or pasted. The first is predicted; a class's button teaches all of them.

import { make, plural, tell } from "./dom.js";
import { encoded, opened, sent } from "./pixels.js";

const MOST = 500; // at once

export class Pictures {
  title = "Pictures";
  kind = "images";
  holds = false;
  live = false;

  constructor(changed) {
    this.changed = changed;
    this.size = 32;
    this.canvases = [];
    this.first = make("canvas", { className: "first", role: "img", "aria-label": "The picture that is predicted" });
    this.choose = make("input", { type: "file", accept: "image/*", multiple: true, id: "files" });
    const label = make("label", { className: "drop", for: "files" }, make("strong", { textContent: "Drop pictures here" }), make("span", { textContent: "or paste them, or choose files" }));
    this.view = make("div", { className: "view" }, this.first, this.choose, label);
    this.strip = make("ul", { className: "strip" });
    this.count = make("span", { className: "quiet" });
    const clear = make("button", { type: "button", className: "plain", textContent: "Clear" });
    this.bar = make("div", { className: "line between" }, this.count, clear);
    this.element = make("div", {}, this.view, this.strip, this.bar);
    clear.addEventListener("click", () => this.#set([]));
    this.choose.addEventListener("change", async () => {
      await this.take([...this.choose.files]);
      this.choose.value = "";
    });
    this.#set([]);
  }

  show() {}

  hide() {}

  /** Show these files. */
  async take(files) {
    this.#set(await pictures(files, this.size));
  }

  #set(canvases) {
    this.canvases = canvases;
    this.view.classList.toggle("filled", canvases.length > 0);
    this.bar.hidden = canvases.length === 0;
    this.strip.hidden = canvases.length < 2;
    this.count.textContent = plural(canvases.length, "picture");
    this.strip.replaceChildren(...canvases.slice(0, 24).map((canvas) => make("li", {}, copy(canvas))));
    if (canvases.length > 0) {
      this.first.width = this.first.height = canvases[0].width;
      this.first.getContext("2d").drawImage(canvases[0], 0, 0);
    }
    this.changed();
  }

  content() {
    if (this.canvases.length === 0) return null;
    return { images: this.canvases.map(encoded), shown: this.canvases };
  }

  asked() {
    return this.canvases.length > 0 ? { images: [encoded(this.canvases[0])] } : null;
  }

  offer() {
    return this.canvases.length > 1 ? `Teach ${this.canvases.length} pictures` : "Teach this";
  }

  /** Which one is predicted, where there are several. */
  which() {
    return this.canvases.length > 1 ? `picture 1 of ${this.canvases.length}` : "";
  }

  missing() {
    return "Drop, paste or choose a picture first.";
  }
}

/** Files as canvases; those that are no images are named and left out. */
export async function pictures(files, size) {
  if (files.length > MOST) tell(`Of ${files.length} files the first ${MOST} are taken.`, "files");
  const found = [];
  for (const file of files.slice(0, MOST)) {
    try {
      found.push(await opened(file, sent(size)));
    } catch (error) {
      tell(error.message, "files");
    }
  }
  return found;
}

/** The files in what was dropped or pasted, those in folders included. */
export async function filesOf(transfer) {
  const entries = [...transfer.items].filter((item) => item.kind === "file").map((item) => item.webkitGetAsEntry?.() ?? item.getAsFile());
  return (await Promise.all(entries.map(walk))).flat().filter(Boolean);
}

async function walk(entry) {
  if (entry === null || entry instanceof File) return [entry];
  if (entry.isFile) return [await new Promise((done, failed) => entry.file(done, failed))];
  const reader = entry.createReader();
  const found = [];
  for (;;) {
    const some = await new Promise((done, failed) => reader.readEntries(done, failed)); // a hundred at a time
    if (some.length === 0) return (await Promise.all(found.map(walk))).flat();
    found.push(...some);
  }
}

export function copy(canvas) {
  const found = make("canvas", { width: canvas.width, height: canvas.height });
  found.getContext("2d").drawImage(canvas, 0, 0);
  return found;
}
