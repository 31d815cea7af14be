/** The mark on its way to an answer: drawn, changed, taken back and forth, and kept as a draft. Nothing is sent. @module */

import { covarianceFromMark, markFromCovariance, movedMark, scaledMark } from "./ellipsoid.js";
import { keep, kept, keyFor } from "./kept.js";

/** @import { Mark } from "./ellipsoid.js" */
/** @import { Vector } from "./linalg.js" */
/** @import { Store } from "./store.js" */
/** @import { Project, Query, State } from "./types.js" */

/** The ring that is the cursor: its words, and its radius in screen pixels at the magnification of the click. */
export const RINGS = /** @type {const} */ ([{ words: "sharp", pixels: 1.5 }, { words: "about", pixels: 4 }, { words: "roughly", pixels: 12 }]);
const TOGETHER = 700; // key edits this close in time are one step of undo
/** Nothing drawn or chosen, and nothing to take back. @type {Partial<State>} */
const NO_MARK = { mark: null, dirty: false, past: [], future: [], doubt: null, conflict: null, own: null, expected: null };

export class MarkEditor {
  /** @param {Store<State>} store @param {Project} project @param {() => void} changed is told of every finished change of the mark */
  constructor(store, project, changed) {
    this.store = store;
    this.project = project;
    this.changed = changed;
    this.draftKey = keyFor(project, "draft");
    this.alpha = project.settings.alpha;
    this.pixel = Math.min(...project.images.moving.spacing);
    // A hundredth of a pixel: below that an ellipse says nothing about an image.
    this.floor = this.pixel / 100;
    /** @type {{mark: Mark | null, dirty: boolean} | null} */
    this.editing = null;
    this.lastQuick = -Infinity;
  }

  get state() {
    return this.store.state;
  }

  /** Radius of the ring in world units, never below half an image pixel. @param {number} scale screen pixels per unit @param {number} [ring] */
  ringRadius(scale, ring = this.state.ring) {
    return Math.max(RINGS[ring].pixels / scale, this.pixel / 2);
  }

  /** Whether the mark may be changed. */
  get editable() {
    const { query, done, writing, drawer } = this.state;
    return !this.project.readonly && writing === "idle" && drawer !== "organiser" && (query !== null || done !== null) && !query?.locked;
  }

  /** Begin with what is stored for a query, or with its draft. @param {Query | null} query @returns {Mark | null} */
  take(query) {
    const stored = query && storedMark(query);
    const draft = kept(this.draftKey);
    const left = draft && draft.query === (query?.query ?? null) ? draft : null;
    const place = query?.answer?.kind === "place" ? query.answer.fixed : null;
    this.store.set({ ...NO_MARK, query, mark: left?.mark ?? stored, own: left ? left.own : place, dirty: Boolean(left?.mark) });
    return left?.mark ?? stored;
  }

  /** A finished change of the mark. @param {Mark | null} mark */
  edit(mark) {
    const { past, mark: before } = this.state;
    this.store.set({ mark, past: [...past, before].slice(-100), future: [], dirty: true, doubt: null });
    this.finish();
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
    if (!before || this.state.mark === before.mark) return;
    this.store.set({ past: [...this.state.past, before.mark].slice(-100), future: [] });
    this.finish();
  }

  cancelEdit() {
    if (this.editing) this.store.set(this.editing);
    this.editing = null;
  }

  /** Change the mark as a key asks; many in a row are one step of undo. @param {(mark: Mark) => Mark} change */
  adjust(change) {
    const { mark } = this.state;
    if (!mark || !this.editable) return;
    const now = performance.now();
    this.beginEdit();
    this.preview(change(mark));
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

  /** The next size of the ring; a mark that is drawn changes with it. @param {1 | -1} step @param {number} scale screen pixels per unit */
  resize(step, scale) {
    const { ring } = this.state;
    const next = /** @type {0 | 1 | 2} */ (Math.min(2, Math.max(0, ring + step)));
    const factor = this.ringRadius(scale, next) / this.ringRadius(scale, ring);
    this.store.set({ ring: next });
    if (factor !== 1) this.adjust((mark) => scaledMark(mark, factor));
  }

  /** Clear what is not accepted. */
  clear() {
    const { query, mark, dirty } = this.state;
    const stored = query && storedMark(query);
    const place = query?.answer?.kind === "place" ? query.answer.fixed : null;
    if (mark && dirty) this.edit(stored);
    this.store.set({ dirty: false, own: place, expected: null });
    this.keepDraft();
  }

  finish() {
    this.keepDraft();
    this.changed();
  }

  keepDraft() {
    const { query, mark, own, dirty } = this.state;
    keep(this.draftKey, dirty || (own && !query?.answer) ? { query: query?.query ?? null, own, mark: dirty ? mark : null } : null);
  }

  dropDraft() {
    keep(this.draftKey, null);
  }

  /** One step back or forth through what is drawn and not accepted. @param {"past" | "future"} from @returns {boolean} whether there was one */
  step(from) {
    const { past, mark, future, query } = this.state;
    const steps = from === "past" ? past : future;
    if (steps.length === 0) return false;
    const next = from === "past" ? { past: past.slice(0, -1), mark: past[past.length - 1], future: [mark, ...future] } : { past: [...past, mark], mark: future[0], future: future.slice(1) };
    const dirty = next.past.length > 0 || (query?.answer?.kind !== "place" && next.mark !== null);
    this.store.set({ ...next, dirty, doubt: null });
    this.finish();
    return true;
  }
}

/** What the server is told of a mark besides its point. @param {Mark} mark */
export function certaintyOf(mark) {
  return { covariance: covarianceFromMark(mark), alpha: mark.alpha };
}

/** The mark of an answer that placed one. @param {Query} query @returns {Mark | null} */
function storedMark({ answer }) {
  return answer?.kind === "place" ? markFromCovariance(answer.point, answer.covariance, answer.alpha) : null;
}
