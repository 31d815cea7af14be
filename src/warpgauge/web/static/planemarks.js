/**
 * The marks on one plane: the circle or cross of the question, where the match is expected, one's own ring, earlier answers, and what an organiser
 * judges.
 * @module
 */

import { aimOf, starts } from "./annotator.js";
import { distanceFromSlice, markFromCovariance, markFromPrediction, projectionOfMark, sectionOfMark } from "./ellipsoid.js";
import { distance } from "./linalg.js";
import { RINGS } from "./markeditor.js";
import { COLOURS, cross, drawEllipse, drawFormer, drawHandles, drawPlus, drawQuery, drawText, fade, strokeWithHalo } from "./marks.js";
import { worldToPlane } from "./plane.js";
import { planeToScreen, worldToScreen } from "./viewport.js";
import { sizeInWords, unitName } from "./words.js";

/** @import { Mark } from "./ellipsoid.js" */
/** @import { Vector } from "./linalg.js" */
/** @import { Drawing, PlaneView } from "./planeview.js" */
/** @import { Location, Query, Row } from "./types.js" */

const MOST_NUMBERS = 60;
/** Of raters whose names are hidden; excluded marks are grey. */
export const RATER_COLOURS = ["#F0E442", "#56B4E9", "#E69F00", "#CC79A7", "#009E73", "#D55E00", "#0072B2"];

/** @param {Drawing} on */
export function drawPlaneMarks(on) {
  const { pane, state } = on;
  if (pane.plane.d === 3) drawCross(on);
  if (state.drawer === "organiser") {
    const { choosing, judged } = state;
    if (choosing && pane.side === "fixed") drawAsked(on, { location: choosing.point, radius: choosing.radius, name: "" });
    else if (judged) drawJudged(on, judged);
    return;
  }
  drawFormerRows(on);
  const { query, own, mark, conflict } = state;
  if (pane.side === "fixed") {
    if (query && !starts(state)) drawAsked(on, query);
    if (own) drawChosen(on, own);
    return;
  }
  if (query?.prediction && !starts(state) && !state.hidden && !(own && aimOf(state) === "own")) drawPrediction(on, query);
  if (mark) drawOwn(on, mark);
  if (conflict?.mark) drawMark(on, conflict.mark, "#FFFFFF", [6, 4]);
  if (pane.hand.marksHere && pane.pointer && !pane.hand.hovered) drawRing(on, pane.pointer);
}

/**
 * The circle in which something is to be marked, or the cross of an exact place.
 * @param {Drawing} on @param {Pick<Query, "location" | "radius" | "name">} query
 */
function drawAsked(on, { location, radius, name }) {
  const { pane, context, view, state } = on;
  const at = worldToScreen(pane.plane, view, location);
  const alpha = slicesAway(pane, location);
  if (radius === 0) drawQuery(context, at, alpha * (state.own ? 0.4 : 1));
  else {
    // Of a ball a slice shows the section.
    const away = pane.plane.d === 3 ? worldToPlane(pane.plane, location)[2] - pane.depth : 0;
    const section = Math.sqrt(Math.max(0, radius ** 2 - away ** 2)) * view.scale;
    if (section > 0) strokeWithHalo(context, COLOURS.query, () => context.arc(at[0], at[1], section, 0, 2 * Math.PI), { dash: [8, 6], width: 2 });
    if (!state.own) strokeWithHalo(context, COLOURS.query, () => cross(context, at, 3, 9), { alpha });
  }
  if (name) drawText(context, name, [at[0] + 14, at[1] - 14], { alpha });
}

/** @param {Drawing} on @param {Vector} own */
function drawChosen({ pane, context, view }, own) {
  drawQuery(context, worldToScreen(pane.plane, view, own), slicesAway(pane, own), 16, COLOURS.yours);
}

/** @param {PlaneView} pane @param {Vector} point_world @returns {number} opacity */
function slicesAway(pane, point_world) {
  if (pane.plane.d === 2) return 1;
  return fade((worldToPlane(pane.plane, point_world)[2] - pane.depth) / pane.plane.frame.spacing[pane.axis]);
}

/** Where the match is expected; of a place that was chosen, there. @param {Drawing} on @param {Query} query */
function drawPrediction(on, { prediction }) {
  if (!prediction) return;
  const { pane, context, view, state } = on;
  const mark = { ...markFromPrediction(prediction), point: state.expected ?? prediction.mean };
  const section = sectionOfMark(pane.plane, mark, pane.depth);
  if (section) drawEllipse(context, view, section, COLOURS.prediction, { dash: [8, 6], width: 2 });
  if (pane.plane.d === 3) drawEllipse(context, view, projectionOfMark(pane.plane, mark), COLOURS.prediction, { dash: [2, 5], alpha: 0.35, width: 1 });
}

/** @param {Drawing} on @param {Mark} mark */
function drawOwn(on, mark) {
  const { pane, context, view } = on;
  const section = drawMark(on, mark, COLOURS.yours);
  if (!section) return;
  if (pane.hand.showsHandles) drawHandles(context, view, section, pane.hand.reach, pane.hand.hovered);
  const [x, y] = planeToScreen(view, section.centre);
  const right = Math.max(...section.radii, pane.hand.showsHandles ? pane.hand.reach : 0) * view.scale + 12;
  const left = x + right > view.width - 90;
  drawText(context, `± ${sizeInWords(mark)} ${unitName(pane.image.units)}`, [left ? x - right : x + right, y + 4], { align: left ? "right" : "left" });
}

/**
 * A mark: its section, in volumes its shadow, and its centre.
 * @param {Drawing} on @param {Mark} mark @param {string} colour @param {number[]} [dash]
 */
function drawMark({ pane, context, view }, mark, colour, dash) {
  if (pane.plane.d === 3) {
    const alpha = Math.max(0.25, 0.6 - 0.15 * distanceFromSlice(pane.plane, mark, pane.depth));
    drawEllipse(context, view, projectionOfMark(pane.plane, mark), colour, { alpha, width: 1, dash: [1, 3] });
  }
  const section = sectionOfMark(pane.plane, mark, pane.depth);
  if (section) drawEllipse(context, view, section, colour, { dash });
  drawPlus(context, section ? planeToScreen(view, section.centre) : worldToScreen(pane.plane, view, mark.point), colour, 6, section ? 1 : slicesAway(pane, mark.point));
  return section;
}

/** The cursor is the ring that a click would store. @param {Drawing} on @param {Vector} at */
function drawRing({ pane, context, view, state }, [x, y]) {
  const radius = pane.hand.marks.ringRadius(view.scale) * view.scale;
  strokeWithHalo(context, "#fff", () => context.arc(x, y, radius, 0, 2 * Math.PI), { width: 1.2 });
  strokeWithHalo(context, "#fff", () => cross(context, [x, y], radius + 3, radius + 9), { width: 1.2 });
  if (!state.mark) drawText(context, RINGS[state.ring].words, [x + radius + 13, y + radius + 13], { size: 12 });
}

/**
 * Earlier answers. So that a question that comes again is not given away, none is drawn within three rings of the open place or of its expected
 * match.
 * @param {Drawing} on
 */
function drawFormerRows(on) {
  const { pane, context, view, state } = on;
  const { rows, query, picked } = state;
  const open = query && !query.answer ? query : null;
  const near = 3 * pane.hand.marks.ringRadius(pane.stage.scaleOf("fixed"));
  const expected = state.hidden ? null : open?.prediction?.mean;
  // With many of them only the one under the pointer says its number.
  const numbered = rows.length <= MOST_NUMBERS;
  for (const row of rows) {
    const point = pane.side === "fixed" ? row.location : row.point;
    if (!point || row.query === query?.query) continue;
    if (open && (distance(row.location, open.location) < near || (expected && row.point && distance(row.point, expected) < near))) continue;
    const at = worldToScreen(pane.plane, view, point);
    if (at[0] < -20 || at[1] < -20 || at[0] > view.width + 20 || at[1] > view.height + 20) continue;
    const pointed = pane.pointer !== null && Math.hypot(pane.pointer[0] - at[0], pane.pointer[1] - at[1]) < 12;
    const alpha = slicesAway(pane, point) * (row.disabled ? 0.4 : 1);
    const label = pointed || picked === row.query || (numbered && !row.skipped) ? String(row.number) : undefined;
    drawFormer(context, at, kindOfRow(row), { alpha, left: at[0] > view.width - 30, label });
  }
}

/** @param {Row} row @returns {"former" | "outlier" | "skipped"} */
function kindOfRow(row) {
  if (row.skipped) return "skipped";
  return row.outlier ? "outlier" : "former";
}

/** All raters' marks at a location, and what they say together. @param {Drawing} on @param {Location} location */
function drawJudged(on, { location, marks, fused }) {
  const { pane, context, view } = on;
  if (pane.side === "fixed") {
    drawQuery(context, worldToScreen(pane.plane, view, location), slicesAway(pane, location));
    return;
  }
  marks.forEach((mark, k) => {
    drawMark(on, markFromCovariance(mark.point, mark.covariance, mark.alpha), mark.excluded ? "#888888" : RATER_COLOURS[k % RATER_COLOURS.length]);
    const [x, y] = worldToScreen(pane.plane, view, mark.point);
    drawText(context, String.fromCharCode(65 + k), [x + 9, y - 7], { alpha: slicesAway(pane, mark.point) });
  });
  if (fused && marks.length > 1) drawMark(on, markFromCovariance(fused.point, fused.covariance, marks[0].alpha), "#FFFFFF", [6, 4]);
}

/** Thin lines where the other two planes cut this one; they leave the middle free. @param {Drawing} on */
function drawCross({ pane, context, view, state }) {
  const at = state.cross[pane.side];
  if (!at) return;
  const [x, y] = worldToScreen(pane.plane, view, at);
  const gap = 26;
  const path = () => {
    for (const [from, to] of [[[0, y], [x - gap, y]], [[x + gap, y], [view.width, y]], [[x, 0], [x, y - gap]], [[x, y + gap], [x, view.height]]]) {
      context.moveTo(from[0], from[1]);
      context.lineTo(to[0], to[1]);
    }
  };
  strokeWithHalo(context, "#e0e0e0", path, { alpha: 0.35, width: 1 });
}

