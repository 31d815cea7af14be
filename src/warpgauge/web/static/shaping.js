/**
 * What keys make of the mark: put it, move it, and give it another shape.
 * @module
 */

import { presetEllipse, stretchedSecond, turnedEllipse } from "./ellipse.js";
import { ballMark, markWithSection, scaledMark, sectionOfMark } from "./ellipsoid.js";
import { subtract } from "./linalg.js";
import { say } from "./message.js";
import { planeToWorld, worldToIndex } from "./plane.js";
import { brightnessAt } from "./samples.js";
import { edgeDirection } from "./structure.js";
import { screenToWorld, turnToPlane } from "./viewport.js";

/** @import { Annotator } from "./annotator.js" */
/** @import { Ellipse } from "./ellipse.js" */
/** @import { PlaneView } from "./planeview.js" */
/** @import { Stage } from "./stage.js" */

/**
 * The plane that keys work on: the one that the hand was on last.
 * @param {Stage} stage
 * @param {"moving"} [side]
 * @returns {PlaneView}
 */
export function activePane(stage, side) {
  const shown = stage.panes.filter((pane) => pane.visible && (!side || pane.side === side));
  const axis = stage.active?.axis;
  if (stage.active && shown.includes(stage.active)) return stage.active;
  return shown.find((pane) => pane.axis === axis) ?? shown[0] ?? stage.panes[0];
}

/**
 * Put a mark without a mouse: where the pointer is, else in the middle of what is seen.
 * @param {Annotator} annotator
 */
export function putMark({ stage, store, marks, ownPoints }) {
  const here = activePane(stage);
  if (!marks.editable && !(ownPoints.choosesFixed && here.side === "fixed")) {
    marks.explainLock();
    return;
  }
  if (ownPoints.choosesFixed && here.side === "fixed") {
    const at = here.pointer ?? [here.size.width / 2, here.size.height / 2];
    ownPoints.setOwn(screenToWorld(here.plane, here.view, at, here.depth));
    return;
  }
  if (store.state.mark) {
    say(store, "The arrows move your mark, [ and ] change its size, Enter accepts it.");
    return;
  }
  const pane = activePane(stage, "moving");
  const at = pane.pointer ?? [pane.size.width / 2, pane.size.height / 2];
  const point = screenToWorld(pane.plane, pane.view, at, pane.depth);
  marks.edit(ballMark(point, marks.clickRadius(pane.view.scale).radius, marks.alpha));
  say(store, "The arrows move your mark (Shift: farther), [ and ] change its size, Enter accepts it.");
}

/**
 * Change the section of the mark by the active plane.
 * @param {Annotator} annotator
 * @param {(section: Ellipse) => Ellipse} change
 */
function changeSection({ stage, marks }, change) {
  const pane = activePane(stage, "moving");
  marks.adjust((mark) => {
    const section = sectionOfMark(pane.plane, mark, pane.depth);
    return section ? markWithSection(pane.plane, mark, pane.depth, section, change(section)) : mark;
  });
}

/**
 * @param {Annotator} annotator
 * @param {number} factor
 */
export function stretchSecond(annotator, factor) {
  changeSection(annotator, (section) => stretchedSecond(section, factor, annotator.marks.floor));
}

/**
 * @param {Annotator} annotator
 * @param {number} degrees
 */
export function turnMark(annotator, degrees) {
  changeSection(annotator, (section) => turnedEllipse(section, (degrees * Math.PI) / 180));
}

/**
 * @param {Annotator} annotator
 * @param {"point" | "edge" | "blob"} name
 */
export function preset({ stage, store, marks }, name) {
  const { mark } = store.state;
  if (!mark || !marks.editable) return;
  const pane = activePane(stage, "moving");
  const { radius } = marks.clickRadius(pane.view.scale);
  if (name !== "edge" && mark.point.length === 3) {
    // A ball, whatever plane the hand is on.
    marks.edit(scaledMark({ ...ballMark(mark.point, radius, mark.alpha) }, name === "point" ? 0.5 : 3));
    return;
  }
  const section = sectionOfMark(pane.plane, mark, pane.depth);
  if (!section) return;
  const direction = name === "edge" ? edgeAt(stage, pane) : undefined;
  if (name === "edge" && direction === null) say(store, "The image shows no clear edge here: the first axis keeps its direction.", "warning");
  marks.edit(markWithSection(pane.plane, mark, pane.depth, section, presetEllipse(name, section, radius, direction ?? undefined)));
}

/**
 * Direction of the edge at the mark, from the samples of level 0 that are in memory.
 * @param {Stage} stage
 * @param {PlaneView} pane
 * @returns {number | null}
 */
function edgeAt(stage, pane) {
  const { mark } = stage.store.state;
  if (!mark) return null;
  const index = worldToIndex(pane.image, mark.point);
  const [u, v] = pane.plane.order;
  const source = stage.sources[pane.side];
  const step = /** @type {[number, number]} */ ([0, 1].map((k) => pane.plane.sign[k] * pane.image.spacing[pane.plane.order[k]]));
  return edgeDirection((x, y) => brightnessAt(source, pane.axis, pane.slice, x, y), [index[u], index[v]], 6, step);
}

/**
 * @param {Annotator} annotator
 * @param {number} dx
 * @param {number} dy
 * @param {"screen" | "ten" | "tenth"} unit
 */
function nudge({ stage, store, marks, ownPoints }, dx, dy, unit) {
  const chosen = store.state.own !== null && activePane(stage).side === "fixed";
  const pane = chosen ? activePane(stage) : activePane(stage, "moving");
  const tenth = 0.1 * Math.min(...pane.plane.order.slice(0, 2).map((a) => pane.image.spacing[a]));
  const size = unit === "tenth" ? tenth : (unit === "ten" ? 10 : 1) / pane.view.scale;
  const origin = planeToWorld(pane.plane, [0, 0], 0);
  const shift = subtract(planeToWorld(pane.plane, turnToPlane(pane.view, [dx * size, dy * size]), 0), origin);
  if (chosen) ownPoints.nudgeOwn(shift);
  else marks.nudge(shift);
}

const PAN = 60; // screen pixels of a key

/**
 * Arrows move the mark; without a mark they move the view, as they always do with Ctrl.
 * @param {Annotator} annotator
 * @param {number} dx
 * @param {number} dy
 * @param {"screen" | "ten" | "tenth" | "view"} unit
 */
export function arrow(annotator, dx, dy, unit) {
  const { stage } = annotator;
  const { mark, own } = stage.store.state;
  const movable = activePane(stage).side === "fixed" && own ? own : mark;
  if (unit !== "view" && movable) nudge(annotator, dx, dy, unit);
  else activePane(stage).pan([-dx * PAN, -dy * PAN]);
}
