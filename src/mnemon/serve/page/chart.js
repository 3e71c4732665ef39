// Accuracy as it goes, where each sample is predicted before it is learned; and on samples that are never learned.

import { $, make, number, percent, plural, svg } from "./dom.js";
import { key, paint } from "./labels.js";

const [WIDTH, HEIGHT, LEFT, BOTTOM, TOP] = [480, 170, 36, 22, 8];
const WINDOW = 100; // samples
const FIRST = 10; // every tenth sample of a class is held out
const FEW = 5; // samples held out, below which a share says little

/** Points {learned, predicted, right} as two lines of [learned, share]: of the last samples, and of all so far. */
export function lines(points) {
  const lately = [];
  const all = [];
  let [first, predicted, right, total, hits] = [0, 0, 0, 0, 0];
  points.forEach((point, i) => {
    [predicted, right, total, hits] = [predicted + point.predicted, right + point.right, total + point.predicted, hits + point.right];
    while (first < i && predicted - points[first].predicted >= WINDOW) {
      predicted -= points[first].predicted;
      right -= points[first].right;
      first += 1;
    }
    if (total > 0) {
      const at = point.learned + point.predicted;
      lately.push([at, predicted > 0 ? right / predicted : 0]);
      all.push([at, hits / total]);
    }
  });
  return { lately, all };
}

export function curve(points) {
  const { lately, all } = lines(points);
  const last = lately.at(-1);
  $("lately").textContent = last ? percent(last[1]) : "";
  if (lately.length === 0) {
    $("curve").replaceChildren(make("p", { className: "quiet", textContent: "The curve begins with the second chunk of samples." }));
    return;
  }
  const end = Math.max(last[0], 1);
  const x = (n) => LEFT + (n / end) * (WIDTH - LEFT - 8);
  const y = (share) => TOP + (1 - share) * (HEIGHT - TOP - BOTTOM);
  const path = (line) => line.map(([n, share], i) => `${i ? "L" : "M"}${x(n).toFixed(1)} ${y(share).toFixed(1)}`).join("");
  const grid = [0, 0.5, 1].flatMap((share) => [
    svg("line", { x1: LEFT, x2: WIDTH - 8, y1: y(share), y2: y(share), class: "rule" }),
    svg("text", { x: LEFT - 6, y: y(share) + 4, class: "end" }, `${share * 100}`),
  ]);
  const words = `Accuracy of the last samples: ${percent(last[1])}; of all ${number(last[0])}: ${percent(all.at(-1)[1])}.`;
  $("curve").replaceChildren(
    svg(
      "svg",
      { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": words },
      ...grid,
      svg("text", { x: LEFT, y: HEIGHT - 5 }, "0"),
      svg("text", { x: WIDTH - 8, y: HEIGHT - 5, class: "end" }, `${number(end)} samples`),
      svg("path", { d: `${path(lately)}L${x(end)} ${y(0)}L${x(lately[0][0])} ${y(0)}Z`, class: "area" }),
      svg("path", { d: path(all), class: "all" }),
      svg("path", { d: path(lately), class: "lately" }),
      svg("circle", { cx: x(end), cy: y(last[1]), r: 4 }),
    ),
  );
}

/** {samples, accuracy, classes: [{label, samples, accuracy, best}]} of samples held out of learning; null: there are none. `known`
 * has all classes with their samples: of one that was just taught nothing is held out yet. */
export function exam(found, known, place) {
  $("exam").hidden = !found?.classes?.length;
  if ($("exam").hidden) return;
  $("exam-accuracy").textContent = percent(found.accuracy);
  $("exam-accuracy").classList.toggle("few", found.samples < FEW);
  $("exam-asked").textContent = plural(found.samples, "sample");
  const asked = new Set(found.classes.map(({ label }) => key(label)));
  $("exam-classes").replaceChildren(
    ...found.classes.map(({ label, samples, accuracy, best }) => {
      const few = samples < FEW;
      const fill = make("span", { className: "fill" });
      fill.style.width = `${accuracy * 100}%`;
      const mark = make("span", { className: "mark" });
      mark.style.left = `${best * 100}%`;
      const lost = best - accuracy;
      const value = make("span", { className: few ? "value few" : "value", textContent: percent(accuracy) });
      const forgot = make("span", { className: "forgot", textContent: lost > 0.005 ? `forgot ${percent(lost)}` : "" });
      const name = make("span", { className: "name", textContent: String(label) });
      const item = make("li", {}, name, make("span", { className: "track" }, fill, mark), value, forgot);
      item.title = `${Math.round(accuracy * samples)} of ${samples} right${few ? ", which says little yet" : `; the best so far: ${percent(best)}`}`;
      item.dataset.label = key(label);
      return paint(item, place(label));
    }),
    ...known.filter(({ label }) => !asked.has(key(label))).map(({ label, samples }) => {
      const name = make("span", { className: "name", textContent: String(label) });
      const when = samples < FIRST ? `measured after ${FIRST} samples` : "not measured yet";
      const item = make("li", {}, name, make("span", { className: "later quiet", textContent: when }));
      item.dataset.label = key(label);
      return paint(item, place(label));
    }),
  );
}
