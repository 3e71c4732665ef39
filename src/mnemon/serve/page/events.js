// What happened to the model, in words, the newest first.

import { $, make, number, plural } from "./dom.js";

const MOST = 60;
const WORDS = {
  class: (e) => `new class: ${e.label}`,
  published: (e) => `predictions use ${plural(e.learned, "sample")}`,
  saved: (e) => `saved with ${number(e.learned)} samples`,
  retracted: (e) => `taken back: ${takenBack(e)}`,
  warned: (e) => `note: ${e.reason}`,
  refused: (e) => `not learned: ${e.reason}`,
  full: (e) => e.reason,
  unsaved: (e) => `no snapshot: ${e.reason}`,
  failed: (e) => e.reason,
};
const BAD = new Set(["refused", "full", "unsaved", "failed"]);

const NAMED = 4; // classes of one event

function takenBack({ labels, samples, position }) {
  if (!labels?.length) return samples > 0 ? plural(samples, "sample") : `the samples up to ${number(position)}`;
  const named = labels.slice(0, NAMED).map((each) => `${number(each.samples)} × ${each.label}`);
  return [...named, ...(labels.length > NAMED ? [`${plural(labels.length - NAMED, "more class", "more classes")}`] : [])].join(", ");
}

export const clear = () => $("happened").replaceChildren();

export function add(kind, event) {
  if (!WORDS[kind]) return;
  const list = $("happened");
  if (kind === "published" && list.firstChild?.dataset.kind === kind) list.firstChild.remove(); // only the last of a row
  const time = new Date(event.time * 1000).toLocaleTimeString("en-GB");
  const item = make("li", {}, make("time", { textContent: time }), make("span", { textContent: WORDS[kind](event) }));
  item.dataset.kind = kind;
  item.classList.toggle("bad", BAD.has(kind));
  list.prepend(item);
  while (list.children.length > MOST) list.lastChild.remove();
}
