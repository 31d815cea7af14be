/**
 * Progress: the curve of uncertainty, the stop rules, the time, and whether the ranking is decided.
 * @module
 */

import { RefusedError } from "./api.js";
import { make, number, rounded, unitName } from "./dom.js";
import { extentOf } from "./figures.js";

/** @import { Annotator } from "./annotator.js" */
/** @import { Progress } from "./types.js" */

/**
 * @param {Annotator} annotator
 * @param {HTMLElement} leaf
 */
export async function buildProgress(annotator, leaf) {
  const { stage } = annotator;
  /** @type {Progress} */
  const progress = await stage.api.get("/api/progress");
  if (stage.store.state.drawer !== "progress") return; // another leaf was opened meanwhile
  const units = unitName(stage.images.fixed.units);
  const curve = progress.curve.map((entry) => [entry.annotations, entry.mean_sd]);
  const seconds = progress.seconds ?? [];
  const sorted = [...seconds].sort((a, b) => a - b);
  leaf.replaceChildren(
    make("p", {}, `${progress.annotations} ${progress.annotations === 1 ? "mark" : "marks"} placed.`),
    ...progressInWords(progress, units, extentOf(stage.images.fixed)).map((sentence) => make("p", {}, sentence)),
    make("h2", {}, "How well a typical match is known"),
    chart(curve, "marks", units, { logarithmic: true }),
    make("h2", {}, "Time per answer"),
    sorted.length ? make("p", {}, `Median ${rounded(sorted[Math.floor((sorted.length - 1) / 2)])} s`) : make("p", { class: "quiet" }, "No time yet."),
    chart(seconds.map((value, i) => [i + 1, value]), "answers", "s"),
    make("h2", {}, "When to stop"),
    ...(progress.stop.length ? progress.stop.map((rule) => make("p", {}, `${rule.met ? "✓" : "○"} ${rule.rule === "gain" ? (rule.met ? "The next answer would bring little." : "The next answer still brings something.") : rule.sentence}`)) : [make("p", { class: "quiet" }, "The project has no stop rule: stop when more answers bring little.")]),
    ...ranking(progress),
    ...refitting(annotator),
    make("details", {}, make("summary", {}, "For statisticians"), make("p", { class: "quiet" }, `Expected information of the next answer: ${number(progress.next_gain)} nats. Uncertainty over ${progress.targets} targets. ${progress.model} ${progress.stop.filter((rule) => rule.rule === "gain").map((rule) => rule.sentence).join(" ")}`)),
  );
}

/**
 * How far the work has come, without statistics.
 * @param {Progress} progress
 * @param {string} units
 * @param {number} [largest] size of the image: beyond it nothing was known
 * @returns {string[]}
 */
export function progressInWords(progress, units, largest = Infinity) {
  const { mean_sd: now, max_sd: worst, curve } = progress;
  if (now === null || progress.annotations === 0) return ["Nothing is known yet: every answer helps."];
  const words = [`A typical match is known to ± ${rounded(now)} ${units}${worst === null ? "" : `, the least certain one to ± ${rounded(worst)} ${units}`}.`];
  const first = curve[0]?.mean_sd;
  if (first && first > now && first < largest) words.push(`With the first marks it was ± ${rounded(first)} ${units}.`);
  const back = [...curve].reverse().find((entry) => entry.annotations <= progress.annotations - 10);
  if (back && back.mean_sd > 0) {
    const share = Math.round(100 * (1 - now / back.mean_sd));
    words.push(share >= 1 ? `The last ten answers took ${share} % off the uncertainty.` : "The last ten answers changed little: more will not help much.");
  }
  return words;
}

/** @param {Annotator} annotator */
function refitting({ stage, delivery }) {
  const { role, readonly } = stage.project;
  if (role === "viewer" || readonly) return [];
  const told = make("span", { class: "quiet", role: "status" });
  const button = make("button", { type: "button", "data-act": "refit", onclick: async () => {
    button.disabled = true;
    told.textContent = " learning…";
    try {
      const { model } = await stage.api.post("/api/refit", { generation: delivery.generation });
      told.textContent = " Done.";
      told.title = model;
      delivery.written();
    } catch (error) {
      if (!(error instanceof RefusedError)) throw error;
      told.textContent = ` ${error.message}`;
    } finally {
      button.disabled = false;
    }
  } }, "Learn from all marks again");
  return [make("h2", {}, "What the predictions rest on"), make("p", {}, button, told)];
}

/** @param {Progress} progress */
function ranking(progress) {
  if (!progress.ranking) return [];
  const { sentence, probability_best: best, order } = progress.ranking;
  return [
    make("h2", {}, "The ranking"),
    make("p", {}, sentence),
    make("p", { class: "quiet" }, `So far: ${order.join(", ")}.`),
    ...(best === null ? [] : [make("p", {}, `Probability that ${order[0]} is the best: ${Math.round(100 * best)} %.`)]),
  ];
}

const SVG = "http://www.w3.org/2000/svg";

/**
 * A line through points, with its axes in words.
 * @param {number[][]} points
 * @param {string} across
 * @param {string} up
 * @param {{logarithmic?: boolean}} [scale] uncertainty falls by orders of magnitude: the last steps are to be seen too
 */
export function chart(points, across, up, { logarithmic = false } = {}) {
  const [width, height, left, bottom] = [360, 150, 44, 26];
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("class", "chart");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", `${up} over ${across}`);
  const draw = (/** @type {string} */ tag, /** @type {Record<string, string | number>} */ attributes, text = "") => {
    const element = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
    element.textContent = text;
    svg.append(element);
  };
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
  return svg;
}
