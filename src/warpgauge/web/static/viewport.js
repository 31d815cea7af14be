/**
 * Views: where the screen shows a plane. Pure functions, both frames in each name. screen: CSS pixels of a canvas, right and down. The other frames
 * are those of `plane.js`.
 * @module
 */

import { extentInPlane, planeToWorld, worldToPlane } from "./plane.js";

/** @import { Vector } from "./linalg.js" */
/** @import { Plane } from "./plane.js" */
/** @import { Matrix } from "./linalg.js" */
/**
 * @typedef {object} View
 * @property {Vector} centre point of the plane in the middle of the screen
 * @property {number} scale screen pixels per unit
 * @property {number} width
 * @property {number} height
 * @property {Matrix} [turn] orthogonal, 2 x 2: how the plane is turned or mirrored on the screen; upright without
 */

/** Screen pixels that a pixel is enlarged to at most. */
const LARGEST = 16;

/** A direction of the plane on the screen, lengths unchanged. @param {View} view @param {Vector} shift_plane @returns {Vector} */
export function turnToScreen({ turn }, [x, y]) {
  return turn ? [turn[0][0] * x + turn[0][1] * y, turn[1][0] * x + turn[1][1] * y] : [x, y];
}

/** @param {View} view @param {Vector} shift_screen @returns {Vector} */
export function turnToPlane({ turn }, [x, y]) {
  return turn ? [turn[0][0] * x + turn[1][0] * y, turn[0][1] * x + turn[1][1] * y] : [x, y];
}

/** @param {View} view @param {Vector} point_plane @returns {Vector} */
export function planeToScreen(view, point_plane) {
  const [x, y] = turnToScreen(view, [point_plane[0] - view.centre[0], point_plane[1] - view.centre[1]]);
  return [x * view.scale + view.width / 2, y * view.scale + view.height / 2];
}

/** @param {View} view @param {Vector} point_screen @returns {Vector} */
export function screenToPlane(view, point_screen) {
  const [x, y] = turnToPlane(view, [point_screen[0] - view.width / 2, point_screen[1] - view.height / 2]);
  return [x / view.scale + view.centre[0], y / view.scale + view.centre[1]];
}

/** @param {Plane} plane @param {View} view @param {Vector} point_world @returns {Vector} */
export function worldToScreen(plane, view, point_world) {
  return planeToScreen(view, worldToPlane(plane, point_world));
}

/** @param {Plane} plane @param {View} view @param {Vector} point_screen @param {number} depth @returns {Vector} */
export function screenToWorld(plane, view, point_screen, depth) {
  return planeToWorld(plane, screenToPlane(view, point_screen), depth);
}

/**
 * Smallest and largest scale: the whole image in a fifth of the view, and a pixel of 16 screen pixels: beyond that there is nothing more to see.
 * @param {Plane} plane @param {{width: number, height: number}} size @returns {[number, number]}
 */
export function scaleLimits(plane, size) {
  const spacing = Math.min(plane.frame.spacing[plane.order[0]], plane.frame.spacing[plane.order[1]]);
  return [fitScale(plane, size) / 5, Math.max(LARGEST / spacing, fitScale(plane, size))];
}

/** Width and height that the turned image needs, plane units. @param {Plane} plane @param {Matrix} [turn] @returns {[number, number]} */
function turnedSize(plane, turn) {
  const [left, top, right, bottom] = extentInPlane(plane);
  const [x, y] = turn ?? [[1, 0], [0, 1]];
  const along = (/** @type {Vector} */ row) => Math.abs(row[0]) * (right - left) + Math.abs(row[1]) * (bottom - top);
  return [along(x), along(y)];
}

/** @param {Plane} plane @param {{width: number, height: number}} size @param {Matrix} [turn] @returns {number} */
function fitScale(plane, size, turn) {
  const [wide, high] = turnedSize(plane, turn);
  return Math.min(Math.max(size.width, 1) / wide, Math.max(size.height, 1) / high);
}

/**
 * The whole image, as large as `longest` screen pixels and without a margin.
 * @param {Plane} plane @param {number} longest @param {Matrix} [turn] @returns {View}
 */
export function miniatureOfPlane(plane, longest, turn) {
  const [wide, high] = turnedSize(plane, turn);
  const scale = longest / Math.max(wide, high);
  return { ...fitPlaneToScreen(plane, { width: wide * scale, height: high * scale }, turn), scale };
}

/**
 * The whole image in the middle of the view.
 * @param {Plane} plane @param {{width: number, height: number}} size @param {Matrix} [turn] @returns {View}
 */
export function fitPlaneToScreen(plane, size, turn) {
  const [left, top, right, bottom] = extentInPlane(plane);
  const centre = [(left + right) / 2, (top + bottom) / 2];
  return { centre, scale: fitScale(plane, size, turn) * 0.96, width: size.width, height: size.height, turn };
}

/**
 * Zoom so that what lies under the cursor stays there.
 * @param {View} view @param {Vector} point_screen @param {number} factor @param {[number, number]} limits @returns {View}
 */
export function zoomAboutScreen(view, point_screen, factor, limits) {
  const scale = Math.min(limits[1], Math.max(limits[0], view.scale * factor));
  const under = screenToPlane(view, point_screen);
  const [x, y] = turnToPlane(view, [point_screen[0] - view.width / 2, point_screen[1] - view.height / 2]);
  return { ...view, centre: [under[0] - x / scale, under[1] - y / scale], scale };
}

/**
 * The centre nearest to the wanted one at which little of the view lies beside the image: a fifth at most on each side, and an image smaller than the
 * view stands in its middle.
 * @param {Plane} plane @param {View} view @param {Vector} centre wanted @returns {Vector}
 */
export function centreWithinImage(plane, view, centre) {
  const [left, top, right, bottom] = extentInPlane(plane);
  const t = view.turn ?? [[1, 0], [0, 1]];
  const ends = [[left, right], [top, bottom]];
  return ends.map(([low, high], k) => {
    const pixels = Math.abs(t[0][k]) * view.width + Math.abs(t[1][k]) * view.height;
    const half = (pixels * 0.3) / view.scale;
    return low + half > high - half ? (low + high) / 2 : Math.min(high - half, Math.max(low + half, centre[k]));
  });
}

/** @param {View} view @param {Vector} shift_screen by which the picture moves @returns {View} */
export function panByScreen(view, shift_screen) {
  const [x, y] = turnToPlane(view, shift_screen);
  return { ...view, centre: [view.centre[0] - x / view.scale, view.centre[1] - y / view.scale] };
}

/**
 * The view whose middle lies on the image: however far one pans, half of the view still shows some of it.
 * @param {Plane} plane @param {View} view @returns {View}
 */
export function keptOnImage(plane, view) {
  const [left, top, right, bottom] = extentInPlane(plane);
  const [x, y] = view.centre;
  if (x >= left && x <= right && y >= top && y <= bottom) return view;
  return { ...view, centre: [Math.min(right, Math.max(left, x)), Math.min(bottom, Math.max(top, y))] };
}

/**
 * A round length for a scale bar at most `room` screen pixels wide: 1, 2 or 5 times a power of ten.
 * @param {View} view @param {number} room @returns {{length: number, pixels: number}} in plane units, and on the screen
 */
export function scaleBar(view, room) {
  const longest = room / view.scale;
  const power = 10 ** Math.floor(Math.log10(longest));
  const step = [5, 2, 1].find((n) => n * power <= longest) ?? 1;
  return { length: step * power, pixels: step * power * view.scale };
}

/** Whether a view is turned by something else than quarter turns. @param {View} view */
export function isOblique({ turn }) {
  return turn !== undefined && turn.flat().some((value) => Math.abs(value) > 1e-6 && Math.abs(value) < 1 - 1e-6);
}
