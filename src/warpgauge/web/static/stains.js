/**
 * Seeing stains apart: colour deconvolution of red, green and blue samples (Ruifrok and Johnston 2001). Pure functions.
 * @module
 */

import { inverse } from "./linalg.js";

/** @typedef {"colour" | "grey" | "haematoxylin" | "eosin" | "dab"} Channel */

/** Optical density of each stain in red, green and blue, as published. */
const VECTORS = { haematoxylin: [0.65, 0.7, 0.29], eosin: [0.07, 0.99, 0.11], dab: [0.27, 0.57, 0.78] };
/** Density that is shown black. */
const DARKEST = 1.2;

/**
 * Weights on the optical densities of red, green and blue that give the amount of one stain.
 * @param {"haematoxylin" | "eosin" | "dab"} stain
 * @returns {number[]}
 */
export function stainWeights(stain) {
  const unit = (/** @type {number[]} */ v) => v.map((value) => value / Math.hypot(...v));
  const names = /** @type {const} */ (["haematoxylin", "eosin", "dab"]);
  const apart = inverse(names.map((name) => unit(VECTORS[name])));
  return apart.map((row) => row[names.indexOf(stain)]);
}

/** Optical density of each 8-bit sample. */
const DENSITY = Float32Array.from({ length: 256 }, (_, sample) => -Math.log10((sample + 1) / 256));

/**
 * Show one channel of colour samples as brightness: a stain dark where there is much of it.
 * @param {Uint8Array} samples red, green, blue
 * @param {Exclude<Channel, "colour">} channel
 * @param {(brightness: number) => number} shown window and gamma
 * @param {Uint8ClampedArray} rgba filled
 */
export function showChannel(samples, channel, shown, rgba) {
  const weights = channel === "grey" ? null : stainWeights(channel);
  const table = Uint8ClampedArray.from({ length: 256 }, (_, value) => shown(value));
  for (let from = 0, to = 0; to < rgba.length; from += 3, to += 4) {
    const [r, g, b] = [samples[from], samples[from + 1], samples[from + 2]];
    const value = weights
      ? 255 * (1 - (weights[0] * DENSITY[r] + weights[1] * DENSITY[g] + weights[2] * DENSITY[b]) / DARKEST)
      : 0.299 * r + 0.587 * g + 0.114 * b;
    const light = table[Math.min(255, Math.max(0, Math.round(value)))];
    rgba[to] = light;
    rgba[to + 1] = light;
    rgba[to + 2] = light;
    rgba[to + 3] = 255;
  }
}
