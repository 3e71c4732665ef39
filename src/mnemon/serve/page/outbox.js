// Samples on their way to the server. Each request has an id of its own, so that it counts once however often it is sent;
// what is not acknowledged is kept through failures, restarts of the server and reloads of the page.

import { Away, ask, form, model, pause, post } from "./api.js";
import { header } from "./labels.js";

const KEPT = "mnemon.outbox";
const AGAIN = new Set([408, 425, 429, 500, 502, 503, 504, 507]);

export class Outbox {
  /** `on` is told: acknowledged(request, answer), refused(request, error), away(), slow(error), locked(), changed(). */
  constructor(on) {
    this.on = on;
    this.requests = JSON.parse(sessionStorage.getItem(KEPT) ?? "[]");
    this.sending = null;
    this.running = false;
    this.wake = () => {};
  }

  /** `content` is {images: [base64 of PNG]} or {rows: [...]}; a request is for one label, or has one for each row in `labels`. */
  add(name, label, content) {
    const request = { id: crypto.randomUUID?.() ?? this.#random(), model: name, label, ...content };
    this.requests.push(request);
    this.#changed();
    this.run();
    return request.id;
  }

  /** Whether the request was still here and is gone now; one that is being sent cannot be called back. */
  drop(id) {
    const place = this.requests.findIndex((each) => each.id === id);
    if (place < 0 || this.requests[place] === this.sending) return false;
    this.requests.splice(place, 1);
    this.#changed();
    return true;
  }

  /** Samples that wait here, of all models or of a class. */
  count(name, matches = () => true) {
    const of = (each) => (each.images ?? each.rows).length;
    return this.requests.filter((each) => each.model === name && matches(each.label)).reduce((sum, each) => sum + of(each), 0);
  }

  /** Send what there is, one request after the other, in order. */
  async run() {
    this.wake();
    if (this.running) return;
    this.running = true;
    while (this.requests.length > 0) {
      const request = (this.sending = this.requests[0]);
      try {
        const answer = await this.#send(request);
        this.requests.shift();
        this.on.acknowledged(request, answer);
      } catch (error) {
        if (error instanceof Away || AGAIN.has(error.status)) {
          if (error instanceof Away) this.on.away();
          else this.on.slow(error);
          await this.#nap(Math.min(Math.max(error.retryAfter ?? 0, 1), 30));
        } else if (error.status === 401) {
          this.on.locked();
          await this.#nap(3600);
        } else {
          this.requests.shift();
          this.on.refused(request, error);
        }
      }
      this.sending = null;
      this.#changed();
    }
    this.running = false;
  }

  async #send({ id, model: name, label, labels, images, rows }) {
    const path = `${model(name)}/learn`;
    if (rows) return post(path, { x: rows, y: labels ?? rows.map(() => label), id });
    const headers = { "Idempotency-Key": id, "Mnemon-Labels": header(label) };
    const answer = await ask(path, { method: "POST", body: form(images), headers });
    return answer.json().catch(() => {
      throw new Away("the answer was cut off.");
    });
  }

  #nap(seconds) {
    return Promise.race([pause(seconds), new Promise((done) => (this.wake = done))]);
  }

  #changed() {
    try {
      sessionStorage.setItem(KEPT, JSON.stringify(this.requests));
    } catch {
      // more than the browser stores: it is kept as long as the page is
    }
    this.on.changed();
  }

  #random() {
    // randomUUID is there on localhost and HTTPS only
    return Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, "0")).join("");
  }
}
