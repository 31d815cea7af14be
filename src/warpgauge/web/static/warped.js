/**
 * The moving image warped by the current mean, over the fixed one: see-through, flicker, checkerboard, lens.
 *
 * Where the moving image has no sample there is hatching: it is not dark tissue.
 * @module
 */

import { brightnessTables, colourSamples } from "./colour.js";
import { strokeWithHalo } from "./marks.js";
import { canvasOf, hatchMask, layPicture } from "./planepicture.js";
import { levelForScale } from "./pyramid.js";

/** @import { Api } from "./api.js" */
/** @import { PlaneFrame } from "./planepicture.js" */
/** @import { PlaneView } from "./planeview.js" */
/** @import { Colours, ImageInfo, State } from "./types.js" */
/** @import { View } from "./viewport.js" */
/** @typedef {{picture: HTMLCanvasElement, outside: HTMLCanvasElement, frame: PlaneFrame}} Laid */

const MOST = 2 ** 20; // elements that the server warps at a time
const SQUARE = 72; // screen pixels of the checkerboard
export const LENS = 90; // screen pixels

/**
 * What to ask for: the level that the screen needs, no finer than the server gives, and the slice at that level.
 * @param {PlaneView} pane
 * @param {ImageInfo} image
 * @param {number} scale device pixels per unit
 * @returns {string}
 */
export function warpedQuestion(pane, image, scale) {
  let level = levelForScale(image, pane.plane, scale);
  const [u, v] = pane.plane.order;
  const count = (/** @type {number} */ l) => image.levels[l].size[u] * image.levels[l].size[v];
  while (level < image.levels.length - 1 && count(level) > MOST) level += 1;
  const place = image.levels[level];
  const index = pane.plane.d === 2 ? 0 : Math.min(place.size[pane.axis] - 1, Math.round((pane.slice * image.spacing[pane.axis]) / place.spacing[pane.axis]));
  return `axis=${pane.axis}&index=${index}&level=${level}`;
}

/** A warped plane in memory; coloured anew when window and level change. */
export class WarpedPlane {
  /**
   * @param {Api} api
   * @param {ImageInfo} moving
   * @param {string} question
   * @returns {Promise<WarpedPlane>}
   */
  static async read(api, moving, question) {
    const { bytes, headers } = await api.bytes(`/api/warped?${question}`);
    return new WarpedPlane(moving, bytes, headers);
  }

  /**
   * @param {ImageInfo} moving
   * @param {ArrayBuffer} bytes samples, then a byte for each element: 1 where the moving image has a sample
   * @param {Headers} headers
   */
  constructor(moving, bytes, headers) {
    const [height, width, channels] = ["X-Height", "X-Width", "X-Channels"].map((name) => Number(headers.get(name)));
    const count = height * width * channels;
    this.moving = moving;
    this.samples = moving.dtype === "uint8" ? new Uint8Array(bytes, 0, count) : new Uint16Array(bytes, 0, count);
    this.within = new Uint8Array(bytes, this.samples.byteLength, height * width);
    this.size = [width, height];
    this.channels = channels;
    /** @type {PlaneFrame} */
    this.frame = JSON.parse(headers.get("X-Frame") ?? "null");
    /** @type {{colours: Colours, laid: Laid} | null} */
    this.made = null;
  }

  /**
   * @param {Colours} colours
   * @returns {Laid}
   */
  coloured(colours) {
    if (this.made?.colours === colours) return this.made.laid;
    const [pixels, outside] = [new ImageData(this.size[0], this.size[1]), new ImageData(this.size[0], this.size[1])];
    colourSamples(this.samples, this.channels, brightnessTables(this.moving, colours), pixels.data);
    for (let i = 0; i < this.within.length; i++) {
      if (this.within[i]) continue;
      pixels.data[4 * i + 3] = 0;
      outside.data[4 * i + 3] = 255;
    }
    this.made = { colours, laid: { picture: canvasOf(pixels), outside: canvasOf(outside), frame: this.frame } };
    return this.made.laid;
  }
}

/**
 * @param {PlaneView} pane
 * @param {CanvasRenderingContext2D} context
 * @param {View} view
 * @param {State} state
 * @param {Laid} laid
 * @param {boolean} lit whether a flickering picture is on
 */
export function showWarped(pane, context, view, state, laid, lit) {
  const { warp, lensHeld, opacity } = state.overlays;
  const draw = (/** @type {number} */ alpha) => {
    context.globalAlpha = alpha;
    context.imageSmoothingEnabled = view.scale * Math.min(...pane.image.spacing) < 2;
    layPicture(context, pane.plane, view, laid.frame, laid.picture);
    hatchMask(context, (target) => layPicture(target, pane.plane, view, laid.frame, laid.outside), view);
  };
  context.save();
  if (warp === "opacity") draw(opacity);
  if (warp === "flicker" && lit) draw(1);
  if (warp === "checkerboard") {
    clipToSquares(context, view);
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

/**
 * @param {CanvasRenderingContext2D} context
 * @param {View} view
 */
function clipToSquares(context, view) {
  context.beginPath();
  for (let y = 0; y < view.height; y += SQUARE) {
    for (let x = ((y / SQUARE) % 2) * SQUARE; x < view.width; x += 2 * SQUARE) context.rect(x, y, SQUARE, SQUARE);
  }
  context.clip();
}
