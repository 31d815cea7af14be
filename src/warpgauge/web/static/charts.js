/**
 * Small drawings of numbers: a curve with or without axes, and an arrow.
 * @module
 */

import { drawn, rounded } from "./dom.js";

/** @import { Vector } from "./linalg.js" */

/**
 * A curve without axes, as small as a word: only where it came from and where it goes.
 * @param {number[]} values positive; drawn by their logarithm
 */
export function sparkline(values) {
  const logs = values.filter((value) => value > 0).map(Math.log);
  const [low, high] = [Math.min(...logs), Math.max(...logs)];
  const points = logs.map((value, i) => `${(i / Math.max(logs.length - 1, 1)) * 54 + 1},${18 - ((value - low) / Math.max(high - low, 1e-9)) * 16}`);
  const line = drawn("polyline", { points: points.join(" "), fill: "none", stroke: "currentColor", "stroke-width": 1.6 });
  return drawn("svg", { viewBox: "0 0 56 20", "aria-hidden": "true" }, line);
}

/**
 * The bias of a rater as an arrow: the first two coordinates, scaled to its own length.
 * @param {Vector} bias
 */
export function biasArrow(bias) {
  const size = Math.hypot(bias[0], bias[1]) || 1;
  const [x, y] = [(bias[0] / size) * 16, (bias[1] / size) * 16];
  const d = `M${-x} ${-y}L${x} ${y}m${(-x - y * 0.7) * 0.4} ${(-y + x * 0.7) * 0.4}L${x} ${y}l${(-x + y * 0.7) * 0.4} ${(-y - x * 0.7) * 0.4}`;
  return drawn("svg", { viewBox: "-20 -20 40 40", "aria-hidden": "true", class: "bias" }, drawn("path", { d, fill: "none", stroke: "currentColor", "stroke-width": 3 }));
}

/**
 * A line through points, with its axes in words.
 * @param {number[][]} points
 * @param {string} across
 * @param {string} up
 * @param {{logarithmic?: boolean}} [scale] uncertainty falls by orders of magnitude: the last steps are to be seen too
 */
export function chart(points, across, up, { logarithmic = false } = {}) {
  const [width, height, left, bottom] = [360, 150, 44, 26];
  /** @type {SVGElement[]} */
  const parts = [];
  const draw = (/** @type {string} */ tag, /** @type {Record<string, string | number>} */ attributes, text = "") => parts.push(drawn(tag, attributes, text));
  const finite = points.filter((point) => point.every(Number.isFinite) && (!logarithmic || point[1] > 0));
  const [last, top] = [Math.max(1, ...finite.map(([x]) => x)), Math.max(1e-12, ...finite.map(([, y]) => y))];
  const low = logarithmic ? Math.min(top / 2, ...finite.map(([, y]) => y)) : 0;
  const part = (/** @type {number} */ y) => (logarithmic ? Math.log(y / low) / Math.log(top / low) : y / top);
  const at = (/** @type {number[]} */ [x, y]) => [left + (x / last) * (width - left - 8), height - bottom - part(y) * (height - bottom - 12)];
  const ink = "currentColor";
  draw("path", { d: `M${left} 8V${height - bottom}H${width - 8}`, fill: "none", stroke: ink, "stroke-opacity": 0.5 });
  draw("text", { x: left - 4, y: 16, "text-anchor": "end", "font-size": 12, fill: ink }, finite.length ? rounded(top) : "");
  draw("text", { x: left - 4, y: height - bottom, "text-anchor": "end", "font-size": 12, fill: ink }, rounded(low));
  draw("text", { x: left + 6, y: 16, "font-size": 12, fill: ink }, logarithmic ? `${up} (logarithmic)` : up);
  draw("text", { x: width - 8, y: height - 8, "text-anchor": "end", "font-size": 12, fill: ink }, `${last} ${across}`);
  if (finite.length) {
    draw("polyline", { points: finite.map((point) => at(point).join(",")).join(" "), fill: "none", stroke: ink, "stroke-width": 1.8 });
    for (const point of finite.length < 60 ? finite : []) draw("circle", { cx: at(point)[0], cy: at(point)[1], r: 2.4, fill: ink });
  }
  return drawn("svg", { viewBox: `0 0 ${width} ${height}`, class: "chart", role: "img", "aria-label": `${up} over ${across}` }, ...parts);
}
