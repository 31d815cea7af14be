/**
 * The work itself: the query, the mark that answers it, and what becomes of it. No drawing, no keys.
 * @module
 */

import { RefusedError } from "./api.js";
import { covarianceFromMark } from "./ellipsoid.js";
import { axesOfMark } from "./figures.js";
import { lookAtQuery } from "./looking.js";
import { OwnPoints } from "./ownpoints.js";
import { dropProposal, takeProposal } from "./snap.js";

/** @import { Api } from "./api.js" */
/** @import { Store } from "./store.js" */
/** @import { Conflict, Done, Project, Query, State } from "./types.js" */

/** Milliseconds before Enter keeps what was asked about. */
const READING = 600;
/** Milliseconds after which the page of a rater who is done checks for another question. */
const MORE = 4000;

export class Annotator extends OwnPoints {
  /**
   * @param {Store<State>} store
   * @param {Api} api
   * @param {Project} project
   * @param {(conflict: Conflict, query: Query) => Promise<"mine" | "theirs">} settle asks the expert
   */
  constructor(store, api, project, settle) {
    super(store, api, project, settle);
    /** @type {any} */
    this.waiting = null;
  }

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
      const path = left.path.match(/\/api\/query\/(\d+)\/(place|skip)$/);
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
      this.store.set({ query: null, done: next, mark: null, dirty: false, past: [], future: [], task: "answer", own: null, doubt: null });
      if (next.start?.due) {
        this.beginStart(next.start);
        return;
      }
      this.say(next.reasons.join(" ") || "Nothing is left to ask. Thank you.");
      this.lookForMore();
      return;
    }
    clearTimeout(this.waiting);
    const mark = this.take(next);
    if (next.start?.due && next.answer === null) {
      this.beginStart(next.start);
      return;
    }
    this.watch.restart();
    this.sayQuestion(next);
    if (look && this.stage) lookAtQuery(this.stage, this.state, next, mark);
  }

  /** Somebody who is done may be asked again: by the organiser, or because another answer was taken back. */
  lookForMore() {
    clearTimeout(this.waiting);
    if (this.project.role === "viewer") return;
    this.waiting = setTimeout(async () => {
      if (!this.state.done) return;
      try {
        const next = await this.api.get("/api/query");
        if (!this.state.done || this.state.writing === "saving") return;
        if ("done" in next) this.lookForMore();
        else {
          this.show(next);
          this.say("You are asked once more: where is this point in the moving image?");
        }
      } catch (error) {
        if (!(error instanceof RefusedError)) throw error;
      }
    }, MORE);
  }

  /** @param {Query} query */
  sayQuestion(query) {
    if (query.answer?.kind === "place" && !query.disabled) {
      this.say(`Former answer ${query.position} of ${Math.max(query.position, this.ownAnswers)}. Change it and press Enter, or leave it as it is.`);
      return;
    }
    const skipped = query.answer?.kind === "skip" ? `You skipped this one (${query.answer.reason.replaceAll("_", " ")}). ` : "";
    const off = query.disabled ? "This annotation is switched off: the model does not use it. " : "";
    if (query.prediction?.outside && !this.state.predictionHidden) {
      this.say(`${skipped}${off}The match is expected outside the moving image: press S if it is not there.`, "warning");
    } else this.say(`${skipped}${off}Where is this point? Click it; drag to show how sure you are.`);
  }

  /** What is asked, after something else stood in its line. */
  sayAgain() {
    const { query, task } = this.state;
    if (task !== "answer") this.sayTask();
    else if (query) this.sayQuestion(query);
  }

  /** How many marks this rater has placed, as far as the list tells. */
  get ownAnswers() {
    return this.state.rows.filter(({ rater, skipped }) => !skipped && (!rater || rater === this.project.rater)).length;
  }

  /** Clear what is not accepted, and ask again. */
  escape() {
    const { query, task, own, mark, doubt, writing } = this.state;
    if (writing === "saving") return; // what is on its way is not cleared
    if (doubt) {
      this.changeSlip();
      return;
    }
    if (dropProposal(this)) return;
    if (task !== "answer") {
      if (mark) this.clear();
      else if (own) this.store.set({ own: null });
      else if (task !== "start") void this.leaveTask();
      this.sayTask();
      return;
    }
    if (!query) return;
    this.clear();
    this.sayQuestion(query);
  }

  // ---- answering -----------------------------------------------------------------------------------------------

  async accept() {
    const { query, mark, task, own, doubt } = this.state;
    if (doubt) {
      // Enter pressed twice by habit does not keep what has not been read.
      if (performance.now() - this.doubtedAt > READING) await this.keepSlip();
      return;
    }
    if (takeProposal(this)) return;
    if (task === "start" || task === "own") {
      await this.volunteer(false);
      return;
    }
    if (!query || !this.editable) {
      this.explainLock();
      return;
    }
    if (task === "nearby" && !own) {
      this.sayTask();
      return;
    }
    if (!mark) {
      this.say("Click the match in the moving image first; S if you cannot tell.", "warning");
      return;
    }
    this.habits.learn(axesOfMark(mark));
    const moved = own ? { fixed: own } : query.answer?.kind === "place" && query.answer.fixed ? { fixed: query.answer.fixed } : {};
    await this.write(query, "place", { ...moved, point: mark.point, covariance: covarianceFromMark(mark), alpha: mark.alpha, ...(mark.snappedFrom ? { snapped_from: mark.snappedFrom } : {}) });
  }

  /**
   * @param {string} reason
   * @param {string} text
   */
  async skip(reason, text) {
    const { query, task } = this.state;
    if (task === "answer" && query && this.editable) await this.write(query, "skip", { reason, text });
    else this.explainLock();
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
      if ("done" in query) {
        this.show(query);
        this.onWritten();
        return;
      }
      const point = query.answer?.point ?? query.prediction?.mean;
      const seen = this.state.query?.query === query.query && (!point || this.stage?.sees("moving", point));
      this.stage?.link.forget();
      this.show(query, !seen);
      this.say(verb === "undo" ? `Undone: question ${query.number} is as it was before.` : `Done again: question ${query.number}.`);
      this.onWritten();
    });
  }
}
