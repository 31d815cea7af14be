/** Small pictures of a place in an image, drawn from the same tiles. @module */

import { markFromCovariance, sectionOfMark } from "./ellipsoid.js";
import { COLOURS, drawEllipse, drawPlus, drawQuery } from "./marks.js";
import { depthToSlice, planeOfImage, sliceToDepth, worldToPlane } from "./plane.js";
import { html, useEffect, useRef } from "./vendor/preact-htm.js";
import { planeToScreen } from "./viewport.js";

/** @import { Stage } from "./stage.js" */
/** @import { Row, Side } from "./types.js" */

/** Image pixels across: one scale for all, so that sizes can be compared. */
const ACROSS = 64;

/** @param {{stage: Stage, side: Side, row: Row}} properties */
export function Thumb({ stage, side, row }) {
  const canvas = useRef(/** @type {HTMLCanvasElement | null} */ (null));
  useEffect(() => {
    const draw = () => canvas.current && inSight(canvas.current) && drawPlace(stage, side, canvas.current, row);
    stage.extras.add(draw);
    stage.drawSoon();
    return () => stage.extras.delete(draw);
  }, [row]);
  return html`<canvas ref=${canvas} class="thumb" role="img" aria-label=${`Question ${row.number}, ${side === "fixed" ? "this place" : "its match"}`}>
    </canvas>`;
}

/** A list of hundreds asks for no tiles that nobody sees. @param {HTMLElement} element */
function inSight(element) {
  const box = element.getBoundingClientRect();
  return element.isConnected && box.bottom > 0 && box.top < innerHeight;
}

/** @param {Stage} stage @param {Side} side @param {HTMLCanvasElement} canvas @param {Row} row */
function drawPlace(stage, side, canvas, row) {
  const point = side === "fixed" ? row.location : row.point;
  const box = { width: canvas.clientWidth, height: canvas.clientHeight };
  if (!point || box.width < 2) return;
  const ratio = globalThis.devicePixelRatio || 1;
  canvas.width = Math.round(box.width * ratio);
  canvas.height = Math.round(box.height * ratio);
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  const image = stage.images[side];
  const plane = planeOfImage(image, 2);
  const at = worldToPlane(plane, point);
  const depth = sliceToDepth(plane, depthToSlice(plane, at[2] ?? 0));
  const span = ACROSS * Math.min(...stage.images.fixed.spacing);
  const scale = (box.width / span) * (stage.scaleOf(side) / stage.scaleOf("fixed"));
  const view = { centre: at.slice(0, 2), scale, turn: stage.turnOf(side), ...box };
  stage.sources[side].draw(context, plane, view, depth, stage.store.state.colours[side]);
  const middle = planeToScreen(view, at);
  if (side === "fixed") {
    drawQuery(context, middle, 1, box.height / 5);
    return;
  }
  const section = row.covariance && sectionOfMark(plane, markFromCovariance(point, row.covariance, row.alpha ?? 0.01), depth);
  if (section) drawEllipse(context, view, section, COLOURS.yours, { width: 1 });
  drawPlus(context, middle, COLOURS.yours, 3);
}
