/**
 * Where to look when a question comes, and how near.
 * @module
 */

import { markFromPrediction } from "./ellipsoid.js";
import { norm, subtract } from "./linalg.js";

/** @import { Mark } from "./ellipsoid.js" */
/** @import { Stage } from "./stage.js" */
/** @import { Prediction, Query, State } from "./types.js" */

/** Pixels around a mark that are always shown. */
const CONTEXT = 40;

/**
 * Go to a question in both images.
 * @param {Stage} stage
 * @param {State} state
 * @param {Query} query
 * @param {Mark | null} mark
 */
export function lookAtQuery(stage, state, query, mark) {
  const prediction = state.predictionHidden ? null : query.prediction;
  const span = spanToShow(query, prediction, mark, Math.min(...stage.images.moving.spacing));
  stage.lookAt("fixed", query.location, span === null ? null : span / (state.pose?.scale ?? 1));
  const there = mark?.point ?? prediction?.mean;
  if (there) stage.lookAt("moving", there, span);
  else if (!state.cross.moving) stage.lookAt("moving", stage.middleOfImage("moving"), null);
}

/**
 * World length of the moving image to show: the region in a third of the view, a former mark with what the others say
 * about it, and always some context. Null where nothing is known.
 * @param {Query} query
 * @param {Prediction | null} prediction
 * @param {Mark | null} mark
 * @param {number} pixel
 * @returns {number | null}
 */
export function spanToShow(query, prediction, mark, pixel) {
  const longest = (/** @type {Mark} */ { shape }) => Math.sqrt(Math.max(...shape.map((row, i) => row[i])));
  const context = 2 * CONTEXT * pixel;
  if (mark && query.answer?.kind === "place") {
    const away = prediction ? norm(subtract(prediction.mean, mark.point)) : 0;
    return Math.max(context, 6 * longest(mark), 3 * away);
  }
  const spread = prediction ? markFromPrediction(prediction) : mark;
  return spread ? Math.max(context, 6 * longest(spread)) : null;
}
