// The camera: what it shows is predicted all the time, and taught while a class's button is held.

import { make } from "./dom.js";
import { encoded, sent, square } from "./pixels.js";

const REASONS = {
  NotAllowedError: "The browser was not allowed to use the camera. Allow it beside the address of this page, then try again.",
  NotFoundError: "There is no camera here. Pictures can be dropped or pasted, and things can be drawn.",
  NotReadableError: "The camera is used by another program. Close that, then try again.",
};

export class Camera {
  title = "Camera";
  kind = "images";
  holds = true; // teaching goes on while a button is held
  live = true;

  constructor(changed) {
    this.changed = changed;
    this.size = 32;
    this.video = make("video", { muted: true, playsInline: true, "aria-label": "What the camera sees" });
    this.note = make("p", { className: "quiet" });
    this.on = make("button", { type: "button", className: "primary", textContent: "Turn on the camera" });
    this.other = make("select", { hidden: true, "aria-label": "Which camera" });
    this.veil = make("div", { className: "veil" }, this.on, this.note);
    this.element = make("div", {}, make("div", { className: "view" }, this.video, this.veil), this.other);
    this.on.addEventListener("click", () => this.start());
    this.other.addEventListener("change", () => this.start(this.other.value));
  }

  async show() {
    this.shown = true;
    if (!window.isSecureContext || !navigator.mediaDevices) {
      this.on.hidden = true;
      this.note.textContent =
        "Browsers give a camera to safe pages only: open this page as http://localhost on the machine that serves it, or serve it by HTTPS (mnemon serve --tls-cert FILE --tls-key FILE).";
      return;
    }
    const permission = await navigator.permissions?.query({ name: "camera" }).catch(() => null);
    if (permission?.state === "granted" && this.shown) await this.start();
  }

  hide() {
    this.shown = false;
    this.stop();
  }

  stop() {
    for (const track of this.video.srcObject?.getTracks() ?? []) track.stop();
    this.video.srcObject = null;
    this.veil.hidden = false;
  }

  async start(device) {
    this.stop();
    this.note.textContent = "";
    try {
      const which = device ? { deviceId: { exact: device } } : { facingMode: "environment" };
      const stream = await navigator.mediaDevices.getUserMedia({ audio: false, video: { ...which, width: { ideal: 640 }, height: { ideal: 480 } } });
      if (!this.shown) {
        for (const track of stream.getTracks()) track.stop();
        return;
      }
      stream.getVideoTracks()[0].addEventListener("ended", () => this.stop());
      this.video.srcObject = stream;
      // A camera that faces the user is a mirror, as everywhere; what is sent is not mirrored.
      const facing = stream.getVideoTracks()[0].getSettings().facingMode;
      this.video.classList.toggle("mirror", facing !== "environment");
      await this.video.play();
      this.veil.hidden = true;
      await this.#list(stream.getVideoTracks()[0].getSettings().deviceId);
    } catch (error) {
      if (error.name === "AbortError") return;
      this.note.textContent = REASONS[error.name] ?? `The camera cannot be used (${error.message}).`;
    }
    this.changed();
  }

  async #list(current) {
    const all = (await navigator.mediaDevices.enumerateDevices()).filter((each) => each.kind === "videoinput");
    this.other.replaceChildren(...all.map((each, i) => new Option(each.label || `Camera ${i + 1}`, each.deviceId)));
    this.other.value = current;
    this.other.hidden = all.length < 2;
  }

  /** What is seen now: the squares to send, and to show. */
  content() {
    if (!this.video.srcObject || this.video.readyState < 2) return null;
    const canvas = square(this.video, this.video.videoWidth, this.video.videoHeight, sent(this.size));
    return { images: [encoded(canvas)], shown: [canvas] };
  }

  asked() {
    return this.content();
  }

  offer() {
    return "Hold to teach";
  }

  missing() {
    return "Turn on the camera first.";
  }
}
