/**
 * Maps as pictures: a colour for what is known, hatching for what is not, and a legend in words.
 * @module
 */

import { scaleAnchors, scaleColour } from "./colour.js";
import { make, number } from "./dom.js";

/** @import { View } from "./viewport.js" */
/** @typedef {"entropy" | "sd" | "error" | "blended"} Kind */
/**
 * @typedef {object} MapPicture
 * @property {Kind} kind
 * @property {HTMLCanvasElement} colour
 * @property {HTMLCanvasElement} unknown opaque where nothing is known
 * @property {[number, number]} range values at the ends of the scale
 */

/**
 * For each element of a map its place on the colour scale, 0 to 1, and how far it is known, 1 to 0.
 * @param {Kind} kind
 * @param {Float32Array} values
 * @param {[number, number] | null} limits entropies between which knowledge ends
 * @returns {{place: Float32Array, known: Float32Array, range: [number, number]}}
 */
export function readMap(kind, values, limits) {
  const channels = kind === "blended" ? 2 : 1;
  const count = values.length / channels;
  const place = new Float32Array(count);
  const known = new Float32Array(count).fill(1);
  if (kind === "error" || kind === "blended") {
    for (let i = 0; i < count; i++) {
      place[i] = values[i * channels];
      known[i] = Number.isNaN(place[i]) ? 0 : kind === "blended" ? values[i * 2 + 1] : 1;
    }
    return { place, known, range: [0, 1] };
  }
  let [low, high] = [Infinity, -Infinity];
  for (const value of values) {
    if (Number.isNaN(value)) continue;
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  const top = limits ? Math.max(Math.min(high, limits[1]), low + 1e-9) : Math.max(high, low + 1e-9);
  for (let i = 0; i < count; i++) {
    place[i] = (values[i] - low) / (top - low);
    if (Number.isNaN(values[i])) known[i] = 0;
    else if (limits && limits[1] > limits[0]) known[i] = Math.min(1, Math.max(0, (limits[1] - values[i]) / (limits[1] - limits[0])));
  }
  return { place, known, range: [low, top] };
}

/**
 * @param {Kind} kind
 * @param {Float32Array} values
 * @param {Headers} headers
 * @returns {MapPicture}
 */
export function mapPicture(kind, values, headers) {
  const [height, width] = [Number(headers.get("X-Height")), Number(headers.get("X-Width"))];
  const { place, known, range } = readMap(kind, values, JSON.parse(headers.get("X-Known-From-To") ?? "null"));
  const [colour, unknown] = [new ImageData(width, height), new ImageData(width, height)];
  const scale = kind === "error" || kind === "blended" ? "error" : "uncertainty";
  for (let i = 0; i < place.length; i++) {
    const [r, g, b] = Number.isNaN(place[i]) ? [0, 0, 0] : scaleColour(scale, place[i]);
    // What is not known has no colour of good or bad: the entropy itself may be shown there, an error not.
    const alpha = scale === "error" ? 255 * known[i] : Number.isNaN(place[i]) ? 0 : 255;
    colour.data.set([r, g, b, alpha], 4 * i);
    unknown.data.set([0, 0, 0, 255 * (1 - known[i])], 4 * i);
  }
  return { kind, colour: canvas(colour), unknown: canvas(unknown), range };
}

/** @param {ImageData} pixels */
function canvas(pixels) {
  const element = document.createElement("canvas");
  element.width = pixels.width;
  element.height = pixels.height;
  /** @type {CanvasRenderingContext2D} */ (element.getContext("2d")).putImageData(pixels, 0, 0);
  return element;
}

/** @type {HTMLCanvasElement | null} */
let sheet = null;

/**
 * Hatch where a mask is opaque.
 * @param {CanvasRenderingContext2D} context
 * @param {(target: CanvasRenderingContext2D) => void} mask draws it
 * @param {View} view
 */
export function blendMasks(context, mask, view) {
  const ratio = context.getTransform().a || 1;
  sheet ??= document.createElement("canvas");
  sheet.width = Math.round(view.width * ratio);
  sheet.height = Math.round(view.height * ratio);
  const target = /** @type {CanvasRenderingContext2D} */ (sheet.getContext("2d"));
  target.setTransform(ratio, 0, 0, ratio, 0, 0);
  target.beginPath();
  for (let x = -view.height; x < view.width; x += 12) {
    target.moveTo(x, view.height);
    target.lineTo(x + view.height, 0);
  }
  for (const [style, width] of /** @type {const} */ ([["rgba(0, 0, 0, 0.4)", 2.6], ["#d8d8d8", 1.2]])) {
    target.strokeStyle = style;
    target.lineWidth = width;
    target.stroke();
  }
  target.globalCompositeOperation = "destination-in";
  mask(target);
  target.globalCompositeOperation = "source-over";
  context.drawImage(sheet, 0, 0, view.width, view.height);
}

/**
 * What the colours mean, in words.
 * @param {MapPicture} map
 * @param {string | null} transform
 * @returns {HTMLElement}
 */
export function mapLegend(map, transform) {
  const error = map.kind === "error" || map.kind === "blended";
  const title = error ? `${map.kind === "error" ? "Error" : "Error, where it is known"}: ${transform}` : "Uncertainty of the model (entropy, nats)";
  const ends = error ? ["agrees", "contradicts"] : [`sure ${number(map.range[0])}`, `unsure ${number(map.range[1])}`];
  const bar = make("div", { class: "bar" });
  for (const colour of scaleAnchors(error ? "error" : "uncertainty")) {
    const part = make("span");
    part.style.background = colour;
    bar.append(part);
  }
  const hatch = map.kind === "error" ? "outside the transform" : "not enough annotations";
  return make("div", { class: "legend" }, make("div", {}, title), bar,
    make("div", { class: "ends" }, make("span", {}, ends[0]), make("span", {}, ends[1])),
    make("div", {}, make("span", { class: "unknown" }), hatch));
}
