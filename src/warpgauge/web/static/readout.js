/**
 * Where the pointer is, in physical units, and what value the image has there.
 * @module
 */

import { make, number } from "./dom.js";
import { planeToWorld, worldToIndex } from "./plane.js";
import { screenToPlane } from "./viewport.js";

/** @import { PlaneView } from "./planeview.js" */
/** @import { Stage } from "./stage.js" */
/** @import { Side } from "./types.js" */

/**
 * The words for a place: volumes in millimetres as radiologists say them (right, anterior, superior positive).
 * @param {number[]} world LPS for volumes
 * @param {string} units
 * @returns {string}
 */
export function placeInWords(world, units) {
  const unit = units === "um" ? "µm" : units;
  if (world.length === 2) return `x ${world[0].toFixed(1)}, y ${world[1].toFixed(1)} ${unit}`;
  const letters = [["L", "R"], ["P", "A"], ["S", "I"]];
  return `${world.map((value, k) => `${letters[k][value >= 0 ? 0 : 1]} ${Math.abs(value).toFixed(1)}`).join("  ")} ${unit}`;
}

/**
 * @param {Stage} stage
 * @param {Side} side
 * @param {HTMLElement} planes
 */
export function addReadout(stage, side, planes) {
  const line = make("div", { class: "readout", hidden: true, "aria-hidden": "true" });
  planes.append(line);
  stage.readouts.push(() => {
    const pane = stage.planesOf(side).find((one) => one.pointer !== null);
    line.hidden = !pane;
    if (pane) line.textContent = wordsUnder(stage, pane);
  });
}

/**
 * @param {Stage} stage
 * @param {PlaneView} pane
 */
function wordsUnder(stage, pane) {
  const world = planeToWorld(pane.plane, screenToPlane(pane.view, /** @type {number[]} */ (pane.pointer)), pane.depth);
  const index = worldToIndex(pane.image, world);
  const [u, v] = pane.plane.order;
  const samples = stage.sources[pane.side].samples(pane.axis, pane.slice, Math.round(index[u]), Math.round(index[v]));
  const names = samples?.length === 3 ? ["R ", "G ", "B "] : ["value "];
  const value = samples ? `   ·   ${samples.map((sample, k) => `${names[k] ?? ""}${number(sample * pane.image.scale + pane.image.offset)}`).join(" ")}` : "";
  return `${placeInWords(world, pane.image.units)}${value}`;
}
