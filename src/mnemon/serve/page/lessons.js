// Teaching and taking back. A lesson is what one press of a button taught; undo takes back the last lesson.

import { model, post } from "./api.js";
import { tell } from "./dom.js";
import { Outbox } from "./outbox.js";

const KEPT = "mnemon.lessons";
const EVERY = 200; // milliseconds between two frames of the camera
const FRAMES = 5; // in a request: a lesson of a few seconds is a few requests, so undo has little to do
const [IMAGES, CHARACTERS] = [100, 4e6]; // in a request
const MOST = 100; // lessons that can be taken back
let next = Date.now(); // a lesson's number; those of before a reload are lower

export class Lessons {
  /** `on` is told: taught(label, canvases, lesson's number), holds(label, whether), undone(lesson), and what Outbox tells. */
  constructor(on) {
    this.on = on;
    const kept = JSON.parse(sessionStorage.getItem(KEPT) ?? "{}");
    this.lessons = kept.lessons ?? []; // {number, model, label, samples, requests: [{id, position}]}
    this.unwanted = new Set(kept.unwanted); // requests that were taken back while they were on their way
    this.outbox = new Outbox({
      ...on,
      acknowledged: (request, answer) => this.#acknowledged(request, answer),
      refused: (request, error) => this.#refused(request, error),
    });
    this.holding = null;
  }

  /** A button is pressed: teach what the source shows, frame after frame where it moves. */
  begin(name, label, source) {
    this.end();
    const content = source.content();
    if (content === null) {
      tell(source.missing(), "teach");
      return;
    }
    if (!source.holds) {
      this.teach(name, label, content);
      source.done?.();
      return;
    }
    const lesson = this.#lesson(name, label);
    const held = (this.holding = { lesson, images: [] });
    const frame = (found) => {
      if (found === null) return;
      held.images.push(...found.images);
      this.on.taught(label, found.shown, lesson.number);
      if (held.images.length >= FRAMES) this.#flush();
    };
    frame(content);
    held.timer = setInterval(() => frame(source.content()), EVERY);
    this.on.holds(label, true);
  }

  /** The button was let go. */
  end() {
    if (this.holding === null) return;
    clearInterval(this.holding.timer);
    this.#flush();
    this.on.holds(this.holding.lesson.label, false);
    this.holding = null;
  }

  #flush() {
    const { lesson, images } = this.holding;
    if (images.length > 0) this.#send(lesson, { images: images.splice(0) });
  }

  /** Teach this at once: {images, shown?}, {rows} or {rows, labels}. */
  teach(name, label, { images, shown, rows, labels }) {
    const lesson = this.#lesson(name, label);
    if (rows) this.#send(lesson, labels ? { rows, labels } : { rows });
    else for (const part of parts(images)) this.#send(lesson, { images: part });
    if (shown) this.on.taught(label, shown, lesson.number);
  }

  #lesson(name, label) {
    const lesson = { number: (next += 1), model: name, label, samples: 0, requests: [] };
    this.lessons.push(lesson);
    this.lessons.splice(0, this.lessons.length - MOST);
    return lesson;
  }

  #send(lesson, content) {
    lesson.samples += (content.images ?? content.rows).length;
    lesson.requests.push({ id: this.outbox.add(lesson.model, lesson.label, content), position: null });
    this.#changed();
  }

  /** The last lesson of a model. */
  last(name) {
    return this.lessons.findLast((each) => each.model === name && each.requests.length > 0);
  }

  /** Take back the last lesson: what is still here is dropped, what the server has is retracted. */
  async undo(name) {
    const lesson = this.last(name);
    if (!lesson) return;
    this.end();
    this.lessons.splice(this.lessons.indexOf(lesson), 1);
    this.on.undone(lesson);
    for (const request of lesson.requests.splice(0).reverse()) {
      if (this.outbox.drop(request.id)) continue;
      if (request.position === null) this.unwanted.add(request.id);
      else await this.#retract(lesson, request);
    }
    this.#changed();
  }

  async #retract(lesson, request) {
    try {
      await post(`${model(lesson.model)}/retract`, { position: request.position });
    } catch (error) {
      tell(`This could not be taken back: ${error.message}`, "undo");
      if (error.status === 410 || error.status === 409) return;
      lesson.requests.unshift(request); // to be tried again
      if (!this.lessons.includes(lesson)) this.lessons.push(lesson);
    }
  }

  #acknowledged(request, { position }) {
    const found = this.lessons.flatMap((each) => each.requests).find((each) => each.id === request.id);
    if (found) found.position = position;
    if (this.unwanted.delete(request.id)) {
      this.#retract({ model: request.model, label: request.label, samples: 0, requests: [] }, { id: request.id, position });
    }
    this.on.acknowledged(request, position);
    this.#changed();
  }

  #refused(request, error) {
    for (const lesson of this.lessons) lesson.requests = lesson.requests.filter((each) => each.id !== request.id);
    this.unwanted.delete(request.id);
    this.on.refused(request);
    this.#changed();
    tell(`These samples were not taken: ${error.message}`, "teach");
  }

  #changed() {
    const lessons = this.lessons.filter((each) => each.requests.length > 0);
    sessionStorage.setItem(KEPT, JSON.stringify({ lessons, unwanted: [...this.unwanted] }));
    this.on.changed();
  }
}

/** Images in parts that a request can hold. */
function* parts(images) {
  let [part, length] = [[], 0];
  for (const image of images) {
    if (part.length === IMAGES || length + image.length > CHARACTERS) {
      if (part.length > 0) yield part;
      [part, length] = [[], 0];
    }
    part.push(image);
    length += image.length;
  }
  if (part.length > 0) yield part;
}
