/** The two panes: a title and one plane (2D) or three (3D); in 2D an overview in a corner. @module */

import { PlaneView } from "./planeview.js";
import { keptOnImage, miniatureOfPlane, planeToScreen, screenToPlane } from "./viewport.js";
import { withCentre } from "./stage.js";
import { byId } from "./words.js";

/** @import { Annotator } from "./annotator.js" */
/** @import { Stage } from "./stage.js" */
/** @import { Side } from "./types.js" */

/** Longest side of the overview, screen pixels; the smallest pane that has room for it; how much larger than whole the image is shown. */
const LONGEST = 132;
const ROOM = 380;
const ZOOMED = 1.5;

/** @param {Annotator} annotator @param {Side} side */
export function buildPane(annotator, side) {
  const { stage } = annotator;
  const axes = stage.solid ? [2, 1, 0] : [2];
  const planes = document.createElement("div");
  planes.className = stage.solid ? "planes d3" : "planes";
  for (const axis of axes) {
    const canvas = document.createElement("canvas");
    canvas.tabIndex = 0;
    canvas.dataset.axis = String(axis);
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", side === "fixed" ? "This place" : "Where is it?");
    planes.append(canvas);
    stage.panes.push(new PlaneView(annotator, side, axis, canvas));
  }
  byId(side).append(planes);
  if (!stage.solid) {
    addOverview(stage, side);
    return;
  }
  const arrange = () => {
    const { maximised } = stage.store.state;
    planes.classList.toggle("one", maximised !== null);
    for (const canvas of planes.querySelectorAll("canvas")) canvas.classList.toggle("shown", canvas.dataset.axis === String(maximised));
  };
  stage.store.watch(["maximised"], arrange);
}

/**
 * The whole image in a corner, turned as the large view is, with a frame around what is seen; a click or a drag there goes there.
 * @param {Stage} stage @param {Side} side
 */
function addOverview(stage, side) {
  const canvas = document.createElement("canvas");
  canvas.className = "minimap";
  canvas.hidden = true;
  canvas.dataset.minimap = side;
  canvas.setAttribute("aria-hidden", "true");
  byId(side).append(canvas);
  const [pane] = stage.planesOf(side);
  const whole = () => miniatureOfPlane(pane.plane, LONGEST, pane.view.turn);
  stage.extras.add(() => {
    canvas.hidden = !stage.store.state.overview || pane.size.width < ROOM || pane.size.height < ROOM || pane.view.scale < ZOOMED * pane.fitted.scale;
    if (canvas.hidden) return;
    const view = whole();
    const ratio = globalThis.devicePixelRatio || 1;
    canvas.width = Math.round(view.width * ratio);
    canvas.height = Math.round(view.height * ratio);
    canvas.style.width = `${view.width}px`;
    canvas.style.height = `${view.height}px`;
    const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.fillStyle = stage.surround;
    context.fillRect(0, 0, view.width, view.height);
    stage.sources[side].draw(context, pane.plane, view, pane.depth, stage.store.state.colours[side]);
    const { width, height } = pane.view;
    const corners = [[0, 0], [width, 0], [width, height], [0, height]].map((corner) => planeToScreen(view, screenToPlane(pane.view, corner)));
    for (const [colour, thick] of /** @type {const} */ ([["#000", 3.5], ["#fff", 1.5]])) {
      context.strokeStyle = colour;
      context.lineWidth = thick;
      context.beginPath();
      corners.forEach(([x, y], k) => (k ? context.lineTo(x, y) : context.moveTo(x, y)));
      context.closePath();
      context.stroke();
    }
  });
  const go = (/** @type {PointerEvent} */ event) => {
    const box = canvas.getBoundingClientRect();
    const centre = screenToPlane(whole(), [event.clientX - box.left, event.clientY - box.top]);
    stage.lookAgain = null;
    stage.store.set({ centres: withCentre(stage.store.state.centres, pane, keptOnImage(pane.plane, { ...pane.view, centre }).centre) });
  };
  canvas.addEventListener("pointerdown", (event) => {
    event.preventDefault();
    canvas.setPointerCapture(event.pointerId);
    go(event);
  });
  canvas.addEventListener("pointermove", (event) => event.buttons !== 0 && go(event));
}
