/**
 * The work itself: the query, the mark that answers it, and what becomes of it. No drawing, no keys.
 * @module
 */

import { RefusedError, acknowledgement } from "./api.js";
import { covarianceFromMark, markFromPrediction } from "./ellipsoid.js";
import { MarkEditor } from "./markeditor.js";
import { Stopwatch } from "./stopwatch.js";

/** @import { Api } from "./api.js" */
/** @import { Mark } from "./ellipsoid.js" */
/** @import { Stage } from "./stage.js" */
/** @import { Store } from "./store.js" */
/** @import { Conflict, Done, Project, Query, Saved, State } from "./types.js" */

export class Annotator extends MarkEditor {
  /**
   * @param {Store<State>} store
   * @param {Api} api
   * @param {Project} project
   * @param {(conflict: Conflict, query: Query) => Promise<"mine" | "theirs">} settle asks the expert
   */
  constructor(store, api, project, settle) {
    super(store, project);
    this.api = api;
    this.settle = settle;
    /** @type {Stage | null} */
    this.stage = null;
    this.watch = new Stopwatch();
  }

  /** Replaced by the page: the list and the progress are out of date. */
  onWritten() {}

  // ---- what is asked -------------------------------------------------------------------------------------------

  /**
   * The first question, or where one was.
   * @param {Promise<Query | Done> | null} asked a question that was asked ahead, where nothing is left to be sent
   */
  async start(asked) {
    await this.finishFormerVisit();
    this.show(await (asked ?? this.api.get("/api/query")), true);
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
    const mark = this.take(next);
    this.watch.restart();
    this.sayQuestion(next);
    if (look) this.lookAtQuery(next, mark);
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
    const spread = prediction ? markFromPrediction(prediction) : mark;
    const halfLength = spread ? Math.sqrt(Math.max(...spread.shape.map((row, i) => row[i]))) : null;
    // The region fills a third of the view.
    const span = halfLength === null ? null : halfLength * 6;
    stage.lookAt("fixed", query.location, span);
    const there = mark?.point ?? prediction?.mean;
    if (there) stage.lookAt("moving", there, span);
    else if (!this.state.cross.moving) stage.lookAt("moving", stage.middleOfImage("moving"), null);
  }

  /** Clear what is not accepted, and ask again. */
  escape() {
    const { query } = this.state;
    if (!query) return;
    this.clear();
    this.sayQuestion(query);
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
    const body = { ...answer, duration: this.watch.seconds, generation: query.generation };
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
    this.drafts.drop();
    this.store.set({ saved, writing: "idle" });
    this.stage?.link.forget();
    this.show(next);
    this.onWritten();
  }

  /**
   * The server holds another answer than the one that this page knew.
   * @param {Conflict} conflict
   * @param {Query} query
   * @param {string} path
   * @param {Record<string, unknown>} body
   */
  async settled(conflict, query, path, body) {
    // What it holds is what was sent: only the acknowledgement was lost on the way.
    const saved = acknowledgement(body, conflict);
    if (saved) {
      this.wrote({ saved, next: await this.api.get("/api/query") });
      return;
    }
    // Another tab wrote meanwhile: the expert chooses.
    if ((await this.settle(conflict, query)) === "theirs") {
      this.drafts.drop();
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
      if (error instanceof RefusedError && error.repeated) await this.lookAgain(error);
      else this.say(error instanceof Error ? error.message : String(error), "error");
      if (error instanceof RefusedError && error.status === 401) this.store.set({ connection: "refused" });
    } finally {
      this.store.set({ writing: "idle" });
    }
  }

  /**
   * An action that was sent twice was refused the second time: the first may have done it.
   * @param {RefusedError} error
   */
  async lookAgain(error) {
    if (error.status === 401) {
      this.say(error.message, "error");
      return;
    }
    const changed = error.conflict?.query;
    this.store.set({ writing: "idle" });
    this.show(await this.api.get(typeof changed === "number" ? `/api/query/${changed}` : "/api/query"));
    this.say("The answer to your last action was lost on the way; this is how things stand now.", "warning");
    this.onWritten();
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
    if (!this.stepBack()) await this.stored("undo");
  }

  async redo() {
    if (!this.stepForward()) await this.stored("redo");
  }

  /** @param {"undo" | "redo"} verb */
  async stored(verb) {
    await this.sending(async () => {
      const { saved, query } = await this.api.post(`/api/${verb}`, { generation: this.generation });
      this.drafts.drop();
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
