/**
 * Pictures from tiles: only what is visible is asked for, nearest to the middle first; drawn from what is in memory, coarser tiles standing in until
 * the fine ones are there.
 * @module
 */

import { brightnessTables, chosenChannels, showSamples } from "./colour.js";
import { turnContext } from "./planepicture.js";
import { keyOf, levelForScale, levelInPlane, visibleTiles } from "./pyramid.js";
import { fitPlaneToScreen, isOblique, planeToScreen } from "./viewport.js";

/** @import { Api } from "./api.js" */
/** @import { Colours, ImageInfo } from "./types.js" */
/** @import { TileId } from "./pyramid.js" */
/** @import { Plane } from "./plane.js" */
/** @import { View } from "./viewport.js" */
/** @typedef {{samples: Uint8Array | Uint16Array, width: number, height: number, channels: number, picture: HTMLCanvasElement | null, colours: Colours | null, bytes: number}} Tile */

const MOST_BYTES = 384 * 2 ** 20;
const AT_ONCE = 6;
/** Tiles of a level that is fetched ahead, at most. */
const COARSE = 6;
/** Screen pixels from which on a sample is drawn as a square. */
export const SAMPLES = 6;

/** The tiles of one image. */
export class TileSource {
  /** @param {string} path of its tiles @param {ImageInfo} image @param {Api} api @param {() => void} onChange a tile has arrived @param {(sentence: string) => void} onFailure */
  constructor(path, image, api, onChange, onFailure) {
    this.path = path;
    this.image = image;
    this.api = api;
    this.onChange = onChange;
    this.onFailure = onFailure;
    /** @type {Map<string, Tile>} */
    this.tiles = new Map();
    /** @type {Map<string, TileId>} */
    this.wanted = new Map();
    /** @type {Map<string, AbortController>} */
    this.loading = new Map();
    /** @type {Map<string, number>} */
    this.failed = new Map();
    this.bytes = 0;
    /** @type {{colours: Colours, tables: Uint8ClampedArray[]} | null} */
    this.tables = null;
    /** Channels that are shown, of an image that has them apart. */
    this.chosen = "";
  }

  /** @param {TileId} id */
  key(id) {
    return this.chosen ? `${this.chosen}:${keyOf(id)}` : keyOf(id);
  }

  /**
   * Draw a plane from what is in memory, and ask for what is missing.
   * @param {CanvasRenderingContext2D} context already scaled to CSS pixels @param {Plane} plane @param {View} view @param {number} depth @param {Colours} colours @returns {boolean} whether everything visible was there at the right level
   */
  draw(context, plane, view, depth, colours) {
    this.chosen = chosenChannels(colours);
    const ratio = context.getTransform().a || 1;
    const best = levelForScale(this.image, plane, view.scale * ratio);
    const fine = visibleTiles(this.image, plane, view, best, depth);
    const complete = fine.every((id) => this.tiles.has(this.key(id)));
    // The tiles are laid upright; the canvas turns.
    const upright = { ...view, turn: undefined };
    context.save();
    turnContext(context, view);
    // From coarse to fine: what is there of a finer level covers what stands in for it.
    for (let level = this.image.levels.length - 1; level >= best; level--) {
      if (complete && level > best) continue;
      const ids = level === best ? fine : visibleTiles(this.image, plane, view, level, depth);
      // In a picture that is turned by an odd angle the edges of tiles are see-through: wider ones below close the seams.
      if (isOblique(view)) for (const id of ids) this.drawTile(context, plane, upright, id, colours, ratio, 1);
      for (const id of ids) this.drawTile(context, plane, upright, id, colours, ratio);
    }
    context.restore();
    const coarse = this.image.levels.length - 1;
    if (!complete && coarse > best) this.ask(visibleTiles(this.image, plane, view, coarse, depth));
    this.ask(fine);
    return complete;
  }

  /** @param {CanvasRenderingContext2D} context @param {Plane} plane @param {View} view @param {TileId} id @param {Colours} colours @param {number} ratio device pixels per CSS pixel @param {number} [wider] device pixels by which it is drawn wider on each side */
  drawTile(context, plane, view, id, colours, ratio, wider = 0) {
    const tile = this.tiles.get(this.key(id));
    if (!tile) return;
    this.touch(this.key(id), tile);
    const place = levelInPlane(this.image, plane, id.level);
    const first = [id.column, id.row].map((n, k) => place.start[k] + (n * this.image.tile - 0.5) * place.step[k]);
    const end = [first[0] + tile.width * place.step[0], first[1] + tile.height * place.step[1]];
    // On device pixels, so that neighbours meet without a seam.
    const [x0, y0] = planeToScreen(view, first).map((value) => (Math.round(value * ratio) - wider) / ratio);
    const [x1, y1] = planeToScreen(view, end).map((value) => (Math.round(value * ratio) + wider) / ratio);
    context.save();
    // Smooth until single samples are large enough to be looked at; then they stay samples.
    context.imageSmoothingEnabled = Math.abs(place.step[0]) * view.scale < SAMPLES;
    context.transform((x1 - x0) / tile.width, 0, 0, (y1 - y0) / tile.height, x0, y0);
    context.drawImage(this.pictureOf(tile, colours), 0, 0);
    context.restore();
  }

  /** @param {Tile} tile @param {Colours} colours @returns {HTMLCanvasElement} */
  pictureOf(tile, colours) {
    if (!tile.picture) {
      tile.picture = document.createElement("canvas");
      tile.picture.width = tile.width;
      tile.picture.height = tile.height;
    }
    if (tile.colours !== colours) {
      if (this.tables?.colours !== colours) this.tables = { colours, tables: brightnessTables(this.image, colours) };
      const pixels = new ImageData(tile.width, tile.height);
      showSamples(tile.samples, tile.channels, colours, this.tables.tables, pixels.data);
      /** @type {CanvasRenderingContext2D} */ (tile.picture.getContext("2d")).putImageData(pixels, 0, 0);
      tile.colours = colours;
    }
    return tile.picture;
  }

  /** A frame begins: what is asked for from here on is what is still wanted. */
  beginFrame() {
    this.wanted.clear();
  }

  /** All views have drawn: stop loading what nobody wants any more, load the rest. */
  endFrame() {
    for (const [key, control] of this.loading) if (!this.wanted.has(key)) control.abort();
    this.pump();
  }

  /** Ask for a neighbour of what is shown. @param {Plane} plane @param {View} view @param {number} depth @param {CanvasRenderingContext2D} context */
  prefetch(plane, view, depth, context) {
    const level = levelForScale(this.image, plane, view.scale * (context.getTransform().a || 1));
    this.ask(visibleTiles(this.image, plane, view, level, depth));
  }

  /**
   * All tiles of the coarse levels, so that a question anywhere begins with a picture; after everything that is in sight.
   * @param {Plane} plane @param {number} depth
   */
  askCoarse(plane, depth) {
    const whole = fitPlaneToScreen(plane, { width: 1e4, height: 1e4 });
    for (let level = this.image.levels.length - 1; level > 0; level--) {
      const tiles = visibleTiles(this.image, plane, whole, level, depth);
      if (tiles.length > COARSE) return;
      this.ask(tiles);
    }
  }

  /** @param {TileId[]} ids */
  ask(ids) {
    for (const id of ids) {
      const key = this.key(id);
      if (!this.tiles.has(key)) this.wanted.set(key, id);
    }
  }

  pump() {
    // The coarsest first and alone: on a slow line it is there while the fine ones would still share the way with it.
    const coarsest = this.image.levels.length - 1;
    const first = [...this.wanted].some(([key, { level }]) => level === coarsest && !this.tiles.has(key) && !this.failed.has(key));
    for (const [key, id] of this.wanted) {
      if (this.loading.size >= AT_ONCE) return;
      if (first && id.level !== coarsest) continue;
      if (!this.tiles.has(key) && this.mayLoad(key)) void this.load(key, id);
    }
  }

  /** @param {string} key */
  mayLoad(key) {
    return !this.loading.has(key) && (this.failed.get(key) ?? 0) < Date.now();
  }

  /** @param {string} key @param {TileId} id */
  async load(key, id) {
    const control = new AbortController();
    this.loading.set(key, control);
    const question = new URLSearchParams(Object.entries(id).map(([name, value]) => [name, String(value)]));
    question.set("v", this.image.version ?? "");
    if (this.chosen) question.set("channels", this.chosen);
    try {
      const { bytes, headers } = await this.api.bytes(`${this.path}?${question}`, control.signal);
      this.keep(key, bytes, headers);
    } catch (error) {
      if (!control.signal.aborted) {
        this.failed.set(key, Date.now() + 2000);
        setTimeout(() => this.onChange(), 2100);
        if (error instanceof Error && "status" in error) this.onFailure(error.message);
      }
    } finally {
      this.loading.delete(key);
      this.pump();
    }
  }

  /** @param {string} key @param {ArrayBuffer} bytes @param {Headers} headers */
  keep(key, bytes, headers) {
    const samples = this.image.dtype === "uint8" ? new Uint8Array(bytes) : new Uint16Array(bytes);
    const [height, width, channels] = ["X-Height", "X-Width", "X-Channels"].map((name) => Number(headers.get(name)));
    const tile = { samples, width, height, channels, picture: null, colours: null, bytes: bytes.byteLength + width * height * 4 };
    this.bytes += tile.bytes;
    this.tiles.set(key, tile);
    for (const [old, { bytes: size }] of this.tiles) {
      if (this.bytes <= MOST_BYTES) break;
      this.tiles.delete(old);
      this.bytes -= size;
    }
    this.onChange();
  }

  /** Last used, last dropped. @param {string} key @param {Tile} tile */
  touch(key, tile) {
    this.tiles.delete(key);
    this.tiles.set(key, tile);
  }
}
