// The page: it chooses a model, shows what the server says of it, and hands what is shown to it.

import * as api from "./api.js";
import { Camera } from "./camera.js";
import * as chart from "./chart.js";
import { Classes } from "./classes.js";
import { $, hush, make, number, plural, tell } from "./dom.js";
import { Drawing } from "./drawing.js";
import * as events from "./events.js";
import { Guesses } from "./guesses.js";
import { key, typed } from "./labels.js";
import { Lessons } from "./lessons.js";
import { memory } from "./memory.js";
import { Pictures, filesOf, pictures } from "./pictures.js";
import { encoded } from "./pixels.js";
import { Table } from "./table.js";

const LOOK = 0.2; // seconds between two predictions
const page = {
  name: null, // of the model
  status: null,
  connected: false,
  stream: new AbortController(),
  fresh: true, // what is shown has not been predicted
  asked: null, // what the last prediction was made for
};

const stored = (name) => JSON.parse(sessionStorage.getItem(`mnemon.${name}`) ?? "null");
const store = (name, value) => sessionStorage.setItem(`mnemon.${name}`, JSON.stringify(value));

// --- what is shown

const changed = () => {
  page.fresh = true;
  showClasses();
};
const sources = { camera: new Camera(changed), pictures: new Pictures(changed), drawing: new Drawing(changed), table: new Table(changed) };
let source = null;
sources.table.onTeach = (content) => lessons.teach(page.name, null, { ...content, labels: content.labels.map((each) => typed(each, known())) });

/** The ways to show something that fit what the model learns; all of them before it has learned. */
function fitting({ shape, dtype }) {
  if (shape === null) return ["camera", "pictures", "drawing", "table"];
  if (shape.length === 1) return ["table"];
  const files = dtype === "uint8" && (shape[0] === 1 || shape[0] === 3) && shape[1] === shape[2];
  return !files ? [] : shape[0] === 1 ? ["drawing", "pictures", "camera"] : ["camera", "pictures", "drawing"];
}

function showModes() {
  const names = fitting(page.status);
  const modes = $("modes");
  if (modes.dataset.names !== names.join()) {
    modes.dataset.names = names.join();
    const choices = names.map((name) => {
      const input = make("input", { type: "radio", name: "mode", value: name });
      input.addEventListener("change", () => use(name));
      return make("label", {}, input, make("span", { textContent: sources[name].title }));
    });
    modes.replaceChildren(modes.firstElementChild, ...choices);
    modes.hidden = names.length < 2;
    const before = stored(`mode.${page.name}`);
    use(names.includes(before) ? before : names[0]);
  }
  for (const each of Object.values(sources)) {
    const size = page.status.shape?.length === 3 ? page.status.shape[1] : page.status.image_size;
    if (each.kind === "images" && each.size !== size) {
      each.size = size;
      if (each === source) each.show();
    }
  }
  sources.table.features = page.status.features;
}

function use(name) {
  source?.hide();
  source = sources[name] ?? null;
  if (source === null) {
    $("source").replaceChildren(make("p", { className: "quiet", textContent: "This model learns something that a browser cannot show; teach it by its interface." }));
    return;
  }
  store(`mode.${page.name}`, name);
  for (const input of $("modes").querySelectorAll("input")) input.checked = input.value === name;
  $("source").replaceChildren(source.element);
  source.show();
  changed();
}

// --- classes and lessons

const guesses = new Guesses(correct, (label) => places().indexOf(key(label)));
const classes = new Classes({
  begin: (label) => source && lessons.begin(page.name, label, source),
  end: () => lessons.end(),
  remove: (label) => {
    store(`named.${page.name}`, named().filter((each) => key(each) !== key(label)));
    showClasses();
  },
  files: async (label, files) => {
    const found = await pictures(files, sources.pictures.size);
    if (found.length > 0 && fitting(page.status).includes("pictures")) lessons.teach(page.name, label, { images: found.map(encoded), shown: found });
  },
});
const lessons = new Lessons({
  taught: (label, canvases, lesson) => classes.add(label, canvases, lesson),
  holds: (label, is) => classes.active(label, is),
  undone: ({ label, number: lesson }) => (label === null ? sources.table.again() : classes.clear(label, lesson)),
  refused: ({ label }) => label === null && sources.table.again(),
  acknowledged: (request, position) => {
    hush("slow");
    if (request.model === page.name && page.status) page.status.acknowledged = Math.max(page.status.acknowledged, position);
  },
  changed: () => soon("classes", 0, showClasses),
  away: () => connection(false),
  slow: (error) => tell(`The server asks to wait: ${error.message}`, "slow"),
  locked: () => login("The server does not take this token (any more)."),
});

const known = () => (page.status?.classes ?? []).map((each) => each.label);
const named = () => stored(`named.${page.name}`) ?? [];
const places = () => {
  const learned = known().map(key);
  return [...learned, ...named().map(key).filter((each) => !learned.includes(each))];
};

function showClasses() {
  if (page.status === null) return;
  const counts = new Map(page.status.classes.map((each) => [key(each.label), each.samples]));
  const shown = places().map((id) => ({
    label: JSON.parse(id),
    samples: counts.get(id) ?? 0,
    waiting: lessons.outbox.count(page.name, (label) => key(label) === id),
    taught: (counts.get(id) ?? 0) > 0,
  }));
  classes.show(shown, source === null ? "Teach" : source.offer());
  const last = lessons.last(page.name);
  $("undo").disabled = !last;
  $("undo").textContent = last ? `Undo: ${last.samples} × ${last.label ?? "rows"}` : "Undo";
  showState();
}

/** The right name for what was predicted. */
function correct(label) {
  if (page.asked === null) return;
  const { images, rows, shown } = page.asked;
  lessons.teach(page.name, label, rows ? { rows: rows.slice(0, 1) } : { images: images.slice(0, 1), shown: shown?.slice(0, 1) });
  source?.done?.();
}

// --- what the server says

function connection(is) {
  page.connected = is;
  showState();
}

function showState() {
  const [pill, status] = [$("state"), page.status];
  if (status === null) return;
  const here = lessons.outbox.count(page.name);
  const behind = status.acknowledged - status.published;
  const set = (text, kind) => {
    if (pill.textContent !== text) pill.textContent = text; // it is spoken when it changes
    pill.dataset.kind = kind;
  };
  if (!page.connected) set(here > 0 ? `reconnecting … ${plural(here, "sample")} kept here` : "reconnecting …", "away");
  else if (status.failed) set("takes no more samples", "bad");
  else if (behind > 0 || here > 0) set("learning", "busy");
  else set(status.learned === 0 ? "ready" : "up to date", "good");
  const rate = status.rates.learned_per_second;
  const parts = [`${number(status.learned)} learned`, rate > 0 ? `${number(Math.round(rate))} per second` : "", behind > 0 ? `predictions are ${plural(behind, "sample")} behind` : ""];
  $("numbers").textContent = status.failed ?? parts.filter(Boolean).join(" · ");
}

const waiting = new Map();

/** Do it after so many milliseconds, once, however often it is asked for meanwhile. */
function soon(what, after, act) {
  if (waiting.has(what)) return;
  const name = page.name;
  waiting.set(what, setTimeout(async () => {
    waiting.delete(what);
    if (name !== page.name) return;
    try {
      await act();
    } catch (error) {
      if (error.status === 401) login("The server does not take this token (any more).");
      else if (!(error instanceof api.Away)) console.warn(error.message);
    }
  }, after));
}

async function readStatus() {
  const name = page.name;
  const status = await api.get(api.model(name));
  if (name !== page.name) return;
  page.status = status;
  page.fresh = true;
  $("download").hidden = status.learned === 0;
  $("main").classList.toggle("new", status.learned === 0);
  showModes();
  showClasses();
}

function readAll() {
  soon("status", 150, readStatus);
  soon("curves", 500, async () => {
    const found = await api.get(`${api.model(page.name)}/curves`);
    chart.curve(found.points);
    chart.exam(found.exam, page.status.classes, (label) => places().indexOf(key(label)));
  });
  soon("memory", 1200, () => memory(page.name, page.status.shape));
}

function happened(kind, event) {
  if (kind !== "status") {
    events.add(kind, event);
    if (kind === "retracted") readAll();
    return;
  }
  const { published } = page.status;
  const { classes: count, accuracy, ...numbers } = event;
  Object.assign(page.status, numbers);
  if (event.published !== published || count !== page.status.classes.length) readAll();
  showState();
}

/** Follow the model's events for as long as it is chosen, through failures and restarts of the server. */
async function follow(name, signal) {
  for (let failures = 0; !signal.aborted; failures += 1) {
    try {
      await readStatus();
      connection(true);
      $("main").hidden = false;
      events.clear();
      readAll();
      lessons.outbox.run();
      failures = 0;
      await api.watch(`${api.model(name)}/events`, signal, (kind, event) => name === page.name && happened(kind, event));
    } catch (error) {
      if (signal.aborted) return;
      if (error.status === 401) return login("The server does not take this token (any more).");
      if (error.status === 404) return open();
      if (!(error instanceof api.Away)) tell(error.message, "follow");
    }
    if (signal.aborted) return;
    connection(false);
    await api.pause(Math.min(0.5 * 2 ** failures, 4));
  }
}

/** Ask what the model says of what is shown: all the time where it moves, else when it or the model has changed. */
async function look() {
  for (;;) {
    await api.pause(LOOK);
    if (document.hidden || !page.connected || source === null || page.status === null) continue;
    if (!source.live && !page.fresh) continue;
    page.fresh = false;
    const content = source.asked();
    if (page.status.classes.length === 0) guesses.empty("Nothing yet: teach it two classes.");
    else if (content === null) guesses.empty(source.missing());
    else await predict(content);
  }
}

async function predict(content) {
  const path = `${api.model(page.name)}/predict?top=5`;
  try {
    const found = content.rows
      ? await api.post(path, { x: content.rows })
      : await (await api.ask(path, { method: "POST", body: api.form(content.images) })).json();
    page.asked = content;
    hush("predict");
    guesses.show(found.predictions[0], found.learned, places().length <= 5, source?.which?.() ?? "");
    if (content.rows) sources.table.guessed(found.predictions.map((each) => each.label));
  } catch (error) {
    page.asked = null;
    if (error.status === 401) login("The server does not take this token (any more).");
    else if (error.status === 422) guesses.empty(error.message);
  }
}

// --- models and tokens

function login(why) {
  page.stream.abort();
  source?.hide();
  if (why) $("login-why").textContent = why;
  $("login").hidden = false;
  $("main").hidden = true;
  $("state").textContent = "locked";
  $("state").dataset.kind = "away";
  $("token").focus();
}

function choose(name) {
  page.stream.abort();
  page.stream = new AbortController();
  Object.assign(page, { name, status: null, asked: null });
  store("model", name);
  $("models").value = name;
  document.title = `${name}: teach a model`;
  delete $("modes").dataset.names;
  guesses.empty("");
  $("wall").replaceChildren();
  follow(name, page.stream.signal);
}

async function open() {
  $("login").hidden = true;
  if (!api.hasToken()) return login();
  for (let failures = 0; ; failures += 1) {
    try {
      const { models } = await api.get("/v1/models");
      $("models").replaceChildren(...models.map((name) => new Option(name, name)));
      $("picker").hidden = models.length === 0;
      $("models").disabled = models.length === 1;
      if (models.length === 0) return tell("This server has no model.");
      const before = stored("model");
      return choose(models.includes(before) ? before : models[0]);
    } catch (error) {
      if (error.status === 401) return login("That is not this server's token.");
      if (!(error instanceof api.Away)) return tell(error.message);
      $("state").textContent = "reconnecting …";
      $("state").dataset.kind = "away";
      await api.pause(Math.min(0.5 * 2 ** failures, 4));
    }
  }
}

$("login").addEventListener("submit", (event) => {
  event.preventDefault();
  // The whole link may be pasted too.
  api.setToken($("token").value.trim().replace(/^.*#token=/, ""));
  $("token").value = "";
  open();
});
$("models").addEventListener("change", () => choose($("models").value));
$("undo").addEventListener("click", () => lessons.undo(page.name));
$("add").addEventListener("submit", (event) => {
  event.preventDefault();
  const label = typed($("name").value.trim(), known());
  if (label === "") return;
  if (!places().includes(key(label))) store(`named.${page.name}`, [...named(), label]);
  $("name").value = "";
  showClasses();
  if (places().length > 1) classes.focus(label); // of a new model the second name comes first
});
$("download").addEventListener("click", async () => {
  try {
    const place = `${api.model(page.name)}/snapshot`;
    await api.ask(place, { method: "POST" }); // of all that was taught
    const answer = await api.ask(place);
    const link = make("a", { href: URL.createObjectURL(await answer.blob()), download: `${page.name}.tar` });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  } catch (error) {
    tell(error.message, "download");
  }
});

async function shownFiles(files) {
  if (files.length === 0 || page.status === null || !fitting(page.status).includes("pictures")) return;
  if (source !== sources.pictures) use("pictures");
  await sources.pictures.take(files);
}
document.addEventListener("dragover", (event) => event.preventDefault()); // else a file that is dropped replaces the page
document.addEventListener("drop", async (event) => {
  event.preventDefault();
  await shownFiles(await filesOf(event.dataTransfer));
});
document.addEventListener("paste", async (event) => {
  const files = [...event.clipboardData.files];
  if (files.length > 0) {
    event.preventDefault();
    await shownFiles(files);
  }
});
window.addEventListener("blur", () => lessons.end());
window.addEventListener("hashchange", () => {
  api.takeToken();
  open();
});

api.takeToken();
open();
look();
