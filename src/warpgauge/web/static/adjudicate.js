/**
 * All raters' marks at one location over the moving image, and what the organiser makes of them. Both images are shown
 * at one scale; the wheel zooms both, a drag moves both.
 * @module
 */

import { make, rounded } from "./dom.js";
import { wheelNotches } from "./gestures.js";
import { drawPlace, spanOf } from "./thumbs.js";

/** @import { Place, RaterMark } from "./organiser.js" */
/** @import { Stage } from "./stage.js" */
/** @typedef {"resolve" | "exclude" | "include" | "ask_again"} Act */

const RATER_COLOURS = ["#F0E442", "#56B4E9", "#E69F00", "#CC79A7", "#009E73", "#D55E00", "#0072B2"];
let named = false;

/**
 * @param {Stage} stage
 * @param {HTMLElement} box
 * @param {Place} place
 * @param {{units: string, act: (act: Act, body: Record<string, unknown>) => Promise<void>, keep: (mark: RaterMark) => void, next: () => void}} does
 */
export function buildAdjudication(stage, box, place, does) {
  const colourOf = (/** @type {RaterMark} */ mark) => RATER_COLOURS[place.marks.indexOf(mark) % RATER_COLOURS.length];
  const again = () => buildAdjudication(stage, box, place, does);
  const names = make("button", { type: "button", "aria-pressed": String(named), onclick: () => {
    named = !named;
    again();
  } }, "Names");
  const letter = (/** @type {number} */ i) => String.fromCharCode(65 + i);
  const who = (/** @type {RaterMark} */ mark, /** @type {number} */ i) => (named ? mark.rater : `Rater ${letter(i)}`);
  const rows = place.marks.map((mark, i) => {
    const swatch = make("span", { class: "disagree" });
    swatch.style.background = colourOf(mark);
    const button = (/** @type {string} */ act, /** @type {string} */ words, /** @type {() => void} */ run) => make("button", { type: "button", "data-act": act, onclick: run }, words);
    return make("tr", { class: mark.excluded ? "off" : "" }, make("td", {}, swatch, who(mark, i)),
      make("td", {}, mark.disabled ? "switched off by the rater" : mark.excluded ? "excluded" : ""),
      make("td", {}, button("keep", `Keep ${named ? mark.rater : letter(i)}`, () => does.keep(mark)), " ",
        button(mark.excluded ? "include" : "exclude", mark.excluded ? "Put back" : "Exclude this mark", () => void does.act(mark.excluded ? "include" : "exclude", { rater: mark.rater })), " ",
        button("ask", "Ask again", () => void does.act("ask_again", { rater: mark.rater }))));
  });
  const skips = Object.entries(place.skips).map(([rater, reason], i) => make("p", { class: "quiet" }, `${named ? rater : `Another rater ${i + 1}`} skipped: ${reason.replaceAll("_", " ")}`));
  const apart = place.max_distance === null ? "" : ` The marks lie up to ${rounded(place.max_distance)} ${does.units} apart.`;
  box.replaceChildren(
    make("div", { class: "sides" }, ...pictures(stage, place, colourOf)),
    make("p", { class: "quiet" }, `Location ${place.query + 1}.${apart} White: what the model makes of them. Wheel and drag move both images.${place.resolved ? ` Settled: ${place.resolved}` : ""}`),
    make("table", {}, make("tbody", {}, ...rows)), ...skips,
    make("p", {}, names, " ",
      make("button", { type: "button", "data-act": "resolve", disabled: place.locked || place.marks.length === 0, onclick: () => void does.act("resolve", { text: "The fusion is taken." }) }, "Take all together"), " ",
      make("button", { type: "button", "data-act": "ask-all", onclick: () => void does.act("ask_again", {}) }, "Ask all again"), " ",
      make("button", { type: "button", "data-act": "next", onclick: does.next }, "Next disagreement")));
  stage.drawSoon();
}

/**
 * @param {Stage} stage
 * @param {Place} place
 * @param {(mark: RaterMark) => string} colourOf
 * @returns {HTMLElement[]}
 */
function pictures(stage, place, colourOf) {
  const shown = place.marks.map((mark) => ({ ...mark, colour: mark.excluded ? "#888888" : colourOf(mark), label: named ? mark.rater : undefined }));
  if (place.fused) shown.push({ ...place.marks[0], ...place.fused, alpha: place.marks[0]?.alpha ?? 0.01, colour: "#FFFFFF", label: named ? "together" : undefined });
  const centre = place.fused?.point ?? place.marks[0]?.point ?? null;
  const spread = place.marks.reduce((most, mark) => Math.max(most, centre ? Math.hypot(...mark.point.map((value, i) => value - centre[i])) : 0), 0);
  const look = { span: Math.max(spread * 3, spanOf(stage, "moving", place.fused?.covariance ?? null), 2 * spanOf(stage, "fixed", null)), shift: [0, 0] };
  const canvases = /** @type {const} */ (["fixed", "moving"]).map((side) => {
    const canvas = make("canvas", { class: "adjudicate", role: "img", "aria-label": `Location ${place.query + 1}, ${side} image` });
    const point = side === "fixed" ? place.location : centre;
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      look.span *= 1.2 ** wheelNotches(event);
      stage.drawSoon();
    }, { passive: false });
    canvas.addEventListener("pointermove", (event) => {
      if (event.buttons === 0) return;
      const scale = Math.min(canvas.clientWidth, canvas.clientHeight) / look.span;
      look.shift = [look.shift[0] - event.movementX / scale, look.shift[1] - event.movementY / scale];
      stage.drawSoon();
    });
    if (point) {
      stage.extras.add({ draw: () => {
        canvas.dataset.span = String(look.span);
        drawPlace(stage, side, canvas, { point, span: look.span, shift: look.shift, marks: side === "moving" ? shown : [], query: side === "fixed" });
      } });
    }
    return canvas;
  });
  return canvases;
}
