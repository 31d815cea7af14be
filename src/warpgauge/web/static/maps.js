/** Maps as pictures: a colour for what is known, hatching for what is not, and a legend in words. @module */

import { SCALES, scaleColour } from "./colour.js";
import { canvasOf } from "./planepicture.js";
import { html } from "./vendor/preact-htm.js";
import { rounded, unitName } from "./words.js";

/** @typedef {"entropy" | "blended"} Kind */
/**
 * @typedef {object} MapPicture
 * @property {Kind} kind
 * @property {HTMLCanvasElement} colour
 * @property {HTMLCanvasElement} unknown opaque where nothing is known
 * @property {number[]} range values at the beginning, in the middle and at the end of the scale
 */

/** Entropies that differ by less are one shade, nats: 5 % of a standard deviation in the plane. */
const SAME = 0.1;

/**
 * For each element of a map its place on the colour scale, 0 to 1, and how far it is known, 1 to 0.
 * @param {Kind} kind @param {Float32Array} values @param {[number, number] | null} limits entropies between which knowledge ends @returns {{place: Float32Array, known: Float32Array, range: number[]}}
 */
export function readMap(kind, values, limits) {
  const count = values.length / (kind === "blended" ? 2 : 1);
  const place = new Float32Array(count);
  const known = new Float32Array(count).fill(1);
  if (kind === "blended") {
    for (let i = 0; i < count; i++) {
      place[i] = values[i * 2];
      known[i] = Number.isNaN(place[i]) ? 0 : values[i * 2 + 1];
    }
    return { place, known, range: [0, 0.5, 1] };
  }
  // By rank: most of an image is known about equally well, and a linear scale would show it in one colour.
  const sorted = values.filter((value) => !Number.isNaN(value)).sort();
  const at = (/** @type {number} */ share) => sorted[Math.round(share * (sorted.length - 1))] ?? 0;
  const flat = at(1) - at(0) < SAME;
  for (let i = 0; i < count; i++) {
    place[i] = Number.isNaN(values[i]) ? NaN : flat ? 0.5 : shareBelow(sorted, values[i]);
    if (Number.isNaN(values[i])) known[i] = 0;
    else if (limits && limits[1] > limits[0]) known[i] = Math.min(1, Math.max(0, (limits[1] - values[i]) / (limits[1] - limits[0])));
  }
  return { place, known, range: [at(0), at(0.5), at(1)] };
}

/**
 * Which share of sorted values lies below one of them, 0 for the smallest and 1 for the largest; ties lie in their middle.
 * @param {Float32Array} sorted @param {number} value
 */
function shareBelow(sorted, value) {
  const first = (/** @type {(one: number) => boolean} */ from) => {
    let [low, high] = [0, sorted.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (from(sorted[middle])) high = middle;
      else low = middle + 1;
    }
    return low;
  };
  const [below, notAbove] = [first((one) => one >= value), first((one) => one > value)];
  return below === 0 ? 0 : notAbove === sorted.length ? 1 : (below + notAbove - 1) / 2 / (sorted.length - 1);
}

/** @param {Kind} kind @param {Float32Array} values @param {Headers} headers @returns {MapPicture} */
export function mapPicture(kind, values, headers) {
  const [height, width] = [Number(headers.get("X-Height")), Number(headers.get("X-Width"))];
  const { place, known, range } = readMap(kind, values, JSON.parse(headers.get("X-Known-From-To") ?? "null"));
  const [colour, unknown] = [new ImageData(width, height), new ImageData(width, height)];
  const scale = kind === "blended" ? "error" : "uncertainty";
  for (let i = 0; i < place.length; i++) {
    const [r, g, b] = Number.isNaN(place[i]) ? [0, 0, 0] : scaleColour(scale, place[i]);
    // What is not known has no colour of good or bad: the entropy itself may be shown there, an error not.
    const alpha = scale === "error" ? 255 * known[i] : Number.isNaN(place[i]) ? 0 : 255;
    colour.data.set([r, g, b, alpha], 4 * i);
    unknown.data.set([0, 0, 0, 255 * hatchStrength(kind, known[i])], 4 * i);
  }
  return { kind, colour: canvasOf(colour), unknown: canvasOf(unknown), range };
}

/**
 * How strongly to hatch. An error that is half known is half hatched. The entropy has a shade of its own everywhere, so that hatching marks only
 * where less than half is known.
 * @param {Kind} kind @param {number} known 1 to 0 @returns {number}
 */
export function hatchStrength(kind, known) {
  return kind === "entropy" ? Math.max(0, 1 - 2 * known) : 1 - known;
}

/**
 * Standard deviation of an isotropic normal with this entropy: what people can picture.
 * @param {number} entropy nats @param {number} d @returns {number}
 */
export function deviationOfEntropy(entropy, d) {
  return Math.exp(entropy / d) / Math.sqrt(2 * Math.PI * Math.E);
}

/**
 * What the colours mean, in words.
 * @param {{map: MapPicture, transform: string | null, d: number, units: string, region: number}} of region: half-width at the project's level per standard deviation
 */
export function Legend({ map, transform, d, units, region }) {
  const unit = unitName(units);
  const known = (/** @type {number} */ value) => `${rounded(region * deviationOfEntropy(value, d))} ${unit}`;
  const error = map.kind === "blended";
  const ends = error ? ["0: agrees", "1: contradicts"] : [`sure: ± ${known(map.range[0])}`, `half: ± ${known(map.range[1])}`, `unsure: ± ${known(map.range[2])}`];
  return html`<div class="legend">
    <div>${error ? `Error of ${transform}, where it is known (0 to 1)` : `How well the match is known (±, ${unit})`}</div>
    <div class="bar">${SCALES[error ? "error" : "uncertainty"].map((colour) => html`<span style=${{ background: colour }}></span>`)}</div>
    <div class="ends">${ends.map((words) => html`<span>${words}</span>`)}</div>
    <div><span class="unknown"></span>not enough answers</div>
  </div>`;
}
