/** Dark or light, and the grey around the images. @module */

import { keep, kept } from "./kept.js";

const KEY = "warpgauge:theme";

/** As it was chosen, else as the system has it; dark around volumes in grey. @param {boolean} [darkest] */
export function restoreTheme(darkest = false) {
  const preferred = !darkest && matchMedia("(prefers-color-scheme: light)").matches ? "light" : "dark";
  document.documentElement.dataset.theme = kept(KEY) ?? preferred;
}

export function toggleTheme() {
  const next = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  document.documentElement.dataset.theme = next;
  keep(KEY, next);
}

/** @returns {string} colour around the images */
export function surroundColour() {
  return getComputedStyle(document.documentElement).getPropertyValue("--surround").trim() || "#555";
}
