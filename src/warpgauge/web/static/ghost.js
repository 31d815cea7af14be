/**
 * The ghost cursor: where the point under the pointer lies in the other image, as far as the model knows.
 * @module
 */

import { COLOURS, drawPlus } from "./marks.js";
import { worldToScreen } from "./viewport.js";

/** @import { Vector } from "./linalg.js" */
/** @import { PlaneView } from "./planeview.js" */
/** @import { Stage } from "./stage.js" */
/** @import { Side } from "./types.js" */
/** @import { View } from "./viewport.js" */

/** It helps from this precision on: pixels. */
export const PRECISE = 20;

export class Ghost {
  /** @param {Stage} stage */
  constructor(stage) {
    this.stage = stage;
    /** @type {{side: Side, point: Vector} | null} */
    this.seen = null;
    /** @type {{from: Side, point: Vector} | null} */
    this.wanted = null;
    this.asking = false;
  }

  /**
   * The pointer is over a point of an image, or over none.
   * @param {Side} from
   * @param {Vector | null} point_world
   */
  follow(from, point_world) {
    if (!this.stage.store.state.ghost || !point_world) {
      this.wanted = null;
      this.show(null);
      return;
    }
    this.wanted = { from, point: point_world };
    if (!this.asking) void this.ask();
  }

  async ask() {
    this.asking = true;
    while (this.wanted) {
      const { from, point } = this.wanted;
      this.wanted = null;
      const there = await this.stage.link.map(from, point);
      // The pointer may have left meanwhile.
      if (this.stage.store.state.ghost && this.stage.panes.some((pane) => pane.pointer)) this.show(there && { side: from === "fixed" ? "moving" : "fixed", point: there });
    }
    this.asking = false;
  }

  /** @param {{side: Side, point: Vector} | null} seen */
  show(seen) {
    if (seen === this.seen) return;
    this.seen = seen;
    this.stage.drawSoon();
  }

  /**
   * Where it stands in a plane, screen pixels; null where it is not shown.
   * @param {PlaneView} pane
   * @param {View} view
   * @returns {Vector | null}
   */
  at(pane, view) {
    if (this.seen?.side !== pane.side || pane.warped) return null;
    const [x, y] = worldToScreen(pane.plane, view, this.seen.point);
    return x < 0 || y < 0 || x > view.width || y > view.height ? null : [x, y];
  }

  /**
   * @param {PlaneView} pane
   * @param {CanvasRenderingContext2D} context
   * @param {View} view
   */
  draw(pane, context, view) {
    if (this.seen?.side !== pane.side) return;
    drawPlus(context, worldToScreen(pane.plane, view, this.seen.point), COLOURS.ghost, 9, 0.9);
  }
}
