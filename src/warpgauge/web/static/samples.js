/**
 * What the tiles in memory say: the value under the pointer, and pixels for histograms.
 * @module
 */

import { levelInPlane } from "./pyramid.js";

/** @import { Vector } from "./linalg.js" */
/** @import { Plane } from "./plane.js" */
/** @import { TileSource } from "./tiles.js" */

/**
 * The finest samples in memory at a point, one per channel; null where there are none.
 * @param {TileSource} source
 * @param {Plane} plane
 * @param {Vector} point_plane
 * @param {number} depth
 * @returns {{samples: number[], exact: boolean} | null}
 */
export function samplesUnder(source, plane, point_plane, depth) {
  for (let level = 0; level < source.image.levels.length; level++) {
    const place = levelInPlane(source.image, plane, level);
    const [x, y] = [0, 1].map((k) => Math.round((point_plane[k] - place.start[k]) / place.step[k]));
    const index = Math.min(place.slices - 1, Math.max(0, Math.round((depth - place.depth) / place.gap)));
    const samples = source.samples(plane.axis, index, x, y, level);
    if (samples) return { samples: samples.values, exact: level === 0 && !samples.rough };
  }
  return null;
}

/**
 * One pixel in 41 of the tiles that were used last.
 * @param {TileSource} source
 * @returns {number[][]} samples of each, one per channel
 */
export function somePixels({ tiles, chosen }) {
  const found = [];
  for (const { samples, channels } of [...tiles.values()].filter((tile) => tile.chosen === chosen).slice(-12)) {
    for (let i = 0; i + channels <= samples.length; i += 41 * channels) found.push(Array.from(samples.subarray(i, i + channels)));
  }
  return found;
}

/**
 * Brightness of an element of level 0 (channels averaged), or null where its tile is not in memory.
 * @param {TileSource} source
 * @param {number} axis
 * @param {number} index
 * @param {number} x column
 * @param {number} y row
 * @returns {number | null}
 */
export function brightnessAt(source, axis, index, x, y) {
  const found = source.samples(axis, index, x, y);
  return found && found.values.reduce((sum, value) => sum + value, 0) / found.values.length;
}
