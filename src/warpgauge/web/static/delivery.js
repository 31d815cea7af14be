/** Sending answers: what becomes of them when the server is away, holds another one, or lost its acknowledgement. @module */

import { RefusedError, SlipError } from "./api.js";
import { markFromCovariance } from "./ellipsoid.js";
import { distance } from "./linalg.js";
import { clock, length } from "./words.js";

/** @import { MarkEditor } from "./markeditor.js" */
/** @import { Stage } from "./stage.js" */
/** @import { Conflict, Done, Query, Saved } from "./types.js" */
/** @typedef {{show: (next: Query | Done) => void, written: () => void, say: (message: string, tone?: "note" | "warning" | "error") => void}} Calls show: put a question on the screen; written: lists and what is drawn from the model are out of date */

/** The time that a rater looked at a question: only while the page is visible. */
class Stopwatch {
  constructor() {
    this.gone = 0;
    this.since = performance.now();
    document.addEventListener("visibilitychange", () => {
      if (document.visibilityState === "hidden") this.gone += performance.now() - this.since;
      this.since = performance.now();
    });
  }

  restart() {
    this.gone = 0;
    this.since = performance.now();
  }

  /** To the millisecond. */
  get seconds() {
    const running = document.visibilityState === "hidden" ? 0 : performance.now() - this.since;
    return Math.round(this.gone + running) / 1000;
  }
}

export class Delivery {
  /** @param {Stage} stage @param {MarkEditor} marks @param {Calls} calls */
  constructor(stage, marks, { show, written, say }) {
    this.stage = stage;
    this.store = stage.store;
    this.api = stage.api;
    this.marks = marks;
    this.show = show;
    this.written = written;
    this.say = say;
    this.watch = new Stopwatch();
    /** Sends what was asked about. @type {(() => Promise<void>) | null} */
    this.kept = null;
    this.doubtedAt = 0;
    /** Ends the choice between two answers. @type {((choice: "mine" | "theirs") => void) | null} */
    this.choose = null;
  }

  get generation() {
    const { query, done, saved } = this.store.state;
    return Math.max(query?.generation ?? 0, done?.generation ?? 0, saved?.generation ?? 0, this.stage.project.generation);
  }

  /** @param {Query} query @param {"place" | "skip"} verb @param {Record<string, unknown>} answer */
  async write(query, verb, answer) {
    const path = `/api/query/${query.query}/${verb}`;
    const body = { ...answer, duration: this.watch.seconds, generation: query.generation };
    await this.sending(async () => {
      try {
        this.wrote(await this.asked(() => this.api.post(path, body), () => this.write(query, verb, { ...answer, confirmed: true })));
      } catch (error) {
        if (!(error instanceof RefusedError) || !error.conflict) throw error;
        await this.settled(error.conflict, query, path, body);
      }
    });
  }

  /**
   * Send what may look like a slip: then it is kept back until the expert says so.
   * @param {() => Promise<any>} send @param {() => Promise<void>} keep
   */
  async asked(send, keep) {
    try {
      return await send();
    } catch (error) {
      if (error instanceof RefusedError && error.question) throw new SlipError(error.question, keep);
      throw error;
    }
  }

  /** Keep what was asked about. */
  async keepSlip() {
    const keep = this.kept;
    this.kept = null;
    this.store.set({ doubt: null });
    await keep?.();
  }

  /** Change it instead: the mark is still there. */
  changeSlip() {
    this.kept = null;
    this.store.set({ doubt: null });
    this.say("Move your mark, then press Enter.");
  }

  /** @param {{saved: Saved, next: Query | Done}} answer */
  wrote({ saved, next }) {
    this.marks.dropDraft();
    this.store.set({ saved });
    this.show(next);
    this.written();
  }

  /**
   * The server holds another answer than the one that this page knew.
   * @param {Conflict} conflict @param {Query} query @param {string} path @param {Record<string, unknown>} body
   */
  async settled(conflict, query, path, body) {
    if ((await this.settle(conflict, query, body)) === "theirs") {
      this.marks.dropDraft();
      this.show(await this.api.get(`/api/query/${query.query}`));
      this.say("The stored answer is kept.");
      this.written();
      return;
    }
    const mine = { ...body, generation: conflict.generation };
    const keep = async () => this.wrote(await this.api.post(path, { ...mine, confirmed: true }));
    this.wrote(await this.asked(() => this.api.post(path, mine), () => this.sending(keep)));
  }

  /**
   * Show both answers in the images, and wait for the expert's choice.
   * @param {Conflict} conflict @param {Query} query @param {Record<string, unknown>} yours @returns {Promise<"mine" | "theirs">}
   */
  async settle({ theirs }, query, yours) {
    const placed = theirs?.kind === "place" ? theirs : null;
    const point = /** @type {number[] | undefined} */ (yours.point);
    const stored = theirs ? `${placed ? "placed" : "skipped"} at ${clock(theirs.time)} in another tab` : "taken back in another tab";
    const apart = placed && point ? ` The two marks are ${length(Number(distance(point, placed.point).toPrecision(2)), this.stage.project.units)} apart; the stored one is white.` : "";
    const words = `Question ${query.number} was ${stored}: that is what is stored.${apart}`;
    this.store.set({ conflict: { mark: placed && markFromCovariance(placed.point, placed.covariance, placed.alpha), words } });
    const choice = await new Promise((/** @type {(choice: "mine" | "theirs") => void} */ done) => (this.choose = done));
    this.store.set({ conflict: null });
    return choice;
  }

  /** @param {() => Promise<void>} work */
  async sending(work) {
    if (this.store.state.writing === "saving") return;
    this.store.set({ writing: "saving" });
    try {
      await work();
    } catch (error) {
      if (error instanceof SlipError) {
        this.kept = error.keep;
        this.doubtedAt = performance.now();
        this.store.set({ doubt: error.message });
      } else if (error instanceof RefusedError && error.repeated && error.status !== 401) await this.lookAgain(error);
      else this.say(error instanceof Error ? error.message : String(error), "error");
      if (error instanceof RefusedError && error.status === 401) this.store.set({ connection: "refused" });
    } finally {
      this.store.set({ writing: "idle" });
    }
  }

  /** An action that was sent twice was refused the second time: the first may have done it. @param {RefusedError} error */
  async lookAgain(error) {
    const changed = error.conflict?.query;
    this.show(await this.api.get(typeof changed === "number" ? `/api/query/${changed}` : "/api/query"));
    this.say("The answer to your last action was lost on the way; this is how things stand now.", "warning");
    this.written();
  }
}
