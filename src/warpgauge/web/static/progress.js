/**
 * Progress: the curve of uncertainty, the stop rules, the time, and whether the ranking is decided.
 * @module
 */

import { chart } from "./charts.js";
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
  const curve = progress.curve.map((entry) => [entry.annotations, entry.mean_sd * progress.region]);
  const seconds = progress.seconds ?? [];
  const sorted = [...seconds].sort((a, b) => a - b);
  leaf.replaceChildren(
    make("p", {}, `${progress.placed} ${progress.placed === 1 ? "mark" : "marks"} placed.`),
    ...progressInWords(progress, units, extentOf(stage.images.fixed)).map((sentence) => make("p", {}, sentence)),
    make("h2", {}, "How well a typical match is known"),
    chart(curve, "marks", units, { logarithmic: true }),
    make("h2", {}, "Time per answer"),
    sorted.length ? make("p", {}, `Median ${rounded(sorted[Math.floor((sorted.length - 1) / 2)])} s`) : make("p", { class: "quiet" }, "No time yet."),
    chart(seconds.map((value, i) => [i + 1, value]), "answers", "s"),
    make("h2", {}, "When to stop"),
    ...(progress.stop.length ? progress.stop.map((rule) => make("p", {}, `${rule.met ? "✓" : "○"} ${rule.rule === "gain" ? (rule.met ? "The next answer would bring little." : "The next answer still brings something.") : rule.sentence}`)) : [make("p", { class: "quiet" }, "The project has no stop rule: stop when more answers bring little.")]),
    ...ranking(progress),
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
  const { mean_sd: now, max_sd: worst, curve, region } = progress;
  if (now === null || progress.annotations === 0) return ["Nothing is known yet: every answer helps."];
  const within = (/** @type {number} */ sd) => `± ${rounded(sd * region)} ${units}`;
  const words = [`A typical match is known to ${within(now)}${worst === null ? "" : `, the least certain one to ${within(worst)}`}.`];
  const first = curve[0]?.mean_sd;
  if (first && first > now && first * region < largest) words.push(`With the first marks it was ${within(first)}.`);
  const back = [...curve].reverse().find((entry) => entry.annotations <= progress.annotations - 10);
  if (back && back.mean_sd > 0) {
    const share = Math.round(100 * (1 - now / back.mean_sd));
    words.push(share >= 1 ? `The last ten answers took ${share} % off the uncertainty.` : "The last ten answers changed little: more will not help much.");
  }
  return words;
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
