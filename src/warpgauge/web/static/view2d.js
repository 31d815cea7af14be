/**
 * The panes: head with title and buttons, and below it one plane (2D) or three (3D).
 * @module
 */

import { contrastPanel } from "./contrast.js";
import { make } from "./dom.js";
import { PlaneView } from "./planeview.js";

/** @import { Stage } from "./stage.js" */
/** @import { Side } from "./types.js" */

/**
 * The head of a pane.
 * @param {Stage} stage
 * @param {Side} side
 * @param {HTMLElement} section
 */
export function paneHead(stage, side, section) {
  const pane = () => {
    const own = stage.planesOf(side);
    return stage.active?.side === side ? stage.active : (own.find((one) => one.visible) ?? own[0]);
  };
  const zoom = (/** @type {number} */ factor) => {
    const one = pane();
    one.zoom([one.size.width / 2, one.size.height / 2], factor);
  };
  /** @type {HTMLElement | null} */
  let panel = null;
  const contrast = make("button", {
    type: "button",
    title: "Brightness and contrast; or drag with Ctrl held",
    "aria-pressed": "false",
    onclick: () => {
      if (panel) panel.remove();
      panel = panel ? null : contrastPanel(stage, side);
      if (panel) section.append(panel);
      contrast.setAttribute("aria-pressed", String(panel !== null));
    },
  }, "Contrast");
  contrast.dataset.contrast = side;
  return make(
    "div",
    { class: "pane-head" },
    make("strong", { class: "side" }, side === "fixed" ? "FIXED" : "MOVING"),
    make("span", { class: "quiet clip" }, stage.images[side].name ?? ""),
    make("span", { class: "spring" }),
    make("button", { type: "button", title: "Zoom out (-)", "aria-label": "Zoom out", onclick: () => zoom(1 / 1.5) }, "−"),
    make("button", { type: "button", title: "Zoom in (+)", "aria-label": "Zoom in", onclick: () => zoom(1.5) }, "+"),
    make("button", { type: "button", title: "Show the whole image (0)", onclick: () => stage.planesOf(side).forEach((one) => one.fit()) }, "Fit"),
    contrast,
  );
}

/**
 * @param {Stage} stage
 * @param {Side} side
 * @param {number} axis
 * @returns {HTMLCanvasElement}
 */
export function planeCanvas(stage, side, axis) {
  const canvas = make("canvas", { tabIndex: 0, role: "img", "aria-label": `${side} image` });
  canvas.dataset.axis = String(axis);
  stage.panes.push(new PlaneView(stage, side, axis, canvas));
  return canvas;
}

/**
 * @param {Stage} stage
 * @param {Side} side
 * @param {HTMLElement} section
 */
export function buildPane2d(stage, side, section) {
  section.replaceChildren(paneHead(stage, side, section), make("div", { class: "planes" }, planeCanvas(stage, side, 2)));
}
