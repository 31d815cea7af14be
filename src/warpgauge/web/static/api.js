/**
 * Talking with the server: nothing that was done is lost when it is away. A write is kept in the browser's storage until the server has acknowledged
 * it, and is sent again with growing pauses, also after a reload. Writes go one after the other.
 * @module
 */

/** @import { Conflict } from "./types.js" */
/** @typedef {{path: string, body: Record<string, unknown>, kept: number}} Pending */

const PAUSES = [300, 600, 1200, 2500, 5000];

/** An answer with an error code; its message is the server's sentence. */
export class RefusedError extends Error {
  /** @param {number} status @param {string} message @param {any} body */
  constructor(status, message, body) {
    super(message);
    this.status = status;
    this.body = body;
    /** Whether the request was sent before and nobody knows whether it arrived. */
    this.repeated = false;
  }

  /** @returns {Conflict | null} what another tab wrote, where that is why */
  get conflict() {
    return this.status === 409 && this.body && "theirs" in this.body ? this.body : null;
  }

  /** @returns {string | null} what to ask where a placement looks like a slip */
  get question() {
    return this.status === 409 && this.body?.kind === "confirm" ? this.message : null;
  }
}

/** A placement that looks like a slip: the expert is asked about it before it is sent again. */
export class SlipError extends Error {
  /** @param {string} question @param {() => Promise<void>} keep sends it all the same */
  constructor(question, keep) {
    super(question);
    this.keep = keep;
  }
}

export class Api {
  /** @param {object} options @param {(connected: boolean, sentence?: string) => void} options.onConnection told whether answers come, and what a server said that cannot give one now @param {typeof fetch} [options.send] @param {Pick<Storage, "getItem" | "setItem" | "removeItem">} [options.storage] @param {(milliseconds: number) => Promise<void>} [options.pause] */
  constructor({ onConnection, send, storage, pause }) {
    this.onConnection = onConnection;
    this.send = send ?? ((input, init) => fetch(`.${input}`, init));
    this.storage = storage ?? localStorage;
    this.pause = pause ?? ((ms) => new Promise((done) => setTimeout(done, ms)));
    this.key = "warpgauge:pending";
    /** @type {Promise<unknown>} */
    this.queue = Promise.resolve();
    /** How many answers are waited for. */
    this.underway = 0;
    /** For whom the page was opened: the server refuses what another person, signed in since, would be held to have done. @type {Record<string, string>} */
    this.visitor = {};
  }

  /** Count what is waited for. @template V @param {() => Promise<V>} work @returns {Promise<V>} */
  async counted(work) {
    this.underway += 1;
    try {
      return await work();
    } finally {
      this.underway -= 1;
    }
  }

  /** Read; waits for a server that is away. @param {string} path @returns {Promise<any>} */
  get(path) {
    return this.counted(async () => (await this.untilAnswered(path, {})).json());
  }

  /**
   * Read raw bytes once; the caller decides whether to try again.
   * @param {string} path @param {AbortSignal} [signal] @returns {Promise<{bytes: ArrayBuffer, headers: Headers}>}
   */
  bytes(path, signal) {
    return this.counted(async () => {
      const response = await this.send(path, { signal, credentials: "same-origin" });
      if (!response.ok) throw await refusal(response);
      return { bytes: await response.arrayBuffer(), headers: response.headers };
    });
  }

  /**
   * Write. Kept in the storage until it is acknowledged or refused.
   * @param {string} path @param {Record<string, unknown>} body @returns {Promise<any>}
   */
  post(path, body) {
    const turn = this.counted(() => this.queue.then(() => this.deliver({ path, body, kept: Date.now() })));
    this.queue = turn.catch(() => undefined);
    return turn;
  }

  /** @returns {Pending | null} the write of a former visit that was never acknowledged */
  pending() {
    try {
      return JSON.parse(this.storage.getItem(this.key) ?? "null");
    } catch {
      return null;
    }
  }

  /** Send what a former visit left; null when there is nothing. @returns {Promise<any>} */
  async resume() {
    const left = this.pending();
    if (!left) return null;
    return this.counted(() => this.deliver(left));
  }

  /** @param {Pending} write @returns {Promise<any>} */
  async deliver(write) {
    this.storage.setItem(this.key, JSON.stringify(write));
    try {
      const response = await this.untilAnswered(write.path, posted(write.body));
      const answer = await response.json();
      this.storage.removeItem(this.key);
      return answer;
    } catch (error) {
      // A visitor who is not known any more may come back with a new link: their last action waits for that.
      if (error instanceof RefusedError && error.status !== 401) this.storage.removeItem(this.key);
      throw error;
    }
  }

  /** @param {string} path @param {RequestInit} init @returns {Promise<Response>} */
  async untilAnswered(path, init) {
    let lost = false;
    for (let attempt = 0; ; attempt++) {
      let response = null;
      try {
        response = await this.send(path, { credentials: "same-origin", ...init, headers: { ...init.headers, ...this.visitor } });
      } catch {
        // Nobody knows whether it arrived: it may be the answer that was lost.
        lost = true;
        this.onConnection(false);
      }
      if (response && ![502, 503, 504].includes(response.status)) {
        this.onConnection(true);
        if (!response.ok) throw Object.assign(await refusal(response), { repeated: lost });
        return response;
      }
      if (response) this.onConnection(false, response.status === 503 ? (await refusal(response)).message : undefined);
      await this.pause(PAUSES[Math.min(attempt, PAUSES.length - 1)]);
    }
  }
}

/** @param {Record<string, unknown>} body @returns {RequestInit} */
function posted(body) {
  return { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
}

/** @param {Response} response @returns {Promise<RefusedError>} */
async function refusal(response) {
  let body = null;
  try {
    body = await response.json();
  } catch {
    // Not JSON: the code must do.
  }
  return new RefusedError(response.status, body?.error ?? `The server answered with code ${response.status}.`, body);
}
