/** Numbers, lengths and times as people read them. @module */

/** @import { Mark } from "./ellipsoid.js" */

import { axesOfMark } from "./ellipsoid.js";

/** Three significant digits, without an exponent where one can do without. @param {number | null | undefined} value */
export function number(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size >= 1e6 || (size > 0 && size < 1e-3)) return value.toExponential(1);
  if (size >= 100) return value.toFixed(0);
  return value.toPrecision(3).replace(/(\.\d*?)0+$/, "$1").replace(/\.$/, "");
}

/** Two significant digits: as many as an uncertainty is worth. @param {number} value */
export function rounded(value) {
  return number(Number(value.toPrecision(2)));
}

/** A unit as people write it. @param {string} units */
export function unitName(units) {
  return units === "um" ? "µm" : units;
}

/** @param {number} value @param {string} units */
export function length(value, units) {
  return `${number(value)} ${unitName(units)}`;
}

/** Time of day of an ISO time. @param {string} time */
export function clock(time) {
  const date = new Date(time);
  return Number.isNaN(date.getTime()) ? time : date.toLocaleTimeString([], { hour12: false });
}

/** Half-lengths of a mark as they are read; of a disc or a ball the one that it has: "41 × 20". @param {Mark} mark */
export function sizeInWords(mark) {
  const words = axesOfMark(mark).map((axis) => rounded(axis));
  return words.every((word) => word === words[0]) ? words[0] : words.join(" × ");
}

/**
 * Coordinates; volumes in millimetres as radiologists say them (right, anterior, superior positive).
 * @param {number[]} world LPS for volumes @param {string} units
 */
export function coordinates(world, units) {
  if (world.length === 2) return world.map((value) => value.toFixed(1)).join(", ");
  const letters = units === "mm" ? [["L", "R"], ["P", "A"], ["S", "I"]] : [["x", "x −"], ["y", "y −"], ["z", "z −"]];
  return world.map((value, k) => `${letters[k][value >= 0 ? 0 : 1]} ${Math.abs(value).toFixed(1)}`).join("  ");
}

/** Longest side of an image, world units. @param {{size: number[], spacing: number[]}} image */
export function extentOf({ size, spacing }) {
  return Math.max(...size.map((n, k) => n * spacing[k]));
}

/**
 * Names of two files without their endings and without the words that both have in the same place.
 * @param {string} one @param {string} other @returns {string[]}
 */
export function distinctNames(one, other) {
  const words = [one, other].map((name) => name.replace(/\.(nii\.gz|ome\.tiff?|ome\.zarr|[^.]+)$/i, "").split(/(?<=[-_. ])/));
  while (words.every((list) => list.length > 1) && words[0][0] === words[1][0]) words.forEach((list) => list.shift());
  while (words.every((list) => list.length > 1) && words[0].at(-1) === words[1].at(-1)) words.forEach((list) => list.pop());
  return words.map((list) => list.join("").replace(/[-_. ]+$/, ""));
}

/** An element that the page has. @param {string} id @returns {HTMLElement} */
export function byId(id) {
  const element = document.getElementById(id);
  if (!element) throw new Error(`The page has no element ${id}.`);
  return element;
}
