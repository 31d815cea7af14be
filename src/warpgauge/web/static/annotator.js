/**
 * The work itself: the question, and what becomes of the mark that answers it. No drawing, no keys.
 * @module
 */

import { RefusedError } from "./api.js";
import { Delivery } from "./delivery.js";
import { axesOfMark } from "./figures.js";
import { lookAtQuery } from "./looking.js";
import { MarkEditor, NO_MARK, certaintyOf } from "./markeditor.js";
import { say } from "./message.js";
import { OwnPoints } from "./ownpoints.js";
import { dropProposal, takeProposal } from "./snap.js";

/** @import { DeliveryCalls } from "./delivery.js" */
/** @import { Stage } from "./stage.js" */
/** @import { Done, Query } from "./types.js" */

/** Milliseconds before Enter keeps what was asked about. */
const READING = 600;
/** Milliseconds after which the page of a rater who is done checks for another question. */
const MORE = 4000;

export class Annotator {
  /**
   * @param {Stage} stage
   * @param {Omit<DeliveryCalls, "show">} page
   */
  constructor(stage, page) {
    this.stage = stage;
    this.store = stage.store;
    this.api = stage.api;
    this.marks = new MarkEditor(stage.store, stage.project, () => this.ownPoints.sayTask());
    this.delivery = new Delivery(stage, this.marks.drafts, { ...page, show: (next) => this.show(next) });
    this.ownPoints = new OwnPoints(stage, this.marks, this.delivery);
    /** @type {any} */
    this.waiting = null;
  }

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
      const path = left.path.match(/\/api\/query\/(\d+)\/(place|skip)$/);
      if (error.conflict && path) {
        const query = await this.api.get(`/api/query/${path[1]}`);
        await this.delivery.settled(error.conflict, query, left.path, left.body);
      } else say(this.store, `Your last action could not be sent: ${error.message}`, "warning");
    }
  }

  /**
   * Put a query on the screen.
   * @param {Query | Done} next
   * @param {boolean} [look] whether to go there
   */
  show(next, look = true) {
    if ("done" in next) {
      this.store.set({ query: null, done: next, ...NO_MARK, task: "answer" });
      if (next.start?.due) {
        this.ownPoints.beginStart(next.start);
        return;
      }
      say(this.store, next.reasons.join(" ") || "Nothing is left to ask. Thank you.");
      this.lookForMore();
      return;
    }
    clearTimeout(this.waiting);
    const mark = this.marks.take(next);
    if (next.start?.due && next.answer === null) {
      this.ownPoints.beginStart(next.start);
      return;
    }
    this.delivery.watch.restart();
    this.sayQuestion(next);
    if (look) lookAtQuery(this.stage, this.store.state, next, mark);
  }

  /** Somebody who is done may be asked again: by the organiser, or because another answer was taken back. */
  lookForMore() {
    clearTimeout(this.waiting);
    this.waiting = setTimeout(async () => {
      if (!this.store.state.done) return;
      try {
        const next = await this.api.get("/api/query");
        if (!this.store.state.done || this.store.state.writing === "saving") return;
        if ("done" in next) this.lookForMore();
        else {
          this.show(next);
          say(this.store, "You are asked once more: where is this point in the moving image?");
        }
      } catch (error) {
        if (!(error instanceof RefusedError)) throw error;
      }
    }, MORE);
  }

  /** @param {Query} query */
  sayQuestion(query) {
    if (query.answer?.kind === "place" && !query.disabled) {
      say(this.store, `Your earlier answer ${query.position} of ${Math.max(query.position, this.ownAnswers)}. Change it and press Enter, or leave it as it is.`);
      return;
    }
    const skipped = query.answer?.kind === "skip" ? `You skipped this one (${query.answer.reason.replaceAll("_", " ")}). ` : "";
    const off = query.disabled ? "This annotation is switched off: the model does not use it. " : "";
    if (query.prediction?.outside && !this.store.state.predictionHidden) {
      say(this.store, `${skipped}${off}The match is expected outside the moving image: press S if it is not there.`, "warning");
    } else say(this.store, `${skipped}${off}Where is ${query.name || "this point"}? Click it; drag to show how sure you are.`);
  }

  /** What is asked, after something else stood in its line. */
  sayAgain() {
    const { query, task } = this.store.state;
    if (task !== "answer") this.ownPoints.sayTask();
    else if (query) this.sayQuestion(query);
  }

  /** How many marks this rater has placed, as far as the list tells. */
  get ownAnswers() {
    return this.store.state.rows.filter(({ rater, skipped }) => !skipped && (!rater || rater === this.stage.project.rater)).length;
  }

  /** Clear what is not accepted, and ask again. */
  escape() {
    const { query, task, own, mark, doubt, writing } = this.store.state;
    if (writing === "saving") return; // what is on its way is not cleared
    if (doubt) {
      this.delivery.changeSlip();
      return;
    }
    if (dropProposal(this)) return;
    if (task !== "answer") {
      if (mark) this.marks.clear();
      else if (own) this.store.set({ own: null });
      else if (task !== "start") void this.ownPoints.leaveTask();
      this.ownPoints.sayTask();
      return;
    }
    if (!query) return;
    this.marks.clear();
    this.sayQuestion(query);
  }

  async accept() {
    const { query, mark, task, own, doubt } = this.store.state;
    if (doubt) {
      // Enter pressed twice by habit does not keep what has not been read.
      if (performance.now() - this.delivery.doubtedAt > READING) await this.delivery.keepSlip();
      return;
    }
    if (takeProposal(this)) return;
    if (task === "start" || task === "own") {
      await this.ownPoints.volunteer(false);
      return;
    }
    if (!query || !this.marks.editable) {
      this.marks.explainLock();
      return;
    }
    if (task === "nearby" && !own) {
      this.ownPoints.sayTask();
      return;
    }
    if (!mark) {
      say(this.store, "Click the match in the moving image first, or press Space for a mark at the pointer or in the middle; S if you cannot tell.", "warning");
      return;
    }
    this.marks.habits.learn(axesOfMark(mark));
    const moved = own ? { fixed: own } : query.answer?.kind === "place" && query.answer.fixed ? { fixed: query.answer.fixed } : {};
    await this.delivery.write(query, "place", { ...moved, point: mark.point, ...certaintyOf(mark) });
  }

  /**
   * @param {string} reason
   * @param {string} text
   */
  async skip(reason, text) {
    const { query, task } = this.store.state;
    if (task === "answer" && query && this.marks.editable) await this.delivery.write(query, "skip", { reason, text });
    else this.marks.explainLock();
  }

  async another() {
    const { query } = this.store.state;
    if (query) await this.delivery.sending(async () => this.show(await this.api.post(`/api/query/${query.query}/another`, { generation: query.generation })));
  }

  async previous() {
    const { query } = this.store.state;
    await this.delivery.sending(async () => this.show(await this.api.get(`/api/previous${query ? `?query=${query.query}` : ""}`)));
  }

  /** @param {number} number */
  async goTo(number) {
    await this.delivery.sending(async () => this.show(await this.api.get(`/api/query/${number}`)));
  }

  /** Back to the open question. */
  async current() {
    await this.delivery.sending(async () => this.show(await this.api.get("/api/query")));
  }

  /**
   * @param {number} query
   * @param {boolean} disabled
   */
  async disable(query, disabled) {
    await this.delivery.sending(async () => {
      const answer = await this.api.post(`/api/query/${query}/disable`, { disabled, generation: this.delivery.generation });
      this.store.set({ saved: answer.saved });
      if (this.store.state.query?.query === query) this.store.set({ query: { ...this.store.state.query, disabled, generation: answer.saved.generation } });
      this.delivery.written();
    });
  }

  /** First what is drawn and not accepted, then what is stored: the question that is open again is shown. */
  async undo() {
    if (this.marks.stepBack()) return;
    await this.stored("undo", async (query) => {
      if ("done" in query) {
        this.show(query);
        return;
      }
      const point = query.answer?.point ?? query.prediction?.mean;
      const seen = this.store.state.query?.query === query.query && (!point || this.stage.sees("moving", point));
      this.show(query, !seen);
      say(this.store, `Undone: question ${query.number} is as it was before.`);
    });
  }

  /** The same way forth: the open question comes back, so that the next click does not change what was just redone. */
  async redo() {
    if (this.marks.stepForward()) return;
    await this.stored("redo", async (query) => {
      const next = await this.api.get("/api/query");
      this.show(next);
      if (!("done" in next)) say(this.store, `Done again${"number" in query ? `: question ${query.number}` : ""}. Where is this point? Click it.`);
    });
  }

  /**
   * @param {"undo" | "redo"} verb
   * @param {(query: any) => Promise<void>} show what is shown then, given the question that was changed
   */
  async stored(verb, show) {
    await this.delivery.sending(async () => {
      const { saved, query } = await this.api.post(`/api/${verb}`, { generation: this.delivery.generation });
      this.marks.drafts.drop();
      this.store.set({ saved });
      await show(query);
      this.delivery.written();
    });
  }
}
