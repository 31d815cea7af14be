/**
 * What can be laid over the images: maps, the warped moving image, the deformed grid, the candidates.
 *
 * A picture stays until the next one is there: turning slices or placing a mark does not make it flicker.
 * @module
 */

import { RefusedError } from "./api.js";
import { chosenChannels } from "./channels.js";
import { drawGridLines } from "./gridlines.js";
import { mapPicture } from "./maps.js";
import { COLOURS, fade } from "./marks.js";
import { worldToPlane } from "./plane.js";
import { canvasOf, hatchMask, layPicture } from "./planepicture.js";
import { worldToScreen } from "./viewport.js";
import { WarpedPlane, liveMark, showWarped, warpedQuestion } from "./warped.js";

/** @import { Vector } from "./linalg.js" */
/** @import { MapPicture } from "./maps.js" */
/** @import { PlaneFrame } from "./planepicture.js" */
/** @import { PlaneView } from "./planeview.js" */
/** @import { Stage } from "./stage.js" */
/** @import { State } from "./types.js" */
/** @import { View } from "./viewport.js" */

const FLICKER = 450; // ms

export class Overlays {
  /** @param {Stage} stage */
  constructor(stage) {
    this.stage = stage;
    /** @type {Vector[] | null} */
    this.candidates = null;
    this.version = 0;
    /** @type {Map<string, {key: string, value: any}>} */
    this.kept = new Map();
    /** @type {Set<string>} */
    this.asking = new Set();
    /** @type {any} */
    this.timer = null;
    this.lit = true;
    this.count = 0;
    /** @type {(map: MapPicture | null) => void} */
    this.onMap = () => {};
    stage.store.watch(["overlays", "compare", "layout"], (state) => this.changed(state));
  }

  /** The model changed: ask anew, and show the former picture until then. */
  forget() {
    this.version += 1;
    this.stage.drawSoon();
  }

  /** @param {State} state */
  changed(state) {
    clearInterval(this.timer);
    this.lit = true;
    if (state.overlays.warp === "flicker" || (state.compare === "flicker" && state.layout !== "two")) {
      this.timer = setInterval(() => {
        this.lit = !this.lit;
        this.stage.drawSoon();
      }, FLICKER);
    }
    if (state.overlays.candidates && !this.candidates) void this.readCandidates();
    if (state.overlays.map === "off") this.onMap(null);
  }

  async readCandidates() {
    this.candidates = [];
    this.candidates = (await this.stage.api.get("/api/candidates")).points;
    this.stage.drawSoon();
  }

  /**
   * What was asked for, or the last of its kind until it is there.
   * @template V
   * @param {string} slot of its kind
   * @param {string} key
   * @param {() => Promise<V>} read
   * @returns {V | null}
   */
  recall(slot, key, read) {
    const versioned = `${key} ${this.version}`;
    const known = this.kept.get(slot);
    if (known?.key !== versioned && !this.asking.has(slot)) {
      this.asking.add(slot);
      read()
        .then((value) => this.kept.set(slot, { key: versioned, value }))
        .catch((error) => this.refused(slot, versioned, error))
        .finally(() => {
          this.asking.delete(slot);
          this.stage.drawSoon();
        });
    }
    return known?.value ?? null;
  }

  /**
   * @param {string} slot
   * @param {string} key
   * @param {unknown} error
   */
  refused(slot, key, error) {
    this.kept.set(slot, { key, value: null });
    const { store } = this.stage;
    if (!(error instanceof RefusedError)) return;
    store.set({ message: error.message, tone: "warning", layout: "two", overlays: { ...store.state.overlays, map: "off", warp: "off", grid: false, foreground: false, lensHeld: false } });
  }

  /**
   * Everything between the picture and the marks.
   * @param {PlaneView} pane
   * @param {CanvasRenderingContext2D} context
   * @param {View} view
   * @param {State} state
   */
  drawBelow(pane, context, view, state) {
    const { overlays } = state;
    if (overlays.foreground) this.drawForeground(pane, context, view);
    if (pane.side === "moving") {
      if (overlays.grid) this.drawGrid(pane, context, view, state);
      return;
    }
    if (overlays.warp !== "off" || overlays.lensHeld) this.drawWarped(pane, context, view, state);
    if (overlays.map !== "off") this.drawMap(pane, context, view, state);
    if (overlays.candidates) this.drawCandidates(pane, context, view);
  }

  /**
   * @param {PlaneView} pane
   * @param {CanvasRenderingContext2D} context
   * @param {View} view
   */
  drawCandidates(pane, context, view) {
    context.save();
    for (const point of this.candidates ?? []) {
      const [x, y] = worldToScreen(pane.plane, view, point);
      if (x < 0 || y < 0 || x > view.width || y > view.height) continue;
      context.globalAlpha = this.alphaOf(pane, point);
      context.fillStyle = "#000";
      context.fillRect(x - 2.5, y - 2.5, 5, 5);
      context.fillStyle = COLOURS.candidate;
      context.fillRect(x - 1.5, y - 1.5, 3, 3);
    }
    context.restore();
  }

  /**
   * Dim the background: questions come from the foreground.
   * @param {PlaneView} pane
   * @param {CanvasRenderingContext2D} context
   * @param {View} view
   */
  drawForeground(pane, context, view) {
    const question = `/api/foreground/${pane.side}?axis=${pane.axis}&index=${pane.slice}`;
    /** @type {{veil: HTMLCanvasElement, frame: PlaneFrame} | null} */
    const laid = this.recall(`foreground ${pane.side} ${pane.axis}`, question, async () => {
      const { bytes, headers } = await this.stage.api.bytes(question);
      const inside = new Uint8Array(bytes);
      const pixels = new ImageData(Number(headers.get("X-Width")), Number(headers.get("X-Height")));
      inside.forEach((within, i) => pixels.data.set([0, 0, 0, within ? 0 : 150], 4 * i));
      return { veil: canvasOf(pixels), frame: JSON.parse(headers.get("X-Frame") ?? "null") };
    });
    if (laid) layPicture(context, pane.plane, view, laid.frame, laid.veil);
  }

  /**
   * @param {PlaneView} pane
   * @param {Vector} point_world
   */
  alphaOf(pane, point_world) {
    if (pane.plane.d === 2) return 1;
    return fade((worldToPlane(pane.plane, point_world)[2] - pane.depth) / pane.plane.frame.spacing[pane.axis]);
  }

  /**
   * @param {PlaneView} pane
   * @param {CanvasRenderingContext2D} context
   * @param {View} view
   * @param {State} state
   */
  drawGrid(pane, context, view, state) {
    const fixed = this.stage.planesOf("fixed").find((one) => one.axis === pane.axis);
    if (!fixed) return;
    const question = `axis=${pane.axis}&index=${fixed.slice}`;
    /** @type {(Vector | null)[][] | null} */
    const lines = this.recall(`grid ${pane.axis}`, question, async () => (await this.stage.api.get(`/api/grid_lines?${question}`)).lines);
    if (!lines) return;
    drawGridLines(pane, context, view, lines, state.overlays.opacity * 0.7 + 0.3);
  }

  /**
   * @param {PlaneView} pane
   * @param {CanvasRenderingContext2D} context
   * @param {View} view
   * @param {State} state
   */
  drawMap(pane, context, view, state) {
    const { map, transform, opacity } = state.overlays;
    const named = map === "error" || map === "blended" ? `&transform=${encodeURIComponent(transform ?? "")}` : "";
    const question = `axis=${pane.axis}&index=${pane.slice}&width=192${named}`;
    /** @type {{made: MapPicture, frame: PlaneFrame} | null} */
    const laid = this.recall(`${map} ${pane.axis}`, `${map} ${question}`, async () => {
      const { bytes, headers } = await this.stage.api.bytes(`/api/map/${map}?${question}`);
      const made = mapPicture(/** @type {"entropy"} */ (map), new Float32Array(bytes), headers);
      return { made, frame: JSON.parse(headers.get("X-Frame") ?? "null") };
    });
    if (!laid) return;
    this.onMap(laid.made);
    context.save();
    // Without its own colours below: a stain must not tint the map.
    context.globalCompositeOperation = "saturation";
    context.fillStyle = "#808080";
    context.fillRect(0, 0, view.width, view.height);
    context.globalCompositeOperation = "source-over";
    context.globalAlpha = 0.25 + 0.65 * opacity;
    context.imageSmoothingEnabled = true;
    layPicture(context, pane.plane, view, laid.frame, laid.made.colour);
    context.restore();
    hatchMask(context, (target) => layPicture(target, pane.plane, view, laid.frame, laid.made.unknown), view);
  }

  /**
   * @param {PlaneView} pane
   * @param {CanvasRenderingContext2D} context
   * @param {View} view
   * @param {State} state
   */
  drawWarped(pane, context, view, state) {
    const laid = this.warpedOver(pane, context, view, state);
    if (laid) showWarped(pane, context, view, state.overlays, laid, this.lit);
  }

  /**
   * The third pane.
   * @param {PlaneView} pane
   * @param {CanvasRenderingContext2D} context
   * @param {View} view
   * @param {State} state
   */
  drawComparison(pane, context, view, state) {
    const laid = this.warpedOver(pane, context, view, state);
    const { opacity, lensHeld } = state.overlays;
    if (laid) showWarped(pane, context, view, { warp: state.compare === "off" ? "alone" : state.compare, opacity, lensHeld }, laid, this.lit);
  }

  /**
   * The warped moving image under a view; it already follows a mark that is drawn and not accepted.
   * @param {PlaneView} pane
   * @param {CanvasRenderingContext2D} context
   * @param {View} view
   * @param {State} state
   */
  warpedOver(pane, context, view, state) {
    const { api, images } = this.stage;
    const question = warpedQuestion(pane, images.fixed, view, context.getTransform().a || 1, liveMark(state), this.stage.drawing);
    const path = "/api/warped";
    const chosen = chosenChannels(state.colours.moving);
    const slot = `warped ${pane.axis} ${pane.warped}`;
    const warped = question && this.recall(slot, `${path} ${question} ${chosen}`, () => WarpedPlane.read(api, images.moving, `${path}?${question}`, chosen));
    if (warped) pane.canvas.dataset.warped = String(++this.count);
    return warped ? warped.coloured(state.colours.moving) : null;
  }
}
