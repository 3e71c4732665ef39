// Labels are text, whole numbers or true and false; 1 and "1" are two classes.

const COLOURS = 8; // in style.css

export const key = (label) => JSON.stringify(label);

/** What a user typed, as a label: a number where all classes so far are numbers. */
export function typed(text, classes) {
  const numbers = classes.length > 0 && classes.every((each) => Number.isInteger(each));
  return numbers && /^-?\d{1,15}$/.test(text) ? Number(text) : text;
}

/** The header Mnemon-Labels, which can hold ASCII alone. */
export const header = (label) =>
  JSON.stringify([label]).replace(/[\u007f-\uffff]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);

/** The colour of a class wherever it is shown, by its place among all. */
export const paint = (element, place) => {
  element.style.setProperty("--colour", place < 0 ? "var(--muted)" : `var(--s${place % COLOURS})`);
  return element;
};
