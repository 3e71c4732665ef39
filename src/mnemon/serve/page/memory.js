// What the model keeps to replay, by class: thumbnails of images, counts of rows. A learner that replays nothing shows the
// samples that are held out of learning.

import { $, make, number, plural } from "./dom.js";
import { ask, get, model } from "./api.js";
import { paint } from "./labels.js";

const EACH = 12;
const CLASSES = 200; // that the server shows

export async function memory(name, shape) {
  const { source, kept, classes } = await get(`${model(name)}/memory?limit=0`);
  const replays = source === "memory";
  $("memory").hidden = classes.length === 0 && kept === 0;
  $("memory-title").textContent = replays ? "Memory" : "Held out of learning";
  $("kept").textContent = kept > 0 ? `${plural(kept, "sample")}, ${replays ? "replayed while it learns" : "to measure what it still knows"}` : "";
  if (kept === 0) return;
  const images = shape?.length === 3 && (shape[0] === 1 || shape[0] === 3);
  const sheet = images ? await createImageBitmap(await (await ask(`${model(name)}/memory.png?each=${EACH}`)).blob()) : null;
  const [width, height] = images ? [shape[2], shape[1]] : [0, 0];
  const most = Math.max(...classes.map((each) => each.samples), 1);
  $("wall").replaceChildren(
    ...classes.map((each, row) => {
      const title = make("span", { className: "name", textContent: String(each.label) });
      const count = make("span", { className: "quiet", textContent: number(each.samples) });
      const item = paint(make("li", {}, make("div", { className: "line between" }, title, count)), row);
      if (sheet && row < CLASSES && (row + 1) * height <= sheet.height) {
        const shown = Math.min(each.samples, EACH);
        item.append(thumbnails(sheet, row, shown, width, height, `${shown} samples of ${each.label}`));
      } else {
        const fill = make("span", { className: "fill" });
        fill.style.width = `${(100 * each.samples) / most}%`;
        item.append(make("span", { className: "track" }, fill));
      }
      return item;
    }),
  );
  sheet?.close();
}

/** One row of the sheet, with a little space between the images. */
function thumbnails(sheet, row, shown, width, height, words) {
  const scale = Math.max(1, Math.round(32 / width)); // whole, so that pixels stay square
  const [side, gap] = [width * scale, 3];
  const canvas = make("canvas", { width: EACH * (side + gap) - gap, height: height * scale, role: "img", "aria-label": words });
  const context = canvas.getContext("2d");
  context.imageSmoothingEnabled = false;
  for (let i = 0; i < shown; i += 1) {
    context.drawImage(sheet, i * width, row * height, width, height, i * (side + gap), 0, side, height * scale);
  }
  return canvas;
}
