/** Pictures that the server computed over a plane of the fixed image, and hatching for "no data". @module */

import { worldToPlane } from "./plane.js";
import { planeToScreen } from "./viewport.js";

/** @import { Vector } from "./linalg.js" */
/** @import { Plane } from "./plane.js" */
/** @import { View } from "./viewport.js" */
/** @typedef {{origin: Vector, column: Vector, row: Vector}} PlaneFrame where element (r, c) lies: origin + c column + r row */

/** @param {ImageData} pixels @returns {HTMLCanvasElement} */
export function canvasOf(pixels) {
  const canvas = document.createElement("canvas");
  canvas.width = pixels.width;
  canvas.height = pixels.height;
  /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d")).putImageData(pixels, 0, 0);
  return canvas;
}

/**
 * Draw a picture whose elements lie where its frame says.
 * @param {CanvasRenderingContext2D} context @param {Plane} plane @param {View} view @param {PlaneFrame} frame @param {HTMLCanvasElement} picture
 */
export function layPicture(context, plane, view, frame, picture) {
  const flat = { ...view, turn: undefined };
  const start = worldToPlane(plane, frame.origin);
  const end = worldToPlane(plane, frame.origin.map((value, i) => value + frame.column[i] + frame.row[i]));
  const step = [end[0] - start[0], end[1] - start[1]];
  const [x, y] = planeToScreen(flat, [start[0] - step[0] / 2, start[1] - step[1] / 2]);
  context.save();
  turnContext(context, view);
  context.transform(step[0] * view.scale, 0, 0, step[1] * view.scale, x, y);
  context.drawImage(picture, 0, 0);
  context.restore();
}

/** Turn a canvas as a view is turned, about its middle. @param {CanvasRenderingContext2D} context @param {View} view */
export function turnContext(context, view) {
  if (!view.turn) return;
  const [[a, c], [b, d]] = view.turn;
  context.translate(view.width / 2, view.height / 2);
  context.transform(a, b, c, d, 0, 0);
  context.translate(-view.width / 2, -view.height / 2);
}

/** @type {HTMLCanvasElement | null} */
let sheet = null;

/**
 * Hatch where a mask is opaque.
 * @param {CanvasRenderingContext2D} context @param {(target: CanvasRenderingContext2D) => void} mask draws it @param {View} view
 */
export function hatchMask(context, mask, view) {
  const ratio = context.getTransform().a || 1;
  sheet ??= document.createElement("canvas");
  sheet.width = Math.round(view.width * ratio);
  sheet.height = Math.round(view.height * ratio);
  const target = /** @type {CanvasRenderingContext2D} */ (sheet.getContext("2d"));
  target.setTransform(ratio, 0, 0, ratio, 0, 0);
  target.beginPath();
  for (let x = -view.height; x < view.width; x += 12) {
    target.moveTo(x, view.height);
    target.lineTo(x + view.height, 0);
  }
  for (const [style, width] of /** @type {const} */ ([["rgba(0, 0, 0, 0.4)", 2.6], ["#d8d8d8", 1.2]])) {
    target.strokeStyle = style;
    target.lineWidth = width;
    target.stroke();
  }
  target.globalCompositeOperation = "destination-in";
  mask(target);
  target.globalCompositeOperation = "source-over";
  context.drawImage(sheet, 0, 0, view.width, view.height);
}
