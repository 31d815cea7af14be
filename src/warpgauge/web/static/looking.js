/** Where to look when a question comes, and how near. @module */

import { axesOfMark, markFromPrediction } from "./ellipsoid.js";

/** @import { Mark } from "./ellipsoid.js" */
/** @import { Stage } from "./stage.js" */
/** @import { Query, Row } from "./types.js" */

/** The circle fills about a third of the pane; a question at an exact place is shown as wide as a circle of this share of the shorter side. */
const THIRD = 3;
const SHARE = 0.12;
/** Screen pixels that a pixel is enlarged to at most when the page chooses the zoom. */
const NEAREST = 8;

/** Go to a question in both images; a mark of it is looked at too. @param {Stage} stage @param {Query} query @param {Mark | null} mark */
export function lookAtQuery(stage, query, mark) {
  // The panes may not have their sizes yet, and how the moving image lies is learned later.
  stage.lookAgain = () => lookAtQuery(stage, query, mark);
  const prediction = stage.withheld ? null : query.prediction;
  const place = (query.answer?.kind === "place" && query.answer.fixed) || query.location;
  const expected = prediction ? axesOfMark(markFromPrediction(prediction))[0] : 0;
  const span = spanOfQuestion(stage, query);
  // As near as the expert chose to work, as long as the region where the match is expected fits into the pane.
  const wanted = Math.max(stage.working ?? span, Math.min(2.4 * expected, stage.extent));
  stage.setSpan(query.answer ? Math.max(span, mark ? 6 * axesOfMark(mark)[0] : 0) : wanted, NEAREST);
  stage.lookAt("fixed", place);
  const there = mark?.point ?? prediction?.mean;
  if (there) stage.lookAcross(place, there);
  else if (!stage.store.state.cross.moving) stage.lookAt("moving", stage.middleOfImage("moving"));
}

/** World length of the first image that the shorter side of its pane shows for a question. @param {Stage} stage @param {Query} query */
function spanOfQuestion(stage, { radius }) {
  const { size, spacing } = stage.images.fixed;
  const shorter = Math.min(...size.map((n, k) => n * spacing[k]));
  // Organs are recognised by what lies around: a volume is shown nearly whole.
  if (size.length === 3) return 0.75 * shorter;
  return 2 * THIRD * Math.max(radius, radius > 0 ? 0 : (SHARE * shorter) / 2);
}

/** Show both images whole. @param {Stage} stage */
export function lookAtWhole(stage) {
  stage.lookAgain = () => lookAtWhole(stage);
  stage.fit();
}

/**
 * Look at a mark of the list in both images, as near as now; in volumes the slices go there.
 * @param {Stage} stage @param {Pick<Row, "location" | "point">} row
 */
export function lookAtMark(stage, { location, point }) {
  stage.lookAgain = null;
  stage.lookAt("fixed", location);
  if (point) stage.lookAcross(location, point);
}
