/** From raw samples to colours: windows, channels, stains, and the scales of the maps. Pure functions. @module */

import { inverse, norm, scaled } from "./linalg.js";

/** @import { Channel, Colours, ImageInfo, Shown } from "./types.js" */

/** Names and colours, in the order in which channels get them. @type {[string, string][]} */
export const HUES = [["blue", "#4d6dff"], ["green", "#1fd65f"], ["red", "#ff4545"], ["yellow", "#ffe11f"], ["magenta", "#ff4dff"], ["cyan", "#1fe3ff"], ["orange", "#ff9a1f"], ["white", "#ffffff"]];
/** Optical density of each stain in red, green and blue, as published (Ruifrok and Johnston 2001). */
const STAINS = { haematoxylin: [0.65, 0.7, 0.29], eosin: [0.07, 0.99, 0.11], dab: [0.27, 0.57, 0.78] };
/** Density that is shown black. */
const DARKEST = 1.2;
/** Optical density of each 8-bit sample. */
const DENSITY = Float32Array.from({ length: 256 }, (_, sample) => -Math.log10((sample + 1) / 256));

/** @param {ImageInfo} image @returns {Colours} of channels that are not grey or colours, the first three */
export function initialColours(image) {
  const [low, high] = image.window;
  const windows = image.apart.length ? image.apart.map(({ window }) => ({ low: window[0], high: window[1] })) : Array.from({ length: image.channels }, () => ({ low, high }));
  return { windows, invert: false, channel: "colour", shown: image.apart.slice(0, 3).map((_, channel) => ({ channel, colour: HUES[channel][1] })) };
}

/** The numbers of the channels that are shown, as the server takes them; "" of an image in grey or colours. @param {Colours} colours */
export function chosenChannels({ shown }) {
  return shown.map(({ channel }) => channel).join(",");
}

/** @param {ImageInfo} image */
export function largestSample(image) {
  return image.dtype === "uint8" ? 255 : 65535;
}

/**
 * For each channel that is shown a table from sample to brightness.
 * @param {ImageInfo} image @param {Colours} colours @returns {Uint8ClampedArray[]}
 */
export function brightnessTables(image, colours) {
  const count = largestSample(image) + 1;
  const windows = colours.shown.length ? colours.shown.map(({ channel }) => colours.windows[channel]) : colours.windows;
  return windows.map(({ low, high }) => {
    const table = new Uint8ClampedArray(count);
    const gain = 255 / Math.max(high - low, 1e-9);
    for (let sample = 0; sample < count; sample++) {
      const value = Math.min(255, Math.max(0, (sample - low) * gain));
      table[sample] = colours.invert ? 255 - value : value;
    }
    return table;
  });
}

/**
 * Colour raw samples (rows, columns, channels): channels in hues, a stain or grey alone, or red, green and blue.
 * @param {Uint8Array | Uint16Array} samples @param {number} channels @param {Colours} colours @param {Uint8ClampedArray[]} tables @param {Uint8ClampedArray} rgba filled
 */
export function showSamples(samples, channels, colours, tables, rgba) {
  const { channel, shown } = colours;
  if (shown.length) mixSamples(samples, shown, tables, rgba);
  else if (channel !== "colour" && channels === 3 && samples instanceof Uint8Array) showChannel(samples, brightnessOf(channel), tables[0], rgba);
  else colourSamples(samples, channels, tables, rgba);
}

/** @param {Uint8Array | Uint16Array} samples @param {number} channels @param {Uint8ClampedArray[]} tables @param {Uint8ClampedArray} rgba filled */
function colourSamples(samples, channels, tables, rgba) {
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

/**
 * The light of several channels, added.
 * @param {Uint8Array | Uint16Array} samples those that are shown, one after the other for each pixel @param {Shown[]} shown @param {Uint8ClampedArray[]} tables one for each @param {Uint8ClampedArray} rgba filled
 */
function mixSamples(samples, shown, tables, rgba) {
  const weights = shown.map(({ colour }) => [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16) / 255));
  for (let from = 0, to = 0; to < rgba.length; to += 4) {
    let [red, green, blue] = [0, 0, 0];
    for (let k = 0; k < shown.length; k++, from++) {
      const light = tables[k][samples[from]];
      red += light * weights[k][0];
      green += light * weights[k][1];
      blue += light * weights[k][2];
    }
    rgba[to] = red;
    rgba[to + 1] = green;
    rgba[to + 2] = blue;
    rgba[to + 3] = 255;
  }
}

/**
 * Weights on the optical densities of red, green and blue that give the amount of one stain.
 * @param {Exclude<Channel, "colour" | "grey">} stain @returns {number[]}
 */
function stainWeights(stain) {
  const names = /** @type {const} */ (["haematoxylin", "eosin", "dab"]);
  const unit = names.map((name) => scaled([STAINS[name]], 1 / norm(STAINS[name]))[0]);
  return inverse(unit).map((row) => row[names.indexOf(stain)]);
}

/**
 * How bright a channel shows a pixel, 0 to 255: a stain dark where there is much of it.
 * @param {Exclude<Channel, "colour">} channel @returns {(red: number, green: number, blue: number) => number}
 */
function brightnessOf(channel) {
  if (channel === "grey") return (r, g, b) => Math.round(0.299 * r + 0.587 * g + 0.114 * b);
  const [x, y, z] = stainWeights(channel);
  return (r, g, b) => Math.min(255, Math.max(0, Math.round(255 * (1 - (x * DENSITY[r] + y * DENSITY[g] + z * DENSITY[b]) / DARKEST))));
}

/** @param {Uint8Array} samples red, green, blue @param {(red: number, green: number, blue: number) => number} brightness @param {Uint8ClampedArray} table of the window @param {Uint8ClampedArray} rgba filled */
function showChannel(samples, brightness, table, rgba) {
  for (let from = 0, to = 0; to < rgba.length; from += 3, to += 4) {
    const light = table[brightness(samples[from], samples[from + 1], samples[from + 2])];
    rgba.fill(light, to, to + 3);
    rgba[to + 3] = 255;
  }
}

/** Anchors of perceptually even scales, dark to bright: of uncertainty (blue to yellow) and of error (blue to red). */
export const SCALES = {
  uncertainty: ["#00224e", "#35456c", "#666970", "#948e77", "#c8b866", "#fee838"],
  error: ["#2c7bb6", "#7fb6d6", "#e8e8e0", "#f3b27a", "#d7301f"],
};

/** @param {keyof typeof SCALES} name @param {number} value 0 to 1 @returns {number[]} red, green, blue */
export function scaleColour(name, value) {
  const anchors = SCALES[name];
  const at = Math.min(1, Math.max(0, value)) * (anchors.length - 1);
  const i = Math.min(anchors.length - 2, Math.floor(at));
  const part = (/** @type {string} */ hex, /** @type {number} */ k) => parseInt(hex.slice(1 + 2 * k, 3 + 2 * k), 16);
  return [0, 1, 2].map((k) => Math.round(part(anchors[i], k) * (1 - at + i) + part(anchors[i + 1], k) * (at - i)));
}
