/**
 * The marks on one plane: query, prediction, one's own ellipse, former annotations, the crosshair of a volume.
 * @module
 */

import { rounded, unitName } from "./dom.js";
import { distanceFromSlice, markFromPrediction, projectionOfMark, sectionOfMark, wayOfMark } from "./ellipsoid.js";
import { COLOURS, drawEllipse, drawFormer, drawHandles, drawOffer, drawPlus, drawQuery, drawText, fade, strokeWithHalo } from "./marks.js";
import { worldToPlane } from "./plane.js";
import { proposedMark } from "./snap.js";
import { planeToScreen, worldToScreen } from "./viewport.js";

/** @import { PlaneView } from "./planeview.js" */
/** @import { Mark } from "./ellipsoid.js" */
/** @import { Vector } from "./linalg.js" */
/** @import { Row, State } from "./types.js" */
/** @import { View } from "./viewport.js" */

const MOST_NUMBERS = 60;
/** Screen pixels from which on it is shown how far a mark was moved. */
const LEAST_WAY = 4;

/**
 * @param {PlaneView} pane
 * @param {CanvasRenderingContext2D} context
 * @param {View} view
 * @param {State} state
 */
export function drawPlaneMarks(pane, context, view, state) {
  if (pane.plane.d === 3) drawCross(pane, context, view, state);
  if (state.overlays.former) drawFormerRows(pane, context, view, state);
  const { query, task } = state;
  if (pane.side === "fixed") {
    drawAsked(pane, context, view, state);
    return;
  }
  if (task === "answer" && query?.prediction && !state.predictionHidden) drawPrediction(pane, context, view, query.prediction);
  if (state.mark) drawOwn(pane, context, view, state.mark);
  const proposed = proposedMark(state);
  if (proposed) drawProposed(pane, context, view, proposed);
}

/**
 * The point asked for, and the one that the expert has chosen instead.
 * @param {PlaneView} pane
 * @param {CanvasRenderingContext2D} context
 * @param {View} view
 * @param {State} state
 */
function drawAsked(pane, context, view, { query, task, own, project, offered }) {
  const at = (/** @type {Vector} */ point) => worldToScreen(pane.plane, view, point);
  const asked = query && (task === "answer" || task === "nearby");
  const moved = task === "answer" && query?.answer?.kind === "place" ? query.answer.fixed : null;
  if (asked) drawQuery(context, at(query.location), slicesAway(pane, query.location) * (own || moved ? 0.4 : 1));
  if (asked && task === "nearby") {
    const [x, y] = at(query.location);
    const radius = (project?.settings.move_within ?? 0) * view.scale;
    strokeWithHalo(context, COLOURS.query, () => context.arc(x, y, radius, 0, 2 * Math.PI), { dash: [6, 5], width: 2 });
    for (const { point, keeps } of offered) drawOffer(context, at(point), Math.round(100 * (1 - keeps)), point === own ? 0 : slicesAway(pane, point));
  }
  if (asked && query.name && !own) {
    const [x, y] = at(query.location);
    drawText(context, query.name, [x + 14, y - 14], { alpha: slicesAway(pane, query.location) });
  }
  const chosen = own ?? moved;
  if (chosen) drawQuery(context, at(chosen), slicesAway(pane, chosen), 20, COLOURS.yours);
}

/**
 * @param {PlaneView} pane
 * @param {Vector} point_world
 * @returns {number} opacity
 */
function slicesAway(pane, point_world) {
  if (pane.plane.d === 2) return 1;
  return fade((worldToPlane(pane.plane, point_world)[2] - pane.depth) / pane.plane.frame.spacing[pane.axis]);
}

/**
 * @param {PlaneView} pane
 * @param {CanvasRenderingContext2D} context
 * @param {View} view
 * @param {import("./types.js").Prediction} prediction
 */
function drawPrediction(pane, context, view, prediction) {
  const mark = markFromPrediction(prediction);
  const section = sectionOfMark(pane.plane, mark, pane.depth);
  if (section) drawEllipse(context, view, section, COLOURS.prediction, { dash: [8, 6], width: 2 });
  if (pane.plane.d === 3) {
    drawEllipse(context, view, projectionOfMark(pane.plane, mark), COLOURS.prediction, { dash: [2, 5], alpha: 0.35, width: 1 });
  }
  drawPlus(context, worldToScreen(pane.plane, view, prediction.mean), COLOURS.prediction, 5, slicesAway(pane, prediction.mean));
}

/**
 * @param {PlaneView} pane
 * @param {CanvasRenderingContext2D} context
 * @param {View} view
 * @param {Mark} mark
 */
function drawOwn(pane, context, view, mark) {
  drawWay(pane, context, view, mark);
  if (pane.plane.d === 3) {
    const alpha = Math.max(0.25, 0.6 - 0.15 * distanceFromSlice(pane.plane, mark, pane.depth));
    drawEllipse(context, view, projectionOfMark(pane.plane, mark), COLOURS.yours, { alpha, width: 1, dash: [1, 3] });
  }
  const section = sectionOfMark(pane.plane, mark, pane.depth);
  if (!section) {
    drawPlus(context, worldToScreen(pane.plane, view, mark.point), COLOURS.yours, 6, slicesAway(pane, mark.point));
    return;
  }
  drawEllipse(context, view, section, COLOURS.yours);
  if (pane.hand.showsHandles) drawHandles(context, view, section, pane.hand.reach, pane.hand.hovered);
  else drawPlus(context, planeToScreen(view, section.centre), COLOURS.yours, 6);
}

/**
 * From where the mark was put to where it is now, and how far that is: a drag that was meant for the size is seen.
 * @param {PlaneView} pane
 * @param {CanvasRenderingContext2D} context
 * @param {View} view
 * @param {Mark} mark
 */
function drawWay(pane, context, view, mark) {
  const way = wayOfMark(mark);
  if (way * view.scale < LEAST_WAY) return;
  const [from, to] = [mark.put, mark.point].map((point) => worldToScreen(pane.plane, view, point));
  strokeWithHalo(context, COLOURS.yours, () => {
    context.arc(from[0], from[1], 3, 0, 2 * Math.PI);
    context.moveTo(from[0], from[1]);
    context.lineTo(to[0], to[1]);
  }, { alpha: 0.7, dash: [2, 4], width: 1 });
  drawText(context, `moved ${rounded(way)} ${unitName(pane.image.units)}`, [from[0] + 8, from[1] - 8], { size: 12 });
}

/**
 * Where the images say that one's own ellipse belongs.
 * @param {PlaneView} pane
 * @param {CanvasRenderingContext2D} context
 * @param {View} view
 * @param {Mark} mark
 */
function drawProposed(pane, context, view, mark) {
  const section = sectionOfMark(pane.plane, mark, pane.depth);
  if (section) drawEllipse(context, view, section, COLOURS.yours, { dash: [5, 4] });
  drawPlus(context, worldToScreen(pane.plane, view, mark.point), COLOURS.yours, 8, slicesAway(pane, mark.point));
}

/**
 * @param {PlaneView} pane
 * @param {CanvasRenderingContext2D} context
 * @param {View} view
 * @param {State} state
 */
function drawFormerRows(pane, context, view, state) {
  // With many of them only the one under the pointer says its number.
  const numbered = state.rows.length <= MOST_NUMBERS;
  for (const row of state.rows) {
    if (row.query === state.query?.query) continue;
    const point = pane.side === "fixed" ? row.location : row.point;
    if (!point) continue;
    const at = worldToScreen(pane.plane, view, point);
    if (at[0] < -20 || at[1] < -20 || at[0] > view.width + 20 || at[1] > view.height + 20) continue;
    const near = pane.pointer !== null && Math.hypot(pane.pointer[0] - at[0], pane.pointer[1] - at[1]) < 12;
    const alpha = slicesAway(pane, point) * (row.disabled ? 0.4 : 1);
    drawFormer(context, at, kindOfRow(row), { alpha, left: at[0] > view.width - 30, label: near || state.picked === row.query || (numbered && !row.skipped) ? String(row.number) : undefined });
  }
}

/**
 * @param {Row} row
 * @returns {"former" | "outlier" | "skipped"}
 */
function kindOfRow(row) {
  if (row.skipped) return "skipped";
  return row.outlier || row.swapped ? "outlier" : "former";
}

/**
 * Thin lines where the other two planes cut this one; they leave the middle free.
 * @param {PlaneView} pane
 * @param {CanvasRenderingContext2D} context
 * @param {View} view
 * @param {State} state
 */
function drawCross(pane, context, view, state) {
  const cross = state.cross[pane.side];
  if (!cross) return;
  const [x, y] = worldToScreen(pane.plane, view, cross);
  const gap = 26;
  strokeWithHalo(
    context,
    "#e0e0e0",
    () => {
      for (const [from, to] of [[[0, y], [x - gap, y]], [[x + gap, y], [view.width, y]], [[x, 0], [x, y - gap]], [[x, y + gap], [x, view.height]]]) {
        context.moveTo(from[0], from[1]);
        context.lineTo(to[0], to[1]);
      }
    },
    { alpha: 0.35, width: 1 },
  );
  if (x < 0 || y < 0 || x > view.width || y > view.height) drawText(context, "crosshair is outside this view", [10, 16], { alpha: 0.7 });
}
