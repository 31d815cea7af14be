/**
 * The second image warped by the current model, over the first one while a key is held. Where it has no sample there is hatching: it is not dark
 * tissue.
 * @module
 */

import { brightnessTables, chosenChannels, showSamples } from "./colour.js";
import { canvasOf, hatchMask, layPicture } from "./planepicture.js";
import { levelForScale, levelInPlane } from "./pyramid.js";
import { SAMPLES } from "./tiles.js";
import { screenToPlane } from "./viewport.js";

/** @import { Api } from "./api.js" */
/** @import { Plane } from "./plane.js" */
/** @import { PlaneFrame } from "./planepicture.js" */
/** @import { Drawing } from "./planeview.js" */
/** @import { Colours, ImageInfo } from "./types.js" */
/** @import { View } from "./viewport.js" */
/** @typedef {{picture: HTMLCanvasElement, outside: HTMLCanvasElement, frame: PlaneFrame}} Laid */

const MOST = 2 ** 20; // elements that the server warps at a time
const STEP = 64;

/**
 * What to ask for: the level that the screen needs, the slice, and the part of it that is seen.
 * @param {Drawing} on @returns {string | null} null where nothing of the image is seen
 */
export function warpedQuestion({ pane, context, view }) {
  const { image, plane, axis, slice } = pane;
  for (let level = levelForScale(image, plane, view.scale * (context.getTransform().a || 1)); ; level++) {
    const box = seenOfLevel(image, plane, view, level);
    if (!box) return null;
    if (box[2] * box[3] > MOST && level < image.levels.length - 1) continue;
    const { size, spacing } = image.levels[level];
    const index = plane.d === 2 ? 0 : Math.min(size[axis] - 1, Math.round((slice * image.spacing[axis]) / spacing[axis]));
    return `axis=${axis}&index=${index}&level=${level}&part=${box.join(",")}`;
  }
}

/**
 * The elements of a level that a view shows, in steps of 64 so that a small pan asks for nothing new.
 * @param {ImageInfo} image @param {Plane} plane @param {View} view @param {number} level @returns {number[] | null} first column, first row, columns, rows
 */
function seenOfLevel(image, plane, view, level) {
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
  /** @param {Api} api @param {ImageInfo} moving @param {string} path @param {string} chosen channels, of an image that has them apart @returns {Promise<WarpedPlane>} */
  static async read(api, moving, path, chosen) {
    const { bytes, headers } = await api.bytes(`${path}${chosen && `&channels=${chosen}`}`);
    return new WarpedPlane(moving, bytes, headers, chosen);
  }

  /** @param {ImageInfo} moving @param {ArrayBuffer} bytes samples, then a byte for each element: 1 where the moving image has a sample @param {Headers} headers @param {string} chosen */
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

  /** @param {Colours} colours @returns {Laid | null} null where it has other channels */
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

/** @param {Drawing} on @param {Laid} laid */
export function showWarped({ pane, context, view }, laid) {
  context.save();
  context.imageSmoothingEnabled = view.scale * Math.min(...pane.image.spacing) < SAMPLES;
  layPicture(context, pane.plane, view, laid.frame, laid.picture);
  hatchMask(context, (target) => layPicture(target, pane.plane, view, laid.frame, laid.outside), view);
  context.restore();
}
