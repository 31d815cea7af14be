/**
 * How an image is shown: channel or stain, brightness, contrast and gamma, with the histogram of what is in sight; named
 * windows for CT.
 * @module
 */

import { channelList } from "./channels.js";
import { initialColours, largestSample } from "./colour.js";
import { make, number } from "./dom.js";
import { say } from "./message.js";
import { somePixels } from "./samples.js";
import { brightnessOf, stainsOfImage } from "./stains.js";

/** @import { Stage } from "./stage.js" */
/** @import { Channel } from "./stains.js" */
/** @import { Colours, ImageInfo, Side } from "./types.js" */

/** Names, middle and width in Hounsfield units. @type {[string, number, number][]} */
export const CT_WINDOWS = [["lung", -600, 1500], ["soft tissue", 40, 400], ["bone", 400, 1800], ["brain", 40, 80], ["mediastinum", 50, 350]];
/** @type {[Channel, string][]} */
const CHANNELS = [["colour", "Colour"], ["grey", "Grey"], ["haematoxylin", "Haematoxylin"], ["eosin", "Eosin"], ["dab", "DAB"], ["first", "Stain 1 of this image"], ["second", "Stain 2 of this image"]];

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
  const colour = image.channels === 3;
  const apart = image.apart.length > 0;
  const colours = () => stage.store.state.colours[side];
  // Which one the sliders change: a channel, or -1 for all colours.
  let channel = apart ? colours().shown[0].channel : -1;
  const change = (/** @type {Partial<Colours>} */ part) => stage.setColours(side, { ...colours(), ...part });
  // An image often uses a small part of 16 bits: sliders and histogram span that part and every window that was shown.
  let range = rangeOf(somePixels(stage.sources[side]), top, [...colours().windows, ...(looksLikeCt(image) ? CT_WINDOWS.map((one) => windowOf(image, one)) : [])]);
  const slider = (/** @type {string} */ name) => make("input", { type: "range", min: "0.3", max: "3", step: "any", "aria-label": name, oninput: () => apply() });
  const [dark, bright, gamma] = ["Dark at", "Bright at", "Gamma"].map(slider);
  dark.dataset.end = "dark";
  bright.dataset.end = "bright";
  gamma.dataset.end = "gamma";
  const invert = make("input", { type: "checkbox", onchange: () => change({ invert: invert.checked }) });
  const histogram = make("canvas", { class: "histogram", width: 256, height: 56, role: "img", "aria-label": "Histogram of what is in memory" });

  const told = [0, 1, 2].map(() => make("output", { class: "figure quiet" }));
  const alone = () => colours().channel !== "colour";
  const counted = () => histogramOf(somePixels(stage.sources[side]), range, apart ? colours().shown.findIndex((one) => one.channel === channel) : channel, colours());
  let empty = false;
  function read() {
    const { windows, invert: inverted, gamma: power } = colours();
    const { low, high } = windows[Math.max(channel, 0)];
    range = [Math.min(range[0], low), Math.max(range[1], high)];
    for (const end of [dark, bright]) [end.min, end.max] = range.map(String);
    dark.value = String(low);
    bright.value = String(high);
    gamma.value = String(power);
    invert.checked = inverted;
    // The numbers are those of the image (Hounsfield units of CT); of a stain they say how bright it is shown.
    [low, high].forEach((sample, k) => (told[k].textContent = number(alone() ? sample : sample * image.scale + image.offset)));
    told[2].textContent = number(power);
    stains.value = colours().channel;
    tabs.forEach((tab) => (tab.hidden = alone()));
    list?.read(channel);
    const counts = counted();
    empty = counts.every((count) => count === 0);
    drawHistogram(histogram, counts, (low - range[0]) / (range[1] - range[0]), (high - range[0]) / (range[1] - range[0]));
  }
  function apply() {
    const window = { low: Number(dark.value), high: Math.max(Number(bright.value), Number(dark.value) + (range[1] - range[0]) / 1020) };
    const windows = colours().windows.map((old, i) => (channel < 0 || alone() || i === channel ? window : old));
    change({ windows, gamma: Number(gamma.value) });
  }
  const tabs = colour ? ["All", "Red", "Green", "Blue"].map((name, i) =>
    make("button", { type: "button", "aria-pressed": String(i === 0), onclick: () => {
      channel = i - 1;
      tabs.forEach((tab, k) => tab.setAttribute("aria-pressed", String(k === i)));
      read();
    } }, name)) : [];
  const list = apart ? channelList(image, () => colours().shown, (shown) => change({ shown }), (picked) => {
    channel = picked;
    read();
  }) : null;
  const stains = make("select", { "aria-label": `Channel of the ${side} image`, "data-stain": side }, ...CHANNELS.map(([value, name]) => make("option", { value }, name)));
  stains.addEventListener("change", () => {
    const chosen = /** @type {Channel} */ (stains.value);
    const own = chosen === "first" || chosen === "second" ? (colours().stains ?? stainsOfImage(somePixels(stage.sources[side]))) : colours().stains;
    if (own || (chosen !== "first" && chosen !== "second")) change({ channel: chosen, stains: own });
    else {
      say(stage.store, "Too little here is stained to tell the colours of the stains.", "warning");
      read();
    }
  });
  const named = CT_WINDOWS.map((one) => make("button", { type: "button", onclick: () => change({ windows: colours().windows.map(() => windowOf(image, one)) }) }, one[0]));
  const automatic = make("button", { type: "button", "data-act": "auto", onclick: () => {
    const counts = counted();
    const [low, high] = [shareAt(counts, 0.005), shareAt(counts, 0.995)].map((part) => range[0] + part * (range[1] - range[0]));
    if (high > low) change({ windows: colours().windows.map((old, i) => (channel < 0 || alone() || i === channel ? { low, high } : old)) });
  } }, "Auto");
  const reset = make("button", { type: "button", onclick: () => {
    change(initialColours(image));
  } }, "Reset");
  read();
  const panel = make("div", { class: "popover", role: "group", "aria-label": `Contrast of the ${side} image` },
    colour && image.dtype === "uint8" ? make("label", {}, "Channel", stains) : null,
    list?.list ?? null,
    tabs.length ? make("div", { class: "row" }, ...tabs) : null,
    looksLikeCt(image) ? make("div", { class: "row" }, ...named) : null,
    histogram,
    ...[dark, bright, gamma].map((slider, k) => make("label", { class: "told" }, ["Dark at", "Bright at", "Gamma"][k], slider, told[k])),
    make("div", { class: "row" }, make("label", {}, "Invert", invert), make("span", { class: "spring" }), automatic, reset));
  // A drag with Ctrl held changes them too.
  const stop = stage.store.watch(["colours"], () => (panel.isConnected ? read() : stop()));
  // A channel that was just chosen has no samples yet.
  const later = { draw: () => (panel.isConnected ? empty && read() : stage.extras.delete(later)) };
  if (apart) queueMicrotask(() => stage.extras.add(later));
  return panel;
}

/**
 * A named window as samples.
 * @param {ImageInfo} image
 * @param {[string, number, number]} named
 */
function windowOf({ offset, scale }, [, middle, width]) {
  return { low: (middle - width / 2 - offset) / scale, high: (middle + width / 2 - offset) / scale };
}

/**
 * Range of samples that the sliders span: all 8 bits, or of 16 bits what occurs and the ends of windows.
 * @param {number[][]} pixels
 * @param {number} top largest sample
 * @param {{low: number, high: number}[]} windows
 * @returns {[number, number]}
 */
export function rangeOf(pixels, top, windows) {
  if (top < 256) return [0, top];
  let [low, high] = [Math.min(...windows.map((one) => one.low)), Math.max(...windows.map((one) => one.high))];
  for (const pixel of pixels) for (const sample of pixel) [low, high] = [Math.min(low, sample), Math.max(high, sample)];
  return [low, Math.max(high, low + 1)];
}

/**
 * How often each of 64 ranges of brightness occurs.
 * @param {number[][]} pixels samples of each, one per channel
 * @param {number[]} range what they span; the outer ranges count what lies beyond
 * @param {number} channel -1 for all
 * @param {Colours} colours a stain or grey alone counts as it is shown
 * @returns {number[]}
 */
export function histogramOf(pixels, [from, to], channel, colours) {
  const counts = new Array(64).fill(0);
  const count = (/** @type {number} */ value) => (counts[Math.min(63, Math.max(0, Math.floor(((value - from) / (to - from)) * 64)))] += 1);
  const alone = colours.channel === "colour" ? null : brightnessOf(colours.channel, colours.stains);
  for (const pixel of pixels) {
    if (alone) count(alone(pixel[0], pixel[1], pixel[2]));
    else if (channel < 0) pixel.forEach(count);
    else if (channel < pixel.length) count(pixel[channel]);
  }
  return counts;
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
