/**
 * Channels that are not grey or red, green, blue: which of them are shown, each in a colour of its own; their light adds up.
 * @module
 */

import { make } from "./dom.js";
import { keep, kept } from "./kept.js";

/** @import { Colours, ImageInfo, Project, Shown, Side } from "./types.js" */

/** Channels at once; the server sends no more. */
const MOST = 6;
/** Names and colours, in the order in which channels get them. @type {[string, string][]} */
export const HUES = [["blue", "#4d6dff"], ["green", "#1fd65f"], ["red", "#ff4545"], ["yellow", "#ffe11f"], ["magenta", "#ff4dff"], ["cyan", "#1fe3ff"], ["orange", "#ff9a1f"], ["white", "#ffffff"]];

/**
 * What is shown at first: the first three.
 * @param {ImageInfo} image
 * @returns {Shown[]} none of an image in grey or colours
 */
export function firstShown({ apart }) {
  return apart.slice(0, 3).map((_, channel) => ({ channel, colour: HUES[channel][1] }));
}

/**
 * The numbers of the channels that are shown, as the server takes them; "" of an image in grey or colours.
 * @param {Colours} colours
 */
export function chosenChannels({ shown }) {
  return shown.map(({ channel }) => channel).join(",");
}

/**
 * @param {Project} project
 * @param {Side} side
 */
function keyOf({ name, rater, images }, side) {
  return `warpgauge:channels:${name}:${rater}:${side}:${images[side].version}`;
}

/**
 * As the rater had an image at the last visit.
 * @param {Project} project
 * @param {Side} side
 * @param {Colours} colours at first
 * @returns {Colours}
 */
export function rememberedChannels(project, side, colours) {
  const count = project.images[side].apart.length;
  const before = count ? kept(keyOf(project, side)) : null;
  const usable = before?.windows?.length === count && before.shown?.length > 0 && before.shown.every((/** @type {Shown} */ one) => one.channel < count);
  return usable ? { ...colours, shown: before.shown, windows: before.windows } : colours;
}

/**
 * @param {Project} project
 * @param {Side} side
 * @param {Colours} colours
 */
export function rememberChannels(project, side, { shown, windows }) {
  if (shown.length) keep(keyOf(project, side), { shown, windows });
}

/**
 * The light of several channels, added.
 * @param {Uint8Array | Uint16Array} samples those that are shown, one after the other for each pixel
 * @param {Shown[]} shown
 * @param {Uint8ClampedArray[]} tables one for each
 * @param {Uint8ClampedArray} rgba filled
 */
export function mixSamples(samples, shown, tables, rgba) {
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
 * The list to choose from: whether a channel is shown, its colour, and its name, which gives it the sliders.
 * @param {ImageInfo} image
 * @param {() => Shown[]} shown
 * @param {(shown: Shown[]) => void} change
 * @param {(channel: number) => void} pick
 * @returns {{list: HTMLElement, read: (picked: number) => void}}
 */
export function channelList({ apart }, shown, change, pick) {
  const rows = apart.map(({ name }, channel) => {
    const box = make("input", { type: "checkbox", "aria-label": `Show ${name}`, onchange: () => {
      const others = shown().filter((one) => one.channel !== channel);
      if (box.checked) change([...others, { channel, colour: freeHue(others) }]);
      else if (others.length) change(others);
      pick(box.checked ? channel : shown()[0].channel);
    } });
    const hue = make("select", { "aria-label": `Colour of ${name}`, onchange: () => change(shown().map((one) => (one.channel === channel ? { channel, colour: hue.value } : one))) }, ...HUES.map(([word, value]) => make("option", { value }, word)));
    const button = make("button", { type: "button", title: `Brightness of ${name}`, onclick: () => pick(channel) }, name);
    return { box, hue, button, row: make("div", { class: "row channel" }, box, hue, button) };
  });
  const read = (/** @type {number} */ picked) => rows.forEach(({ box, hue, button }, channel) => {
    const here = shown().find((one) => one.channel === channel);
    box.checked = here !== undefined;
    box.disabled = !here && shown().length >= MOST;
    hue.disabled = button.disabled = !here;
    if (here) hue.value = here.colour;
    hue.style.borderLeftColor = here?.colour ?? "transparent";
    button.setAttribute("aria-pressed", String(channel === picked));
  });
  return { list: make("div", { class: "channels", role: "group", "aria-label": "Channels" }, ...rows.map(({ row }) => row)), read };
}

/** @param {Shown[]} taken */
function freeHue(taken) {
  return (HUES.find(([, colour]) => taken.every((one) => one.colour !== colour)) ?? HUES[0])[1];
}
