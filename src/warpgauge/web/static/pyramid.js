/** The pyramid of an image: which level a view needs, and which of its tiles. Pure functions. @module */

import { multiplyVector, subtract } from "./linalg.js";
import { screenToPlane } from "./viewport.js";

/** @import { Plane } from "./plane.js" */
/** @import { ImageInfo } from "./types.js" */
/** @import { View } from "./viewport.js" */
/** @typedef {{axis: number, index: number, level: number, row: number, column: number}} TileId */

/**
 * Where the tiles of a level lie in a plane: position of index 0, step of one element (negative where flipped).
 * @param {ImageInfo} image @param {Plane} plane @param {number} level
 */
export function levelInPlane(image, plane, level) {
  const { size, spacing, origin } = image.levels[level];
  const start = multiplyVector(plane.fromWorld, subtract(origin, plane.frame.origin));
  const [u, v] = plane.order;
  return {
    start: [start[0], start[1]],
    step: [plane.sign[0] * spacing[u], plane.sign[1] * spacing[v]],
    count: [size[u], size[v]],
    depth: plane.d === 2 ? 0 : start[2],
    gap: plane.d === 2 ? 1 : spacing[plane.axis],
    slices: plane.d === 2 ? 1 : size[plane.axis],
  };
}

/**
 * The coarsest level whose pixels are no larger than a screen pixel.
 * @param {ImageInfo} image @param {Plane} plane @param {number} scale device pixels per unit @returns {number}
 */
export function levelForScale(image, plane, scale) {
  let best = 0;
  for (let level = 1; level < image.levels.length; level++) {
    const { step } = levelInPlane(image, plane, level);
    if (Math.max(Math.abs(step[0]), Math.abs(step[1])) * scale <= 1.2) best = level;
  }
  return best;
}

/**
 * The tiles of a level that a view shows, nearest to its middle first.
 * @param {ImageInfo} image @param {Plane} plane @param {View} view @param {number} level @param {number} depth @returns {TileId[]}
 */
export function visibleTiles(image, plane, view, level, depth) {
  const place = levelInPlane(image, plane, level);
  const index = Math.min(place.slices - 1, Math.max(0, Math.round((depth - place.depth) / place.gap)));
  const screen = [[0, 0], [view.width, 0], [0, view.height], [view.width, view.height]];
  const corners = screen.map((corner) => screenToPlane(view, corner));
  const range = [0, 1].map((k) => {
    const at = corners.map((corner) => (corner[k] - place.start[k]) / place.step[k] + 0.5);
    const first = Math.max(0, Math.floor(Math.min(...at) / image.tile));
    const last = Math.min(Math.ceil(place.count[k] / image.tile) - 1, Math.floor(Math.max(...at) / image.tile));
    return { first, last, middle: (Math.min(...at) + Math.max(...at)) / 2 / image.tile - 0.5 };
  });
  const tiles = [];
  for (let row = range[1].first; row <= range[1].last; row++) {
    for (let column = range[0].first; column <= range[0].last; column++) {
      const away = Math.hypot(row - range[1].middle, column - range[0].middle);
      tiles.push({ id: { axis: plane.axis, index, level, row, column }, away });
    }
  }
  return tiles.sort((one, other) => one.away - other.away).map(({ id }) => id);
}

/** @param {TileId} id @returns {string} */
export function keyOf(id) {
  return `${id.axis}/${id.index}/${id.level}/${id.row}/${id.column}`;
}
