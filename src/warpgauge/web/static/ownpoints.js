/**
 * Landmarks of the expert's own choice: the guided start, a place of one's own at any time, and a recognisable place
 * near the one that is asked for. A point of the fixed image is chosen first, then marked in the moving image as ever.
 * @module
 */

import { axesOfMark } from "./figures.js";
import { add, norm, subtract } from "./linalg.js";
import { lookAtWhole } from "./looking.js";
import { NO_MARK, certaintyOf } from "./markeditor.js";
import { say } from "./message.js";
import { poseByRows } from "./turning.js";

/** @import { Delivery } from "./delivery.js" */
/** @import { Vector } from "./linalg.js" */
/** @import { MarkEditor } from "./markeditor.js" */
/** @import { Stage } from "./stage.js" */
/** @import { NearbyAnswer, Query, StartAnswer, Task } from "./types.js" */

export class OwnPoints {
  /**
   * @param {Stage} stage
   * @param {MarkEditor} marks
   * @param {Delivery} delivery
   */
  constructor(stage, marks, delivery) {
    this.stage = stage;
    this.store = stage.store;
    this.marks = marks;
    this.delivery = delivery;
  }

  /** Whether a click in the fixed image chooses a point. */
  get choosesFixed() {
    const { task } = this.store.state;
    return task !== "answer" && this.marks.editable;
  }

  /** @param {Task} task */
  begin(task) {
    this.store.set({ task, ...NO_MARK });
    this.delivery.watch.restart();
    this.sayTask();
  }

  /** @param {StartAnswer} start */
  beginStart(start) {
    this.store.set({ start });
    this.begin("start");
    lookAtWhole(this.stage);
  }

  /** A place of one's own, whatever is asked for. */
  beginOwn() {
    if (!this.marks.allowed) this.marks.explainLock();
    else if (this.store.state.task === "own") void this.leaveTask();
    else this.begin("own");
  }

  /** Something that is recognised near the point asked for. */
  beginNearby() {
    const { query, task } = this.store.state;
    if (task === "nearby") void this.leaveTask();
    else if (query && task === "answer" && this.marks.editable && !query.own_choice && query.answer?.kind !== "place") {
      this.begin("nearby");
      void this.offer(query);
    }
  }

  /**
   * Show places near the question that stand out in the fixed image, to choose from.
   * @param {Query} query
   */
  async offer(query) {
    const { message } = this.store.state;
    /** @type {NearbyAnswer} */
    const { points } = await this.stage.api.get(`/api/query/${query.query}/nearby`);
    const { task, query: now } = this.store.state;
    if (task !== "nearby" || now?.query !== query.query) return; // gone on meanwhile
    this.store.set({ offered: points });
    if (this.store.state.message === message) this.sayTask(); // else something that happened meanwhile is being read
  }

  /** Choose the next of the places that are offered. */
  chooseOffered() {
    const { offered, own } = this.store.state;
    if (offered.length === 0) return;
    const next = offered[(offered.findIndex(({ point }) => point === own) + 1) % offered.length];
    this.setOwn(next.point);
    if (this.stage.project.d === 3) this.stage.setCross("fixed", next.point);
    else if (!this.stage.sees("fixed", next.point)) this.stage.lookAt("fixed", next.point, null);
  }

  /** Back to the question and what was drawn for it, with nothing saved. */
  async leaveTask() {
    this.store.set({ mark: null, dirty: false });
    await this.delivery.sending(() => this.backToQuestions());
  }

  sayTask() {
    const { task, own, mark, start, offered } = this.store.state;
    if (task === "answer") return;
    const chosen = offered.find(({ point }) => point === own);
    const words = {
      start: `Place ${(start?.volunteered ?? 0) + 1} of ${start?.wanted ?? 3}: click a spot in the fixed image that you recognise in both.`,
      own: "Click a spot of your choice in the fixed image. P goes back to the question.",
      nearby: `Click something that you recognise within the circle in the fixed image${offered.length ? "; the dots stand out there (N)" : ""}. F goes back.`,
    }[task];
    if (!own) say(this.store, words);
    else if (!mark && chosen) say(this.store, `An answer here ${worthInWords(chosen.keeps)}. Now click the same spot in the moving image.`);
    else if (!mark) say(this.store, "Now click the same spot in the moving image; drag to show how sure you are.");
    else say(this.store, "Enter saves it. Until then you can still move both.");
  }

  /**
   * Choose a point of the fixed image.
   * @param {Vector} point_world
   */
  setOwn(point_world) {
    const { task, query } = this.store.state;
    if (task === "nearby" && query && norm(subtract(point_world, query.location)) > this.stage.project.settings.move_within) {
      say(this.store, "That is too far from the point asked for: stay within the circle, or press P for a spot of your own.", "warning");
      return;
    }
    this.store.set({ own: point_world });
    this.sayTask();
    if (task !== "start") void this.lookThere(point_world);
  }

  /** @param {Vector} shift_world */
  nudgeOwn(shift_world) {
    const { own } = this.store.state;
    if (own) this.setOwn(add(own, shift_world));
  }

  /**
   * Show where the model expects the match of a chosen point, where it may be seen.
   * @param {Vector} point_world
   */
  async lookThere(point_world) {
    const { stage } = this;
    if (this.store.state.predictionHidden || this.store.state.mark) return;
    const there = await stage.link.map("fixed", point_world);
    // Meanwhile the match was marked, or another point chosen: then nothing moves.
    if (this.store.state.mark || this.store.state.own !== point_world) return;
    if (there && !stage.sees("moving", there)) stage.lookAt("moving", there, null);
  }

  /** Save a landmark of one's own choice. @param {boolean} confirmed */
  async volunteer(confirmed) {
    const { own, mark } = this.store.state;
    if (!own || !mark) {
      this.sayTask();
      return;
    }
    const { delivery } = this;
    const body = { fixed: own, moving: mark.point, ...certaintyOf(mark), duration: delivery.watch.seconds, generation: delivery.generation, confirmed };
    await delivery.sending(async () => {
      const { saved, start } = await delivery.asked(() => this.stage.api.post("/api/volunteer", body), () => this.volunteer(true));
      this.marks.habits.learn(axesOfMark(mark));
      this.store.set({ saved });
      delivery.written();
      const { task } = this.store.state;
      if (task === "start" && start.due) {
        this.store.set({ start });
        this.begin("start");
      } else if (task === "own") {
        this.begin("own");
        say(this.store, "Saved. Click the next spot of your choice in the fixed image; P goes back to the question.");
      } else await this.backToQuestions();
    });
  }

  /** The question is read first, so that nothing can be answered between the old task and it. */
  async backToQuestions() {
    const next = await this.stage.api.get("/api/query");
    this.store.set({ task: "answer", own: null });
    this.delivery.show(next);
    // The list may have come while the start went on: then nothing was turned yet.
    poseByRows(this.stage);
  }

  /** Go on without the guided start. */
  async skipStart() {
    await this.delivery.sending(async () => {
      const { saved } = await this.stage.api.post("/api/start/skip", { generation: this.delivery.generation });
      this.store.set({ saved });
      await this.backToQuestions();
    });
  }
}

/**
 * What an answer at a place nearby is worth beside the one asked for.
 * @param {number} keeps share of the information
 */
export function worthInWords(keeps) {
  const cost = Math.round(100 * (1 - keeps));
  return cost < 1 ? "tells as much as the one asked for" : `tells ${cost} % less than the one asked for`;
}
