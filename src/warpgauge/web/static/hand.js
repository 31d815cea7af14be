/**
 * What the hand does on a plane: panning, zooming, slices; on the moving image, drawing and editing the ellipse.
 * @module
 */

import { dragHandle, ellipseFromDrag, handleUnderPoint, levelOfPoint, turnedEllipse } from "./ellipse.js";
import { byFinger } from "./gestures.js";
import { widthAcross } from "./habit.js";
import { norm, subtract } from "./linalg.js";
import { admissible, ballMark, markFromEllipse, markWithSection, sectionOfMark } from "./ellipsoid.js";
import { planeToWorld } from "./plane.js";
import { Pull, canPull } from "./pull.js";
import { screenToPlane, worldToScreen } from "./viewport.js";

/** @import { Annotator } from "./annotator.js" */
/** @import { Ellipse, Handle } from "./ellipse.js" */
/** @import { Mark } from "./ellipsoid.js" */
/** @import { Modifiers } from "./gestures.js" */
/** @import { Vector } from "./linalg.js" */
/** @import { PlaneView } from "./planeview.js" */
/** @import { Colours } from "./types.js" */
/** @typedef {{kind: "edit", mark: Mark, section: Ellipse, handle: Handle} | {kind: "turn", mark: Mark, section: Ellipse} | {kind: "new"} | {kind: "pan", last: Vector} | {kind: "cross"} | {kind: "window", colours: Colours} | {kind: "slices", turned: number} | {kind: "pull", pull: Pull}} Drag */

/** Screen pixels around a mark and its handles in which the pointer is near. */
const NEAR = 32;
/** Screen pixels of a drag through slices from one to the next. */
const SLICE = 8;

export class PlaneHand {
  /**
   * @param {PlaneView} pane
   * @param {Annotator} annotator
   */
  constructor(pane, annotator) {
    this.pane = pane;
    this.annotator = annotator;
    this.marks = annotator.marks;
    this.ownPoints = annotator.ownPoints;
    /** @type {Drag | null} */
    this.dragging = null;
    /** @type {Handle | null} */
    this.hovered = null;
    this.notches = 0;
  }

  /** Whether marks may be drawn here. */
  get editable() {
    return this.pane.side === "moving" && this.marks.editable;
  }

  /** Whether the mark is being changed by a drag. */
  get drawing() {
    return this.dragging !== null && ["edit", "turn", "new", "pull"].includes(this.dragging.kind);
  }

  /** Stand-off of the handles of a small ellipse, plane units. */
  get reach() {
    return 22 / this.pane.view.scale;
  }

  /** Whether the handles are shown: with the pointer near, else they would hide what is marked; for fingers always. */
  get showsHandles() {
    const { section, pane } = this;
    if (!this.editable || !section) return false;
    if (this.drawing || byFinger()) return true;
    if (!pane.pointer) return false;
    const away = norm(subtract(screenToPlane(pane.view, pane.pointer), section.centre));
    return away <= Math.max(...section.radii, this.reach) + NEAR / pane.view.scale;
  }

  /** Radius of a plain click at this zoom. */
  get radius() {
    return this.marks.clickRadius(this.pane.view.scale).radius;
  }

  /** @returns {Ellipse | null} one's own ellipse in this plane */
  get section() {
    const { mark } = this.pane.stage.store.state;
    return mark && this.pane.side === "moving" ? sectionOfMark(this.pane.plane, mark, this.pane.depth) : null;
  }

  /**
   * @param {Vector} at
   * @param {boolean} touch
   * @returns {Handle | null}
   */
  handleAt(at, touch) {
    const section = this.editable ? this.section : null;
    if (!section) return null;
    const tolerance = (touch ? 22 : 9) / this.pane.view.scale;
    return handleUnderPoint(section, screenToPlane(this.pane.view, at), tolerance, this.reach);
  }

  /**
   * @param {Vector} at
   * @param {Modifiers} modifiers
   */
  holds(at, modifiers) {
    return this.handleAt(at, modifiers.touch) !== null;
  }

  /**
   * In volumes the middle button sets window and level, and the right one with Shift goes through slices, as readers of
   * scans are used to; the right one alone pans, as everywhere.
   * @param {Modifiers} modifiers
   */
  grips({ button, shift }) {
    return this.pane.plane.d === 3 && (button === 1 || (button === 2 && shift));
  }

  /**
   * With Shift held, the planes of a volume follow the pointer.
   * @param {Vector | null} at
   * @param {Modifiers} [modifiers]
   */
  hover(at, modifiers) {
    this.pane.pointer = at;
    if (at && modifiers?.shift && this.pane.plane.d === 3) this.pane.stage.setCross(this.pane.side, this.toWorld(at), this.pane.axis);
    const handle = at ? this.handleAt(at, false) : null;
    this.hovered = handle;
    this.pane.stage.ghost.follow(this.pane.side, at && this.toWorld(at));
    const cursors = { centre: "move", inside: this.pane.stage.store.state.mark ? "ns-resize" : "crosshair", rim: "nwse-resize" };
    const named = handle === null ? "crosshair" : (cursors[/** @type {"rim"} */ (handle)] ?? "grab");
    const points = this.pane.side === "moving" || this.pane.plane.d === 3 || this.ownPoints.choosesFixed;
    this.pane.canvas.style.cursor = points && !this.pane.warped ? named : "grab";
    this.pane.stage.drawSoon();
  }

  /** @param {Vector} at */
  toWorld(at) {
    return planeToWorld(this.pane.plane, screenToPlane(this.pane.view, at), this.pane.depth);
  }

  /**
   * The place under the pointer that is offered instead of the one asked for.
   * @param {Vector} at
   * @param {boolean} touch
   * @returns {Vector | undefined}
   */
  offeredAt(at, touch) {
    const { plane, view, side, stage } = this.pane;
    if (side !== "fixed" || stage.store.state.task !== "nearby") return undefined;
    return stage.store.state.offered.find(({ point }) => norm(subtract(worldToScreen(plane, view, point), at)) <= (touch ? 22 : 10))?.point;
  }

  /**
   * @param {Vector} at
   * @param {Modifiers} modifiers
   */
  click(at, { touch }) {
    const { pane } = this;
    const point = this.offeredAt(at, touch) ?? this.toWorld(at);
    if (this.editable) {
      const { mark } = pane.stage.store.state;
      const section = this.section;
      // Inside one's own ellipse a click corrects the centre and keeps the shape.
      const inside = mark && section && levelOfPoint(section, screenToPlane(pane.view, at)) < 1;
      const next = inside ? { ...mark, point } : ballMark(point, this.marks.clickRadius(pane.view.scale, touch).radius, this.marks.alpha);
      this.marks.edit(next);
      if (!inside) this.marks.sayClickSize(pane.view.scale, touch);
    } else if (pane.side === "moving") this.marks.explainLock();
    else if (this.ownPoints.choosesFixed && !pane.warped) this.ownPoints.setOwn(point);
    if (pane.plane.d === 3) pane.stage.setCross(pane.side, point, pane.axis);
  }

  /**
   * @param {"start" | "move" | "end" | "cancel"} phase
   * @param {Vector} from
   * @param {Vector} to
   * @param {Modifiers} modifiers
   */
  drag(phase, from, to, modifiers) {
    if (phase === "start") {
      this.dragging = this.beginDrag(from, modifiers);
      if (this.drawing) this.marks.beginEdit();
      return;
    }
    if (phase === "cancel") this.marks.cancelEdit();
    else if (this.dragging) this.moveDrag(this.dragging, from, to);
    if (phase !== "move") {
      const { drawing, dragging } = this;
      this.dragging = null;
      if (dragging?.kind === "pull") {
        if (phase === "end") void dragging.pull.end();
        else dragging.pull.over = true;
      } else if (drawing && phase === "end") {
        this.marks.commitEdit();
        const { mark } = this.pane.stage.store.state;
        if (dragging?.kind === "new") this.marks.sayDragSize();
        else if (dragging?.kind === "edit" && mark && norm(subtract(mark.point, dragging.mark.point)) > 0) this.marks.sayWay();
        if (mark && this.pane.plane.d === 3) this.pane.stage.setCross("moving", mark.point, this.pane.axis);
      }
    }
  }

  /**
   * @param {Vector} from
   * @param {Modifiers} modifiers
   * @returns {Drag}
   */
  beginDrag(from, modifiers) {
    const { pane } = this;
    const { mark, colours } = pane.stage.store.state;
    if (modifiers.control || modifiers.button === 1) return { kind: "window", colours: colours[pane.side] };
    if (modifiers.button === 2) return { kind: "slices", turned: 0 };
    const section = this.section;
    if (modifiers.alt && this.editable && mark && section) return { kind: "turn", mark, section };
    const handle = this.handleAt(from, modifiers.touch);
    if (handle && mark && section) return { kind: "edit", mark, section, handle };
    if (this.editable) return { kind: "new" };
    if (canPull(pane, this.annotator)) return { kind: "pull", pull: new Pull(this.annotator, pane, this.toWorld(from)) };
    return pane.plane.d === 3 ? { kind: "cross" } : { kind: "pan", last: from };
  }

  /**
   * @param {Drag} drag
   * @param {Vector} from
   * @param {Vector} to
   */
  moveDrag(drag, from, to) {
    const { pane } = this;
    if (drag.kind === "pan") {
      pane.pan([to[0] - drag.last[0], to[1] - drag.last[1]]);
      drag.last = to;
    } else if (drag.kind === "slices") {
      const turned = Math.trunc((to[1] - from[1]) / SLICE);
      if (turned !== drag.turned) pane.turnSlices(turned - drag.turned);
      drag.turned = turned;
    } else if (drag.kind === "pull") drag.pull.move(this.toWorld(to));
    else if (drag.kind === "cross") pane.stage.setCross(pane.side, this.toWorld(to), pane.axis);
    else if (drag.kind === "window") pane.stage.shiftWindow(pane.side, drag.colours, [to[0] - from[0], to[1] - from[1]]);
    else {
      const [a, b] = [from, to].map((at) => screenToPlane(pane.view, at));
      if (drag.kind === "edit") {
        const after = dragHandle(drag.section, drag.handle, a, b, { floor: this.marks.floor, reach: this.reach });
        this.apply(drag.mark, drag.section, after);
      } else if (drag.kind === "turn") {
        const [before, after] = [a, b].map((point) => subtract(point, drag.section.centre));
        const angle = Math.atan2(after[1], after[0]) - Math.atan2(before[1], before[0]);
        if (norm(before) > 0 && norm(after) > 0) this.apply(drag.mark, drag.section, turnedEllipse(drag.section, angle));
      } else {
        const { marks, radius } = this;
        const across = widthAcross(norm(subtract(b, a)), radius, marks.habits.habit);
        const drawn = ellipseFromDrag(a, b, across, marks.floor);
        marks.preview(markFromEllipse(pane.plane, drawn, pane.depth, across, marks.alpha));
      }
    }
  }

  /**
   * @param {Mark} mark
   * @param {Ellipse} before
   * @param {Ellipse} after
   */
  apply(mark, before, after) {
    const next = markWithSection(this.pane.plane, mark, this.pane.depth, before, after);
    const { floor } = this.marks;
    const bounds = /** @type {const} */ ([floor / 2, floor * 1e6]);
    // A needle too thin to compute with: the handle stops there. What was thinner from the start may still be edited.
    if (admissible(next, ...bounds) || !admissible(mark, ...bounds)) this.marks.preview(next);
  }

  /** @param {Vector} shift */
  pan(shift) {
    this.pane.pan(shift);
  }

  /**
   * @param {Vector} at
   * @param {number} factor
   */
  pinch(at, factor) {
    this.pane.zoom(at, factor);
  }

  /**
   * The wheel looks around and never edits.
   * @param {Vector} at
   * @param {number} notches
   * @param {Modifiers} modifiers
   */
  wheel(at, notches, modifiers) {
    const { pane } = this;
    if (pane.plane.d === 3 && !modifiers.shift && !modifiers.control) {
      this.notches += notches;
      const steps = Math.trunc(this.notches * 1.0001);
      this.notches -= steps;
      if (steps) pane.turnSlices(steps);
    } else pane.zoom(at, 1.25 ** -notches);
  }
}
