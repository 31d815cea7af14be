/**
 * Files to take away, without a terminal: one's own marks; for organisers all marks, fused marks and the report.
 * @module
 */

import { RefusedError } from "./api.js";
import { make } from "./dom.js";

/** @import { Stage } from "./stage.js" */

/** @type {[string, string][]} */
const FORMATS = [["csv", "CSV"], ["bigwarp", "BigWarp"], ["slicer-json", "3D Slicer"]];
let chosen = FORMATS[0][0];

/**
 * Buttons for all files that this visitor may have.
 * @param {Stage} stage
 * @returns {HTMLElement}
 */
export function takeaway({ api, project }) {
  const organises = project.role === "organiser";
  const told = make("span", { class: "quiet", role: "status" });
  const take = async (/** @type {string} */ path) => {
    told.textContent = "Being made…";
    try {
      const { bytes, headers } = await api.bytes(path);
      hand(bytes, headers.get("Content-Disposition")?.match(/filename="([^"]+)"/)?.[1] ?? "warpgauge");
      told.textContent = "Downloaded.";
    } catch (error) {
      told.textContent = error instanceof RefusedError ? error.message : "The server cannot be reached: try again.";
    }
  };
  const button = (/** @type {string} */ name, /** @type {string} */ words, /** @type {() => string} */ path) =>
    make("button", { type: "button", "data-download": name, onclick: () => void take(path()) }, words);
  const marks = (/** @type {string} */ whose, /** @type {string} */ words) => button(whose, words, () => `/api/download/marks/${whose}?format=${chosen}`);
  // 3D Slicer knows volumes only.
  const format = make("select", { "aria-label": "Format of the marks", onchange: () => (chosen = format.value) },
    ...FORMATS.filter(([name]) => name !== "slicer-json" || project.d === 3).map(([value, words]) => make("option", { value }, words)));
  format.value = chosen;
  return make("div", { class: "takeaway" }, marks("mine", "Your marks"),
    ...(organises ? [marks("all", "Marks of all raters"), marks("fused", "Fused marks, one per location")] : []), format,
    organises && project.transforms.length > 0 ? button("report", "Report", () => "/api/download/report") : null, told);
}

/**
 * Give a file to whoever sits here, as the browser keeps downloads.
 * @param {ArrayBuffer} bytes
 * @param {string} name
 */
function hand(bytes, name) {
  const address = URL.createObjectURL(new Blob([bytes]));
  make("a", { href: address, download: name }).click();
  URL.revokeObjectURL(address);
}
