/**
 * Planes of an image: index, plane and world. Pure functions, both frames in each name. plane: physical units in a plane of the image, right and down
 * on the screen, so that anisotropic voxels keep their physical aspect. index: elements x, y[, z] of level 0, centres at integers. world: as the
 * server speaks, x, y[, z].
 * @module
 */

import { inverse, multiplyVector, subtract } from "./linalg.js";

/** @import { Matrix, Vector } from "./linalg.js" */
/** @typedef {{size: number[], spacing: number[], origin: number[], direction: Matrix}} Frame */
/**
 * @typedef {object} Plane
 * @property {Frame} frame the image that it cuts
 * @property {number} d 2 or 3
 * @property {number} axis index axis of the normal; 2 for a 2D image
 * @property {number[]} order index axes right, down and (3D) through the screen
 * @property {number[]} sign +1 where the plane coordinate grows with the index, -1 where it is flipped
 * @property {Matrix} toWorld columns: world directions of right, down[, through]
 * @property {Matrix} fromWorld its inverse
 */

// Radiological habit: patient left on the right, posterior down, head up. World axis and its wanted sign.
const WANTED = { 2: [[0, 1], [1, 1]], 1: [[0, 1], [2, -1]], 0: [[1, 1], [2, -1]] };

/**
 * The plane of an image whose normal is an index axis.
 * @param {Frame} frame @param {number} axis 0, 1 or 2; a 2D image has only 2 @returns {Plane}
 */
export function planeOfImage(frame, axis) {
  const d = frame.size.length;
  const inPlane = axis === 2 ? [0, 1] : axis === 1 ? [0, 2] : [1, 2];
  const order = d === 2 ? inPlane : [...inPlane, axis];
  const sign = order.map((a, k) => (d === 3 && k < 2 ? wantedSign(frame, axis, a, k) : 1));
  const toWorld = frame.direction.map((row) => order.map((a, k) => row[a] * sign[k]));
  return { frame, d, axis, order, sign, toWorld, fromWorld: inverse(toWorld) };
}

/** @param {Frame} frame @param {number} axis @param {number} indexAxis @param {number} k 0 right, 1 down */
function wantedSign(frame, axis, indexAxis, k) {
  const wanted = WANTED[/** @type {0 | 1 | 2} */ (axis)][k];
  const column = frame.direction.map((row) => row[indexAxis]);
  return column[wanted[0]] * wanted[1] < 0 ? -1 : 1;
}

/** @param {Frame} frame @param {Vector} point_index @returns {Vector} */
export function indexToWorld(frame, point_index) {
  const offset = multiplyVector(frame.direction, point_index.map((value, i) => value * frame.spacing[i]));
  return offset.map((value, i) => value + frame.origin[i]);
}

/** Plane coordinates right, down and, in 3D, the depth along the normal. @param {Plane} plane @param {Vector} point_world @returns {Vector} */
export function worldToPlane(plane, point_world) {
  return multiplyVector(plane.fromWorld, subtract(point_world, plane.frame.origin));
}

/** @param {Plane} plane @param {Vector} point_plane right, down @param {number} depth along the normal; ignored in 2D @returns {Vector} */
export function planeToWorld(plane, point_plane, depth) {
  const full = plane.d === 2 ? point_plane.slice(0, 2) : [point_plane[0], point_plane[1], depth];
  return multiplyVector(plane.toWorld, full).map((value, i) => value + plane.frame.origin[i]);
}

/** Plane coordinates of an index position (right, down only). @param {Plane} plane @param {Vector} point_index x, y[, z] @returns {Vector} */
function indexToPlane(plane, point_index) {
  return [0, 1].map((k) => plane.sign[k] * plane.frame.spacing[plane.order[k]] * point_index[plane.order[k]]);
}

/** Depth of slice k, and the slice nearest to a depth, along the normal. @param {Plane} plane @param {number} slice @returns {number} */
export function sliceToDepth(plane, slice) {
  return plane.d === 2 ? 0 : slice * plane.frame.spacing[plane.axis];
}

/** @param {Plane} plane @param {number} depth @returns {number} a slice that exists */
export function depthToSlice(plane, depth) {
  if (plane.d === 2) return 0;
  const last = plane.frame.size[plane.axis] - 1;
  return Math.min(last, Math.max(0, Math.round(depth / plane.frame.spacing[plane.axis])));
}

/**
 * Corners of the image in the plane, outer edges of the outer pixels: [left, top, right, bottom].
 * @param {Plane} plane @returns {[number, number, number, number]}
 */
export function extentInPlane(plane) {
  const low = indexToPlane(plane, plane.frame.size.map(() => -0.5));
  const high = indexToPlane(plane, plane.frame.size.map((n) => n - 0.5));
  return [
    Math.min(low[0], high[0]),
    Math.min(low[1], high[1]),
    Math.max(low[0], high[0]),
    Math.max(low[1], high[1]),
  ];
}

/**
 * Letters of the patient directions at the left, top, right and bottom edges, for volumes in the LPS world.
 * @param {Plane} plane @returns {[string, string, string, string]}
 */
export function edgeLetters(plane) {
  const letters = [["R", "L"], ["A", "P"], ["I", "S"]];
  const pair = [0, 1].map((k) => {
    const column = plane.toWorld.map((row) => row[k]);
    const sizes = column.map(Math.abs);
    const a = sizes.indexOf(Math.max(...sizes));
    return column[a] > 0 ? letters[a] : [letters[a][1], letters[a][0]];
  });
  return [pair[0][0], pair[1][0], pair[0][1], pair[1][1]];
}
