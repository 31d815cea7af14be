/**
 * Areas of the fixed image: an organiser draws them corner by corner; regions show their boundaries, and what has no
 * match is hatched.
 * @module
 */

import { byId } from "./dom.js";
import { COLOURS } from "./marks.js";
import { say } from "./message.js";
import { canvasOf } from "./planepicture.js";
import { worldToScreen } from "./viewport.js";

/** @import { Api } from "./api.js" */
/** @import { Delivery } from "./delivery.js" */
/** @import { Vector } from "./linalg.js" */
/** @import { OwnPoints } from "./ownpoints.js" */
/** @import { PlaneFrame } from "./planepicture.js" */
/** @import { PlaneView } from "./planeview.js" */
/** @import { Stage } from "./stage.js" */
/** @import { View } from "./viewport.js" */
/** @typedef {{lines: HTMLCanvasElement, missing: HTMLCanvasElement, frame: PlaneFrame}} AreaPicture */

const [BOUNDARY, MISSING] = [1, 2]; // as the server codes them

export class Areas {
  /**
   * @param {Stage} stage
   * @param {Delivery} delivery
   * @param {OwnPoints} ownPoints
   */
  constructor(stage, delivery, ownPoints) {
    this.stage = stage;
    this.store = stage.store;
    this.delivery = delivery;
    this.ownPoints = ownPoints;
  }

  /** Draw an area instead of answering, or go back. */
  async begin() {
    if (this.store.state.task === "area") {
      await this.ownPoints.leaveTask();
      return;
    }
    if (this.stage.project.readonly || this.store.state.task === "start") return;
    this.store.set({ corners: [], overlays: { ...this.store.state.overlays, areas: true } });
    await this.readDrawn();
    this.ownPoints.begin("area");
  }

  async readDrawn() {
    const { areas } = await this.stage.api.get("/api/areas");
    this.store.set({ areas });
  }

  takeBack() {
    this.store.set({ corners: this.store.state.corners.slice(0, -1) });
    this.ownPoints.sayTask();
  }

  /** Enter leads to the choice of what the area is. */
  accept() {
    if (this.store.state.corners.length < 3) this.ownPoints.sayTask();
    else byId("choice").querySelector("button")?.focus();
  }

  /** @param {"missing" | "piece"} what */
  async save(what) {
    const { corners } = this.store.state;
    await this.send("/api/areas", { what, corners });
    if (this.store.state.corners.length === 0) say(this.store, what === "missing" ? "Saved. Nothing is asked or judged there." : "Saved. How much it moves on its own is learned from the marks.");
  }

  /** @param {number} number */
  async erase(number) {
    await this.send(`/api/areas/${number}/erase`, {});
  }

  /**
   * Write, and stay: several areas may be drawn in a row. What is refused stays to be mended.
   * @param {string} path
   * @param {Record<string, unknown>} body
   */
  async send(path, body) {
    await this.delivery.sending(async () => {
      const { saved } = await this.stage.api.post(path, body);
      this.stage.project = { ...this.stage.project, areas: true };
      this.store.set({ saved, corners: [] });
      this.stage.overlays.forget();
      this.delivery.written();
      await this.readDrawn();
      this.ownPoints.sayTask();
    });
  }
}

/**
 * @param {Api} api
 * @param {string} question
 * @returns {Promise<AreaPicture>}
 */
export async function readAreas(api, question) {
  const { bytes, headers } = await api.bytes(question);
  const [width, height] = [Number(headers.get("X-Width")), Number(headers.get("X-Height"))];
  const codes = new Uint8Array(bytes);
  const painted = (/** @type {number} */ code, /** @type {number[]} */ colour) => {
    const pixels = new ImageData(width, height);
    codes.forEach((found, i) => {
      if (found === code) pixels.data.set(colour, 4 * i);
    });
    return canvasOf(pixels);
  };
  return { lines: painted(BOUNDARY, [86, 180, 233, 255]), missing: painted(MISSING, [255, 255, 255, 255]), frame: JSON.parse(headers.get("X-Frame") ?? "null") };
}

/**
 * The area that is being drawn.
 * @param {PlaneView} pane
 * @param {CanvasRenderingContext2D} context
 * @param {View} view
 * @param {Vector[]} corners
 */
export function drawCorners(pane, context, view, corners) {
  const path = new Path2D();
  corners.forEach((corner, k) => {
    const [x, y] = worldToScreen(pane.plane, view, corner);
    if (k) path.lineTo(x, y);
    else path.moveTo(x, y);
    path.rect(x - 2, y - 2, 4, 4);
    path.moveTo(x, y);
  });
  if (corners.length > 2) {
    const [x, y] = worldToScreen(pane.plane, view, corners[0]);
    path.lineTo(x, y);
  }
  context.save();
  for (const [style, width] of /** @type {const} */ ([["#000", 3.5], [COLOURS.candidate, 1.5]])) {
    context.strokeStyle = style;
    context.lineWidth = width;
    context.stroke(path);
  }
  context.restore();
}
