/**
 * The panes of volumes: axial large, coronal and sagittal beside it, or one of them alone.
 * @module
 */

import { make } from "./dom.js";
import { PLANE_NAMES } from "./planeview.js";
import { addReadout } from "./readout.js";
import { paneHead, planeCanvas } from "./view2d.js";

/** @import { Stage } from "./stage.js" */
/** @import { Side } from "./types.js" */

/**
 * @param {Stage} stage
 * @param {Side} side
 * @param {HTMLElement} section
 */
export function buildPane3d(stage, side, section) {
  const planes = make("div", { class: "planes d3" }, ...[2, 1, 0].map((axis) => planeCanvas(stage, side, axis)));
  const head = paneHead(stage, side, section);
  const choose = make("select", { "aria-label": `Planes of the ${side} image` });
  choose.append(make("option", { value: "" }, "all planes"), ...[2, 1, 0].map((axis) => make("option", { value: String(axis) }, PLANE_NAMES[axis])));
  choose.addEventListener("change", () => stage.store.set({ maximised: choose.value === "" ? null : Number(choose.value) }));
  head.insertBefore(choose, head.querySelector(".zoom"));
  section.replaceChildren(head, planes);
  addReadout(stage, () => stage.planesOf(side), planes);
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
