/**
 * Where to look when a question comes, and how near.
 * @module
 */

import { markFromPrediction } from "./ellipsoid.js";
import { norm, subtract } from "./linalg.js";
import { keptOnImage, panByScreen, worldToScreen } from "./viewport.js";

/** @import { Mark } from "./ellipsoid.js" */
/** @import { Vector } from "./linalg.js" */
/** @import { Stage } from "./stage.js" */
/** @import { Prediction, Query, Row, State } from "./types.js" */

/** What is always shown around a mark: this many pixels, or this share of the image up to a number of pixels. */
const CONTEXT = 40;
const PART = 0.16;
const MOST = 400;
/** Share of a volume that is always shown: organs are recognised by what lies around. */
const SHARE = 0.6;

/**
 * Go to a question in both images.
 * @param {Stage} stage
 * @param {State} state
 * @param {Query} query
 * @param {Mark | null} mark
 */
export function lookAtQuery(stage, state, query, mark) {
  // The panes may not have their sizes yet, and how the moving image lies is learned later.
  stage.lookAgain = () => lookAtQuery(stage, stage.store.state, query, mark);
  const prediction = state.predictionHidden ? null : query.prediction;
  const span = spanToShow(query, prediction, mark, contextOf(stage.images.moving));
  const region = spanToShow(query, prediction, mark, 0);
  // What the expert worked with last, as long as the region where the match is expected fits into it.
  const chosen = (/** @type {"fixed" | "moving"} */ side, /** @type {number} */ scale) => {
    const working = query.answer ? null : stage.working[side];
    return span === null || region === null ? null : working === null ? span / scale : Math.max(working, region / 3 / scale);
  };
  stage.lookAt("fixed", query.location, chosen("fixed", state.pose?.scale ?? 1));
  const there = mark?.point ?? prediction?.mean;
  if (there) {
    stage.lookAt("moving", there, chosen("moving", 1));
    alignViews(stage, query.location, there);
  }
  else if (!state.cross.moving) stage.lookAt("moving", stage.middleOfImage("moving"), null);
}

/**
 * Show both images whole.
 * @param {Stage} stage
 */
export function lookAtWhole(stage) {
  stage.lookAgain = () => lookAtWhole(stage);
  for (const side of /** @type {const} */ (["fixed", "moving"])) stage.lookAt(side, stage.middleOfImage(side), Infinity);
}

/**
 * Look at a mark of the list in both images, as near as now; in volumes the slices go there.
 * @param {Stage} stage
 * @param {Row} row
 */
export function lookAtMark(stage, row) {
  stage.lookAgain = null;
  stage.lookAt("fixed", row.location, null);
  if (row.point) stage.lookAt("moving", row.point, null);
  stage.store.set({ picked: row.query });
}

/**
 * Show a point of the moving image where its counterpart is on the screen, so that the eye goes straight across.
 * @param {Stage} stage
 * @param {Vector} fixed_world
 * @param {Vector} moving_world
 */
function alignViews(stage, fixed_world, moving_world) {
  let { views } = stage.store.state;
  for (const pane of stage.planesOf("moving").filter((one) => one.visible)) {
    const other = stage.planesOf("fixed").find((one) => one.axis === pane.axis && one.visible);
    // Where an image is seen whole, it stays so.
    if (!other || [pane, other].some((one) => one.view.scale <= one.fitted.scale)) continue;
    const [from, to] = [worldToScreen(pane.plane, pane.view, moving_world), worldToScreen(other.plane, other.view, fixed_world)];
    const shift = [to[0] - from[0], to[1] - from[1]];
    views = { ...views, moving: { ...views.moving, [pane.axis]: keptOnImage(pane.plane, panByScreen(pane.view, shift)) } };
  }
  stage.store.set({ views });
}

/**
 * World length of an image that is shown around any point.
 * @param {import("./types.js").ImageInfo} image
 */
export function contextOf({ size, spacing }) {
  const around = Math.max(2 * CONTEXT, Math.min(MOST, PART * Math.max(...size))) * Math.min(...spacing);
  if (size.length === 2) return around;
  const extents = size.map((n, k) => n * spacing[k]).sort((one, other) => one - other);
  return Math.max(around, SHARE * extents[1]);
}

/**
 * World length of the moving image to show: the region in a third of the view, a former mark with what the others say
 * about it, and always some context. Null where nothing is known.
 * @param {Query} query
 * @param {Prediction | null} prediction
 * @param {Mark | null} mark
 * @param {number} context world length that is always shown
 * @returns {number | null}
 */
export function spanToShow(query, prediction, mark, context) {
  const longest = (/** @type {Mark} */ { shape }) => Math.sqrt(Math.max(...shape.map((row, i) => row[i])));
  if (mark && query.answer?.kind === "place") {
    const away = prediction ? norm(subtract(prediction.mean, mark.point)) : 0;
    return Math.max(context, 6 * longest(mark), 3 * away);
  }
  const spread = prediction ? markFromPrediction(prediction) : mark;
  return spread ? Math.max(context, 6 * longest(spread)) : null;
}
