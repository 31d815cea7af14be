/**
 * What is written over a pane: where the pointer is and what value the image has there; how far its overview is.
 * @module
 */

import { make, number, unitName } from "./dom.js";
import { planeToWorld } from "./plane.js";
import { samplesUnder } from "./samples.js";
import { screenToPlane } from "./viewport.js";

/** @import { PlaneView } from "./planeview.js" */
/** @import { Stage } from "./stage.js" */
/** @import { Overview, Side } from "./types.js" */

/**
 * The words for a place: volumes in millimetres as radiologists say them (right, anterior, superior positive).
 * @param {number[]} world LPS for volumes
 * @param {string} units
 * @returns {string}
 */
export function placeInWords(world, units) {
  return `${world.length === 2 ? `x ${world[0].toFixed(1)}, y ${world[1].toFixed(1)}` : coordinatesInWords(world, units)} ${unitName(units)}`;
}

/**
 * The numbers alone, for a list whose units are known.
 * @param {number[]} world LPS for volumes
 * @param {string} units
 * @returns {string}
 */
export function coordinatesInWords(world, units) {
  if (world.length === 2) return world.map((value) => value.toFixed(1)).join(", ");
  const letters = units === "mm" ? [["L", "R"], ["P", "A"], ["S", "I"]] : [["x", "x −"], ["y", "y −"], ["z", "z −"]];
  return world.map((value, k) => `${letters[k][value >= 0 ? 0 : 1]} ${Math.abs(value).toFixed(1)}`).join("  ");
}

/**
 * @param {Stage} stage
 * @param {() => PlaneView[]} panes of which one may have the pointer
 * @param {HTMLElement} planes
 */
export function addReadout(stage, panes, planes) {
  const line = make("div", { class: "readout", hidden: true, "aria-hidden": "true" });
  planes.append(line);
  stage.readouts.push(() => {
    const pane = panes().find((one) => one.pointer !== null);
    line.hidden = !pane;
    if (pane) line.textContent = wordsUnder(stage, pane);
  });
}

/** Milliseconds between two looks at how far the overviews are. */
const AGAIN = 400;

/**
 * Say how far the overviews are that the server makes of large images without coarse levels: tiles wait for them.
 * @param {Stage} stage
 */
export async function watchOverviews(stage) {
  const { fixed, moving } = stage.images;
  const lines = { fixed: overviewLine("fixed"), moving: overviewLine("moving") };
  let known = { fixed: fixed.overview, moving: moving.overview };
  for (;;) {
    for (const side of /** @type {const} */ (["fixed", "moving"])) {
      lines[side](known[side]);
      stage.sources[side].waits = !isMade(known[side]);
    }
    stage.drawSoon();
    if (isMade(known.fixed) && isMade(known.moving)) return;
    await new Promise((go) => setTimeout(go, AGAIN));
    const next = await stage.api.get("/api/overviews").catch(() => null);
    if (!next) return; // refused: there is a sentence about it elsewhere
    known = next;
  }
}

/** @param {Overview} overview */
function isMade({ done, rows }) {
  return done >= rows;
}

/**
 * @param {Side} side
 * @returns {(overview: Overview) => void} to show how far it is
 */
function overviewLine(side) {
  const line = make("div", { class: "overview", role: "status" });
  document.querySelector(`#${side} .planes`)?.append(line);
  return (overview) => {
    line.hidden = isMade(overview);
    line.textContent = line.hidden ? "" : `This file has no overview, so one is made: ${Math.floor((100 * overview.done) / overview.rows)} %`;
  };
}

/**
 * @param {Stage} stage
 * @param {PlaneView} pane
 */
function wordsUnder(stage, pane) {
  const at = screenToPlane(pane.view, /** @type {number[]} */ (pane.pointer));
  const place = placeInWords(planeToWorld(pane.plane, at, pane.depth), pane.image.units);
  const found = samplesUnder(stage.sources[pane.side], pane.plane, at, pane.depth);
  if (!found) return place;
  const { shown } = stage.store.state.colours[pane.side];
  const apart = shown.map(({ channel }) => `${pane.image.apart[channel].name} `);
  const names = apart.length ? apart : found.samples.length === 3 ? ["R ", "G ", "B "] : ["value "];
  const values = found.samples.map((sample, k) => `${names[k] ?? ""}${number(sample * pane.image.scale + pane.image.offset)}`);
  // Of a coarser level it is the mean of several pixels.
  return `${place}   ·   ${pane.warped ? "fixed " : ""}${found.exact ? "" : "≈ "}${values.join(" ")}`;
}
