/**
 * Dark or light, and the grey around the images.
 * @module
 */

const KEY = "warpgauge:theme";

/** @returns {"dark" | "light"} */
export function currentTheme() {
  return document.documentElement.dataset.theme === "light" ? "light" : "dark";
}

export function restoreTheme() {
  const kept = localStorage.getItem(KEY);
  const preferred = matchMedia("(prefers-color-scheme: light)").matches ? "light" : "dark";
  document.documentElement.dataset.theme = kept ?? preferred;
}

export function toggleTheme() {
  const next = currentTheme() === "dark" ? "light" : "dark";
  document.documentElement.dataset.theme = next;
  localStorage.setItem(KEY, next);
}

/** @returns {string} colour around the images */
export function surroundColour() {
  return getComputedStyle(document.documentElement).getPropertyValue("--surround").trim() || "#555";
}
