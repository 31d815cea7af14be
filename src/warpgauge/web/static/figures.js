/**
 * Figures of marks, images and raters, to be read.
 * @module
 */

import { rounded } from "./dom.js";

/** @import { Mark } from "./ellipsoid.js" */
/** @import { Matrix } from "./linalg.js" */
/** @typedef {import("./wire.js").CertificateAnswer} Certificate */

/**
 * Half-lengths of a mark's region, longest first.
 * @param {Mark} mark
 * @returns {number[]}
 */
export function axesOfMark(mark) {
  return eigenvalues(mark.shape).map((value) => Math.sqrt(Math.max(value, 0)));
}

/**
 * Half-lengths as they are read; of a disc or a ball the one that it has.
 * @param {number[]} axes
 * @returns {string} as in "41 × 20"
 */
export function sizeInWords(axes) {
  const words = axes.map((axis) => rounded(axis));
  return words.every((word) => word === words[0]) ? words[0] : words.join(" × ");
}

/**
 * Eigenvalues of a symmetric 2 x 2 or 3 x 3 matrix, largest first.
 * @param {Matrix} a
 * @returns {number[]}
 */
export function eigenvalues(a) {
  if (a.length === 2) {
    const middle = (a[0][0] + a[1][1]) / 2;
    const half = Math.hypot((a[0][0] - a[1][1]) / 2, a[0][1]);
    return [middle + half, middle - half];
  }
  // The three real roots of the characteristic polynomial, by the angle of its depressed form.
  const mean = (a[0][0] + a[1][1] + a[2][2]) / 3;
  const off = a[0][1] ** 2 + a[0][2] ** 2 + a[1][2] ** 2;
  const spread = Math.sqrt(((a[0][0] - mean) ** 2 + (a[1][1] - mean) ** 2 + (a[2][2] - mean) ** 2 + 2 * off) / 6);
  if (spread <= 1e-12 * Math.abs(mean)) return [mean, mean, mean];
  const b = a.map((row, i) => row.map((value, j) => (value - (i === j ? mean : 0)) / spread));
  const det =
    b[0][0] * (b[1][1] * b[2][2] - b[1][2] * b[2][1]) -
    b[0][1] * (b[1][0] * b[2][2] - b[1][2] * b[2][0]) +
    b[0][2] * (b[1][0] * b[2][1] - b[1][1] * b[2][0]);
  const angle = Math.acos(Math.min(1, Math.max(-1, det / 2))) / 3;
  const first = mean + 2 * spread * Math.cos(angle);
  const last = mean + 2 * spread * Math.cos(angle + (2 * Math.PI) / 3);
  return [first, 3 * mean - first - last, last];
}

/**
 * How exact a rater is, by questions with known answers and by repeats.
 * @param {Certificate | null} found
 * @param {string} unit
 * @returns {string[]}
 */
export function certificateWords(found, unit) {
  if (!found) return [];
  const range = (/** @type {number | null} */ low, /** @type {number | null} */ high) => (low === null || high === null ? "" : ` (${rounded(low)} to ${rounded(high)})`);
  const words = [];
  if (found.controls > 0) words.push(`${found.inside} of ${found.controls} known matches in the drawn region`);
  if (found.bias && found.bias_low && found.bias_high) {
    const axes = found.bias.map((value, k) => `${"xyz"[k]} ${rounded(value)}${range(found.bias_low?.[k] ?? null, found.bias_high?.[k] ?? null)}`);
    words.push(`bias ${axes.join(", ")} ${unit}`);
  }
  if (found.sd !== null) words.push(`SD ${rounded(found.sd)}${range(found.sd_low, found.sd_high)} ${unit}`);
  if (found.repeat_sd !== null) words.push(`repeatability SD ${rounded(found.repeat_sd)}${range(found.repeat_low, found.repeat_high)} ${unit}`);
  return words;
}

/**
 * Longest side of an image, world units.
 * @param {{size: number[], spacing: number[]}} image
 */
export function extentOf({ size, spacing }) {
  return Math.max(...size.map((n, k) => n * spacing[k]));
}
