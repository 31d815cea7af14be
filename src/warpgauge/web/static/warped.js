/**
 * The moving image warped by the current mean, over the fixed one: see-through, flicker, checkerboard, lens.
 *
 * Where the moving image has no sample there is hatching: it is not dark tissue.
 * @module
 */

import { covarianceFromMark } from "./ellipsoid.js";
import { chosenChannels } from "./channels.js";
import { brightnessTables, showSamples } from "./colour.js";
import { strokeWithHalo } from "./marks.js";
import { canvasOf, hatchMask, layPicture } from "./planepicture.js";
import { levelForScale, levelInPlane } from "./pyramid.js";
import { SAMPLES } from "./tiles.js";
import { screenToPlane } from "./viewport.js";

/** @import { Api } from "./api.js" */
/** @import { Plane } from "./plane.js" */
/** @import { PlaneFrame } from "./planepicture.js" */
/** @import { PlaneView } from "./planeview.js" */
/** @import { Colours, ImageInfo, State, WarpMode } from "./types.js" */
/** @import { View } from "./viewport.js" */
/** @typedef {{picture: HTMLCanvasElement, outside: HTMLCanvasElement, frame: PlaneFrame}} Laid */

const MOST = 2 ** 20; // elements that the server warps at a time; half of them while something is dragged
const STEP = 64;
const SQUARE = 72; // screen pixels of the checkerboard
export const LENS = 90; // screen pixels

/**
 * The mark that is drawn and not stored yet, as the server takes it: the warped image already follows it.
 * @param {State} state
 * @returns {string}
 */
export function liveMark({ query, mark, dirty, task, own }) {
  const fixed = own ?? (task === "answer" || task === "nearby" ? query?.location : null);
  if (!mark || !dirty || !fixed) return "";
  const numbers = [fixed, mark.point, covarianceFromMark(mark).flat()].map((values) => values.map((value) => Number(value.toPrecision(9))).join(","));
  return `&mark=${encodeURIComponent(numbers.join(";"))}`;
}

/**
 * What to ask for: the level that the screen needs (half as fine while something is dragged), the slice, and the part
 * of it that is seen.
 * @param {PlaneView} pane
 * @param {ImageInfo} image
 * @param {View} view
 * @param {number} ratio device pixels per CSS pixel
 * @param {string} live
 * @param {boolean} dragging
 * @returns {string | null} null where nothing of the image is seen
 */
export function warpedQuestion(pane, image, view, ratio, live, dragging) {
  let level = levelForScale(image, pane.plane, view.scale * ratio * (dragging ? 0.5 : 1));
  for (;;) {
    const box = seenOfLevel(image, pane.plane, view, level);
    if (!box) return null;
    if (box[2] * box[3] <= (dragging ? MOST / 2 : MOST) || level === image.levels.length - 1) {
      const place = image.levels[level];
      const index = pane.plane.d === 2 ? 0 : Math.min(place.size[pane.axis] - 1, Math.round((pane.slice * image.spacing[pane.axis]) / place.spacing[pane.axis]));
      return `axis=${pane.axis}&index=${index}&level=${level}&part=${box.join(",")}${live}`;
    }
    level += 1;
  }
}

/**
 * The elements of a level that a view shows, in steps of 64 so that a small pan asks for nothing new.
 * @param {ImageInfo} image
 * @param {Plane} plane
 * @param {View} view
 * @param {number} level
 * @returns {number[] | null} first column, first row, columns, rows
 */
export function seenOfLevel(image, plane, view, level) {
  const place = levelInPlane(image, plane, level);
  const corners = [screenToPlane(view, [0, 0]), screenToPlane(view, [view.width, view.height])];
  const ranges = [0, 1].map((k) => {
    const at = corners.map((corner) => (corner[k] - place.start[k]) / place.step[k]);
    const first = Math.max(0, STEP * Math.floor(Math.min(...at) / STEP));
    const last = Math.min(place.count[k], STEP * Math.ceil(Math.max(...at) / STEP));
    return [first, last - first];
  });
  return ranges.every(([, count]) => count > 0) ? [ranges[0][0], ranges[1][0], ranges[0][1], ranges[1][1]] : null;
}

/** A warped plane in memory; coloured anew when window and level change. */
export class WarpedPlane {
  /**
   * @param {Api} api
   * @param {ImageInfo} moving
   * @param {string} path
   * @param {string} chosen channels, of an image that has them apart
   * @returns {Promise<WarpedPlane>}
   */
  static async read(api, moving, path, chosen) {
    const { bytes, headers } = await api.bytes(`${path}${chosen && `&channels=${chosen}`}`);
    return new WarpedPlane(moving, bytes, headers, chosen);
  }

  /**
   * @param {ImageInfo} moving
   * @param {ArrayBuffer} bytes samples, then a byte for each element: 1 where the moving image has a sample
   * @param {Headers} headers
   * @param {string} chosen
   */
  constructor(moving, bytes, headers, chosen) {
    const [height, width, channels] = ["X-Height", "X-Width", "X-Channels"].map((name) => Number(headers.get(name)));
    const count = height * width * channels;
    this.moving = moving;
    this.chosen = chosen;
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
   * @returns {Laid | null} null where it has other channels
   */
  coloured(colours) {
    if (this.made?.colours === colours) return this.made.laid;
    if (chosenChannels(colours) !== this.chosen) return null;
    const [pixels, outside] = [new ImageData(this.size[0], this.size[1]), new ImageData(this.size[0], this.size[1])];
    showSamples(this.samples, this.channels, colours, brightnessTables(this.moving, colours), pixels.data);
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
 * @param {{warp: WarpMode | "alone", lensHeld: boolean, opacity: number}} how
 * @param {Laid} laid
 * @param {boolean} lit whether a flickering picture is on
 */
export function showWarped(pane, context, view, { warp, lensHeld, opacity }, laid, lit) {
  const draw = (/** @type {number} */ alpha) => {
    context.globalAlpha = alpha;
    context.imageSmoothingEnabled = view.scale * Math.min(...pane.image.spacing) < SAMPLES;
    layPicture(context, pane.plane, view, laid.frame, laid.picture);
    hatchMask(context, (target) => layPicture(target, pane.plane, view, laid.frame, laid.outside), view);
  };
  context.save();
  if (warp === "alone") draw(1);
  if (warp === "opacity") draw(opacity);
  if (warp === "difference") {
    context.globalCompositeOperation = "difference";
    draw(1);
    context.globalCompositeOperation = "saturation";
    context.globalAlpha = 1;
    context.fillStyle = "#808080";
    context.fillRect(0, 0, view.width, view.height);
  }
  if (warp === "flicker" && lit) draw(1);
  if (warp === "checkerboard") {
    clipToSquares(context, view);
    draw(1);
  }
  context.restore();
  if (!lensHeld && warp !== "lens") return;
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
