/**
 * Small pictures of a place in an image, drawn from the same tiles.
 * @module
 */

import { markFromCovariance, projectionOfMark, sectionOfMark } from "./ellipsoid.js";
import { COLOURS, drawEllipse, drawPlus, drawQuery, drawScaleBar, drawText, fade } from "./marks.js";
import { depthToSlice, planeOfImage, sliceToDepth, worldToPlane } from "./plane.js";
import { panByScreen, planeToScreen, scaleBar } from "./viewport.js";

/** @import { Matrix, Vector } from "./linalg.js" */
/** @import { Stage } from "./stage.js" */
/** @import { Side } from "./types.js" */

/**
 * @typedef {object} Shown
 * @property {Vector} point where to look
 * @property {number} span world length that the shorter edge shows
 * @property {{point: Vector, covariance: Matrix, alpha: number, colour?: string, label?: string, dash?: number[]}[]} [marks]
 * @property {Vector} [shift] how far right and down of the point the middle of the picture lies on the screen, world length
 * @property {number} [axis] normal of the plane; 2 without
 * @property {number} [slices] how many slices beyond the point
 * @property {boolean} [labelled] with a scale bar and, in volumes, the number of the slice
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
  const image = stage.images[side];
  const plane = planeOfImage(image, shown.axis ?? 2);
  const at = worldToPlane(plane, shown.point);
  const slice = depthToSlice(plane, at[2] ?? 0) + (shown.slices ?? 0);
  const depth = sliceToDepth(plane, plane.d === 3 ? Math.min(image.size[plane.axis] - 1, Math.max(0, slice)) : slice);
  const scale = Math.min(box.width, box.height) / shown.span;
  const [right, down] = shown.shift ?? [0, 0];
  const view = panByScreen({ centre: at.slice(0, 2), scale, turn: stage.turnOf(side), ...box }, [-right * scale, -down * scale]);
  stage.sources[side].draw(context, plane, view, depth, stage.store.state.colours[side]);
  const away = (/** @type {Vector} */ point_plane) => (plane.d === 2 ? 1 : fade((point_plane[2] - depth) / image.spacing[plane.axis]));
  for (const { point, covariance, alpha, colour, label, dash } of shown.marks ?? []) {
    const [mark, there] = [markFromCovariance(point, covariance, alpha), worldToPlane(plane, point)];
    const section = sectionOfMark(plane, mark, depth);
    if (shown.labelled && plane.d === 3) drawEllipse(context, view, projectionOfMark(plane, mark), colour ?? COLOURS.yours, { alpha: 0.6, width: 1, dash: [1, 3] });
    if (section) drawEllipse(context, view, section, colour ?? COLOURS.yours, { width: shown.labelled ? 1.5 : 1, dash });
    const [x, y] = planeToScreen(view, there);
    drawPlus(context, [x, y], colour ?? COLOURS.yours, shown.labelled ? 5 : 3, away(there));
    if (label) drawText(context, label, [x + 8, y - 6], { alpha: away(there) });
  }
  if (shown.query) drawQuery(context, planeToScreen(view, at), away(at), Math.min(20, box.height / 5));
  if (!shown.labelled) return;
  Object.assign(canvas.dataset, { plane: plane.axis, slice: depthToSlice(plane, depth), span: shown.span });
  const bar = scaleBar(view, Math.min(130, box.width / 3));
  drawScaleBar(context, bar, [box.width - 14 - bar.pixels, box.height - 16], image.units);
  if (plane.d === 3) drawText(context, `${depthToSlice(plane, depth) + 1} / ${image.size[plane.axis]}`, [10, box.height - 10]);
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
