/**
 * Brightness and contrast of an image, for all channels or one.
 * @module
 */

import { initialColours, largestSample } from "./colour.js";
import { make } from "./dom.js";

/** @import { Stage } from "./stage.js" */
/** @import { Side } from "./types.js" */

/**
 * @param {Stage} stage
 * @param {Side} side
 * @returns {HTMLElement}
 */
export function contrastPanel(stage, side) {
  const image = stage.images[side];
  const top = largestSample(image);
  let channel = -1;
  const slider = (/** @type {string} */ name) => make("input", { type: "range", min: "0", max: String(top), step: String(top / 1020), "aria-label": name, oninput: () => apply() });
  const [dark, bright] = [slider("dark"), slider("bright")];
  dark.dataset.end = "dark";
  bright.dataset.end = "bright";
  const invert = make("input", { type: "checkbox", onchange: () => stage.setColours(side, { ...stage.store.state.colours[side], invert: invert.checked }) });

  function read() {
    const { windows, invert: inverted } = stage.store.state.colours[side];
    const { low, high } = windows[Math.max(channel, 0)];
    dark.value = String(low);
    bright.value = String(high);
    invert.checked = inverted;
  }
  function apply() {
    const colours = stage.store.state.colours[side];
    const window = { low: Number(dark.value), high: Math.max(Number(bright.value), Number(dark.value) + top / 1020) };
    const windows = colours.windows.map((old, i) => (channel < 0 || i === channel ? window : old));
    stage.setColours(side, { ...colours, windows });
  }
  const names = image.channels >= 3 ? ["All", "Red", "Green", "Blue"] : [];
  const tabs = names.map((name, i) =>
    make("button", { type: "button", "aria-pressed": String(i === 0), onclick: () => {
      channel = i - 1;
      tabs.forEach((tab, k) => tab.setAttribute("aria-pressed", String(k === i)));
      read();
    } }, name),
  );
  const reset = make("button", { type: "button", onclick: () => {
    stage.setColours(side, initialColours(image));
    read();
  } }, "Reset");
  read();
  return make(
    "div",
    { class: "popover", role: "group", "aria-label": `Contrast of the ${side} image` },
    names.length ? make("div", { class: "row" }, ...tabs) : null,
    make("label", {}, "Dark at", dark),
    make("label", {}, "Bright at", bright),
    make("div", { class: "row" }, make("label", {}, "Invert", invert), make("span", { class: "spring" }), reset),
  );
}
