/** One plane of one image on the screen: its picture, its marks, and what the hand does there. @module */

import { listenToHand } from "./gestures.js";
import { PlaneHand } from "./hand.js";
import { drawScaleBar, drawText } from "./marks.js";
import { depthToSlice, edgeLetters, planeOfImage, planeToWorld, sliceToDepth, worldToPlane } from "./plane.js";
import { drawPlaneMarks } from "./planemarks.js";
import { fitPlaneToScreen, scaleBar, scaleLimits, worldToScreen } from "./viewport.js";
import { length } from "./words.js";

/** @import { Annotator } from "./annotator.js" */
/** @import { Vector } from "./linalg.js" */
/** @import { Plane } from "./plane.js" */
/** @import { Side, State } from "./types.js" */
/** @import { View } from "./viewport.js" */
/** @typedef {{pane: PlaneView, context: CanvasRenderingContext2D, view: View, state: State}} Drawing what everything is drawn with */

export const PLANE_NAMES = ["sagittal", "coronal", "axial"];

export class PlaneView {
  /** @param {Annotator} annotator @param {Side} side @param {number} axis @param {HTMLCanvasElement} canvas */
  constructor(annotator, side, axis, canvas) {
    const { stage } = annotator;
    this.stage = stage;
    this.side = side;
    this.axis = axis;
    this.canvas = canvas;
    this.image = stage.images[side];
    this.plane = planeOfImage(this.image, axis);
    /** @type {Vector | null} */
    this.pointer = null;
    this.size = { width: 0, height: 0 };
    this.complete = false;
    this.context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    this.hand = new PlaneHand(this, annotator);
    this.machine = listenToHand(canvas, this.hand, (at, notches, sideways) => this.hand.wheel(at, notches, sideways));
    new ResizeObserver(() => this.resize()).observe(canvas);
    canvas.addEventListener("focus", () => (stage.active = this));
    canvas.addEventListener("pointerenter", () => (stage.active = this));
  }

  /** @returns {View} */
  get view() {
    const centre = this.stage.store.state.centres[this.side][this.axis];
    return { ...this.fitted, ...(centre ? { centre, scale: this.stage.scaleOf(this.side) } : {}) };
  }

  /** The whole image in the middle of this plane. */
  get fitted() {
    return fitPlaneToScreen(this.plane, this.size, this.stage.turnOf(this.side));
  }

  /** Index of the slice that is shown. */
  get slice() {
    const cross = this.stage.store.state.cross[this.side];
    return cross ? depthToSlice(this.plane, worldToPlane(this.plane, cross)[2] ?? 0) : 0;
  }

  /** Its depth along the normal. */
  get depth() {
    return sliceToDepth(this.plane, this.slice);
  }

  get limits() {
    return scaleLimits(this.plane, this.size);
  }

  get visible() {
    return this.size.width > 1 && this.size.height > 1;
  }

  /** Whether a point is well within what is seen. @param {Vector} point_world */
  shows(point_world) {
    const [x, y] = worldToScreen(this.plane, this.view, point_world);
    const { width, height } = this.size;
    return Math.abs(x - width / 2) < width * 0.42 && Math.abs(y - height / 2) < height * 0.42;
  }

  resize() {
    const box = this.canvas.getBoundingClientRect();
    this.size = { width: box.width, height: box.height };
    const ratio = globalThis.devicePixelRatio || 1;
    this.canvas.width = Math.max(1, Math.round(box.width * ratio));
    this.canvas.height = Math.max(1, Math.round(box.height * ratio));
    if (this.visible) this.stage.arrived();
    this.stage.drawSoon();
  }

  /** Go to another slice. @param {number} steps */
  turnSlices(steps) {
    const cross = this.stage.store.state.cross[this.side];
    if (this.plane.d === 2 || !cross) return;
    const slice = Math.min(this.image.size[this.axis] - 1, Math.max(0, this.slice + steps));
    const at = worldToPlane(this.plane, cross);
    this.stage.lookAgain = null;
    this.stage.setCross(this.side, planeToWorld(this.plane, at, sliceToDepth(this.plane, slice)), this.axis);
  }

  draw() {
    if (!this.visible) return;
    const { context, view } = this;
    const { state } = this.stage.store;
    const ratio = this.canvas.width / this.size.width;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    // Around a volume there is air, which is black in it.
    context.fillStyle = this.plane.d === 3 ? "#000" : this.stage.surround;
    context.fillRect(0, 0, this.size.width, this.size.height);
    /** @type {Drawing} */
    const on = { pane: this, context, view, state };
    this.complete = this.drawPicture(on);
    this.canvas.dataset.complete = String(this.complete);
    if (this.side === "fixed") this.stage.overlays.draw(on);
    drawPlaneMarks(on);
    this.drawLabels(on);
  }

  /** @param {Drawing} on */
  drawPicture({ context, view, state }) {
    const source = this.stage.sources[this.side];
    const complete = source.draw(context, this.plane, view, this.depth, state.colours[this.side]);
    if (complete && this.plane.d === 2) source.askCoarse(this.plane, this.depth);
    if (complete && this.plane.d === 3) {
      // The neighbours, so that slices come at the speed of the wheel.
      for (const step of [1, -1, 2, -2]) source.prefetch(this.plane, view, this.depth + step * this.plane.frame.spacing[this.axis], context);
    }
    return complete;
  }

  /** @param {Drawing} on */
  drawLabels({ context, view, state }) {
    const { width, height } = this.size;
    const flat = this.plane.d === 2;
    // A narrow plane of a volume has no room for it; the large one beside it has.
    const narrow = width < 220;
    if (state.bar && (flat || !narrow)) {
      const bar = scaleBar(view, Math.min(130, width / (flat ? 3 : 5)));
      drawScaleBar(context, bar, [width - 14 - bar.pixels, flat ? height - 16 : 20], this.image.units);
    }
    if (flat) return;
    const position = state.cross[this.side] && !narrow ? positionInWords(this.plane, this.depth, this.image.units) : "";
    drawText(context, `${PLANE_NAMES[this.axis]}  ${this.slice + 1} / ${this.image.size[this.axis]}   ${position}`, [10, height - 10]);
    if (this.image.units !== "mm") return;
    const [left, top, right, bottom] = edgeLetters(this.plane);
    drawText(context, left, [6, height / 2]);
    drawText(context, right, [width - 6, height / 2], { align: "right" });
    drawText(context, top, [width / 2, 16], { align: "center" });
    // Beside the slice's number there is no room for it in a small plane, and the opposite letter tells it.
    if (width > 380) drawText(context, bottom, [width / 2, height - 6], { align: "center" });
  }
}

/**
 * Where a slice of a volume lies: the coordinate across it; "" where the slices are oblique.
 * @param {Plane} plane @param {number} depth @param {string} units
 */
function positionInWords(plane, depth, units) {
  const normal = plane.toWorld.map((row) => row[2]);
  const across = normal.findIndex((value) => Math.abs(value) > 0.999);
  if (across < 0) return "";
  const value = plane.frame.origin[across] + normal[across] * depth;
  const letter = [["L", "R"], ["P", "A"], ["S", "I"]][across][value >= 0 ? 0 : 1];
  return units === "mm" ? `${letter} ${Math.abs(value).toFixed(1)} mm` : length(value, units);
}
