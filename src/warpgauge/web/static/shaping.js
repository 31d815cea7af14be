/**
 * What keys make of the mark: put it, move it, and give it another shape.
 * @module
 */

import { presetEllipse, stretchedSecond, turnedEllipse } from "./ellipse.js";
import { ballMark, markWithSection, scaledMark, sectionOfMark } from "./ellipsoid.js";
import { subtract } from "./linalg.js";
import { planeToWorld, worldToIndex } from "./plane.js";
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
 * @param {Stage} stage
 * @param {Annotator} annotator
 */
export function putMark(stage, annotator) {
  if (!annotator.editable) {
    annotator.explainLock();
    return;
  }
  const here = activePane(stage);
  if (annotator.choosesFixed && here.side === "fixed") {
    const at = here.pointer ?? [here.size.width / 2, here.size.height / 2];
    annotator.setOwn(screenToWorld(here.plane, here.view, at, here.depth));
    return;
  }
  if (stage.store.state.mark) {
    annotator.say("The arrows move your mark, [ and ] change its size, Enter accepts it.");
    return;
  }
  const pane = activePane(stage, "moving");
  const at = pane.pointer ?? [pane.size.width / 2, pane.size.height / 2];
  const point = screenToWorld(pane.plane, pane.view, at, pane.depth);
  annotator.edit(ballMark(point, annotator.clickRadius(pane.view.scale).radius, annotator.alpha));
  annotator.say("The arrows move your mark (Shift: farther), [ and ] change its size, Enter accepts it.");
}

/**
 * Change the section of the mark by the active plane.
 * @param {Stage} stage
 * @param {Annotator} annotator
 * @param {(section: Ellipse) => Ellipse} change
 */
export function changeSection(stage, annotator, change) {
  const pane = activePane(stage, "moving");
  annotator.adjust((mark) => {
    const section = sectionOfMark(pane.plane, mark, pane.depth);
    return section ? markWithSection(pane.plane, mark, pane.depth, section, change(section)) : mark;
  });
}

/**
 * @param {Stage} stage
 * @param {Annotator} annotator
 * @param {number} factor
 */
export function stretchSecond(stage, annotator, factor) {
  changeSection(stage, annotator, (section) => stretchedSecond(section, factor, annotator.floor));
}

/**
 * @param {Stage} stage
 * @param {Annotator} annotator
 * @param {number} degrees
 */
export function turnMark(stage, annotator, degrees) {
  changeSection(stage, annotator, (section) => turnedEllipse(section, (degrees * Math.PI) / 180));
}

/**
 * @param {Stage} stage
 * @param {Annotator} annotator
 * @param {"point" | "edge" | "blob"} name
 */
export function preset(stage, annotator, name) {
  const { mark } = stage.store.state;
  if (!mark || !annotator.editable) return;
  const pane = activePane(stage, "moving");
  const { radius } = annotator.clickRadius(pane.view.scale);
  if (name !== "edge" && mark.point.length === 3) {
    // A ball, whatever plane the hand is on.
    annotator.edit(scaledMark({ ...ballMark(mark.point, radius, mark.alpha) }, name === "point" ? 0.5 : 3));
    return;
  }
  const section = sectionOfMark(pane.plane, mark, pane.depth);
  if (!section) return;
  const direction = name === "edge" ? edgeAt(stage, pane) : undefined;
  if (name === "edge" && direction === null) annotator.say("The image shows no clear edge here: the first axis keeps its direction.", "warning");
  annotator.edit(markWithSection(pane.plane, mark, pane.depth, section, presetEllipse(name, section, radius, direction ?? undefined)));
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
  return edgeDirection((x, y) => source.sample(pane.axis, pane.slice, x, y), [index[u], index[v]], 6, step);
}

/**
 * @param {Stage} stage
 * @param {Annotator} annotator
 * @param {number} dx
 * @param {number} dy
 * @param {"screen" | "ten" | "tenth"} unit
 */
function nudge(stage, annotator, dx, dy, unit) {
  const chosen = stage.store.state.own !== null && activePane(stage).side === "fixed";
  const pane = chosen ? activePane(stage) : activePane(stage, "moving");
  const tenth = 0.1 * Math.min(...pane.plane.order.slice(0, 2).map((a) => pane.image.spacing[a]));
  const size = unit === "tenth" ? tenth : (unit === "ten" ? 10 : 1) / pane.view.scale;
  const origin = planeToWorld(pane.plane, [0, 0], 0);
  const shift = subtract(planeToWorld(pane.plane, turnToPlane(pane.view, [dx * size, dy * size]), 0), origin);
  if (chosen) annotator.nudgeOwn(shift);
  else annotator.nudge(shift);
}

const PAN = 60; // screen pixels of a key

/**
 * Arrows move the mark; without a mark they move the view, as they always do with Ctrl.
 * @param {Stage} stage
 * @param {Annotator} annotator
 * @param {number} dx
 * @param {number} dy
 * @param {"screen" | "ten" | "tenth" | "view"} unit
 */
export function arrow(stage, annotator, dx, dy, unit) {
  const { mark, own } = stage.store.state;
  const movable = activePane(stage).side === "fixed" && own ? own : mark;
  if (unit !== "view" && movable) nudge(stage, annotator, dx, dy, unit);
  else activePane(stage).pan([-dx * PAN, -dy * PAN]);
}
