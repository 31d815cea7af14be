/**
 * From raw samples to colours: window and level in the browser, and the scales of the maps.
 * @module
 */

import { firstShown, mixSamples } from "./channels.js";
import { brightnessOf, showChannel } from "./stains.js";

/** @import { Colours, ImageInfo } from "./types.js" */

/**
 * @param {ImageInfo} image
 * @returns {Colours}
 */
export function initialColours(image) {
  const [low, high] = image.window;
  const windows = image.apart.length ? image.apart.map(({ window }) => ({ low: window[0], high: window[1] })) : Array.from({ length: image.channels }, () => ({ low, high }));
  return { windows, invert: false, gamma: 1, channel: "colour", stains: null, shown: firstShown(image) };
}

/** @param {ImageInfo} image */
export function largestSample(image) {
  return image.dtype === "uint8" ? 255 : 65535;
}

/**
 * For each channel that is shown a table from sample to brightness.
 * @param {ImageInfo} image
 * @param {Colours} colours
 * @returns {Uint8ClampedArray[]}
 */
export function brightnessTables(image, colours) {
  const count = largestSample(image) + 1;
  const windows = colours.shown.length ? colours.shown.map(({ channel }) => colours.windows[channel]) : colours.windows;
  return windows.map(({ low, high }) => {
    const table = new Uint8ClampedArray(count);
    const gain = 255 / Math.max(high - low, 1e-9);
    for (let sample = 0; sample < count; sample++) {
      const part = Math.min(255, Math.max(0, (sample - low) * gain)) / 255;
      const value = 255 * (colours.gamma === 1 ? part : part ** (1 / colours.gamma));
      table[sample] = colours.invert ? 255 - value : value;
    }
    return table;
  });
}

/**
 * Colour raw samples as a way of showing says: a stain or grey alone, or all channels.
 * @param {Uint8Array | Uint16Array} samples
 * @param {number} channels
 * @param {Colours} colours
 * @param {Uint8ClampedArray[]} tables
 * @param {Uint8ClampedArray} rgba filled
 */
export function showSamples(samples, channels, colours, tables, rgba) {
  const { channel, stains, shown } = colours;
  if (shown.length) mixSamples(samples, shown, tables, rgba);
  else if (channel !== "colour" && channels === 3 && samples instanceof Uint8Array) showChannel(samples, brightnessOf(channel, stains), (value) => tables[0][value], rgba);
  else colourSamples(samples, channels, tables, rgba);
}

/**
 * Colour raw samples.
 * @param {Uint8Array | Uint16Array} samples rows, columns, channels
 * @param {number} channels
 * @param {Uint8ClampedArray[]} tables
 * @param {Uint8ClampedArray} rgba filled
 */
export function colourSamples(samples, channels, tables, rgba) {
  const count = rgba.length / 4;
  const [red, green, blue] = channels >= 3 ? tables : [tables[0], tables[0], tables[0]];
  const [g, b] = channels >= 3 ? [1, 2] : [0, 0];
  for (let i = 0, from = 0, to = 0; i < count; i++, from += channels, to += 4) {
    rgba[to] = red[samples[from]];
    rgba[to + 1] = green[samples[from + g]];
    rgba[to + 2] = blue[samples[from + b]];
    rgba[to + 3] = 255;
  }
}

/** Anchors of perceptually even scales, dark to bright: of uncertainty (blue to yellow) and of error (blue to red). */
const SCALES = {
  uncertainty: ["#00224e", "#35456c", "#666970", "#948e77", "#c8b866", "#fee838"],
  error: ["#2c7bb6", "#7fb6d6", "#e8e8e0", "#f3b27a", "#d7301f"],
};

/**
 * @param {keyof typeof SCALES} name
 * @returns {string[]} anchors, for a legend
 */
export function scaleAnchors(name) {
  return SCALES[name];
}

/**
 * @param {keyof typeof SCALES} name
 * @param {number} value 0 to 1
 * @returns {[number, number, number]}
 */
export function scaleColour(name, value) {
  const anchors = SCALES[name];
  const at = Math.min(1, Math.max(0, value)) * (anchors.length - 1);
  const i = Math.min(anchors.length - 2, Math.floor(at));
  const part = (/** @type {string} */ hex, /** @type {number} */ k) => parseInt(hex.slice(1 + 2 * k, 3 + 2 * k), 16);
  const mixed = [0, 1, 2].map((k) => Math.round(part(anchors[i], k) * (1 - at + i) + part(anchors[i + 1], k) * (at - i)));
  return [mixed[0], mixed[1], mixed[2]];
}
