/**
 * All raters' marks at one location over the moving image, and what the organiser makes of them.
 * @module
 */

import { make } from "./dom.js";
import { drawPlace, spanOf } from "./thumbs.js";

/** @import { Place, RaterMark } from "./organiser.js" */
/** @import { Stage } from "./stage.js" */

const RATER_COLOURS = ["#F0E442", "#56B4E9", "#E69F00", "#CC79A7", "#009E73", "#D55E00", "#0072B2"];
let named = false;

/**
 * @param {Stage} stage
 * @param {HTMLElement} box
 * @param {Place} place
 * @param {(act: "resolve" | "exclude" | "include" | "ask_again", body: Record<string, unknown>) => void} act
 */
export function buildAdjudication(stage, box, place, act) {
  const colourOf = (/** @type {RaterMark} */ mark) => RATER_COLOURS[place.marks.indexOf(mark) % RATER_COLOURS.length];
  const moving = make("canvas", { class: "adjudicate" });
  const fixed = make("canvas", { class: "adjudicate" });
  const shown = place.marks.map((mark) => ({ ...mark, colour: mark.excluded ? "#888888" : colourOf(mark), label: named ? mark.rater : undefined }));
  if (place.fused) shown.push({ ...place.marks[0], ...place.fused, alpha: place.marks[0]?.alpha ?? 0.01, colour: "#FFFFFF", label: named ? "fused" : undefined });
  const centre = place.fused?.point ?? place.marks[0]?.point;
  const spread = place.marks.reduce((most, mark) => Math.max(most, centre ? Math.hypot(...mark.point.map((value, i) => value - centre[i])) : 0), 0);
  stage.extras.clear();
  stage.extras.add({ draw: () => drawPlace(stage, "fixed", fixed, { point: place.location, span: 2 * spanOf(stage, "fixed", null), query: true }) });
  if (centre) {
    const span = Math.max(spread * 3, spanOf(stage, "moving", place.fused?.covariance ?? place.marks[0]?.covariance ?? null));
    stage.extras.add({ draw: () => drawPlace(stage, "moving", moving, { point: centre, span, marks: shown }) });
  }
  const names = make("button", { type: "button", "aria-pressed": String(named), onclick: () => {
    named = !named;
    buildAdjudication(stage, box, place, act);
  } }, "Names");
  const who = (/** @type {RaterMark} */ mark, /** @type {number} */ i) => (named ? mark.rater : `rater ${String.fromCharCode(65 + i)}`);
  const rows = place.marks.map((mark, i) => {
    const swatch = make("span", {}, "● ");
    swatch.style.color = colourOf(mark);
    return make("tr", { class: mark.excluded ? "off" : "" }, make("td", {}, swatch, who(mark, i)),
      make("td", {}, mark.disabled ? "switched off by the rater" : mark.excluded ? "excluded" : ""),
      make("td", {}, make("button", { type: "button", "data-act": mark.excluded ? "include" : "exclude", onclick: () => act(mark.excluded ? "include" : "exclude", { rater: mark.rater }) },
        mark.excluded ? "Put back" : "Exclude this mark"), " ",
        make("button", { type: "button", onclick: () => act("ask_again", { rater: mark.rater }) }, "Ask again")));
  });
  const skips = Object.entries(place.skips).map(([rater, reason], i) => make("p", { class: "quiet" }, `${named ? rater : `another rater ${i + 1}`} skipped: ${reason.replaceAll("_", " ")}`));
  box.replaceChildren(
    make("div", { class: "sides" }, fixed, moving),
    make("p", { class: "quiet" }, `Location ${place.query + 1}. White: the fusion that the model uses.${place.resolved ? ` Settled: ${place.resolved}` : ""}`),
    make("table", {}, make("tbody", {}, ...rows)), ...skips,
    make("p", {}, names, " ",
      make("button", { type: "button", "data-act": "resolve", disabled: place.locked || place.marks.length === 0, onclick: () => act("resolve", { text: "The fusion is taken." }) }, "Take the fusion"), " ",
      make("button", { type: "button", "data-act": "ask-all", onclick: () => act("ask_again", {}) }, "Ask all again")));
  stage.drawSoon();
}
