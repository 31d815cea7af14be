/**
 * The two images side by side: their tiles, their planes, one loop that draws, and where everybody looks: at one scale, and the first image leads.
 * @module
 */

import { largestSample } from "./colour.js";
import { keep, kept, keyFor } from "./kept.js";
import { add, subtract } from "./linalg.js";
import { Overlays } from "./overlays.js";
import { indexToWorld, worldToPlane } from "./plane.js";
import { TileSource } from "./tiles.js";
import { centreWithinImage, keptOnImage, panByScreen, worldToScreen, zoomAboutScreen } from "./viewport.js";
import { extentOf } from "./words.js";

/** @import { Api } from "./api.js" */
/** @import { Matrix, Vector } from "./linalg.js" */
/** @import { PlaneView } from "./planeview.js" */
/** @import { Store } from "./store.js" */
/** @import { Colours, Project, Side, State } from "./types.js" */

/** @type {Side[]} */
export const SIDES = ["fixed", "moving"];

export class Stage {
  /** @param {Store<State>} store @param {Api} api @param {Project} project */
  constructor(store, api, project) {
    this.store = store;
    this.api = api;
    this.project = project;
    this.images = project.images;
    this.surround = "#777";
    const tell = (/** @type {string} */ sentence) => store.set({ message: sentence, tone: "error" });
    const source = (/** @type {Side} */ side) => new TileSource(`/api/images/${side}/tile`, this.images[side], api, () => this.drawSoon(), tell);
    /** @type {Record<Side, TileSource>} */
    this.sources = { fixed: source("fixed"), moving: source("moving") };
    /** @type {PlaneView[]} */
    this.panes = [];
    /** The plane that the hand was on last. @type {PlaneView | null} */
    this.active = null;
    /** What else is drawn in every frame: thumbnails, the overview. @type {Set<() => void>} */
    this.extras = new Set();
    this.overlays = new Overlays(this);
    this.scheduled = false;
    /** @type {() => void} */
    this.onGlimpse = () => {};
    /** @type {() => void} */
    this.onPicture = () => {};
    // Each comes after 3 s at the latest: a tile may fail.
    /** Resolves when something of every image is there. */
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
    this.workingKey = keyFor(project, "zoom");
    /** World length of the first image that the expert chose to see, by zooming; the next question is seen as near. @type {number | null} */
    this.working = kept(this.workingKey);
    store.watch([], () => this.drawSoon());
  }

  get solid() {
    return this.project.d === 3;
  }

  /** Whether what the model expects is kept from this visitor. */
  get withheld() {
    return this.project.settings.hide_prediction;
  }

  /** World size of the larger image. */
  get extent() {
    return Math.max(...SIDES.map((side) => extentOf(this.images[side])));
  }

  /** The model changed: what was drawn from it does not hold. */
  forgetModel() {
    this.overlays.forget();
  }

  /** Give the keyboard to the images: to the plane that was used last, at first the second image. */
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
      for (const side of SIDES) this.sources[side].beginFrame();
      for (const pane of this.panes) pane.draw();
      for (const extra of this.extras) extra();
      for (const side of SIDES) this.sources[side].endFrame();
      const shown = this.panes.filter((pane) => pane.visible);
      const { query, done } = this.store.state;
      if (shown.length > 0 && SIDES.every((side) => this.sources[side].tiles.size > 0)) this.onGlimpse();
      if ((query || done) && shown.length > 0 && shown.every((pane) => pane.complete)) this.onPicture();
    });
  }

  /** @param {Side} side @returns {Vector} */
  middleOfImage(side) {
    const image = this.images[side];
    return indexToWorld(image, image.size.map((n) => (n - 1) / 2));
  }

  /** @param {Side} side @returns {PlaneView[]} */
  planesOf(side) {
    return this.panes.filter((pane) => pane.side === side);
  }

  /** The plane that keys work on: the one that the hand was on last. @param {Side} [side] @returns {PlaneView} */
  activePane(side) {
    const shown = this.panes.filter((pane) => pane.visible && (!side || pane.side === side));
    return shown.find((pane) => pane === this.active) ?? shown.find((pane) => pane.axis === this.active?.axis) ?? shown[0] ?? this.panes[0];
  }

  /** How the planes of an image are turned on the screen; undefined where they stand upright. @param {Side} side @returns {Matrix | undefined} */
  turnOf(side) {
    return side === "moving" ? this.store.state.pose?.turn : undefined;
  }

  /**
   * Screen pixels per unit. Both images show the same tissue equally large: three pairs tell how; until then units do, or, where pixels have no size
   * and the images differ much, their extents.
   * @param {Side} side
   */
  scaleOf(side) {
    const { scale, pose } = this.store.state;
    if (side === "fixed") return scale;
    if (pose) return scale / pose.scale;
    const ratio = extentOf(this.images.fixed) / extentOf(this.images.moving);
    return this.project.units === "px" && Math.abs(Math.log(ratio)) > Math.log(1.5) ? scale * ratio : scale;
  }

  // Looking

  /**
   * Show so much of the first image along the shorter side of its largest plane.
   * @param {number} span world length @param {number} [nearest] screen pixels of an image pixel at most
   */
  setSpan(span, nearest = 16) {
    if (this.room > 0) this.store.set({ scale: this.bounded(Math.min(this.room / span, nearest / Math.min(...this.images.fixed.spacing))) });
  }

  /** The shorter side of the largest plane of the first image, screen pixels. */
  get room() {
    return Math.max(0, ...this.planesOf("fixed").filter((pane) => pane.visible).map(({ size }) => Math.min(size.width, size.height)));
  }

  /** @param {number} scale */
  bounded(scale) {
    const pane = this.planesOf("fixed").find((one) => one.visible);
    const [low, high] = pane?.limits ?? [0, Infinity];
    return Math.min(high, Math.max(low, scale));
  }

  /** Both images whole. */
  fit() {
    const shown = this.panes.filter((pane) => pane.visible);
    if (shown.length === 0) return;
    const scales = shown.map((pane) => (pane.fitted.scale * this.store.state.scale) / this.scaleOf(pane.side));
    const cross = Object.fromEntries(SIDES.map((side) => [side, this.store.state.cross[side] ?? this.middleOfImage(side)]));
    let { centres } = this.store.state;
    for (const pane of shown) centres = withCentre(centres, pane, pane.fitted.centre);
    this.store.set({ scale: Math.min(...scales), centres, cross: /** @type {State["cross"]} */ (cross) });
  }

  /** Look at a point, as near as now. @param {Side} side @param {Vector} point_world */
  lookAt(side, point_world) {
    let { centres } = this.store.state;
    for (const pane of this.planesOf(side).filter((one) => one.visible)) {
      centres = withCentre(centres, pane, centreWithinImage(pane.plane, pane.view, worldToPlane(pane.plane, point_world).slice(0, 2)));
    }
    this.store.set({ centres, cross: { ...this.store.state.cross, [side]: point_world } });
  }

  /**
   * Show a point of the second image where its counterpart is on the screen, so that the eye goes straight across.
   * @param {Vector} fixed_world @param {Vector} moving_world
   */
  lookAcross(fixed_world, moving_world) {
    this.store.set({ cross: { ...this.store.state.cross, moving: moving_world } });
    let { centres } = this.store.state;
    for (const pane of this.planesOf("moving").filter((one) => one.visible)) {
      const other = this.planesOf("fixed").find((one) => one.axis === pane.axis && one.visible);
      const to = other ? worldToScreen(other.plane, other.view, fixed_world) : [pane.size.width / 2, pane.size.height / 2];
      const from = worldToScreen(pane.plane, pane.view, moving_world);
      centres = withCentre(centres, pane, keptOnImage(pane.plane, panByScreen(pane.view, subtract(to, from))).centre);
    }
    this.store.set({ centres });
  }

  /**
   * The expert moves an image; the second one goes along with the first, never the first with the second.
   * @param {PlaneView} pane @param {Vector} shift screen pixels
   */
  pan(pane, shift) {
    this.lookAgain = null;
    const along = pane.side === "fixed" ? this.planesOf("moving").filter((one) => one.axis === pane.axis) : [];
    let { centres } = this.store.state;
    for (const one of [pane, ...along]) centres = withCentre(centres, one, keptOnImage(one.plane, panByScreen(one.view, shift)).centre);
    this.store.set({ centres });
  }

  /**
   * The expert zooms: both images, and all planes of a volume. What lies under the pointer stays there; what is asked for stays where it is in the
   * first image.
   * @param {PlaneView} pane @param {Vector} at @param {number} factor
   */
  zoom(pane, at, factor) {
    this.lookAgain = null;
    const before = this.store.state.scale;
    const scale = this.bounded(before * factor);
    let { centres } = this.store.state;
    for (const one of this.panes.filter((other) => other.visible)) {
      const opposite = pane.side === "fixed" && one.side === "moving" && one.axis === pane.axis;
      const about = one === pane || opposite ? at : this.anchor(one);
      centres = withCentre(centres, one, keptOnImage(one.plane, zoomAboutScreen(one.view, about, scale / before, [0, Infinity])).centre);
    }
    this.store.set({ scale, centres });
    this.working = this.room / scale;
    keep(this.workingKey, this.working);
  }

  /** What stays in its place when a plane zooms with another: what one works at, where that is in sight. @param {PlaneView} pane @returns {Vector} */
  anchor(pane) {
    const { query, mark, own, expected, cross } = this.store.state;
    const points = { fixed: own ?? query?.location, moving: mark?.point ?? expected ?? query?.prediction?.mean };
    const point = (this.solid ? cross[pane.side] : null) ?? points[pane.side];
    const at = point && worldToScreen(pane.plane, pane.view, point);
    const seen = at && at[0] > 0 && at[1] > 0 && at[0] < pane.size.width && at[1] < pane.size.height;
    return seen ? at : [pane.size.width / 2, pane.size.height / 2];
  }

  /**
   * The planes of a volume meet at another point; those of the second image go along with the first.
   * @param {Side} side @param {Vector} point_world @param {number} [by] axis of the plane in which it was moved; the others go there if they do not show it
   */
  setCross(side, point_world, by) {
    const { cross } = this.store.state;
    const before = cross[side];
    this.store.set({ cross: { ...cross, [side]: point_world } });
    let { centres } = this.store.state;
    for (const pane of this.planesOf(side)) {
      if (pane.axis === by || !pane.visible || pane.shows(point_world)) continue;
      centres = withCentre(centres, pane, worldToPlane(pane.plane, point_world).slice(0, 2));
    }
    this.store.set({ centres });
    if (side === "fixed" && before && cross.moving) this.setCross("moving", add(cross.moving, subtract(point_world, before)));
  }

  /** A plane has got its size; once all planes have theirs, look where the page chose to look. */
  arrived() {
    if (this.panes.some((pane) => !pane.visible && pane.canvas.offsetParent !== null)) return;
    this.lookAgain?.();
  }

  /** Whether a point lies within what is seen of an image. @param {Side} side @param {Vector} point_world */
  sees(side, point_world) {
    return this.planesOf(side).some((pane) => pane.visible && pane.shows(point_world));
  }

  // Colours

  /**
   * Window and level by dragging: to the right for less contrast, down for darker.
   * @param {Side} side @param {Colours} start @param {Vector} shift_screen
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

  /** @param {Side} side @param {Colours} colours */
  setColours(side, colours) {
    this.store.set({ colours: { ...this.store.state.colours, [side]: colours } });
    if (colours.shown.length) keep(this.channelsKey(side), { shown: colours.shown, windows: colours.windows });
  }

  /** @param {Side} side */
  channelsKey(side) {
    return `${keyFor(this.project, "channels")}:${side}:${this.images[side].version}`;
  }

  /** Colours as the rater had them at the last visit. @param {Side} side @param {Colours} colours at first @returns {Colours} */
  rememberedColours(side, colours) {
    const count = this.images[side].apart.length;
    const before = count ? kept(this.channelsKey(side)) : null;
    const usable = before?.windows?.length === count && before.shown?.length > 0 && before.shown.every((/** @type {{channel: number}} */ one) => one.channel < count);
    return usable ? { ...colours, shown: before.shown, windows: before.windows } : colours;
  }
}

/** @param {State["centres"]} centres @param {PlaneView} pane @param {Vector} centre */
export function withCentre(centres, { side, axis }, centre) {
  return { ...centres, [side]: { ...centres[side], [axis]: centre } };
}
