/**
 * What can be laid over the images: maps, the warped moving image, the deformed grid, the candidates.
 *
 * A picture stays until the next one is there: turning slices or placing a mark does not make it flicker.
 * @module
 */

import { RefusedError } from "./api.js";
import { brightnessTables, colourSamples } from "./colour.js";
import { blendMasks, mapPicture } from "./maps.js";
import { COLOURS, fade, strokeWithHalo } from "./marks.js";
import { levelForScale } from "./tiles.js";
import { indexToWorld, planeToScreen, worldToPlane, worldToScreen } from "./viewport.js";

/** @import { Vector } from "./linalg.js" */
/** @import { MapPicture } from "./maps.js" */
/** @import { PlaneView } from "./planeview.js" */
/** @import { Stage } from "./stage.js" */
/** @import { Side, State } from "./types.js" */
/** @import { View } from "./viewport.js" */
/** @typedef {{origin: Vector, column: Vector, row: Vector}} PlaneFrame */
/** @typedef {{picture: HTMLCanvasElement, frame: PlaneFrame, map?: MapPicture}} Laid */
/** @typedef {{samples: Uint8Array | Uint16Array, width: number, height: number, channels: number, frame: PlaneFrame}} Warped */

const FLICKER = 450; // ms
const SQUARE = 72; // screen pixels of the checkerboard
export const LENS = 90; // screen pixels

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
    /** @type {(map: MapPicture | null) => void} */
    this.onMap = () => {};
    stage.store.watch(["overlays"], (state) => this.changed(state));
  }

  /**
   * @param {Side} side
   * @returns {Vector}
   */
  middleOfImage(side) {
    const image = this.stage.images[side];
    return indexToWorld(image, image.size.map((n) => (n - 1) / 2));
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
    if (state.overlays.warp === "flicker") {
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
    store.set({ message: error.message, tone: "warning", overlays: { ...store.state.overlays, map: "off", warp: "off", grid: false, lensHeld: false } });
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
    strokeWithHalo(
      context,
      COLOURS.grid,
      () => {
        for (const line of lines) {
          let pen = false;
          for (const point of line) {
            if (point) {
              const [x, y] = worldToScreen(pane.plane, view, point);
              if (pen) context.lineTo(x, y);
              else context.moveTo(x, y);
            }
            pen = point !== null;
          }
        }
      },
      { width: 1, alpha: state.overlays.opacity * 0.7 + 0.3 },
    );
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
    /** @type {Laid | null} */
    const laid = this.recall(`${map} ${pane.axis}`, `${map} ${question}`, async () => {
      const { bytes, headers } = await this.stage.api.bytes(`/api/map/${map}?${question}`);
      const made = mapPicture(/** @type {"entropy"} */ (map), new Float32Array(bytes), headers);
      return { picture: made.colour, frame: JSON.parse(headers.get("X-Frame") ?? "null"), map: made };
    });
    if (!laid?.map) return;
    this.onMap(laid.map);
    context.save();
    context.globalAlpha = 0.25 + 0.65 * opacity;
    context.imageSmoothingEnabled = true;
    lay(pane, context, view, laid.frame, laid.picture);
    context.restore();
    blendMasks(context, (target) => lay(pane, target, view, laid.frame, /** @type {MapPicture} */ (laid.map).unknown), view);
  }

  /**
   * @param {PlaneView} pane
   * @param {CanvasRenderingContext2D} context
   * @param {View} view
   * @param {State} state
   */
  drawWarped(pane, context, view, state) {
    const image = this.stage.images.fixed;
    let level = levelForScale(image, pane.plane, view.scale * (context.getTransform().a || 1));
    const [u, v] = pane.plane.order;
    const count = (/** @type {number} */ l) => image.levels[l].size[u] * image.levels[l].size[v];
    while (level < image.levels.length - 1 && count(level) > 2 ** 20) level += 1;
    const place = image.levels[level];
    const index = pane.plane.d === 2 ? 0 : Math.min(place.size[pane.axis] - 1, Math.round((pane.slice * image.spacing[pane.axis]) / place.spacing[pane.axis]));
    const question = `axis=${pane.axis}&index=${index}&level=${level}`;
    /** @type {(Warped & {colours?: any, picture?: HTMLCanvasElement}) | null} */
    const warped = this.recall(`warped ${pane.axis}`, question, async () => {
      const { bytes, headers } = await this.stage.api.bytes(`/api/warped?${question}`);
      const samples = this.stage.images.moving.dtype === "uint8" ? new Uint8Array(bytes) : new Uint16Array(bytes);
      const [height, width, channels] = ["X-Height", "X-Width", "X-Channels"].map((name) => Number(headers.get(name)));
      return { samples, width, height, channels, frame: JSON.parse(headers.get("X-Frame") ?? "null") };
    });
    if (!warped) return;
    const colours = state.colours.moving;
    if (warped.colours !== colours) {
      const pixels = new ImageData(warped.width, warped.height);
      colourSamples(warped.samples, warped.channels, brightnessTables(this.stage.images.moving, colours), pixels.data);
      warped.picture = canvasOf(pixels);
      warped.colours = colours;
    }
    this.showWarped(pane, context, view, state, { picture: /** @type {HTMLCanvasElement} */ (warped.picture), frame: warped.frame });
  }

  /**
   * @param {PlaneView} pane
   * @param {CanvasRenderingContext2D} context
   * @param {View} view
   * @param {State} state
   * @param {Laid} laid
   */
  showWarped(pane, context, view, state, laid) {
    const { warp, lensHeld, opacity } = state.overlays;
    const draw = (/** @type {number} */ alpha) => {
      context.globalAlpha = alpha;
      context.imageSmoothingEnabled = view.scale * Math.min(...this.stage.images.fixed.spacing) < 2;
      lay(pane, context, view, laid.frame, laid.picture);
    };
    context.save();
    if (warp === "opacity") draw(opacity);
    if (warp === "flicker" && this.lit) draw(1);
    if (warp === "checkerboard") {
      context.beginPath();
      for (let y = 0; y < view.height; y += SQUARE) {
        for (let x = ((y / SQUARE) % 2) * SQUARE; x < view.width; x += 2 * SQUARE) context.rect(x, y, SQUARE, SQUARE);
      }
      context.clip();
      draw(1);
    }
    context.restore();
    if (!lensHeld) return;
    const [x, y] = pane.pointer ?? [view.width / 2, view.height / 2];
    context.save();
    context.beginPath();
    context.arc(x, y, LENS, 0, 2 * Math.PI);
    context.clip();
    draw(1);
    context.restore();
    strokeWithHalo(context, "#ddd", () => context.arc(x, y, LENS, 0, 2 * Math.PI), { width: 1 });
  }
}

/**
 * Draw a picture whose elements lie where its frame says.
 * @param {PlaneView} pane
 * @param {CanvasRenderingContext2D} context
 * @param {View} view
 * @param {PlaneFrame} frame
 * @param {HTMLCanvasElement} picture
 */
function lay(pane, context, view, frame, picture) {
  const start = worldToPlane(pane.plane, frame.origin);
  const end = worldToPlane(pane.plane, frame.origin.map((value, i) => value + frame.column[i] + frame.row[i]));
  const step = [end[0] - start[0], end[1] - start[1]];
  const [x, y] = planeToScreen(view, [start[0] - step[0] / 2, start[1] - step[1] / 2]);
  context.save();
  context.transform(step[0] * view.scale, 0, 0, step[1] * view.scale, x, y);
  context.drawImage(picture, 0, 0);
  context.restore();
}

/**
 * @param {ImageData} pixels
 * @returns {HTMLCanvasElement}
 */
export function canvasOf(pixels) {
  const canvas = document.createElement("canvas");
  canvas.width = pixels.width;
  canvas.height = pixels.height;
  /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d")).putImageData(pixels, 0, 0);
  return canvas;
}
