/**
 * The work itself: the query, the mark that answers it, and what becomes of it. No drawing, no keys.
 * @module
 */

import { RefusedError, sameAnswer } from "./api.js";
import { covarianceFromMark, markFromCovariance, movedMark, scaledMark } from "./ellipsoid.js";
import { advanced, steppedBack, steppedForward } from "./store.js";

/** @import { Api } from "./api.js" */
/** @import { Mark } from "./ellipsoid.js" */
/** @import { Vector } from "./linalg.js" */
/** @import { Stage } from "./stage.js" */
/** @import { Store } from "./store.js" */
/** @import { Conflict, Done, Project, Query, Saved, State } from "./types.js" */

const TOGETHER = 700; // wheel and key edits this close in time are one step of undo

export class Annotator {
  /**
   * @param {Store<State>} store
   * @param {Api} api
   * @param {Project} project
   * @param {(conflict: Conflict, query: Query) => Promise<"mine" | "theirs">} settle asks the expert
   */
  constructor(store, api, project, settle) {
    this.store = store;
    this.api = api;
    this.project = project;
    this.settle = settle;
    /** @type {Stage | null} */
    this.stage = null;
    this.radius = project.settings.default_radius;
    this.alpha = project.settings.alpha;
    // A hundredth of a pixel: below that an ellipse says nothing about an image.
    this.floor = Math.min(...project.images.moving.spacing) / 100;
    /** @type {{mark: Mark | null, dirty: boolean} | null} */
    this.editing = null;
    this.lastQuick = -Infinity;
    this.draftKey = `warpgauge:draft:${project.name}:${project.rater}`;
    this.seconds = 0;
    this.since = performance.now();
    document.addEventListener("visibilitychange", () => this.countTime());
  }

  get state() {
    return this.store.state;
  }

  /** Whether the mark may be changed. */
  get editable() {
    const { query, writing } = this.state;
    const { role, readonly } = this.project;
    return query !== null && role !== "viewer" && !readonly && !query.locked && writing === "idle";
  }

  explainLock() {
    const { query } = this.state;
    if (this.project.role === "viewer") this.say("You are here to look: viewers cannot place marks.", "warning");
    else if (this.project.readonly) this.say("The project's folder is read-only, so nothing can be placed.", "warning");
    else if (query?.locked) this.say("The organiser has settled this location.", "warning");
  }

  /**
   * @param {string} message
   * @param {"note" | "warning" | "error"} [tone]
   */
  say(message, tone = "note") {
    this.store.set({ message, tone });
  }

  /** Time that the page was visible since the query came up. */
  countTime() {
    const now = performance.now();
    if (document.visibilityState === "hidden") this.seconds += (now - this.since) / 1000;
    this.since = now;
  }

  get duration() {
    const visible = document.visibilityState !== "hidden";
    return Math.round((this.seconds + (visible ? (performance.now() - this.since) / 1000 : 0)) * 1000) / 1000;
  }

  // ---- what is asked -------------------------------------------------------------------------------------------

  /** The first question, or where one was. */
  async start() {
    await this.finishFormerVisit();
    this.show(await this.api.get("/api/query"), true);
  }

  async finishFormerVisit() {
    const left = this.api.pending();
    if (!left) return;
    try {
      const answer = await this.api.resume();
      if (answer?.saved) this.store.set({ saved: answer.saved });
    } catch (error) {
      if (!(error instanceof RefusedError)) throw error;
      const path = left.path.match(/^\/api\/query\/(\d+)\/(place|skip)$/);
      if (error.conflict && path) {
        const query = await this.api.get(`/api/query/${path[1]}`);
        await this.settled(error.conflict, query, left.path, left.body);
      } else this.say(`Your last action could not be sent: ${error.message}`, "warning");
    }
  }

  /**
   * Put a query on the screen.
   * @param {Query | Done} next
   * @param {boolean} [look] whether to go there
   */
  show(next, look = true) {
    if ("done" in next) {
      this.store.set({ query: null, done: next, mark: null, dirty: false, past: [], future: [] });
      this.say(next.reasons.join(" ") || "Nothing is left to ask. Thank you.");
      return;
    }
    const stored = next.answer?.kind === "place" ? markFromCovariance(next.answer.point, next.answer.covariance, next.answer.alpha) : null;
    const draft = this.draftOf(next.query);
    this.alpha = (draft ?? stored)?.alpha ?? this.project.settings.alpha;
    this.store.set({ query: next, done: null, mark: draft ?? stored, dirty: draft !== null, past: [], future: [] });
    this.seconds = 0;
    this.since = performance.now();
    this.sayQuestion(next);
    if (look) this.lookAtQuery(next, draft ?? stored);
  }

  /** @param {Query} query */
  sayQuestion(query) {
    const skipped = query.answer?.kind === "skip" ? `You skipped this one (${query.answer.reason.replaceAll("_", " ")}). ` : "";
    const off = query.disabled ? "This annotation is switched off: the model does not use it. " : "";
    if (query.prediction?.outside && !this.state.predictionHidden) {
      this.say(`${skipped}${off}The match is expected outside the moving image: press S if it is not there.`, "warning");
    } else this.say(`${skipped}${off}Where is this point in the moving image? Click it. Drag to show how sure you are.`);
  }

  /**
   * @param {Query} query
   * @param {Mark | null} mark
   */
  lookAtQuery(query, mark) {
    const { stage } = this;
    if (!stage) return;
    const prediction = this.state.predictionHidden ? null : query.prediction;
    const spread = prediction ? markFromCovariance(prediction.mean, prediction.covariance, prediction.alpha) : mark;
    const halfLength = spread ? Math.sqrt(Math.max(...spread.shape.map((row, i) => row[i]))) : null;
    // The region fills a third of the view.
    const span = halfLength === null ? null : halfLength * 6;
    stage.lookAt("fixed", query.location, span);
    const there = mark?.point ?? prediction?.mean;
    if (there) stage.lookAt("moving", there, span);
    else if (!this.state.cross.moving) stage.lookAt("moving", stage.overlays.middleOfImage("moving"), null);
  }

  // ---- drawing -------------------------------------------------------------------------------------------------

  /**
   * A finished change of the mark.
   * @param {Mark | null} mark
   */
  edit(mark) {
    const history = advanced({ past: this.state.past, present: this.state.mark, future: this.state.future }, mark);
    this.store.set({ mark, past: history.past, future: history.future, dirty: true });
    this.keepDraft();
  }

  beginEdit() {
    this.editing = { mark: this.state.mark, dirty: this.state.dirty };
  }

  /** @param {Mark} mark */
  preview(mark) {
    this.store.set({ mark, dirty: true });
  }

  commitEdit() {
    const before = this.editing;
    this.editing = null;
    const now = this.state.mark;
    if (!before || now === before.mark) return;
    this.store.set({ past: [...this.state.past, before.mark], future: [] });
    this.keepDraft();
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
    const { mark } = this.state;
    if (mark && this.editable) this.quickEdit(() => this.preview(movedMark(mark, shift_world)));
  }

  /** @param {number} factor */
  resize(factor) {
    const { mark } = this.state;
    if (mark && this.editable) this.quickEdit(() => this.preview(scaledMark(mark, factor)));
  }

  /**
   * The drawn region stays; what it means changes.
   * @param {number} alpha
   */
  setAlpha(alpha) {
    this.alpha = alpha;
    const { mark } = this.state;
    if (mark && this.editable) this.edit({ ...mark, alpha });
    this.say(`The region that you draw holds the match with ${Math.round(1000 * (1 - alpha)) / 10} % confidence.`);
  }

  /** Clear what is not accepted. */
  escape() {
    const { query, mark } = this.state;
    if (!query) return;
    const stored = query.answer?.kind === "place" ? markFromCovariance(query.answer.point, query.answer.covariance, query.answer.alpha) : null;
    if (mark && this.state.dirty) this.edit(stored);
    this.store.set({ dirty: false });
    this.alpha = stored?.alpha ?? this.project.settings.alpha;
    this.keepDraft();
    this.sayQuestion(query);
  }

  keepDraft() {
    const { query, mark, dirty } = this.state;
    try {
      if (query && mark && dirty) localStorage.setItem(this.draftKey, JSON.stringify({ query: query.query, mark }));
      else localStorage.removeItem(this.draftKey);
    } catch {
      // Storage is full or forbidden: the draft lives as long as the page does.
    }
  }

  /**
   * @param {number} query
   * @returns {Mark | null}
   */
  draftOf(query) {
    try {
      const draft = JSON.parse(localStorage.getItem(this.draftKey) ?? "null");
      return draft?.query === query ? draft.mark : null;
    } catch {
      return null;
    }
  }

  // ---- answering -----------------------------------------------------------------------------------------------

  async accept() {
    const { query, mark } = this.state;
    if (!query || !this.editable) {
      this.explainLock();
      return;
    }
    if (!mark) {
      this.say("Click the match in the moving image first; S if you cannot tell.", "warning");
      return;
    }
    await this.write(query, "place", { point: mark.point, covariance: covarianceFromMark(mark), alpha: mark.alpha });
  }

  /**
   * @param {string} reason
   * @param {string} text
   */
  async skip(reason, text) {
    const { query } = this.state;
    if (query && this.editable) await this.write(query, "skip", { reason, text });
    else this.explainLock();
  }

  /**
   * @param {Query} query
   * @param {"place" | "skip"} verb
   * @param {Record<string, unknown>} answer
   */
  async write(query, verb, answer) {
    const path = `/api/query/${query.query}/${verb}`;
    const body = { ...answer, duration: this.duration, generation: query.generation };
    await this.sending(async () => {
      try {
        this.wrote(await this.api.post(path, body));
      } catch (error) {
        if (!(error instanceof RefusedError) || !error.conflict) throw error;
        await this.settled(error.conflict, query, path, body);
      }
    });
  }

  /** @param {{saved: Saved, next: Query | Done}} answer */
  wrote({ saved, next }) {
    localStorage.removeItem(this.draftKey);
    this.store.set({ saved, writing: "idle" });
    this.stage?.link.forget();
    this.show(next);
    this.onWritten();
  }

  /** Replaced by the page: the list and the progress are out of date. */
  onWritten() {}

  /**
   * Another tab wrote meanwhile: the expert chooses.
   * @param {Conflict} conflict
   * @param {Query} query
   * @param {string} path
   * @param {Record<string, unknown>} body
   */
  async settled(conflict, query, path, body) {
    if (sameAnswer(body, conflict.theirs) || (await this.settle(conflict, query)) === "theirs") {
      localStorage.removeItem(this.draftKey);
      this.store.set({ writing: "idle" });
      this.show(await this.api.get(`/api/query/${query.query}`));
      this.say("The other version is kept.");
      this.onWritten();
      return;
    }
    this.wrote(await this.api.post(path, { ...body, generation: conflict.generation }));
  }

  /** @param {() => Promise<void>} work */
  async sending(work) {
    if (this.state.writing === "saving") return;
    this.store.set({ writing: "saving" });
    try {
      await work();
    } catch (error) {
      this.say(error instanceof Error ? error.message : String(error), "error");
      if (error instanceof RefusedError && error.status === 401) this.store.set({ connection: "refused" });
    } finally {
      this.store.set({ writing: "idle" });
    }
  }

  async another() {
    const { query } = this.state;
    if (query) await this.sending(async () => this.show(await this.api.post(`/api/query/${query.query}/another`, { generation: query.generation })));
  }

  async previous() {
    const { query } = this.state;
    await this.sending(async () => this.show(await this.api.get(`/api/previous${query ? `?query=${query.query}` : ""}`)));
  }

  /** @param {number} number */
  async goTo(number) {
    await this.sending(async () => this.show(await this.api.get(`/api/query/${number}`)));
  }

  /** Back to the open question. */
  async current() {
    await this.sending(async () => this.show(await this.api.get("/api/query")));
  }

  /**
   * @param {number} query
   * @param {boolean} disabled
   */
  async disable(query, disabled) {
    await this.sending(async () => {
      const answer = await this.api.post(`/api/query/${query}/disable`, { disabled, generation: this.generation });
      this.store.set({ saved: answer.saved });
      if (this.state.query?.query === query) this.store.set({ query: { ...this.state.query, disabled, generation: answer.saved.generation } });
      this.stage?.link.forget();
      this.onWritten();
    });
  }

  get generation() {
    const { query, done, saved } = this.state;
    return Math.max(query?.generation ?? 0, done?.generation ?? 0, saved?.generation ?? 0, this.project.generation);
  }

  /** First what is drawn and not accepted, then what is stored. */
  async undo() {
    const history = { past: this.state.past, present: this.state.mark, future: this.state.future };
    if (history.past.length > 0) this.step(steppedBack(history));
    else await this.stored("undo");
  }

  async redo() {
    const history = { past: this.state.past, present: this.state.mark, future: this.state.future };
    if (history.future.length > 0) this.step(steppedForward(history));
    else await this.stored("redo");
  }

  /** @param {import("./store.js").History<Mark | null>} history */
  step({ past, present, future }) {
    const pristine = past.length === 0 && this.state.query?.answer?.kind !== "place" ? present !== null : past.length > 0;
    this.store.set({ past, mark: present, future, dirty: pristine });
    if (present) this.alpha = present.alpha;
    this.keepDraft();
  }

  /** @param {"undo" | "redo"} verb */
  async stored(verb) {
    await this.sending(async () => {
      const { saved, query } = await this.api.post(`/api/${verb}`, { generation: this.generation });
      localStorage.removeItem(this.draftKey);
      this.store.set({ saved });
      const point = query.answer?.point ?? query.prediction?.mean;
      const seen = this.state.query?.query === query.query && (!point || this.stage?.sees("moving", point));
      this.stage?.link.forget();
      this.show(query, !seen);
      this.say(verb === "undo" ? `Undone: query ${query.number} is as it was before.` : `Done again: query ${query.number}.`);
      this.onWritten();
    });
  }
}
