/**
 * All raters' marks at one location over the moving image, and what the organiser makes of them. Both images are shown
 * at one scale; wheel and drag move both. In volumes the wheel turns slices, and one of three planes is shown.
 * @module
 */

import { confidenceRadius } from "./confidence.js";
import { make, rounded } from "./dom.js";
import { levelOfWorld, markFromCovariance } from "./ellipsoid.js";
import { axesOfMark } from "./figures.js";
import { wheelNotches } from "./gestures.js";
import { norm, subtract } from "./linalg.js";
import { drawPlace, spanOf } from "./thumbs.js";

/** @import { Place, RaterMark } from "./organiser.js" */
/** @import { Stage } from "./stage.js" */
/** @typedef {"resolve" | "exclude" | "include" | "ask_again"} Act */
/** @typedef {{query: number, span: number, shift: number[], axis: number, slices: number}} Look */

const RATER_COLOURS = ["#F0E442", "#56B4E9", "#E69F00", "#CC79A7", "#009E73", "#D55E00", "#0072B2"];
const PLANES = { 2: "Axial", 1: "Coronal", 0: "Sagittal" };
let named = false;
/** Where the organiser looks; it outlasts what arrives meanwhile. @type {Look | null} */
let look = null;

/**
 * Whether the marks that count lie no farther apart than their raters' own uncertainties explain.
 * @param {RaterMark[]} marks
 */
export function marksAgree(marks) {
  const counted = marks.filter((mark) => !mark.excluded && !mark.disabled);
  return counted.every((one, i) => counted.slice(0, i).every((other) => {
    const alpha = Math.min(one.alpha, other.alpha);
    const shape = one.covariance.map((row, k) => row.map((value, j) => value + other.covariance[k][j]));
    return levelOfWorld({ point: one.point, shape }, other.point) <= confidenceRadius(shape.length, alpha);
  }));
}

/**
 * @param {Stage} stage
 * @param {HTMLElement} box
 * @param {Place} place
 * @param {{units: string, act: (act: Act, body: Record<string, unknown>) => void, keep: (mark: RaterMark) => void, next: () => void}} does
 */
export function buildAdjudication(stage, box, place, does) {
  const colourOf = (/** @type {RaterMark} */ mark) => RATER_COLOURS[place.marks.indexOf(mark) % RATER_COLOURS.length];
  const again = () => buildAdjudication(stage, box, place, does);
  const names = make("button", { type: "button", "aria-pressed": String(named), onclick: () => {
    named = !named;
    again();
  } }, "Names");
  const who = (/** @type {RaterMark} */ mark) => (named ? mark.rater : letterOf(place, mark));
  const rows = place.marks.map((mark) => {
    const swatch = make("span", { class: "disagree" });
    swatch.style.background = colourOf(mark);
    const button = (/** @type {string} */ act, /** @type {string} */ words, /** @type {() => void} */ run) => make("button", { type: "button", "data-act": act, onclick: run }, words);
    const state = mark.disabled ? "switched off by the rater" : mark.excluded ? "excluded" : "";
    return make("tr", { class: mark.excluded ? "off" : "" }, make("td", {}, swatch, named ? mark.rater : `Rater ${who(mark)}`, state ? make("div", { class: "note" }, state) : null),
      make("td", { class: "num" }, axesOfMark(markFromCovariance(mark.point, mark.covariance, mark.alpha)).map(rounded).join(" × ")),
      make("td", { class: "num" }, place.fused && place.marks.length > 1 ? rounded(norm(subtract(mark.point, place.fused.point))) : "–"),
      make("td", {}, make("div", { class: "row" }, button("keep", `Keep ${who(mark)}`, () => does.keep(mark)),
        button(mark.excluded ? "include" : "exclude", mark.excluded ? "Put back" : "Exclude", () => does.act(mark.excluded ? "include" : "exclude", { rater: mark.rater })),
        button("ask", "Ask again", () => does.act("ask_again", { rater: mark.rater })))));
  });
  const skips = Object.entries(place.skips).map(([rater, reason], i) => make("p", { class: "quiet" }, `${named ? rater : `Another rater ${i + 1}`} skipped: ${reason.replaceAll("_", " ")}`));
  const apart = place.max_distance === null ? "" : `: marks up to ${rounded(place.max_distance)} ${does.units} apart`;
  const solid = stage.images.fixed.size.length === 3;
  const agree = marksAgree(place.marks);
  box.replaceChildren(
    make("div", { class: "row head" }, make("strong", {}, `Location ${place.query + 1}${apart}`), make("span", { class: "spring" }), ...(solid ? planeButtons(stage, again) : []), names),
    ...(place.resolved === null ? [] : [make("p", { class: place.locked ? "quiet" : "flag", "data-state": place.locked ? "settled" : "reopened" },
      place.locked ? `Settled. ${place.resolved}` : `Open again: it was settled (“${place.resolved}”), then asked again. Decide anew once the answer is there.`)]),
    make("div", { class: "sides" }, ...pictures(stage, place, colourOf)),
    make("p", { class: "quiet" }, `White, dashed: all marks together. ${solid ? "The wheel turns slices, Shift+wheel zooms" : "The wheel zooms"}, a drag moves; both images follow.`),
    make("table", {},
      make("thead", {}, make("tr", {}, make("th", {}, "Mark"), make("th", { class: "num", title: "Half-axes of the region that the rater drew" }, `Drawn ±, ${does.units}`), make("th", { class: "num", title: "Distance from all marks together" }, `Away, ${does.units}`), make("th", {}, "Decide"))),
      make("tbody", {}, ...rows)), ...skips,
    ...(agree ? [] : [make("p", { "data-apart": "" }, "The marks lie farther apart than their ± explains: keep one, exclude one, or ask again.")]),
    make("div", { class: "row foot" },
      make("button", { type: "button", class: agree ? "primary" : "", "data-act": "resolve", disabled: place.locked || place.marks.length === 0, onclick: () => does.act("resolve", { text: "All marks are taken together." }) }, "Take all together"),
      make("button", { type: "button", "data-act": "ask-all", onclick: () => does.act("ask_again", {}) }, "Ask all again"), make("span", { class: "spring" }),
      make("button", { type: "button", "data-act": "next", onclick: does.next }, "Next disagreement")));
  stage.drawSoon();
}

/**
 * @param {Place} place
 * @param {RaterMark} mark
 */
function letterOf(place, mark) {
  return String.fromCharCode(65 + place.marks.indexOf(mark));
}

/**
 * @param {Stage} stage
 * @param {() => void} again
 */
function planeButtons(stage, again) {
  return [2, 1, 0].map((axis) => make("button", { type: "button", "data-plane": axis, "aria-pressed": String((look?.axis ?? 2) === axis), onclick: () => {
    if (look) look = { ...look, axis, slices: 0, shift: [0, 0] };
    again();
    stage.drawSoon();
  } }, PLANES[/** @type {2} */ (axis)]));
}

/**
 * @param {Stage} stage
 * @param {Place} place
 * @param {(mark: RaterMark) => string} colourOf
 * @returns {HTMLElement[]}
 */
function pictures(stage, place, colourOf) {
  const shown = place.marks.map((mark) => ({ ...mark, colour: mark.excluded ? "#888888" : colourOf(mark), label: named ? mark.rater : letterOf(place, mark), dash: /** @type {number[]} */ ([]) }));
  if (place.fused && place.marks.length > 1) shown.push({ ...place.marks[0], ...place.fused, alpha: place.marks[0]?.alpha ?? 0.01, colour: "#FFFFFF", label: "", dash: [6, 4] });
  const centre = place.fused?.point ?? place.marks[0]?.point ?? null;
  const spread = place.marks.reduce((most, mark) => Math.max(most, centre ? norm(subtract(mark.point, centre)) : 0), 0);
  if (look?.query !== place.query) {
    // Voxels are large beside what they show: around a mark of a volume half as many are enough.
    const least = spanOf(stage, "fixed", null) * (stage.images.fixed.size.length === 3 ? 1 : 2);
    const span = Math.max(spread * 3, spanOf(stage, "moving", place.fused?.covariance ?? null), least);
    look = { query: place.query, span, shift: [0, 0], axis: look?.axis ?? 2, slices: 0 };
  }
  const now = look;
  return /** @type {const} */ (["fixed", "moving"]).map((side) => {
    const canvas = make("canvas", { class: "adjudicate", role: "img", "aria-label": `Location ${place.query + 1}, ${side} image` });
    const point = side === "fixed" ? place.location : centre;
    listen(stage, canvas, now);
    if (point) {
      stage.extras.add({ draw: () => drawPlace(stage, side, canvas, { point, ...now, marks: side === "moving" ? shown : [], query: side === "fixed", labelled: true }) });
    }
    const name = stage.images[side].name ?? "";
    return make("figure", {}, make("figcaption", {}, make("strong", { class: "side" }, side.toUpperCase()), make("span", { class: "clip", title: name }, name)), canvas);
  });
}

/**
 * Wheel and drag, for both pictures.
 * @param {Stage} stage
 * @param {HTMLCanvasElement} canvas
 * @param {Look} now
 */
function listen(stage, canvas, now) {
  const scale = () => Math.min(canvas.clientWidth, canvas.clientHeight) / now.span;
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    const notches = wheelNotches(event);
    if (stage.images.fixed.size.length === 3 && !event.shiftKey && !event.ctrlKey) {
      now.slices += Math.sign(notches);
    } else {
      // What lies under the pointer stays there.
      const box = canvas.getBoundingClientRect();
      const at = [event.clientX - box.left - box.width / 2, event.clientY - box.top - box.height / 2];
      const before = scale();
      now.span *= 1.2 ** notches;
      now.shift = now.shift.map((value, k) => value + at[k] / before - at[k] / scale());
    }
    stage.drawSoon();
  }, { passive: false });
  canvas.addEventListener("pointerdown", (event) => canvas.setPointerCapture(event.pointerId));
  canvas.addEventListener("pointermove", (event) => {
    if (event.buttons === 0) return;
    now.shift = [now.shift[0] - event.movementX / scale(), now.shift[1] - event.movementY / scale()];
    stage.drawSoon();
  });
}
