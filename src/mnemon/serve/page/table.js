// Rows of numbers, pasted from a spreadsheet or a CSV file. A first line of names gives the features their names; a last
// column of words holds labels.

import { make, plural } from "./dom.js";

const MOST = 1000; // rows in a request
const SHOWN = 50;

export class Table {
  title = "Table";
  kind = "rows";
  holds = false;
  live = false;

  constructor(changed) {
    this.changed = changed;
    this.features = null; // names, where the model knows some
    this.text = make("textarea", { id: "rows", rows: 6, spellcheck: false, placeholder: "5.1, 3.5, 1.4, 0.2\n6.7, 3.1, 4.7, 1.5" });
    this.note = make("p", { className: "quiet", role: "status" });
    this.grid = make("table");
    this.own = make("button", { type: "button", className: "primary", hidden: true });
    const label = make("label", { for: "rows", textContent: "Paste rows of numbers" });
    this.element = make("div", { className: "rows" }, label, this.text, this.note, make("div", { className: "scroll" }, this.grid), this.own);
    this.text.addEventListener("input", () => this.#read());
    this.#read();
  }

  show() {}

  hide() {}

  /** Called with the rows that have labels of their own. */
  set onTeach(teach) {
    this.own.addEventListener("click", () => {
      teach({ rows: this.rows, labels: this.labels });
      this.#offer(true);
    });
  }

  /** What was taught was taken back or refused: it may be taught again. */
  again() {
    this.#offer(false);
  }

  /** Once taught, the same text is not taught again by a second click. */
  #offer(taught) {
    const rows = plural(this.rows.length, "row");
    this.own.hidden = !this.labels;
    this.own.disabled = taught;
    this.own.textContent = taught ? `Taught: ${rows} with their labels` : `Teach ${rows} with their labels`;
  }

  #read() {
    const found = parsed(this.text.value, this.features);
    Object.assign(this, { rows: [], labels: null, names: null }, found);
    this.note.textContent = found.error ?? (this.rows.length > 0 ? plural(this.rows.length, "row") : "Commas, semicolons, tabs or spaces between the numbers. A last column of words is the label.");
    this.note.classList.toggle("bad", Boolean(found.error));
    this.#offer(false);
    this.guessed([]);
    this.changed();
  }

  /** The table, with what was predicted for each row. */
  guessed(labels) {
    const words = [this.labels, labels.length > 0 ? labels : null]; // on the left, where they are seen
    const titles = ["label", "it says"].filter((_, i) => words[i]);
    const columns = words.filter(Boolean);
    const rows = this.rows.slice(0, SHOWN).map((row, i) => {
      const named = columns.map((column) => make("td", { textContent: String(column[i] ?? ""), className: "label" }));
      return make("tr", {}, ...named, ...Object.values(row).map((value) => make("td", { textContent: value })));
    });
    const names = this.names ?? Object.keys(this.rows[0] ?? {}).map((_, i) => `column ${i + 1}`);
    const head = [...titles.map((name) => [name, "label"]), ...names.map((name) => [name, ""])];
    const cells = head.map(([textContent, className]) => make("th", { scope: "col", textContent, className }));
    this.grid.replaceChildren(...(rows.length > 0 ? [make("tr", {}, ...cells), ...rows] : []));
  }

  content() {
    return this.rows.length > 0 ? { rows: this.rows } : null;
  }

  asked() {
    return this.content();
  }

  /** Rows that bring their labels are taught by the button below them alone. */
  offer() {
    if (this.labels) return null;
    return this.rows.length > 1 ? `Teach ${this.rows.length} rows` : "Teach this";
  }

  /** Which one is predicted in bars, where there are several. */
  which() {
    return this.rows.length > 1 ? `row 1 of ${this.rows.length}` : "";
  }

  missing() {
    return "Paste a row of numbers first.";
  }
}

/** {rows, names, labels}, or {error}. */
export function parsed(text, features) {
  const lines = text.split(/\r?\n/).filter((line) => line.trim());
  if (lines.length === 0) return {};
  const separator = ["\t", ";", ","].find((each) => lines[0].includes(each)) ?? /\s+/;
  const cells = lines.map((line) => line.trim().split(separator).map((cell) => cell.trim().replace(/^"(.*)"$/, "$1")));
  const isNumber = (cell) => cell !== "" && Number.isFinite(Number(cell));
  const head = cells.length > 1 && !cells[0].some(isNumber) ? cells.shift() : null;
  if (cells.length > MOST) return { error: `${cells.length} rows are too many at once; ${MOST} are the limit.` };
  const width = cells[0].length;
  const labelled = width > 1 && cells.every((row) => row.length === width && !isNumber(row[width - 1]));
  const columns = labelled ? width - 1 : width;
  for (const [i, row] of cells.entries()) {
    if (row.length !== width) return { error: `Row ${i + 1} has ${row.length} columns, and the first has ${width}.` };
    const wrong = row.slice(0, columns).findIndex((cell) => !isNumber(cell));
    if (wrong >= 0) return { error: `Row ${i + 1}, column ${wrong + 1}: “${row[wrong].slice(0, 40)}” is no number.` };
  }
  const names = head?.slice(0, columns) ?? features;
  if (names && names.length !== columns) return { error: `There are ${columns} columns, and ${names.length} names.` };
  const values = cells.map((row) => row.slice(0, columns).map(Number));
  const rows = names ? values.map((row) => Object.fromEntries(row.map((value, i) => [names[i], value]))) : values;
  return { rows, names, labels: labelled ? cells.map((row) => row[width - 1]) : null };
}
