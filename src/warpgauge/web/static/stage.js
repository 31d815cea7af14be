/**
 * The two images side by side: their tiles, their planes, one loop that draws, and where everybody looks.
 * @module
 */

import { root } from "./api.js";
import { rememberChannels } from "./channels.js";
import { largestSample } from "./colour.js";
import { Contexts } from "./contexts.js";
import { Ghost, PRECISE } from "./ghost.js";
import { keep, kept } from "./kept.js";
import { Link } from "./link.js";
import { Overlays } from "./overlays.js";
import { withView } from "./planeview.js";
import { TileSource } from "./tiles.js";
import { indexToWorld, worldToPlane } from "./plane.js";
import { centreWithinImage, worldToScreen, zoomAboutScreen } from "./viewport.js";

/** @import { Api } from "./api.js" */
/** @import { Matrix, Vector } from "./linalg.js" */
/** @import { PlaneView } from "./planeview.js" */
/** @import { Store } from "./store.js" */
/** @import { Colours, Progress, Project, Side, State } from "./types.js" */
/** @import { View } from "./viewport.js" */

/** @type {Side[]} */
export const SIDES = ["fixed", "moving"];

/** Screen pixels that a pixel is enlarged to at most when the page chooses the zoom. */
const NEAREST = 8;

export class Stage {
  /**
   * @param {Store<State>} store
   * @param {Api} api
   * @param {Project} project
   */
  constructor(store, api, project) {
    this.store = store;
    this.api = api;
    this.project = project;
    this.images = project.images;
    this.surround = "#777";
    const tell = (/** @type {string} */ sentence) => store.set({ message: sentence, tone: "error" });
    /** @param {Side} side */
    const source = (side) => new TileSource(`/api/images/${side}/tile`, this.images[side], api, () => this.drawSoon(), tell);
    /** @type {Record<Side, TileSource>} */
    this.sources = { fixed: source("fixed"), moving: source("moving") };
    this.contexts = new Contexts(this, tell);
    /** @type {PlaneView[]} */
    this.panes = [];
    /** @type {PlaneView | null} */
    this.active = null;
    /** @type {Set<{draw: () => void}>} */
    this.extras = new Set();
    this.overlays = new Overlays(this);
    this.link = new Link(this);
    this.ghost = new Ghost(this);
    /** @type {(() => void)[]} */
    this.readouts = [];
    this.ghostOffered = false;
    this.scheduled = false;
    /** @type {() => void} */
    this.onGlimpse = () => {};
    /** @type {() => void} */
    this.onPicture = () => {};
    // Each comes after 3 s at the latest: a tile may fail.
    /** Resolves when something of every plane is drawn. */
    this.glimpsed = new Promise((done) => {
      this.onGlimpse = () => done(undefined);
      setTimeout(done, 3000);
    });
    /** Resolves when the first view of both images is drawn with its question. */
    this.pictured = new Promise((done) => {
      this.onPicture = () => done(undefined);
      setTimeout(done, 3000);
    });
    /** Looks once more where the page chose to look; null once the expert has moved a view. @type {(() => void) | null} */
    this.lookAgain = null;
    /** World length that the expert chose to see, by zooming; the next question is seen as near. @type {Record<Side, number | null>} */
    this.working = { fixed: null, moving: null, ...kept(this.workingKey) };
    store.watch([], () => this.drawSoon());
  }

  /** Whether what the model expects is kept from this visitor. */
  get withheld() {
    return this.project.role === "rater" && this.project.settings.hide_prediction;
  }

  /** Whether the hand is drawing a mark. */
  get drawing() {
    return this.panes.some((pane) => pane.hand.drawing);
  }

  /** The model changed: what was drawn from it does not hold. */
  forgetModel() {
    this.link.forget();
    this.overlays.forget();
  }

  /** Give the keyboard to the images: to the plane that was used last, at first the moving one. */
  focus() {
    const shown = this.panes.filter((pane) => pane.visible);
    const pane = shown.find((one) => one === this.active) ?? shown.find((one) => one.side === "moving") ?? shown[0];
    pane?.canvas.focus({ preventScroll: true });
  }

  drawSoon() {
    if (this.scheduled) return;
    this.scheduled = true;
    requestAnimationFrame(() => {
      this.scheduled = false;
      const sources = [...SIDES.map((side) => this.sources[side]), ...this.contexts.sources];
      for (const source of sources) source.beginFrame();
      for (const pane of this.panes) pane.draw();
      for (const extra of this.extras) extra.draw();
      for (const show of this.readouts) show();
      for (const source of sources) source.endFrame();
      const shown = this.panes.filter((pane) => pane.visible);
      const { query, done } = this.store.state;
      if (shown.length > 0 && SIDES.every((side) => this.sources[side].tiles.size > 0)) this.onGlimpse();
      if ((query || done) && shown.length > 0 && shown.every((pane) => pane.complete)) this.onPicture();
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
    return this.panes.filter((pane) => pane.side === side && !pane.warped);
  }

  /**
   * How the planes of an image are turned on the screen; undefined where they stand upright.
   * @param {Side} side
   * @returns {Matrix | undefined}
   */
  turnOf(side) {
    const { pose, turned } = this.store.state;
    return side === "moving" && turned && pose ? pose.turn : undefined;
  }

  /**
   * The other image shows where the pointer is, once that is known well enough to help; once switched off it stays so.
   * @param {Progress} progress
   */
  ghostWhenKnown(progress) {
    const pixel = Math.min(...this.images.fixed.spacing);
    if (this.ghostOffered || progress.annotations === 0 || !(Number(progress.mean_sd) < PRECISE * pixel)) return;
    this.ghostOffered = true;
    this.store.set({ ghost: !this.project.settings.hide_prediction });
  }

  /**
   * The user moved a view: the other planes of a volume zoom with it, and a linked image follows.
   * @param {Side} side
   * @param {number} axis
   * @param {View} view
   */
  setView(side, axis, view) {
    const before = this.store.state.views[side][axis];
    const factor = before ? view.scale / before.scale : 1;
    let views = withView(this.store.state, side, axis, view);
    for (const other of this.planesOf(side)) {
      const known = views[side][other.axis];
      if (other.axis !== axis && known && factor !== 1) {
        const cross = this.store.state.cross[side];
        const at = cross ? worldToScreen(other.plane, known, cross) : [known.width / 2, known.height / 2];
        views = { ...views, [side]: { ...views[side], [other.axis]: zoomAboutScreen(known, at, factor, other.limits) } };
      }
    }
    this.lookAgain = null;
    if (factor !== 1) this.setWorking(side, Math.min(view.width, view.height) / view.scale);
    this.store.set({ views });
    this.link.follow(side);
  }

  get workingKey() {
    return `warpgauge:zoom:${this.project.name}:${this.project.rater}${root()}`;
  }

  /**
   * @param {Side} side
   * @param {number | null} length world
   */
  setWorking(side, length) {
    this.working = { ...this.working, [side]: length };
    keep(this.workingKey, this.working);
  }

  /**
   * One plane alone is looked at differently.
   * @param {Side} side
   * @param {number} axis
   * @param {View} view
   */
  setViewAlone(side, axis, view) {
    this.lookAgain = null;
    this.setWorking(side, null);
    this.store.set({ views: withView(this.store.state, side, axis, view) });
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
   * @param {number | null} span world length that shall fit into the view; null keeps the zoom, and shows a plane that
   * has none yet whole
   */
  lookAt(side, point_world, span) {
    let { views } = this.store.state;
    for (const pane of this.planesOf(side).filter((one) => one.visible)) {
      const { fitted, size } = pane;
      const wanted = span === Infinity ? 0 : span ? Math.min(size.width, size.height) / span : pane.view.scale;
      const nearest = NEAREST / Math.min(...pane.plane.order.slice(0, 2).map((axis) => pane.image.spacing[axis]));
      const scale = span ? Math.min(nearest, wanted) : wanted;
      const view = { ...fitted, scale };
      // Where most of the image is to be seen, all of it is.
      if (scale < fitted.scale * 1.3) view.scale = fitted.scale;
      else view.centre = centreWithinImage(pane.plane, view, worldToPlane(pane.plane, point_world).slice(0, 2));
      views = { ...views, [side]: { ...views[side], [pane.axis]: view } };
    }
    this.store.set({ views, cross: { ...this.store.state.cross, [side]: point_world } });
  }

  /** A plane has got its first size; once all planes have theirs, look where the page chose to look before. */
  arrived() {
    if (this.panes.some((pane) => !pane.warped && !pane.visible && pane.canvas.offsetParent !== null)) return;
    this.lookAgain?.();
  }

  /**
   * Whether a point lies within what is seen of an image.
   * @param {Side} side
   * @param {Vector} point_world
   */
  sees(side, point_world) {
    return this.planesOf(side).filter((pane) => pane.visible).some((pane) => {
      const [x, y] = worldToScreen(pane.plane, pane.view, point_world);
      const { width, height } = pane.view;
      return Math.abs(x - width / 2) < width * 0.45 && Math.abs(y - height / 2) < height * 0.45;
    });
  }

  /**
   * Window and level by dragging: to the right for less contrast, down for darker.
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
    rememberChannels(this.project, side, colours);
  }
}
