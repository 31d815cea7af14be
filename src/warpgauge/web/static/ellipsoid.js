/**
 * The uncertain landmark: a point and the shape of its region in the world, seen and edited through planes. In 2D the plane holds the whole ellipse.
 * In 3D a plane shows the section of the ellipsoid (solid) and its projection (faint), and an edit of the section is a linear map T of the plane
 * applied to the whole: W becomes T W T'. T is invertible, so that the shape stays positive definite, and the extent along the normal stays as it is.
 * Many edits can still make a needle too thin for the numbers of a computer: `admissible` tells, and such an edit is not taken.
 * @module
 */

import { confidenceRadius } from "./confidence.js";
import { axesOfEllipse, ellipseFromShape } from "./ellipse.js";
import { add, congruence, dot, eigenvalues, identity, inverse, isPositiveDefinite, multiply, multiplyVector, scaled, subtract, transpose } from "./linalg.js";
import { planeToWorld, worldToPlane } from "./plane.js";

/** @import { Matrix, Vector } from "./linalg.js" */
/** @import { Plane } from "./plane.js" */
/** @import { Ellipse } from "./ellipse.js" */
/** @import { Prediction } from "./types.js" */
/**
 * @typedef {object} Mark an uncertain landmark
 * @property {Vector} point world
 * @property {Matrix} shape world; eigenvalues are the squared half-lengths of the drawn region
 * @property {number} alpha the region holds the true match with probability 1 - alpha
 * @property {Record<number, number>} hints for each plane (by axis) the angle that its first axis had last
 */

/** @param {Mark} mark @returns {Matrix} */
export function covarianceFromMark(mark) {
  return scaled(mark.shape, 1 / confidenceRadius(mark.point.length, mark.alpha) ** 2);
}

/** @param {Vector} point @param {Matrix} covariance @param {number} alpha @returns {Mark} */
export function markFromCovariance(point, covariance, alpha) {
  return { point, shape: scaled(covariance, confidenceRadius(point.length, alpha) ** 2), alpha, hints: {} };
}

/**
 * The region of a prediction as the server gives it: how far it reaches for its alpha depends on the model's tails.
 * @param {Prediction} prediction @returns {Mark}
 */
export function markFromPrediction({ mean, half_lengths: lengths, axes, alpha }) {
  const squares = lengths.map((length, i) => lengths.map((_, j) => (i === j ? length * length : 0)));
  return { point: mean, shape: congruence(axes, squares), alpha, hints: {} };
}

/** Half-lengths of a mark's region, longest first. @param {Mark} mark @returns {number[]} */
export function axesOfMark(mark) {
  return eigenvalues(mark.shape).map((value) => Math.sqrt(Math.max(value, 0)));
}

/** A disc or a ball. @param {Vector} point @param {number} radius @param {number} alpha @returns {Mark} */
export function ballMark(point, radius, alpha) {
  return { point, shape: scaled(identity(point.length), radius * radius), alpha, hints: {} };
}

/** Shape in the frame of a plane: right, down[, through]. @param {Plane} plane @param {Matrix} shape_world @returns {Matrix} */
export function shapeWorldToPlane(plane, shape_world) {
  return congruence(plane.fromWorld, shape_world);
}

/**
 * The section of the region by the plane at a depth, or null where the plane misses it.
 * @param {Plane} plane @param {Mark} mark @param {number} depth @returns {Ellipse | null}
 */
export function sectionOfMark(plane, mark, depth) {
  const centre = worldToPlane(plane, mark.point);
  const shape = shapeWorldToPlane(plane, mark.shape);
  const hint = mark.hints[plane.axis];
  if (plane.d === 2) return ellipseFromShape(centre, shape, hint);
  const away = depth - centre[2];
  const left = 1 - (away * away) / shape[2][2];
  if (left <= 0) return null;
  const middle = [0, 1].map((k) => centre[k] + (away * shape[k][2]) / shape[2][2]);
  return ellipseFromShape(middle, scaled(conditionalShape(shape), left), hint);
}

/**
 * Shape of the section through the centre: the Schur complement of the depth.
 * @param {Matrix} shape 3 x 3, in the frame of the plane @returns {Matrix}
 */
function conditionalShape(shape) {
  return [0, 1].map((i) => [0, 1].map((j) => shape[i][j] - (shape[i][2] * shape[j][2]) / shape[2][2]));
}

/** The shadow of the region on the plane. @param {Plane} plane @param {Mark} mark @returns {Ellipse} */
export function projectionOfMark(plane, mark) {
  const centre = worldToPlane(plane, mark.point).slice(0, 2);
  const shape = shapeWorldToPlane(plane, mark.shape);
  return ellipseFromShape(centre, [shape[0].slice(0, 2), shape[1].slice(0, 2)], mark.hints[plane.axis]);
}

/**
 * How far a slice lies from the mark: 0 through the centre, 1 where it touches the region, more beyond.
 * @param {Plane} plane @param {Mark} mark @param {number} depth @returns {number}
 */
export function distanceFromSlice(plane, mark, depth) {
  if (plane.d === 2) return 0;
  const away = depth - worldToPlane(plane, mark.point)[2];
  return Math.abs(away) / Math.sqrt(shapeWorldToPlane(plane, mark.shape)[2][2]);
}

/**
 * The mark whose section by the plane is `after`, where it was `before`.
 * @param {Plane} plane @param {Mark} mark @param {number} depth @param {Ellipse} before its section now @param {Ellipse} after @returns {Mark}
 */
export function markWithSection(plane, mark, depth, before, after) {
  const map = mapOfEllipses(before, after);
  const turn = plane.d === 2 ? map : [[...map[0], 0], [...map[1], 0], [0, 0, 1]];
  const toWorld = multiply(multiply(plane.toWorld, turn), plane.fromWorld);
  const shape = congruence(toWorld, mark.shape);
  // The section's centre is set, then the centre of the whole follows from where it lay relative to the section.
  const centre = worldToPlane(plane, mark.point);
  const offset = multiplyVector(map, subtract(centre.slice(0, 2), before.centre));
  const point = planeToWorld(plane, add(after.centre, offset), plane.d === 2 ? depth : centre[2]);
  return { ...mark, point, shape, hints: { ...mark.hints, [plane.axis]: after.angle } };
}

/**
 * Whether every half-length of the region lies between two bounds.
 * @param {Mark} mark @param {number} shortest @param {number} longest @returns {boolean}
 */
export function admissible(mark, shortest, longest) {
  const shifted = (/** @type {number} */ sign, /** @type {number} */ length) =>
    mark.shape.map((row, i) => row.map((value, j) => sign * (value - (i === j ? length * length : 0))));
  return isPositiveDefinite(shifted(1, shortest)) && isPositiveDefinite(shifted(-1, longest));
}

/** The linear map that takes the axes of one ellipse to those of another. @param {Ellipse} before @param {Ellipse} after @returns {Matrix} */
function mapOfEllipses(before, after) {
  const columns = transpose(axesOfEllipse(after).map((axis, i) => axis.map((value) => value * after.radii[i])));
  const rows = axesOfEllipse(before).map((axis, i) => axis.map((value) => value / before.radii[i]));
  return multiply(columns, rows);
}

/** The mark moved in the world. @param {Mark} mark @param {Vector} shift_world @returns {Mark} */
export function movedMark(mark, shift_world) {
  return { ...mark, point: add(mark.point, shift_world) };
}

/** All half-lengths times a factor. @param {Mark} mark @param {number} factor @returns {Mark} */
export function scaledMark(mark, factor) {
  return { ...mark, shape: scaled(mark.shape, factor * factor) };
}

/**
 * Level of a point: 1 on the rim of the region, growing with the distance from its centre.
 * @param {Pick<Mark, "point" | "shape">} mark @param {Vector} point_world @returns {number}
 */
export function levelOfWorld(mark, point_world) {
  const away = subtract(point_world, mark.point);
  const solved = multiplyVector(inverse(mark.shape), away);
  return Math.sqrt(dot(away, solved));
}
