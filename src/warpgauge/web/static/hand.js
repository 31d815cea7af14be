/**
 * What the hand does on a plane: a click chooses the place (first image) or marks the match (second image), handles change the mark, everything else
 * looks around.
 * @module
 */

import { dragHandle, handleUnderPoint, levelOfPoint } from "./ellipse.js";
import { admissible, ballMark, markWithSection, sectionOfMark } from "./ellipsoid.js";
import { byFinger } from "./gestures.js";
import { distance } from "./linalg.js";
import { planeToWorld } from "./plane.js";
import { screenToPlane } from "./viewport.js";

/** @import { Annotator } from "./annotator.js" */
/** @import { Ellipse, Handle } from "./ellipse.js" */
/** @import { Mark } from "./ellipsoid.js" */
/** @import { Modifiers } from "./gestures.js" */
/** @import { Vector } from "./linalg.js" */
/** @import { PlaneView } from "./planeview.js" */
/** @import { Colours } from "./types.js" */
/** @typedef {{kind: "edit", mark: Mark, section: Ellipse, handle: Handle} | {kind: "window", colours: Colours}} Drag */

/** Screen pixels around a mark and its handles in which the pointer is near. */
const NEAR = 32;

export class PlaneHand {
  /** @param {PlaneView} pane @param {Annotator} annotator */
  constructor(pane, annotator) {
    this.pane = pane;
    this.annotator = annotator;
    this.marks = annotator.marks;
    /** @type {Drag | null} */
    this.dragging = null;
    /** @type {Handle | null} */
    this.hovered = null;
    this.notches = 0;
  }

  /** Whether the match may be marked here. */
  get marksHere() {
    return this.pane.side === "moving" && this.marks.editable;
  }

  /** Stand-off of the handles of a small ellipse, plane units. */
  get reach() {
    return 22 / this.pane.view.scale;
  }

  /** @returns {Ellipse | null} one's own ellipse in this plane */
  get section() {
    const { mark } = this.pane.stage.store.state;
    return mark && this.pane.side === "moving" ? sectionOfMark(this.pane.plane, mark, this.pane.depth) : null;
  }

  /** Whether the handles are shown: with the pointer near, else they would hide what is marked; for fingers always. */
  get showsHandles() {
    const { section, pane } = this;
    if (!this.marksHere || !section) return false;
    if (this.dragging?.kind === "edit" || byFinger()) return true;
    if (!pane.pointer) return false;
    const away = distance(screenToPlane(pane.view, pane.pointer), section.centre);
    return away <= Math.max(...section.radii, this.reach) + NEAR / pane.view.scale;
  }

  /** @param {Vector} at @param {boolean} touch @returns {Handle | null} */
  handleAt(at, touch) {
    const section = this.marksHere ? this.section : null;
    if (!section) return null;
    const tolerance = (touch ? 22 : 9) / this.pane.view.scale;
    return handleUnderPoint(section, screenToPlane(this.pane.view, at), tolerance, this.reach);
  }

  /** @param {Vector} at @param {Modifiers} modifiers */
  holds(at, { touch }) {
    return this.handleAt(at, touch) !== null;
  }

  /** @param {Vector | null} at */
  hover(at) {
    const { pane } = this;
    pane.pointer = at;
    this.hovered = at && this.handleAt(at, false);
    const cursors = { centre: "move", rim: "nwse-resize" };
    // The ring is the cursor where the match is marked.
    pane.canvas.style.cursor = this.hovered ? (cursors[/** @type {"rim"} */ (this.hovered)] ?? "grab") : this.marksHere ? "none" : "crosshair";
    pane.stage.drawSoon();
  }

  /** @param {Vector} at */
  toWorld(at) {
    return planeToWorld(this.pane.plane, screenToPlane(this.pane.view, at), this.pane.depth);
  }

  /** @param {Vector} at */
  click(at) {
    const { pane, marks } = this;
    const point = this.toWorld(at);
    if (pane.side === "fixed") this.annotator.choose(point, 12 / pane.view.scale);
    else if (this.marksHere) {
      const { mark } = pane.stage.store.state;
      const { section } = this;
      // Inside one's own ellipse a click corrects the centre and keeps the shape.
      const inside = mark && section && levelOfPoint(section, screenToPlane(pane.view, at)) < 1;
      marks.edit(inside ? { ...mark, point } : ballMark(point, marks.ringRadius(pane.view.scale), marks.alpha));
    } else this.annotator.explainLock();
    if (pane.plane.d === 3) pane.stage.setCross(pane.side, point, pane.axis);
  }

  /** @param {"start" | "move" | "end" | "cancel"} phase @param {Vector} from @param {Vector} to @param {Modifiers} modifiers */
  drag(phase, from, to, modifiers) {
    const { pane, marks } = this;
    if (phase === "start") {
      this.dragging = this.beginDrag(from, modifiers);
      if (this.dragging?.kind === "edit") marks.beginEdit();
      return;
    }
    const { dragging } = this;
    if (phase === "cancel") marks.cancelEdit();
    else if (dragging?.kind === "window") pane.stage.shiftWindow(pane.side, dragging.colours, [to[0] - from[0], to[1] - from[1]]);
    else if (dragging) this.dragHandle(dragging, from, to);
    if (phase === "move") return;
    this.dragging = null;
    if (phase === "end" && dragging?.kind === "edit") {
      marks.commitEdit();
      const { mark } = pane.stage.store.state;
      if (mark && pane.plane.d === 3) pane.stage.setCross("moving", mark.point, pane.axis);
    }
  }

  /** @param {Vector} from @param {Modifiers} modifiers @returns {Drag | null} */
  beginDrag(from, { button, touch }) {
    const { mark, colours } = this.pane.stage.store.state;
    if (button > 0) return { kind: "window", colours: colours[this.pane.side] };
    const { section } = this;
    const handle = this.handleAt(from, touch);
    return handle && mark && section ? { kind: "edit", mark, section, handle } : null;
  }

  /** @param {Extract<Drag, {kind: "edit"}>} drag @param {Vector} from @param {Vector} to */
  dragHandle({ mark, section, handle }, from, to) {
    const { pane, marks } = this;
    const { floor } = marks;
    const after = dragHandle(section, handle, screenToPlane(pane.view, from), screenToPlane(pane.view, to), { floor, reach: this.reach });
    const next = markWithSection(pane.plane, mark, pane.depth, section, after);
    // A needle too thin to compute with: the handle stops there. What was thinner from the start may still be edited.
    if (admissible(next, floor / 2, floor * 1e6) || !admissible(mark, floor / 2, floor * 1e6)) marks.preview(next);
  }

  /** @param {Vector} shift */
  pan(shift) {
    this.pane.stage.pan(this.pane, shift);
  }

  /** @param {Vector} at @param {number} factor */
  pinch(at, factor) {
    this.pane.stage.zoom(this.pane, at, factor);
  }

  /** The wheel looks around and never edits. @param {Vector} at @param {number} notches @param {boolean} sideways */
  wheel(at, notches, sideways) {
    const { pane } = this;
    if (pane.plane.d === 2 || sideways) {
      pane.stage.zoom(pane, at, 1.25 ** -notches);
      return;
    }
    this.notches += notches;
    const steps = Math.trunc(this.notches * 1.0001);
    this.notches -= steps;
    if (steps) pane.turnSlices(steps);
  }
}
