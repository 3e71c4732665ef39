// Drawing with the mouse or a finger, white on black. What is sent is the drawing brought to the middle and to one size, as
// the well-known sets of digits are made.

import { make } from "./dom.js";
import { encoded } from "./pixels.js";

const SIDE = 320;

export class Drawing {
  title = "Draw";
  kind = "images";
  holds = false;
  live = false;

  constructor(changed) {
    this.changed = changed;
    this.size = 32;
    this.strokes = []; // of points [x, y] in 0 … 1
    this.canvas = make("canvas", { width: SIDE, height: SIDE, tabIndex: 0, role: "img", "aria-label": "Draw here with the mouse or a finger" });
    this.hint = make("p", { className: "hint", textContent: "Draw here" });
    this.small = make("canvas", { className: "seen", "aria-hidden": "true" });
    const clear = make("button", { type: "button", className: "plain", textContent: "Clear" });
    const seen = make("span", { className: "quiet" }, "What it gets ", this.small);
    this.element = make("div", {}, make("div", { className: "view board" }, this.canvas, this.hint), make("div", { className: "line between" }, seen, clear));
    clear.addEventListener("click", () => this.clear());
    this.canvas.addEventListener("pointerdown", (event) => {
      this.canvas.setPointerCapture(event.pointerId);
      if (this.taught) this.strokes = []; // the next drawing begins
      this.taught = false;
      this.strokes.push([this.#point(event)]);
      this.#drawn();
    });
    this.canvas.addEventListener("pointermove", (event) => {
      if (!this.canvas.hasPointerCapture(event.pointerId)) return;
      for (const each of event.getCoalescedEvents?.() ?? [event]) this.strokes.at(-1).push(this.#point(each));
      this.#drawn();
    });
    this.#drawn();
  }

  show() {
    this.#drawn();
  }

  hide() {}

  clear() {
    this.strokes = [];
    this.#drawn();
  }

  #point(event) {
    const box = this.canvas.getBoundingClientRect();
    return [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
  }

  #drawn() {
    this.hint.hidden = this.strokes.length > 0;
    paint(this.canvas, this.strokes, 0.06);
    this.small.width = this.small.height = this.size;
    const found = this.#normalised();
    this.small.getContext("2d").drawImage(found, 0, 0, this.size, this.size);
    this.changed();
  }

  #normalised() {
    // As in MNIST, a margin of 4 of 28 pixels; the digits of 8 × 8 pixels have no room for one.
    const [margin, width] = this.size < 16 ? [0.02, 0.13] : [0.14, 0.08];
    const points = this.strokes.flat();
    const canvas = make("canvas", { width: 4 * this.size, height: 4 * this.size });
    const [xs, ys] = [points.map((p) => p[0]), points.map((p) => p[1])];
    const [left, top] = [Math.min(...xs), Math.min(...ys)];
    const [w, h] = [Math.max(...xs) - left, Math.max(...ys) - top];
    const inner = 1 - 2 * margin - width;
    const scale = inner / Math.max(w, h, 0.15); // a dot stays small
    const moved = ([x, y]) => [0.5 + (x - left - w / 2) * scale, 0.5 + (y - top - h / 2) * scale];
    paint(canvas, this.strokes.map((stroke) => stroke.map(moved)), width);
    return canvas;
  }

  content() {
    if (this.strokes.length === 0) return null;
    const canvas = this.#normalised();
    return { images: [encoded(canvas)], shown: [canvas] };
  }

  asked() {
    return this.content();
  }

  /** It was learned; the next stroke begins anew. */
  done() {
    this.taught = true;
  }

  offer() {
    return "Teach this";
  }

  missing() {
    return "Draw something first.";
  }
}

function paint(canvas, strokes, width) {
  const [context, side] = [canvas.getContext("2d"), canvas.width];
  context.fillStyle = "black";
  context.fillRect(0, 0, side, side);
  context.strokeStyle = "white";
  context.lineWidth = width * side;
  context.lineCap = context.lineJoin = "round";
  for (const stroke of strokes) {
    context.beginPath();
    context.moveTo(stroke[0][0] * side, stroke[0][1] * side);
    for (const [x, y] of stroke) context.lineTo(x * side, y * side);
    if (stroke.length === 1) context.lineTo(stroke[0][0] * side + 0.01, stroke[0][1] * side);
    context.stroke();
  }
}
