/**
 * The whole of a 2D image in a corner, with a frame around what is seen; a click or a drag there goes there.
 * @module
 */

import { make } from "./dom.js";
import { keptOnImage, miniatureOfPlane, planeToScreen, screenToPlane } from "./viewport.js";

/** @import { Stage } from "./stage.js" */
/** @import { Side } from "./types.js" */

/** Longest side, screen pixels; the smallest pane that has room for it; how much larger than whole the image is shown. */
const LONGEST = 132;
const ROOM = 380;
const ZOOMED = 1.5;

/**
 * @param {Stage} stage
 * @param {Side} side
 * @param {HTMLElement} section
 */
export function addMinimap(stage, side, section) {
  const canvas = make("canvas", { class: "minimap", hidden: true, "data-minimap": side, "aria-hidden": "true" });
  section.append(canvas);
  const pane = () => stage.planesOf(side)[0];
  // Turned as the large view is.
  const whole = () => miniatureOfPlane(pane().plane, LONGEST, pane().view.turn);
  stage.readouts.push(() => {
    const one = pane();
    const { state } = stage.store;
    canvas.hidden = !state.minimap || !one?.visible || one.size.width < ROOM || one.size.height < ROOM || one.view.scale < ZOOMED * one.fitted.scale;
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
    stage.sources[side].draw(context, one.plane, view, one.depth, state.colours[side]);
    const { width, height } = one.view;
    const corners = [[0, 0], [width, 0], [width, height], [0, height]].map((corner) => planeToScreen(view, screenToPlane(one.view, corner)));
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
    const one = pane();
    const centre = screenToPlane(whole(), [event.clientX - box.left, event.clientY - box.top]);
    one.view = keptOnImage(one.plane, { ...one.view, centre });
  };
  canvas.addEventListener("pointerdown", (event) => {
    event.preventDefault();
    canvas.setPointerCapture(event.pointerId);
    go(event);
  });
  canvas.addEventListener("pointermove", (event) => event.buttons !== 0 && go(event));
}
