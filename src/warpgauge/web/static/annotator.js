/** The work itself: the question, the place that is chosen, and what becomes of the mark. No drawing, no keys. @module */

import { RefusedError } from "./api.js";
import { Delivery } from "./delivery.js";
import { forHand } from "./gestures.js";
import { distance } from "./linalg.js";
import { lookAtMark, lookAtQuery, lookAtWhole } from "./looking.js";
import { MarkEditor, certaintyOf } from "./markeditor.js";
import { poseByRows } from "./pose.js";

/** @import { Vector } from "./linalg.js" */
/** @import { Stage } from "./stage.js" */
/** @import { Done, Query, State } from "./types.js" */

/** Milliseconds before Enter keeps what was asked about. */
const READING = 600;
/** Milliseconds after which the page of a rater who is done checks for another question. */
const MORE = 4000;

/** Whether the visitor begins with places of their own. @param {State} state */
export function starts({ start, query }) {
  return Boolean(start?.due) && !query?.answer;
}

/**
 * Where an answer goes: to the place that is asked for, to one that was chosen within its circle, or to a landmark of one's own.
 * @param {State} state @returns {"asked" | "chosen" | "own"}
 */
export function aimOf(state) {
  const { query, own } = state;
  if (!query || starts(state)) return "own";
  if (!own) return "asked";
  const former = query.answer?.kind === "place" ? query.answer.fixed : null;
  const within = distance(own, query.location) <= query.radius || (former && distance(own, former) === 0);
  return within || (query.own_choice && query.answer) ? "chosen" : "own";
}

export class Annotator {
  /** @param {Stage} stage @param {() => void} written */
  constructor(stage, written) {
    this.stage = stage;
    this.store = stage.store;
    this.api = stage.api;
    this.marks = new MarkEditor(stage.store, stage.project, () => this.sayTask());
    const say = (/** @type {string} */ message, /** @type {State["tone"]} */ tone = "note") => this.say(message, tone);
    this.delivery = new Delivery(stage, this.marks, { show: (next) => this.show(next), written, say });
    /** @type {any} */
    this.waiting = null;
  }

  /** @param {string} message @param {State["tone"]} [tone] */
  say(message, tone = "note") {
    this.store.set({ message: forHand(message), tone });
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
      } else this.say(`Your last action could not be sent: ${error.message}`, "warning");
    }
  }

  /** Put a question on the screen. @param {Query | Done} next @param {boolean} [look] whether to go there */
  show(next, look = true) {
    clearTimeout(this.waiting);
    const done = "done" in next ? next : null;
    const query = "done" in next ? null : next;
    this.store.set({ done, start: next.start });
    const mark = this.marks.take(query);
    this.delivery.watch.restart();
    this.sayTask();
    if (starts(this.store.state)) lookAtWhole(this.stage);
    else if (query && look) lookAtQuery(this.stage, query, mark);
    if (done && !done.start.due) this.lookForMore();
    poseByRows(this.stage, this.store.state.rows);
  }

  /** Somebody who is done may be asked again: by the organiser, or because another answer was taken back. */
  lookForMore() {
    clearTimeout(this.waiting);
    this.waiting = setTimeout(async () => {
      const free = () => this.store.state.done && !this.store.state.mark && this.store.state.writing === "idle";
      if (!free()) return;
      try {
        const next = await this.api.get("/api/query");
        if (!free()) return;
        if ("done" in next) this.lookForMore();
        else this.show(next);
      } catch (error) {
        if (!(error instanceof RefusedError)) throw error;
      }
    }, MORE);
  }

  /** What is to be done now, in one sentence. */
  sayTask() {
    const { state } = this.store;
    const { query, done, start, own, mark, dirty } = state;
    if (state.drawer === "organiser") {
      this.say("You see everybody's marks. Close Organiser to answer questions.");
      return;
    }
    if (!query && !done) return;
    const aim = aimOf(state);
    if (aim === "own" && own && !mark) this.say("Now click the same spot in the other image.");
    else if (aim === "own" && own) this.say(starts(state) ? "Enter saves it. Until then you can still move both." : "Enter saves it as a landmark of your own; Esc goes back to the question.");
    else if (aim === "own" && mark) this.say("Now click the same spot in the first image.");
    else if (starts(state)) this.say(`Place ${(start?.volunteered ?? 0) + 1} of ${start?.wanted ?? 3}: click a spot that you recognise in both images, first here, then there.`);
    else if (!query) this.say(done?.reasons.join(" ") || "Nothing is left to ask. Thank you.");
    else if (dirty && mark) this.say("Enter accepts it. The ring says how sure you are: [ and ] change it, its handles make it an ellipse.");
    else if (own && !query.answer) this.say("Now click the same spot in the other image.");
    else this.sayQuestion(query);
  }

  /** @param {Query} query */
  sayQuestion(query) {
    const off = query.disabled ? "This answer is switched off: the model does not use it. " : "";
    const what = query.radius > 0 ? "Mark something you recognise in the circle, in both images." : `Where is ${query.name || "this place"}? Click it in the other image.`;
    if (query.answer?.kind === "place" && !off) this.say("Your earlier answer. Change it and press Enter, or leave it as it is.");
    else if (query.answer?.kind === "skip") this.say(`${off}You skipped this one (${query.answer.reason.replaceAll("_", " ")}). ${what}`);
    else if (query.prediction && !query.prediction.inside && !this.stage.withheld) this.say(`${off}It is expected outside the other image: press S if it is not there.`, "warning");
    else this.say(off + what);
  }

  explainLock() {
    const { query, drawer } = this.store.state;
    if (drawer === "organiser") this.say("Close Organiser to answer questions.", "warning");
    else if (this.stage.project.readonly) this.say("The project's folder is read-only, so nothing can be placed.", "warning");
    else if (query?.locked) this.say("The organiser has settled this place.", "warning");
  }

  /** A click in the first image. @param {Vector} point_world @param {number} near world length within which it means the place itself */
  choose(point_world, near) {
    const { state } = this.store;
    const { query, mark, dirty, choosing } = state;
    if (choosing) {
      const away = distance(point_world, choosing.point);
      if (away <= Math.max(choosing.radius, near)) void this.choosePlace(choosing.radius > 0 ? point_world : choosing.point);
      else this.say("Click something within the circle that raters will recognise.", "warning");
      return;
    }
    if (!this.marks.editable) {
      this.explainLock();
      return;
    }
    const asked = query && !starts(state) && query.radius === 0 && distance(point_world, query.location) <= near;
    this.store.set({ own: asked ? null : point_world, expected: null });
    // What was stored is no mark of a landmark of one's own.
    if (mark && !dirty && aimOf(this.store.state) === "own") this.store.set({ mark: null, past: [], future: [] });
    this.marks.keepDraft();
    if (asked) this.say("This is the place. Now click it in the other image.");
    else this.sayTask();
    if (!starts(state)) void this.lookThere(point_world);
  }

  /**
   * An organiser chooses the places that all raters are asked, in the first image alone; the next circle comes.
   * @param {Vector | null} point_world null for the first circle
   */
  async choosePlace(point_world) {
    await this.delivery.sending(async () => {
      const next = point_world ? await this.api.post("/api/places", { points: [point_world] }) : await this.api.get("/api/places");
      const chosen = (this.store.state.choosing?.chosen ?? 0) + (point_world ? 1 : 0);
      this.store.set({ choosing: next.point && { point: next.point, radius: next.radius, chosen } });
      this.say(next.point ? `${chosen} chosen. Click something within the circle that raters will recognise.` : "No further place can be asked.");
      if (next.point) lookAtMark(this.stage, { location: next.point, point: null });
    });
  }

  /** Show where the model expects the match of a chosen place, where that may be seen. @param {Vector} point_world */
  async lookThere(point_world) {
    if (this.stage.withheld) return;
    const at = point_world.map((value, k) => `${"xyz"[k]}=${value}`).join("&");
    let there = null;
    try {
      there = (await this.api.get(`/api/linked?${at}`)).point;
    } catch (error) {
      if (!(error instanceof RefusedError)) throw error;
    }
    // Meanwhile the match was marked, or another place chosen: then nothing moves.
    if (!there || this.store.state.own !== point_world) return;
    this.store.set({ expected: there });
    if (this.store.state.mark) return;
    if (this.stage.solid) this.stage.setCross("moving", there);
    else if (!this.stage.sees("moving", there)) this.stage.lookAt("moving", there);
  }

  /** Clear what is not accepted, and ask again. */
  escape() {
    const { writing, doubt, conflict } = this.store.state;
    if (writing === "saving" || conflict) return; // what is on its way is not cleared
    if (doubt) {
      this.delivery.changeSlip();
      return;
    }
    this.marks.clear();
    this.sayTask();
  }

  async accept() {
    const { state } = this.store;
    const { query, mark, own, doubt } = state;
    if (doubt) {
      // Enter pressed twice by habit does not keep what has not been read.
      if (performance.now() - this.delivery.doubtedAt > READING) await this.delivery.keepSlip();
      return;
    }
    if (!this.marks.editable) {
      this.explainLock();
      return;
    }
    const aim = aimOf(state);
    if (!mark || (aim === "own" && !own)) this.say(aim === "own" ? "A landmark needs a spot in each image: click it here and there." : "Click the match in the other image first, or press Space for a ring there; press S if you cannot tell.", "warning");
    else if (aim === "own") await this.volunteer(false);
    else if (query) {
      const former = query.answer?.kind === "place" ? query.answer.fixed : null;
      const fixed = own ?? former;
      await this.delivery.write(query, "place", { ...(fixed ? { fixed } : {}), point: mark.point, ...certaintyOf(mark) });
    }
  }

  /** Save a landmark of one's own choice. @param {boolean} confirmed */
  async volunteer(confirmed) {
    const { own, mark } = this.store.state;
    if (!own || !mark) return;
    const { delivery } = this;
    const body = { fixed: own, point: mark.point, ...certaintyOf(mark), duration: delivery.watch.seconds, generation: delivery.generation, confirmed };
    await delivery.sending(async () => {
      delivery.wrote(await delivery.asked(() => this.api.post("/api/volunteer", body), () => this.volunteer(true)));
    });
  }

  /** Go on without the guided start. */
  async skipStart() {
    await this.delivery.sending(async () => {
      this.delivery.wrote(await this.api.post("/api/start/skip", { generation: this.delivery.generation }));
    });
  }

  /** "Cannot tell": the reasons stand in the place of the bottom bar. */
  beginSkip() {
    const { state } = this.store;
    if (starts(state)) void this.skipStart();
    else if (!this.marks.editable) this.explainLock();
    else if (state.query) this.store.set({ asking: true });
  }

  /** @param {string} reason @param {string} text */
  async skip(reason, text) {
    const { query } = this.store.state;
    this.store.set({ asking: false });
    if (query) await this.delivery.write(query, "skip", { reason, text });
  }

  async another() {
    const { query } = this.store.state;
    if (query) await this.delivery.sending(async () => this.show(await this.api.post(`/api/query/${query.query}/another`, { generation: query.generation })));
  }

  /** @param {string} path of a question */
  async go(path) {
    await this.delivery.sending(async () => this.show(await this.api.get(path)));
  }

  async previous() {
    const { query } = this.store.state;
    await this.go(`/api/previous${query ? `?query=${query.query}` : ""}`);
  }

  /** @param {number} query @param {boolean} disabled */
  async disable(query, disabled) {
    await this.delivery.sending(async () => {
      const answer = await this.api.post(`/api/query/${query}/disable`, { disabled, generation: this.delivery.generation });
      this.store.set({ saved: answer.saved });
      const { query: now } = this.store.state;
      if (now?.query === query) this.store.set({ query: { ...now, disabled, generation: answer.saved.generation } });
      this.delivery.written();
    });
  }

  /** What Undo and Redo would change: what is drawn, then what is stored. */
  get steps() {
    const { past, future, query, done, drawer } = this.store.state;
    if (drawer === "organiser") return { undo: false, redo: false };
    return { undo: past.length > 0 || Boolean((query ?? done)?.can_undo), redo: future.length > 0 || Boolean((query ?? done)?.can_redo) };
  }

  /** First what is drawn and not accepted, then what is stored: the question that is open again is shown. */
  async undo() {
    if (this.marks.step("past") || !this.steps.undo) return;
    await this.stored("undo", async (next) => {
      const point = "done" in next ? null : next.answer?.kind === "place" ? next.answer.point : next.prediction?.mean;
      const seen = "query" in next && this.store.state.query?.query === next.query && (!point || this.stage.sees("moving", point));
      this.show(next, !seen);
      if ("query" in next) this.say(`Undone: question ${next.number} is as it was before.`);
    });
  }

  /** The same way forth: the open question comes back, so that the next click does not change what was just redone. */
  async redo() {
    if (this.marks.step("future") || !this.steps.redo) return;
    await this.stored("redo", async (changed) => {
      this.show(await this.api.get("/api/query"));
      if ("query" in changed) this.say(`Done again: question ${changed.number}.`);
    });
  }

  /** @param {"undo" | "redo"} verb @param {(changed: Query | Done) => Promise<void>} show */
  async stored(verb, show) {
    await this.delivery.sending(async () => {
      const { saved, next } = await this.api.post(`/api/${verb}`, { generation: this.delivery.generation });
      this.marks.dropDraft();
      this.store.set({ saved });
      await show(next);
      this.delivery.written();
    });
  }
}
