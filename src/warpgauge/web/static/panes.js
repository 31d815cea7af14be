/**
 * The panes: head with title and buttons, and below it one plane (2D) or three (3D).
 * @module
 */

import { contrastPanel } from "./contrast.js";
import { make } from "./dom.js";
import { icon } from "./icons.js";
import { magnificationField } from "./magnification.js";
import { addMinimap } from "./minimap.js";
import { PLANE_NAMES, PlaneView } from "./planeview.js";
import { poseInWords } from "./pose.js";
import { addReadout } from "./readout.js";
import { toggleTurned } from "./turning.js";

/** @import { Annotator } from "./annotator.js" */
/** @import { Stage } from "./stage.js" */
/** @import { Side } from "./types.js" */

/**
 * The head of a pane.
 * @param {Stage} stage
 * @param {Side} side
 * @param {HTMLElement} section
 */
function paneHead(stage, side, section) {
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
    title: "Brightness, contrast and channels; or drag with Ctrl held",
    "aria-label": "Image",
    "aria-pressed": "false",
    onclick: () => {
      if (panel) panel.remove();
      panel = panel ? null : contrastPanel(stage, side);
      if (panel) section.append(panel);
      contrast.setAttribute("aria-pressed", String(panel !== null));
    },
  }, icon("contrast"), make("span", { class: "name" }, "Image"));
  contrast.dataset.contrast = side;
  return make(
    "div",
    { class: "pane-head" },
    make("strong", { class: "side" }, side === "fixed" ? "FIXED" : "MOVING"),
    stage.contexts.field(side) ?? make("span", { class: "name clip", title: stage.images[side].name ?? "" }, stage.images[side].name ?? ""),
    side === "moving" ? turnedWords(stage) : null,
    make("span", { class: "spring" }),
    stage.project.d === 2 ? magnificationField(stage, side) : null,
    make("button", { type: "button", class: "icon-only zoom", title: "Zoom out (-)", "aria-label": "Zoom out", onclick: () => zoom(1 / 1.5) }, "−"),
    make("button", { type: "button", class: "icon-only zoom", title: "Zoom in (+)", "aria-label": "Zoom in", onclick: () => zoom(1.5) }, "+"),
    make("button", { type: "button", title: "Show the whole image (0)", "aria-label": "Fit", onclick: () => stage.planesOf(side).forEach((one) => one.fit()) }, icon("fit"), make("span", { class: "name" }, "Fit")),
    contrast,
  );
}

/**
 * How the moving image is turned on the screen, in words; a click turns it back.
 * @param {Stage} stage
 */
function turnedWords(stage) {
  const button = make("button", { type: "button", class: "bare", title: "Turned to match the fixed image (Y)", "data-turned": "", onclick: () => toggleTurned(stage) });
  const show = () => {
    const { pose, turned } = stage.store.state;
    const words = pose ? poseInWords(pose) : "";
    button.hidden = words === "";
    button.replaceChildren(icon("turn") ?? "", turned ? words : "upright");
  };
  stage.store.watch(["pose", "turned"], show);
  show();
  return button;
}

/**
 * The canvas of a plane.
 * @param {Annotator} annotator
 * @param {Side} side
 * @param {number} axis
 * @param {string} name
 * @param {boolean} [warped] whether it shows the moving image warped onto this one
 * @returns {PlaneView}
 */
export function addPlane(annotator, side, axis, name, warped = false) {
  const canvas = make("canvas", { tabIndex: 0, role: "img", "aria-label": name });
  canvas.dataset.axis = String(axis);
  const pane = new PlaneView(annotator, side, axis, canvas, warped);
  annotator.stage.panes.push(pane);
  return pane;
}

/**
 * @param {Annotator} annotator
 * @param {Side} side
 * @param {HTMLElement} section
 */
export function buildPane(annotator, side, section) {
  const { stage } = annotator;
  const axes = stage.project.d === 3 ? [2, 1, 0] : [2];
  const planes = make("div", { class: axes.length === 3 ? "planes d3" : "planes" }, ...axes.map((axis) => addPlane(annotator, side, axis, `${side} image`).canvas));
  const head = paneHead(stage, side, section);
  section.replaceChildren(head, planes);
  addReadout(stage, () => stage.planesOf(side), planes);
  if (axes.length === 3) offerPlanes(stage, side, head, planes);
  else addMinimap(stage, side, section);
}

/**
 * In 3D: all planes, the axial one large, or one of them alone.
 * @param {Stage} stage
 * @param {Side} side
 * @param {HTMLElement} head
 * @param {HTMLElement} planes
 */
function offerPlanes(stage, side, head, planes) {
  const choose = make("select", { "aria-label": `Planes of the ${side} image` });
  choose.append(make("option", { value: "" }, "all planes"), ...[2, 1, 0].map((axis) => make("option", { value: String(axis) }, PLANE_NAMES[axis])));
  choose.addEventListener("change", () => stage.store.set({ maximised: choose.value === "" ? null : Number(choose.value) }));
  head.insertBefore(choose, head.querySelector(".zoom"));
  const arrange = () => {
    const { maximised } = stage.store.state;
    choose.value = maximised === null ? "" : String(maximised);
    planes.classList.toggle("one", maximised !== null);
    for (const canvas of planes.querySelectorAll("canvas")) {
      canvas.classList.toggle("shown", canvas.dataset.axis === String(maximised));
    }
  };
  stage.store.watch(["maximised"], arrange);
  arrange();
}
