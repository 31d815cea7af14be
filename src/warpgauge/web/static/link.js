/**
 * Linked views: what one image shows, the other shows too, through the current model.
 *
 * The server maps the middle of the view and its neighbourhood; between two answers the last one is carried on as a
 * linear map, so that the other image follows without waiting.
 * @module
 */

import { RefusedError } from "./api.js";
import { add, multiplyVector, subtract } from "./linalg.js";
import { planeToWorld, worldToPlane } from "./plane.js";

/** @import { Matrix, Vector } from "./linalg.js" */
/** @import { Stage } from "./stage.js" */
/** @import { Side } from "./types.js" */
/** @typedef {{from: Vector, to: Vector, slope: Matrix}} Local */

/**
 * The linear map through a point and its neighbours.
 * @param {Vector} from
 * @param {Vector} to
 * @param {Vector[]} steps where the neighbours are, relative to `from`: along each world axis
 * @param {Vector[]} mapped
 * @returns {Local}
 */
export function localMap(from, to, steps, mapped) {
  const columns = mapped.map((point, k) => subtract(point, to).map((value) => value / steps[k][k]));
  return { from, to, slope: from.map((_, i) => columns.map((column) => column[i])) };
}

/**
 * @param {Local} local
 * @param {Vector} point
 * @returns {Vector}
 */
export function applyLocal(local, point) {
  return add(local.to, multiplyVector(local.slope, subtract(point, local.from)));
}

export class Link {
  /** @param {Stage} stage */
  constructor(stage) {
    this.stage = stage;
    /** @type {Record<Side, Local | null>} */
    this.local = { fixed: null, moving: null };
    this.asking = false;
    /** @type {Side | null} */
    this.again = null;
  }

  /** The model changed: former answers do not hold. */
  forget() {
    this.local = { fixed: null, moving: null };
  }

  /**
   * Where the model expects the match of a point; null where that may not be seen or is not known.
   * @param {Side} from
   * @param {Vector} point_world
   * @returns {Promise<Vector | null>}
   */
  async map(from, point_world) {
    try {
      const { points } = await this.stage.api.get(`/api/linked?from=${from}&points=${encodeURIComponent(point_world.join(","))}`);
      return points[0];
    } catch (error) {
      if (error instanceof RefusedError) return null;
      throw error;
    }
  }

  /**
   * The user moved in one image.
   * @param {Side} side
   */
  follow(side) {
    if (!this.stage.store.state.linked) return;
    this.carry(side);
    if (this.asking) this.again = side;
    else void this.ask(side);
  }

  /**
   * The world point that an image shows in its middle: the crosshair of a volume.
   * @param {Side} side
   * @returns {Vector | null}
   */
  middle(side) {
    const pane = this.stage.planesOf(side)[0];
    if (!pane?.visible) return null;
    if (pane.plane.d === 3) return this.stage.store.state.cross[side];
    return planeToWorld(pane.plane, pane.view.centre, pane.depth);
  }

  /** @param {Side} side */
  carry(side) {
    const local = this.local[side];
    const middle = this.middle(side);
    const pane = this.stage.planesOf(side)[0];
    if (!local || !middle || !pane) return;
    const other = side === "fixed" ? "moving" : "fixed";
    const point = applyLocal(local, middle);
    let { views, cross } = this.stage.store.state;
    for (const there of this.stage.planesOf(other)) {
      if (!there.visible) continue;
      // Each plane of a volume follows its counterpart: its middle shows the match of that one's middle.
      const here = this.stage.planesOf(side).find((one) => one.axis === there.axis && one.visible) ?? pane;
      const shown = applyLocal(local, planeToWorld(here.plane, here.view.centre, here.depth));
      const centre = worldToPlane(there.plane, shown).slice(0, 2);
      views = { ...views, [other]: { ...views[other], [there.axis]: { ...there.view, centre, scale: here.view.scale } } };
    }
    cross = { ...cross, [other]: point };
    this.stage.store.set({ views, cross });
  }

  /**
   * The model around a point, as a linear map; null where a neighbour has no counterpart.
   * @param {Side} side
   * @param {Vector} point_world
   * @param {number} reach distance of the neighbours, world units
   * @returns {Promise<Local | null>}
   */
  async around(side, point_world, reach) {
    const steps = point_world.map((_, k) => point_world.map((_, i) => (i === k ? reach : 0)));
    const asked = [point_world, ...steps.map((step) => add(point_world, step))];
    const text = asked.map((point) => point.join(",")).join(";");
    const { points } = await this.stage.api.get(`/api/linked?from=${side}&points=${encodeURIComponent(text)}`);
    const known = points.every((/** @type {Vector | null} */ point) => point !== null);
    return known ? localMap(point_world, points[0], steps, points.slice(1)) : null;
  }

  /** @param {Side} side */
  async ask(side) {
    const middle = this.middle(side);
    const pane = this.stage.planesOf(side)[0];
    if (!middle || !pane) return;
    this.asking = true;
    try {
      const found = await this.around(side, middle, Math.max(pane.size.width / pane.view.scale / 4, this.stage.images[side].spacing[0]));
      if (found) {
        this.local[side] = found;
        if (this.stage.store.state.linked) this.carry(side);
      }
    } catch (error) {
      this.stage.store.set({ linked: false, message: `Views cannot be linked: ${error instanceof Error ? error.message : error}`, tone: "warning" });
    } finally {
      this.asking = false;
      const next = this.again;
      this.again = null;
      if (next) void this.ask(next);
    }
  }
}
