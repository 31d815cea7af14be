/**
 * One plane of one image on the screen: its picture, its marks, and what the hand does there.
 * @module
 */

import { length } from "./dom.js";
import { listenToHand } from "./gestures.js";
import { PlaneHand } from "./hand.js";
import { drawPlaneMarks } from "./planemarks.js";
import { COLOURS, cross, drawScaleBar, drawText, strokeWithHalo } from "./marks.js";
import { depthToSlice, edgeLetters, planeOfImage, planeToWorld, sliceToDepth, worldToPlane } from "./plane.js";
import { fitPlaneToScreen, keptInSight, keptOnImage, panByScreen, resizedView, scaleBar, scaleLimits, zoomAboutScreen } from "./viewport.js";

/** @import { Annotator } from "./annotator.js" */
/** @import { Vector } from "./linalg.js" */
/** @import { Side, State } from "./types.js" */
/** @import { View } from "./viewport.js" */

/** Radius of the magnifier, screen pixels. */
const MAGNIFIER = 96;
export const PLANE_NAMES = ["sagittal", "coronal", "axial"];

export class PlaneView {
  /**
   * @param {Annotator} annotator
   * @param {Side} side
   * @param {number} axis
   * @param {HTMLCanvasElement} canvas
   * @param {boolean} [warped] whether it shows the moving image warped onto this one
   */
  constructor(annotator, side, axis, canvas, warped = false) {
    const { stage } = annotator;
    this.warped = warped;
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
    this.machine = listenToHand(canvas, this.hand, (at, notches, modifiers) => this.hand.wheel(at, notches, modifiers));
    new ResizeObserver(() => this.resize()).observe(canvas);
    canvas.addEventListener("focus", () => (stage.active = this));
    canvas.addEventListener("pointerenter", () => (stage.active = this));
  }

  /** @returns {View} */
  get view() {
    // The third pane looks where the fixed image does.
    if (this.warped) return { ...(this.stage.store.state.views.fixed[this.axis] ?? this.fitted), ...this.size };
    return this.stage.store.state.views[this.side][this.axis] ?? this.fitted;
  }

  /** The whole image in the middle of this plane. */
  get fitted() {
    return fitPlaneToScreen(this.plane, this.size, this.stage.turnOf(this.side));
  }

  /** @param {View} view */
  set view(view) {
    const own = this.stage.store.state.views.fixed[this.axis];
    if (this.warped && own) {
      this.stage.setView("fixed", this.axis, { ...view, width: own.width, height: own.height });
      return;
    }
    this.stage.setView(this.side, this.axis, view);
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

  /** Around a volume there is air, which is black in it. */
  get surround() {
    return this.plane.d === 3 ? "#000" : this.stage.surround;
  }

  get limits() {
    return scaleLimits(this.plane, this.size);
  }

  get visible() {
    return this.size.width > 1 && this.size.height > 1;
  }

  resize() {
    const box = this.canvas.getBoundingClientRect();
    this.size = { width: box.width, height: box.height };
    const ratio = globalThis.devicePixelRatio || 1;
    this.canvas.width = Math.max(1, Math.round(box.width * ratio));
    this.canvas.height = Math.max(1, Math.round(box.height * ratio));
    if (this.warped) {
      this.stage.drawSoon();
      return;
    }
    const known = this.stage.store.state.views[this.side][this.axis];
    const usable = known && known.width > 1;
    if (this.visible) {
      const view = usable ? this.resized(known) : this.fitted;
      this.stage.store.set({ views: withView(this.stage.store.state, this.side, this.axis, view) });
      if (!usable) this.stage.arrived();
    }
    this.stage.drawSoon();
  }

  /**
   * The view at the present size: the drawer may take room, but not the point that one is asked about.
   * @param {View} known
   * @returns {View}
   */
  resized(known) {
    const { query, mark, predictionHidden } = this.stage.store.state;
    const expected = predictionHidden ? undefined : query?.prediction?.mean;
    const point = this.side === "fixed" ? query?.location : (mark?.point ?? expected);
    // What was seen whole stays so.
    const whole = fitPlaneToScreen(this.plane, known, known.turn);
    if (known.width > 1 && known.scale === whole.scale && known.centre.every((value, k) => value === whole.centre[k])) return this.fitted;
    const view = resizedView(known, this.size.width, this.size.height);
    // A point that was out of sight before may stay so.
    return point && known.width > 1 ? keptInSight(known, view, worldToPlane(this.plane, point), 48) : view;
  }

  /** @param {Vector} shift */
  pan(shift) {
    this.view = keptOnImage(this.plane, panByScreen(this.view, shift));
  }

  /**
   * @param {Vector} at
   * @param {number} factor
   */
  zoom(at, factor) {
    this.view = keptOnImage(this.plane, zoomAboutScreen(this.view, at, factor, this.limits));
  }

  /** Show the whole image; the other planes of a volume keep theirs. */
  fit() {
    if (this.warped) return;
    this.stage.setViewAlone(this.side, this.axis, this.fitted);
  }

  /**
   * Go to another slice.
   * @param {number} steps
   */
  turnSlices(steps) {
    if (this.plane.d === 2) return;
    const cross = this.stage.store.state.cross[this.side];
    if (!cross) return;
    const slice = Math.min(this.image.size[this.axis] - 1, Math.max(0, this.slice + steps));
    const at = worldToPlane(this.plane, cross);
    this.stage.setCross(this.side, planeToWorld(this.plane, at, sliceToDepth(this.plane, slice)), this.axis);
  }

  draw() {
    if (!this.visible) return;
    const { context, view } = this;
    const state = this.stage.store.state;
    const ratio = this.canvas.width / this.size.width;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.fillStyle = this.surround;
    context.fillRect(0, 0, this.size.width, this.size.height);
    this.complete = this.warped && state.compare === "off" ? true : this.drawPicture(context, view, state);
    this.canvas.dataset.complete = String(this.complete);
    if (this.warped) this.stage.overlays.drawComparison(this, context, view, state);
    else this.stage.overlays.drawBelow(this, context, view, state);
    drawPlaneMarks(this, context, view, state);
    this.stage.ghost.draw(this, context, view);
    const counterpart = this.stage.ghost.at(this, view);
    if (state.magnifier && (this.pointer ?? counterpart)) this.drawMagnifier(/** @type {Vector} */ (this.pointer ?? counterpart), state);
    this.drawLabels(context, view, state);
  }

  /**
   * @param {CanvasRenderingContext2D} context
   * @param {View} view
   * @param {State} state
   */
  drawPicture(context, view, state) {
    const { source, colours } = this.stage.contexts.shown(this.side, state);
    const complete = source.draw(context, this.plane, view, this.depth, colours);
    if (complete && this.plane.d === 2) source.askCoarse(this.plane, this.depth);
    if (complete && this.plane.d === 3) {
      // The neighbours, so that slices come at the speed of the wheel.
      const spacing = this.plane.frame.spacing[this.axis];
      for (const step of [1, -1, 2, -2]) source.prefetch(this.plane, view, this.depth + step * spacing, context);
    }
    return complete;
  }

  /**
   * @param {Vector} at
   * @param {State} state
   */
  drawMagnifier(at, state) {
    const { context } = this;
    const radius = MAGNIFIER;
    const view = zoomAboutScreen(this.view, at, 4, [0, this.limits[1] * 4]);
    context.save();
    context.beginPath();
    context.arc(at[0], at[1], radius, 0, 2 * Math.PI);
    context.clip();
    context.fillStyle = this.surround;
    context.fillRect(at[0] - radius, at[1] - radius, 2 * radius, 2 * radius);
    const { source, colours } = this.stage.contexts.shown(this.side, state);
    source.draw(context, this.plane, view, this.depth, colours);
    drawPlaneMarks(this, context, view, state);
    // A cross that leaves the centre free, and a scale bar of the magnified picture.
    strokeWithHalo(context, "#fff", () => cross(context, at, 5, 14), { width: 1.5, halo: 2.4 });
    const bar = scaleBar(view, radius * 0.8);
    drawScaleBar(context, bar, [at[0] - bar.pixels / 2, at[1] + radius * 0.74], this.image.units, true);
    context.restore();
    strokeWithHalo(context, "#fff", () => context.arc(at[0], at[1], radius, 0, 2 * Math.PI), { width: 2, halo: 2.5 });
  }

  /**
   * @param {CanvasRenderingContext2D} context
   * @param {View} view
   * @param {State} state
   */
  drawLabels(context, view, state) {
    const { width, height } = this.size;
    const bar = scaleBar(view, Math.min(130, width / (this.plane.d === 2 ? 3 : 5)));
    // A narrow plane of a volume has no room for it; the large one beside it has.
    const narrow = width < 220;
    if (this.plane.d === 2 || !narrow) drawScaleBar(context, bar, [width - 14 - bar.pixels, this.plane.d === 2 ? height - 16 : 20], this.image.units);
    if (this.plane.d === 2) return;
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

  /** Colours of this side's crosshair. */
  get crossColour() {
    return this.side === "fixed" ? COLOURS.query : COLOURS.prediction;
  }
}

/**
 * Where a slice of a volume lies: the coordinate across it, as the readout says it.
 * @param {import("./plane.js").Plane} plane
 * @param {number} depth
 * @param {string} units
 * @returns {string} empty where the slices are oblique
 */
export function positionInWords(plane, depth, units) {
  const normal = plane.toWorld.map((row) => row[2]);
  const across = normal.findIndex((value) => Math.abs(value) > 0.999);
  if (across < 0) return "";
  const value = plane.frame.origin[across] + normal[across] * depth;
  const letter = [["L", "R"], ["P", "A"], ["S", "I"]][across][value >= 0 ? 0 : 1];
  return units === "mm" ? `${letter} ${Math.abs(value).toFixed(1)} mm` : length(value, units);
}

/**
 * @param {State} state
 * @param {Side} side
 * @param {number} axis
 * @param {View} view
 */
export function withView(state, side, axis, view) {
  return { ...state.views, [side]: { ...state.views[side], [axis]: view } };
}
