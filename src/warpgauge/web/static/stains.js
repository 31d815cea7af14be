/**
 * Seeing stains apart: colour deconvolution of red, green and blue samples, with published colours of the stains (Ruifrok
 * and Johnston 2001) or with those of the image itself (Macenko and others 2009). Pure functions.
 * @module
 */

import { dot, inverse, multiplyVector, norm, scaled, subtract } from "./linalg.js";

/** @import { Matrix, Vector } from "./linalg.js" */
/** @typedef {"colour" | "grey" | "haematoxylin" | "eosin" | "dab" | "first" | "second"} Channel first, second: stains of the image itself */

/** Optical density of each stain in red, green and blue, as published. */
const VECTORS = { haematoxylin: [0.65, 0.7, 0.29], eosin: [0.07, 0.99, 0.11], dab: [0.27, 0.57, 0.78] };
/** Density that is shown black. */
const DARKEST = 1.2;
/** Pixels of less density are background; the stains are the directions at these quantiles of the angle. */
const BACKGROUND = 0.15;
const OUTERMOST = 0.01;
const FEWEST = 500; // stained pixels that tell anything

/** Optical density of each 8-bit sample. */
const DENSITY = Float32Array.from({ length: 256 }, (_, sample) => -Math.log10((sample + 1) / 256));

/**
 * Weights on the optical densities of red, green and blue that give the amount of one stain.
 * @param {Exclude<Channel, "colour" | "grey">} stain
 * @param {Matrix | null} [own] colours of the first and the second stain of this image
 * @returns {number[]}
 */
export function stainWeights(stain, own = null) {
  if (stain === "first" || stain === "second") {
    const [a, b] = own ?? [VECTORS.haematoxylin, VECTORS.eosin].map(unit);
    const across = unit([a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]);
    return inverse([a, b, across]).map((row) => row[stain === "first" ? 0 : 1]);
  }
  const names = /** @type {const} */ (["haematoxylin", "eosin", "dab"]);
  return inverse(names.map((name) => unit(VECTORS[name]))).map((row) => row[names.indexOf(stain)]);
}

/** @param {Vector} v */
function unit(v) {
  return scaled([v], 1 / norm(v))[0];
}

/**
 * The colours of the two stains of an image: the outermost directions in the plane in which its densities lie.
 * @param {number[][]} pixels red, green, blue, 8 bits
 * @returns {Matrix | null} densities of length 1, the one with more red absorbed (haematoxylin) first; null where too
 * little is stained
 */
export function stainsOfImage(pixels) {
  const stained = pixels.map((pixel) => pixel.map((sample) => DENSITY[sample])).filter((densities) => norm(densities) >= BACKGROUND);
  if (stained.length < FEWEST) return null;
  const middle = [0, 1, 2].map((k) => stained.reduce((sum, densities) => sum + densities[k], 0) / stained.length);
  const spread = [0, 1, 2].map((i) => [0, 1, 2].map((j) => stained.reduce((sum, densities) => sum + (densities[i] - middle[i]) * (densities[j] - middle[j]), 0) / stained.length));
  const first = upwards(mainDirection(spread));
  const along = dot(first, multiplyVector(spread, first));
  const second = mainDirection(spread.map((row, i) => row.map((value, j) => value - along * first[i] * first[j])));
  const angles = stained.map((densities) => Math.atan2(dot(densities, second), dot(densities, first))).sort((a, b) => a - b);
  const ends = [OUTERMOST, 1 - OUTERMOST].map((share) => angles[Math.round(share * (angles.length - 1))]);
  const found = ends.map((angle) => upwards(unit(first.map((value, k) => value * Math.cos(angle) + second[k] * Math.sin(angle)))));
  // One colour alone: there is nothing to take apart.
  if (norm(subtract(found[0], found[1])) < 0.05) return null;
  return found[0][0] >= found[1][0] ? found : [found[1], found[0]];
}

/** @param {Vector} v */
function upwards(v) {
  return v.reduce((sum, value) => sum + value, 0) < 0 ? v.map((value) => -value) : v;
}

/**
 * Direction of the greatest spread, by power iteration.
 * @param {Matrix} a symmetric
 */
function mainDirection(a) {
  let v = unit(a.reduce((most, row) => (norm(row) > norm(most) ? row : most)));
  for (let step = 0; step < 200; step++) v = unit(multiplyVector(a, v));
  return v;
}

/**
 * How bright a channel shows a pixel, 0 to 255: a stain dark where there is much of it.
 * @param {Exclude<Channel, "colour">} channel
 * @param {Matrix | null} [own] colours of the stains of this image
 * @returns {(red: number, green: number, blue: number) => number}
 */
export function brightnessOf(channel, own = null) {
  if (channel === "grey") return (r, g, b) => Math.round(0.299 * r + 0.587 * g + 0.114 * b);
  const [x, y, z] = stainWeights(channel, own);
  return (r, g, b) => Math.min(255, Math.max(0, Math.round(255 * (1 - (x * DENSITY[r] + y * DENSITY[g] + z * DENSITY[b]) / DARKEST))));
}

/**
 * Show one channel of colour samples as brightness.
 * @param {Uint8Array} samples red, green, blue
 * @param {(red: number, green: number, blue: number) => number} brightness
 * @param {(brightness: number) => number} shown window and gamma
 * @param {Uint8ClampedArray} rgba filled
 */
export function showChannel(samples, brightness, shown, rgba) {
  const table = Uint8ClampedArray.from({ length: 256 }, (_, value) => shown(value));
  for (let from = 0, to = 0; to < rgba.length; from += 3, to += 4) {
    const light = table[brightness(samples[from], samples[from + 1], samples[from + 2])];
    rgba[to] = light;
    rgba[to + 1] = light;
    rgba[to + 2] = light;
    rgba[to + 3] = 255;
  }
}
