// Small curves: one line over time, without axes.

import { draw } from "./dom.js";

const CURVE = { width: 100, height: 24 };

/** The least and the most of the numbers; null counts as missing. */
export function extent(numbers) {
  let low = Infinity;
  let high = -Infinity;
  for (const number of numbers) {
    if (number === null || number === undefined) continue;
    if (number < low) low = number;
    if (number > high) high = number;
  }
  return low <= high ? [low, high] : null;
}

/** An empty curve; `name` is its label. */
export function curve(name) {
  const box = `-1 -2 ${CURVE.width + 2} ${CURVE.height + 4}`;
  const picture = draw("svg", { class: "curve", viewBox: box, preserveAspectRatio: "none", role: "img", "aria-label": name });
  picture.append(draw("path", { class: "area" }), draw("path", { class: "line" }));
  return picture;
}

/** The means of stretches of equal length, so that few points remain; a stretch without a number is null. */
function thinned(times, numbers, most) {
  const size = Math.ceil(times.length / most);
  if (size <= 1) return [times, numbers];
  const [at, means] = [[], []];
  for (let from = times.length % size; from < times.length; from += size) {
    const known = numbers.slice(from, from + size).filter((number) => number !== null && number !== undefined);
    at.push(times[from + size - 1]);
    means.push(known.length ? known.reduce((sum, number) => sum + number, 0) / known.length : null);
  }
  return [at, means];
}

/** Draw numbers at times into a curve; null is a gap. `range`: [low, high] of the scale, `span`: [from, to] of the times. */
export function plot(picture, allTimes, allNumbers, { range = extent(allNumbers), span = extent(allTimes), most = 120 } = {}) {
  const [area, line] = picture.children;
  const [times, numbers] = thinned(allTimes, allNumbers, most);
  const known = numbers.filter((number) => number !== null && number !== undefined);
  if (!range || !span || known.length < 2) {
    area.removeAttribute("d");
    line.removeAttribute("d");
    return;
  }
  const scale = CURVE.height / (range[1] - range[0] || 1);
  const pace = CURVE.width / (span[1] - span[0] || 1);
  const runs = [];
  let run = null;
  for (let at = 0; at < times.length; at += 1) {
    if (numbers[at] === null || numbers[at] === undefined || times[at] < span[0]) {
      run = null;
      continue;
    }
    if (!run) runs.push((run = []));
    const y = range[1] === range[0] ? CURVE.height / 2 : CURVE.height - (numbers[at] - range[0]) * scale;
    run.push([((times[at] - span[0]) * pace).toFixed(1), y.toFixed(1)]);
  }
  for (const points of runs) if (points.length === 1) points.push([+points[0][0] + 1, points[0][1]]);
  const paths = runs.map((points) => `M${points.map((point) => point.join(" ")).join("L")}`);
  line.setAttribute("d", paths.join(""));
  const close = (points, at) => `${paths[at]}L${points.at(-1)[0]} ${CURVE.height}L${points[0][0]} ${CURVE.height}Z`;
  area.setAttribute("d", runs.map(close).join(""));
}
