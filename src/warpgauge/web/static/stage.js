/**
 * The two images side by side: their tiles, their planes, one loop that draws, and where everybody looks.
 * @module
 */

import { largestSample } from "./colour.js";
import { Link } from "./link.js";
import { Overlays } from "./overlays.js";
import { withView } from "./planeview.js";
import { TileSource } from "./tiles.js";
import { indexToWorld, worldToPlane } from "./plane.js";
import { centreWithinImage, scaleLimits, worldToScreen, zoomAboutScreen } from "./viewport.js";

/** @import { Annotator } from "./annotator.js" */
/** @import { Api } from "./api.js" */
/** @import { Vector } from "./linalg.js" */
/** @import { PlaneView } from "./planeview.js" */
/** @import { Store } from "./store.js" */
/** @import { Colours, ImageInfo, Side, State } from "./types.js" */
/** @import { View } from "./viewport.js" */

/** @type {Side[]} */
export const SIDES = ["fixed", "moving"];

export class Stage {
  /**
   * @param {Store<State>} store
   * @param {Api} api
   * @param {Annotator} annotator
   * @param {Record<Side, ImageInfo>} images
   */
  constructor(store, api, annotator, images) {
    this.store = store;
    this.api = api;
    this.annotator = annotator;
    this.images = images;
    this.surround = "#777";
    const tell = (/** @type {string} */ sentence) => store.set({ message: sentence, tone: "error" });
    /** @param {Side} side */
    const source = (side) => new TileSource(side, images[side], api, () => this.drawSoon(), tell);
    /** @type {Record<Side, TileSource>} */
    this.sources = { fixed: source("fixed"), moving: source("moving") };
    /** @type {PlaneView[]} */
    this.panes = [];
    /** @type {PlaneView | null} */
    this.active = null;
    /** @type {Set<{draw: () => void}>} */
    this.extras = new Set();
    this.overlays = new Overlays(this);
    this.link = new Link(this);
    this.scheduled = false;
    /** @type {() => void} */
    this.onPicture = () => {};
    /** Kept when all that is first seen of both images is there; a failing tile holds up nothing for long. */
    this.pictured = new Promise((done) => {
      this.onPicture = () => done(undefined);
      setTimeout(done, 3000);
    });
    /** @type {{side: Side, point: Vector, span: number | null}[]} */
    this.waiting = [];
    store.watch([], () => this.drawSoon());
  }

  drawSoon() {
    if (this.scheduled) return;
    this.scheduled = true;
    requestAnimationFrame(() => {
      this.scheduled = false;
      for (const side of SIDES) this.sources[side].beginFrame();
      for (const pane of this.panes) pane.draw();
      for (const extra of this.extras) extra.draw();
      for (const side of SIDES) this.sources[side].endFrame();
      const shown = this.panes.filter((pane) => pane.visible);
      if (this.store.state.query && shown.length > 0 && shown.every((pane) => pane.complete)) this.onPicture();
    });
  }

  /**
   * @param {Side} side
   * @returns {Vector}
   */
  middleOfImage(side) {
    const image = this.images[side];
    return indexToWorld(image, image.size.map((n) => (n - 1) / 2));
  }

  /**
   * @param {Side} side
   * @returns {PlaneView[]} its planes that are on the screen
   */
  planesOf(side) {
    return this.panes.filter((pane) => pane.side === side);
  }

  /**
   * The user moved a view: the other planes of a volume keep its scale, and a linked image follows.
   * @param {Side} side
   * @param {number} axis
   * @param {View} view
   */
  setView(side, axis, view) {
    let views = withView(this.store.state, side, axis, view);
    for (const other of this.planesOf(side)) {
      const known = views[side][other.axis];
      if (other.axis !== axis && known && known.scale !== view.scale) {
        const cross = this.store.state.cross[side];
        const at = cross ? worldToScreen(other.plane, known, cross) : [known.width / 2, known.height / 2];
        const zoomed = zoomAboutScreen(known, at, view.scale / known.scale, [0, Infinity]);
        views = { ...views, [side]: { ...views[side], [other.axis]: zoomed } };
      }
    }
    this.store.set({ views });
    this.link.follow(side);
  }

  /**
   * @param {Side} side
   * @param {Vector} point_world where the planes shall meet
   * @param {number} [by] axis of the plane in which it was moved; the others go there if they do not show it
   */
  setCross(side, point_world, by) {
    let { views } = this.store.state;
    for (const pane of this.planesOf(side)) {
      if (pane.axis === by || !pane.visible) continue;
      const [x, y] = worldToScreen(pane.plane, pane.view, point_world);
      const { width, height } = pane.size;
      if (Math.min(x, width - x) > width * 0.1 && Math.min(y, height - y) > height * 0.1) continue;
      const centre = worldToPlane(pane.plane, point_world).slice(0, 2);
      views = { ...views, [side]: { ...views[side], [pane.axis]: { ...pane.view, centre } } };
    }
    this.store.set({ views, cross: { ...this.store.state.cross, [side]: point_world } });
    this.link.follow(side);
  }

  /**
   * Look at a point.
   * @param {Side} side
   * @param {Vector} point_world
   * @param {number | null} span world length that shall fit into the view; null keeps the zoom
   */
  lookAt(side, point_world, span) {
    const panes = this.planesOf(side).filter((pane) => pane.visible);
    if (panes.length === 0) {
      this.waiting.push({ side, point: point_world, span });
      return;
    }
    let { views } = this.store.state;
    const smallest = Math.min(...panes.map((pane) => Math.min(pane.size.width, pane.size.height)));
    for (const pane of panes) {
      const [low, high] = scaleLimits(pane.plane, pane.size);
      const wanted = span ? smallest / span : pane.view.scale;
      // No nearer than 24 screen pixels a pixel, no farther than the whole image.
      const scale = Math.min(high / 5, Math.max(low * 4.8, wanted));
      const view = { ...pane.view, scale: span ? scale : pane.view.scale };
      view.centre = centreWithinImage(pane.plane, view, worldToPlane(pane.plane, point_world).slice(0, 2));
      views = { ...views, [side]: { ...views[side], [pane.axis]: view } };
    }
    this.store.set({ views, cross: { ...this.store.state.cross, [side]: point_world } });
  }

  /**
   * A plane has got its size: look where it was told to look before.
   * @param {PlaneView} pane
   */
  arrived(pane) {
    if (this.planesOf(pane.side).some((other) => !other.visible && other.canvas.offsetParent !== null)) return;
    const told = this.waiting.filter(({ side }) => side === pane.side);
    this.waiting = this.waiting.filter(({ side }) => side !== pane.side);
    for (const { side, point, span } of told) this.lookAt(side, point, span);
  }

  /**
   * Whether a point lies within what is seen of an image.
   * @param {Side} side
   * @param {Vector} point_world
   */
  sees(side, point_world) {
    return this.planesOf(side).filter((pane) => pane.visible).some((pane) => {
      const [x, y] = worldToPlane(pane.plane, point_world);
      const { centre, scale, width, height } = pane.view;
      return Math.abs(x - centre[0]) * scale < width * 0.45 && Math.abs(y - centre[1]) * scale < height * 0.45;
    });
  }

  /**
   * Window and level by dragging: right is more contrast off, down is darker.
   * @param {Side} side
   * @param {Colours} start
   * @param {Vector} shift_screen
   */
  shiftWindow(side, start, [dx, dy]) {
    const range = largestSample(this.images[side]);
    const windows = start.windows.map(({ low, high }) => {
      const level = (low + high) / 2 + (dy / 400) * Math.max(high - low, range / 64);
      const half = Math.max(((high - low) / 2) * 1.005 ** dx, 0.5);
      return { low: level - half, high: level + half };
    });
    this.setColours(side, { ...start, windows });
  }

  /**
   * @param {Side} side
   * @param {Colours} colours
   */
  setColours(side, colours) {
    this.store.set({ colours: { ...this.store.state.colours, [side]: colours } });
  }
}
