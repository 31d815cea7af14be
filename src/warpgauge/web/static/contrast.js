/**
 * How an image is shown: channel or stain, brightness, contrast and gamma, with the histogram of what is in sight; named
 * windows for CT.
 * @module
 */

import { initialColours, largestSample } from "./colour.js";
import { make } from "./dom.js";

/** @import { Stage } from "./stage.js" */
/** @import { Channel } from "./stains.js" */
/** @import { Colours, ImageInfo, Side } from "./types.js" */

/** Names, middle and width in Hounsfield units. @type {[string, number, number][]} */
export const CT_WINDOWS = [["lung", -600, 1500], ["soft tissue", 40, 400], ["bone", 400, 1800], ["brain", 40, 80], ["mediastinum", 50, 350]];
/** @type {[Channel, string][]} */
const CHANNELS = [["colour", "Colour"], ["grey", "Grey"], ["haematoxylin", "Haematoxylin"], ["eosin", "Eosin"], ["dab", "DAB"]];

/**
 * Whether the values of an image look like Hounsfield units: a volume that reaches from air to tissue.
 * @param {ImageInfo} image
 */
export function looksLikeCt(image) {
  if (image.size.length !== 3 || image.channels !== 1) return false;
  const [low, high] = image.window.map((sample) => sample * image.scale + image.offset);
  return low < -200 && high < 4000;
}

/**
 * @param {Stage} stage
 * @param {Side} side
 * @returns {HTMLElement}
 */
export function contrastPanel(stage, side) {
  const image = stage.images[side];
  const top = largestSample(image);
  const colour = image.channels >= 3;
  let channel = -1;
  const colours = () => stage.store.state.colours[side];
  const change = (/** @type {Partial<Colours>} */ part) => {
    stage.setColours(side, { ...colours(), ...part });
    read();
  };
  const slider = (/** @type {string} */ name, /** @type {number} */ low, /** @type {number} */ high) => make("input", { type: "range", min: String(low), max: String(high), step: String((high - low) / 1020), "aria-label": name, oninput: () => apply() });
  const [dark, bright, gamma] = [slider("Dark at", 0, top), slider("Bright at", 0, top), slider("Gamma", 0.3, 3)];
  dark.dataset.end = "dark";
  bright.dataset.end = "bright";
  gamma.dataset.end = "gamma";
  const invert = make("input", { type: "checkbox", onchange: () => change({ invert: invert.checked }) });
  const histogram = make("canvas", { class: "histogram", width: 256, height: 56, role: "img", "aria-label": "Histogram of what is in memory" });

  function read() {
    const { windows, invert: inverted, gamma: power } = colours();
    const { low, high } = windows[Math.max(channel, 0)];
    dark.value = String(low);
    bright.value = String(high);
    gamma.value = String(power);
    invert.checked = inverted;
    drawHistogram(histogram, stage.sources[side].histogram(Math.max(channel, 0)), low / top, high / top);
  }
  function apply() {
    const window = { low: Number(dark.value), high: Math.max(Number(bright.value), Number(dark.value) + top / 1020) };
    const windows = colours().windows.map((old, i) => (channel < 0 || i === channel ? window : old));
    change({ windows, gamma: Number(gamma.value) });
  }
  const tabs = colour ? ["All", "Red", "Green", "Blue"].map((name, i) =>
    make("button", { type: "button", "aria-pressed": String(i === 0), onclick: () => {
      channel = i - 1;
      tabs.forEach((tab, k) => tab.setAttribute("aria-pressed", String(k === i)));
      read();
    } }, name)) : [];
  const stains = make("select", { "aria-label": `Channel of the ${side} image`, "data-stain": side }, ...CHANNELS.map(([value, name]) => make("option", { value }, name)));
  stains.value = colours().channel;
  stains.addEventListener("change", () => change({ channel: /** @type {Channel} */ (stains.value) }));
  const named = CT_WINDOWS.map(([name, middle, width]) => make("button", { type: "button", onclick: () => {
    const window = { low: (middle - width / 2 - image.offset) / image.scale, high: (middle + width / 2 - image.offset) / image.scale };
    change({ windows: colours().windows.map(() => window) });
  } }, name));
  const automatic = make("button", { type: "button", "data-act": "auto", onclick: () => {
    const counts = stage.sources[side].histogram(Math.max(channel, 0));
    const [low, high] = [shareAt(counts, 0.005), shareAt(counts, 0.995)].map((part) => part * top);
    if (high > low) change({ windows: colours().windows.map(() => ({ low, high })) });
  } }, "Auto");
  const reset = make("button", { type: "button", onclick: () => {
    stains.value = "colour";
    change(initialColours(image));
  } }, "Reset");
  read();
  return make("div", { class: "popover", role: "group", "aria-label": `Contrast of the ${side} image` },
    colour && image.dtype === "uint8" ? make("label", {}, "Channel", stains) : null,
    tabs.length ? make("div", { class: "row" }, ...tabs) : null,
    looksLikeCt(image) ? make("div", { class: "row" }, ...named) : null,
    histogram,
    make("label", {}, "Dark at", dark), make("label", {}, "Bright at", bright), make("label", {}, "Gamma", gamma),
    make("div", { class: "row" }, make("label", {}, "Invert", invert), make("span", { class: "spring" }), automatic, reset));
}

/**
 * Place, 0 to 1, below which a share of the counts lies.
 * @param {number[]} counts
 * @param {number} share
 */
export function shareAt(counts, share) {
  const total = counts.reduce((sum, count) => sum + count, 0);
  let sum = 0;
  for (let i = 0; i < counts.length; i++) {
    sum += counts[i];
    if (sum > share * total) return i / (counts.length - 1);
  }
  return 1;
}

/**
 * @param {HTMLCanvasElement} canvas
 * @param {number[]} counts
 * @param {number} low
 * @param {number} high
 */
function drawHistogram(canvas, counts, low, high) {
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  const { width, height } = canvas;
  context.clearRect(0, 0, width, height);
  const most = Math.log1p(Math.max(1, ...counts));
  context.fillStyle = "#8c8c8c";
  counts.forEach((count, i) => {
    const tall = (Math.log1p(count) / most) * (height - 2);
    context.fillRect((i / counts.length) * width, height - tall, width / counts.length, tall);
  });
  context.fillStyle = "#e69f00";
  for (const at of [low, high]) context.fillRect(Math.min(width - 2, Math.max(0, at * width)), 0, 2, height);
}
