/**
 * An ellipse in a plane: its shape matrix, its handles, and what a drag, a wheel or a key makes of it. Pure functions. The shape matrix W has the
 * squared half-lengths as eigenvalues: the ellipse is (p - c)' W^-1 (p - c) = 1. The covariance is W over the squared confidence radius.
 * @module
 */

import { add, norm, subtract } from "./linalg.js";

/** @import { Matrix, Vector } from "./linalg.js" */
/** @typedef {{centre: Vector, radii: [number, number], angle: number}} Ellipse angle of the first axis, radians */
/** @typedef {"centre" | "first" | "firstBack" | "second" | "secondBack" | "rim"} Handle */

/** @param {Ellipse} ellipse @returns {[Vector, Vector]} unit directions of the two axes */
export function axesOfEllipse(ellipse) {
  const [c, s] = [Math.cos(ellipse.angle), Math.sin(ellipse.angle)];
  return [
    [c, s],
    [-s, c],
  ];
}

/**
 * The ellipse of a shape matrix. Its first axis is the one nearer to `hint`, so that handles keep their places while one axis grows past the other; a
 * disc takes the hint itself.
 * @param {Vector} centre @param {Matrix} shape @param {number} [hint] angle; without it the first axis is the longer one @returns {Ellipse}
 */
export function ellipseFromShape(centre, shape, hint) {
  const [p, q, r] = [shape[0][0], shape[0][1], shape[1][1]];
  const half = Math.hypot((p - r) / 2, q);
  const middle = (p + r) / 2;
  const large = middle + half;
  // From the determinant: the difference would cancel for a long thin ellipse.
  const small = Math.max((p * r - q * q) / large, 0);
  const radii = [Math.sqrt(large), Math.sqrt(small)];
  if (half <= 1e-12 * middle) return { centre, radii: [radii[0], radii[1]], angle: hint ?? 0 };
  const angle = Math.atan2(2 * q, p - r) / 2;
  if (hint === undefined) return { centre, radii: [radii[0], radii[1]], angle };
  const quarter = Math.round((hint - angle) / (Math.PI / 2));
  const swapped = Math.abs(quarter) % 2 === 1;
  return { centre, radii: swapped ? [radii[1], radii[0]] : [radii[0], radii[1]], angle: angle + (quarter * Math.PI) / 2 };
}

/** Coordinates along the two axes, from the centre. @param {Ellipse} ellipse @param {Vector} point @returns {[number, number]} */
function pointToAxes(ellipse, point) {
  const [dx, dy] = subtract(point, ellipse.centre);
  const [[c, s]] = axesOfEllipse(ellipse);
  return [c * dx + s * dy, -s * dx + c * dy];
}

/** 1 on the rim, less inside. @param {Ellipse} ellipse @param {Vector} point @returns {number} */
export function levelOfPoint(ellipse, point) {
  const [x, y] = pointToAxes(ellipse, point);
  return Math.hypot(x / ellipse.radii[0], y / ellipse.radii[1]);
}

/**
 * Where the handles are. Those of a small ellipse stand off by `reach` so that each can be caught.
 * @param {Ellipse} ellipse @param {number} reach least distance from the centre, in the ellipse's units @returns {{name: Handle, point: Vector}[]}
 */
export function handlesOfEllipse(ellipse, reach) {
  const [first, second] = axesOfEllipse(ellipse);
  const [a, b] = ellipse.radii.map((radius) => Math.max(radius, reach));
  return [
    { name: "centre", point: ellipse.centre },
    { name: "first", point: add(ellipse.centre, first, a) },
    { name: "firstBack", point: add(ellipse.centre, first, -a) },
    { name: "second", point: add(ellipse.centre, second, b) },
    { name: "secondBack", point: add(ellipse.centre, second, -b) },
  ];
}

/**
 * What of an ellipse lies under a point. The rim of a small ellipse lies near its centre: there the nearer one counts, so that a drag at the rim
 * scales and does not move.
 * @param {Ellipse} ellipse @param {Vector} point @param {number} tolerance how near to a handle or, from outside, to the rim counts, in the ellipse's units @param {number} reach as for `handlesOfEllipse` @returns {Handle | null}
 */
export function handleUnderPoint(ellipse, point, tolerance, reach) {
  const near = handlesOfEllipse(ellipse, reach)
    .map(({ name, point: at }) => ({ name, distance: norm(subtract(point, at)) }))
    .sort((one, other) => one.distance - other.distance)[0];
  const level = levelOfPoint(ellipse, point);
  const fromCentre = norm(subtract(point, ellipse.centre));
  // The rim along the ray from the centre: near enough to the true one for catching it.
  const rim = level > 0 ? fromCentre / level : Infinity;
  if (near.distance <= tolerance) return near.name === "centre" && fromCentre > Math.max(rim / 2, tolerance / 4) ? "rim" : near.name;
  if (fromCentre - rim >= -tolerance / 2 && fromCentre - rim <= tolerance) return "rim";
  return null;
}

/**
 * The ellipse after a handle was dragged.
 * @param {Ellipse} start as it was when the drag began @param {Handle} handle @param {Vector} from where the drag began @param {Vector} to where it is now @param {{floor: number, reach: number}} limits smallest half-length; and as for `handlesOfEllipse` @returns {Ellipse}
 */
export function dragHandle(start, handle, from, to, limits) {
  if (handle === "centre") return { ...start, centre: add(start.centre, subtract(to, from)) };
  if (handle === "rim") {
    const before = levelOfPoint(start, from);
    return before > 0 ? scaledEllipse(start, levelOfPoint(start, to) / before, limits.floor) : start;
  }
  return dragAxisEnd(start, handle, from, to, limits);
}

/** @param {Ellipse} start @param {Handle} handle @param {Vector} from @param {Vector} to @param {{floor: number, reach: number}} limits @returns {Ellipse} */
function dragAxisEnd(start, handle, from, to, limits) {
  const which = handle === "first" || handle === "firstBack" ? 0 : 1;
  const quarterTurns = { first: 0, second: 1, firstBack: 2, secondBack: 3 }[/** @type {"first"} */ (handle)];
  const standOff = Math.max(start.radii[which], limits.reach) - start.radii[which];
  // Keep what lay between pointer and handle at the start: nothing jumps when the drag begins.
  const grip = subtract(from, /** @type {{point: Vector}} */ (handlesOfEllipse(start, limits.reach).find((h) => h.name === handle)).point);
  const arm = subtract(subtract(to, grip), start.centre);
  const length = norm(arm);
  const radius = Math.max(length - standOff, limits.floor);
  const angle = length > 0 ? Math.atan2(arm[1], arm[0]) - (quarterTurns * Math.PI) / 2 : start.angle;
  const radii = /** @type {[number, number]} */ (start.radii.map((old, i) => (i === which ? radius : old)));
  return { ...start, radii, angle: angle + 2 * Math.PI * Math.round((start.angle - angle) / (2 * Math.PI)) };
}

/** Both half-lengths times a factor. @param {Ellipse} ellipse @param {number} factor @param {number} floor @returns {Ellipse} */
export function scaledEllipse(ellipse, factor, floor) {
  const bounded = Math.max(factor, floor / Math.min(...ellipse.radii));
  return { ...ellipse, radii: [ellipse.radii[0] * bounded, ellipse.radii[1] * bounded] };
}

