/**
 * Sending answers: what becomes of them when the server is away, holds another one, or lost its acknowledgement.
 * @module
 */

import { RefusedError, SlipError, acknowledgement } from "./api.js";
import { say } from "./message.js";
import { Stopwatch } from "./stopwatch.js";

/** @import { Drafts } from "./drafts.js" */
/** @import { Stage } from "./stage.js" */
/** @import { Conflict, Done, Query, Saved } from "./types.js" */
/**
 * @typedef {object} DeliveryCalls
 * @property {(conflict: Conflict, query: Query) => Promise<"mine" | "theirs">} settle asks the expert
 * @property {(next: Query | Done) => void} show puts a question on the screen
 * @property {() => void} written is told that the list, the progress and what is drawn from the model are out of date
 */

export class Delivery {
  /**
   * @param {Stage} stage
   * @param {Drafts} drafts
   * @param {DeliveryCalls} calls
   */
  constructor(stage, drafts, { settle, show, written }) {
    this.stage = stage;
    this.store = stage.store;
    this.api = stage.api;
    this.drafts = drafts;
    this.settle = settle;
    this.show = show;
    this.written = written;
    this.watch = new Stopwatch();
    /** @type {(() => Promise<void>) | null} */
    this.kept = null;
    this.doubtedAt = 0;
  }

  get generation() {
    const { query, done, saved } = this.store.state;
    return Math.max(query?.generation ?? 0, done?.generation ?? 0, saved?.generation ?? 0, this.stage.project.generation);
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
        this.wrote(await this.asked(() => this.api.post(path, body), () => this.write(query, verb, { ...answer, confirmed: true })));
      } catch (error) {
        if (!(error instanceof RefusedError) || !error.conflict) throw error;
        await this.settled(error.conflict, query, path, body);
      }
    });
  }

  /**
   * Send what may look like a slip: then it is kept back until the expert says so.
   * @param {() => Promise<any>} send
   * @param {() => Promise<void>} keep
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
    say(this.store, "Move your mark, then press Enter.");
  }

  /** @param {{saved: Saved, next: Query | Done}} answer */
  wrote({ saved, next }) {
    this.drafts.drop();
    this.store.set({ saved });
    this.show(next);
    this.written();
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
      this.show(await this.api.get(`/api/query/${query.query}`));
      say(this.store, "The other version is kept.");
      this.written();
      return;
    }
    const mine = { ...body, generation: conflict.generation };
    const keep = async () => this.wrote(await this.api.post(path, { ...mine, confirmed: true }));
    this.wrote(await this.asked(() => this.api.post(path, mine), () => this.sending(keep)));
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
      } else if (error instanceof RefusedError && error.repeated) await this.lookAgain(error);
      else say(this.store, error instanceof Error ? error.message : String(error), "error");
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
      say(this.store, error.message, "error");
      return;
    }
    const changed = error.conflict?.query;
    this.show(await this.api.get(typeof changed === "number" ? `/api/query/${changed}` : "/api/query"));
    say(this.store, "The answer to your last action was lost on the way; this is how things stand now.", "warning");
    this.written();
  }
}
