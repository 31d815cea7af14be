/**
 * Small pictures of a place in an image, drawn from the same tiles.
 * @module
 */

import { markFromCovariance, sectionOfMark } from "./ellipsoid.js";
import { COLOURS, drawEllipse, drawPlus, drawQuery, drawText } from "./marks.js";
import { depthToSlice, planeOfImage, sliceToDepth, worldToPlane } from "./plane.js";
import { planeToScreen } from "./viewport.js";

/** @import { Matrix, Vector } from "./linalg.js" */
/** @import { Stage } from "./stage.js" */
/** @import { Side } from "./types.js" */

/**
 * @typedef {object} Shown
 * @property {Vector} point where to look
 * @property {number} span world length that the shorter edge shows
 * @property {{point: Vector, covariance: Matrix, alpha: number, colour?: string, label?: string}[]} [marks]
 * @property {Vector} [shift] by which the picture is moved, plane units
 * @property {boolean} [query] whether the point is the one asked for
 */

/**
 * Draw a place.
 * @param {Stage} stage
 * @param {Side} side
 * @param {HTMLCanvasElement} canvas
 * @param {Shown} shown
 */
export function drawPlace(stage, side, canvas, shown) {
  const box = { width: canvas.clientWidth, height: canvas.clientHeight };
  if (box.width < 2) return;
  const ratio = globalThis.devicePixelRatio || 1;
  if (canvas.width !== Math.round(box.width * ratio)) {
    canvas.width = Math.round(box.width * ratio);
    canvas.height = Math.round(box.height * ratio);
  }
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.fillStyle = stage.surround;
  context.fillRect(0, 0, box.width, box.height);
  const plane = planeOfImage(stage.images[side], 2);
  const at = worldToPlane(plane, shown.point);
  const depth = sliceToDepth(plane, depthToSlice(plane, at[2] ?? 0));
  const [dx, dy] = shown.shift ?? [0, 0];
  const view = { centre: [at[0] + dx, at[1] + dy], scale: Math.min(box.width, box.height) / shown.span, turn: stage.turnOf(side), ...box };
  stage.sources[side].draw(context, plane, view, depth, stage.store.state.colours[side]);
  for (const { point, covariance, alpha, colour, label } of shown.marks ?? []) {
    const mark = markFromCovariance(point, covariance, alpha);
    const section = sectionOfMark(plane, mark, depth);
    if (section) drawEllipse(context, view, section, colour ?? COLOURS.yours, { width: 1 });
    drawPlus(context, planeToScreen(view, worldToPlane(plane, point)), colour ?? COLOURS.yours, 3);
    const [x, y] = planeToScreen(view, worldToPlane(plane, point));
    if (label) drawText(context, label, [x + 8, y - 6]);
  }
  if (shown.query) drawQuery(context, planeToScreen(view, at), 1, Math.min(20, box.height / 5));
}

/**
 * How much to show around a mark: three times its region, at least 48 pixels.
 * @param {Stage} stage
 * @param {Side} side
 * @param {Matrix | null} covariance
 * @returns {number}
 */
export function spanOf(stage, side, covariance) {
  const smallest = 64 * Math.min(...stage.images[side].spacing);
  const spread = covariance ? Math.sqrt(Math.max(...covariance.map((row, i) => row[i]))) : 0;
  return Math.max(smallest, spread * 3 * 3);
}
