/**
 * Magnification of 2D images as pathologists say it: at 10x a screen pixel shows 1 µm, as a slide scanner counts. Images
 * of unknown pixel size have percents of their own pixels instead.
 * @module
 */

import { make } from "./dom.js";
import { worldToScreen } from "./viewport.js";

/** @import { PlaneView } from "./planeview.js" */
/** @import { Stage } from "./stage.js" */
/** @import { ImageInfo, Side } from "./types.js" */
/** @typedef {{words: string, scale: number}} Preset scale: screen pixels per unit */

const TIMES = [1, 5, 10, 20, 40];
const PERCENTS = [25, 50, 100, 200, 400];
/** Screen pixels per unit at 1x. @type {Record<string, number>} */
const AT_ONE = { um: 0.1, mm: 100, nm: 0.0001 };

/**
 * @param {ImageInfo} image
 * @returns {Preset[]}
 */
export function presetsOf({ units, spacing }) {
  const one = AT_ONE[units];
  if (one) return TIMES.map((times) => ({ words: `${times}×`, scale: times * one }));
  return PERCENTS.map((percent) => ({ words: `${percent} %`, scale: percent / 100 / spacing[0] }));
}

/**
 * @param {ImageInfo} image
 * @param {number} scale screen pixels per unit
 * @returns {string}
 */
export function magnificationInWords({ units, spacing }, scale) {
  const one = AT_ONE[units];
  if (!one) return `${Math.round(100 * scale * spacing[0])} %`;
  return `${Number((scale / one).toPrecision(2))}×`;
}

/**
 * Zoom about what is asked for or marked, where that is in sight, else about the middle.
 * @param {PlaneView} pane
 * @param {number} scale
 */
export function magnify(pane, scale) {
  const { query, mark } = pane.stage.store.state;
  const point = pane.side === "fixed" ? query?.location : (mark?.point ?? query?.prediction?.mean);
  const middle = [pane.size.width / 2, pane.size.height / 2];
  const at = point && pane.stage.sees(pane.side, point) ? worldToScreen(pane.plane, pane.view, point) : middle;
  pane.zoom(at, scale / pane.view.scale);
}

/**
 * Both images at one of the presets.
 * @param {Stage} stage
 * @param {number} k
 */
export function magnifyBoth(stage, k) {
  for (const side of /** @type {const} */ (["fixed", "moving"])) {
    const pane = stage.planesOf(side)[0];
    if (pane?.visible) magnify(pane, presetsOf(stage.images[side])[k].scale);
  }
}

/**
 * The field in the head of a 2D image that shows and sets it.
 * @param {Stage} stage
 * @param {Side} side
 */
export function magnificationField(stage, side) {
  const image = stage.images[side];
  const now = make("option", { value: "", hidden: true }, "");
  const field = make("select", { class: "zoom figure", "aria-label": `Magnification of the ${side} image`, title: "Magnification (1 to 5)", "data-magnification": side, onchange: () => {
    const pane = stage.planesOf(side)[0];
    if (pane) magnify(pane, Number(field.value));
    field.value = "";
    stage.focus();
  } }, now, ...presetsOf(image).map(({ words, scale }) => make("option", { value: String(scale) }, words)));
  const show = () => {
    const pane = stage.planesOf(side)[0];
    now.textContent = pane?.visible ? magnificationInWords(image, pane.view.scale) : "";
    field.value = "";
  };
  stage.readouts.push(show);
  return field;
}
