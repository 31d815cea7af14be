/**
 * The mark on its way to an answer: drawn, changed, taken back and forth, and kept as a draft. Nothing is sent.
 * @module
 */

import { root } from "./api.js";
import { length, unitName } from "./dom.js";
import { Drafts } from "./drafts.js";
import { axesOfMark, sizeInWords } from "./figures.js";
import { HabitKeeper, clickRadius } from "./habit.js";
import { covarianceFromMark, markFromCovariance, movedMark, scaledMark, wayOfMark } from "./ellipsoid.js";
import { say } from "./message.js";
import { advanced, steppedBack, steppedForward } from "./store.js";

/** @import { Mark } from "./ellipsoid.js" */
/** @import { Vector } from "./linalg.js" */
/** @import { History, Store } from "./store.js" */
/** @import { Project, Query, State } from "./types.js" */

const TOGETHER = 700; // wheel and key edits this close in time are one step of undo
/** Nothing drawn or chosen, and nothing to take back. */
export const NO_MARK = { mark: null, dirty: false, past: [], future: [], doubt: null, own: null, offered: [] };

export class MarkEditor {
  /**
   * @param {Store<State>} store
   * @param {Project} project
   * @param {() => void} changed is told of every finished change of the mark
   */
  constructor(store, project, changed) {
    this.store = store;
    this.project = project;
    this.changed = changed;
    this.drafts = new Drafts(`warpgauge:draft:${project.name}:${project.rater}${root()}`);
    this.habits = new HabitKeeper(`warpgauge:habit:${project.name}:${project.rater}`);
    this.alpha = project.settings.alpha;
    // A hundredth of a pixel: below that an ellipse says nothing about an image.
    this.floor = Math.min(...project.images.moving.spacing) / 100;
    /** @type {{mark: Mark | null, dirty: boolean} | null} */
    this.editing = null;
    this.lastQuick = -Infinity;
  }

  /**
   * Radius of a plain click, and where it comes from.
   * @param {number} scale screen pixels per unit
   * @param {boolean} [touch] whether a finger does it
   */
  clickRadius(scale, touch = false) {
    const { settings, images } = this.project;
    const { sharpness } = images.moving;
    return clickRadius({ radius: settings.default_radius, sharpness, scale }, this.habits.habit, touch);
  }

  /**
   * Say how large a click made the region, and why.
   * @param {number} scale screen pixels per unit
   * @param {boolean} touch
   */
  sayClickSize(scale, touch) {
    const { radius, why } = this.clickRadius(scale, touch);
    if (this.state.task === "answer") say(this.store, `± ${this.inUnits(radius)}, ${why}. Handles or [ ] change it, Enter accepts.`);
  }

  /** Say how wide a drag made the region, and why. */
  sayDragSize() {
    const { mark, task } = this.state;
    if (!mark || task !== "answer") return;
    say(this.store, `± ${sizeInWords(axesOfMark(mark))} ${unitName(this.project.units)}, ${this.habits.habit.share === null ? "half as wide as long" : "shaped like your last one"}. Handles or Shift+[ ] change the width, Enter accepts.`);
  }

  /** Say how far the mark is from where it was put: a drag may have moved it that was meant for its size. */
  sayWay() {
    const { mark, task } = this.state;
    if (mark && task === "answer") say(this.store, `The mark is moved by ${this.inUnits(wayOfMark(mark))}. Enter accepts it there, Z takes it back.`);
  }

  /** @param {number} value */
  inUnits(value) {
    return length(Number(value.toPrecision(2)), this.project.units);
  }

  get state() {
    return this.store.state;
  }

  /** Whether this visitor may place anything at all now. */
  get allowed() {
    return !this.project.readonly && this.state.writing === "idle";
  }

  /** Whether the mark may be changed. */
  get editable() {
    const { query, task } = this.state;
    if (!this.allowed) return false;
    return task === "start" || task === "own" || (query !== null && !query.locked);
  }

  explainLock() {
    const { query } = this.state;
    if (this.project.readonly) say(this.store, "The project's folder is read-only, so nothing can be placed.", "warning");
    else if (query?.locked) say(this.store, "The organiser has settled this location.", "warning");
  }

  /**
   * Begin with what is stored for a query, or with its draft.
   * @param {Query} query
   * @returns {Mark | null}
   */
  take(query) {
    const [stored, draft] = [storedMark(query), this.drafts.of(query.query)];
    this.alpha = (draft ?? stored)?.alpha ?? this.project.settings.alpha;
    this.store.set({ query, done: null, ...NO_MARK, mark: draft ?? stored, dirty: draft !== null, task: "answer" });
    return draft ?? stored;
  }

  /**
   * A finished change of the mark.
   * @param {Mark | null} mark
   */
  edit(mark) {
    const { past, future } = advanced(this.history, mark);
    this.store.set({ mark, past, future, dirty: true, doubt: null });
    this.keepDraft();
    this.changed();
  }

  beginEdit() {
    this.editing = { mark: this.state.mark, dirty: this.state.dirty };
  }

  /** @param {Mark} mark */
  preview(mark) {
    this.store.set({ mark, dirty: true, doubt: null });
  }

  commitEdit() {
    const before = this.editing;
    this.editing = null;
    const now = this.state.mark;
    if (!before || now === before.mark) return;
    this.store.set({ past: [...this.state.past, before.mark], future: [] });
    this.keepDraft();
    this.changed();
  }

  cancelEdit() {
    if (this.editing) this.store.set(this.editing);
    this.editing = null;
  }

  /**
   * A small change by wheel or key; many in a row are one step of undo.
   * @param {() => void} change
   */
  quickEdit(change) {
    const now = performance.now();
    this.beginEdit();
    change();
    if (now - this.lastQuick < TOGETHER) {
      this.editing = null;
      this.keepDraft();
    } else this.commitEdit();
    this.lastQuick = now;
  }

  /** @param {Vector} shift_world */
  nudge(shift_world) {
    this.adjust((mark) => movedMark(mark, shift_world));
  }

  /** @param {number} factor */
  resize(factor) {
    this.adjust((mark) => scaledMark(mark, factor));
  }

  /**
   * Change the mark as a key asks; many in a row are one step of undo.
   * @param {(mark: Mark) => Mark} change
   */
  adjust(change) {
    const { mark } = this.state;
    if (mark && this.editable) this.quickEdit(() => this.preview(change(mark)));
  }

  /**
   * The drawn region stays; what it means changes.
   * @param {number} alpha
   */
  setAlpha(alpha) {
    this.alpha = alpha;
    const { mark } = this.state;
    if (mark && this.editable) this.edit({ ...mark, alpha });
    say(this.store, `The region that you draw holds the match with ${Math.round(1000 * (1 - alpha)) / 10} % confidence.`);
  }

  /** Clear what is not accepted. */
  clear() {
    const { query, mark, dirty } = this.state;
    const stored = query && this.state.task === "answer" ? storedMark(query) : null;
    if (mark && dirty) this.edit(stored);
    this.store.set({ dirty: false });
    this.alpha = stored?.alpha ?? this.project.settings.alpha;
    this.keepDraft();
  }

  /** A place that is chosen beside the question leaves the draft of its answer alone. */
  keepDraft() {
    const { query, mark, dirty, task } = this.state;
    if (task !== "answer") return;
    if (query && mark && dirty) this.drafts.keep(query.query, mark);
    else this.drafts.drop();
  }

  /** @returns {History<Mark | null>} */
  get history() {
    return { past: this.state.past, present: this.state.mark, future: this.state.future };
  }

  /** @returns {boolean} whether there was anything drawn to take back */
  stepBack() {
    return this.state.past.length > 0 && this.step(steppedBack(this.history));
  }

  /** @returns {boolean} whether there was anything taken back to draw again */
  stepForward() {
    return this.state.future.length > 0 && this.step(steppedForward(this.history));
  }

  /** @param {History<Mark | null>} history */
  step({ past, present, future }) {
    const dirty = past.length === 0 && this.state.query?.answer?.kind !== "place" ? present !== null : past.length > 0;
    this.store.set({ past, mark: present, future, dirty });
    if (present) this.alpha = present.alpha;
    this.keepDraft();
    return true;
  }
}

/**
 * What the server is told of a mark besides its point.
 * @param {Mark} mark
 */
export function certaintyOf(mark) {
  return { covariance: covarianceFromMark(mark), alpha: mark.alpha, ...(mark.snappedFrom ? { snapped_from: mark.snappedFrom } : {}) };
}

/**
 * The mark of an answer that placed one.
 * @param {Query} query
 * @returns {Mark | null}
 */
export function storedMark({ answer }) {
  if (answer?.kind !== "place") return null;
  const mark = markFromCovariance(answer.point, answer.covariance, answer.alpha);
  return answer.snapped_from ? { ...mark, snappedFrom: answer.snapped_from } : mark;
}
