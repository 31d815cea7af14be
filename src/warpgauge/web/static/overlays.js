/**
 * What can be laid over the images.
 * @module
 */

import { indexToWorld, worldToScreen } from "./viewport.js";
import { COLOURS } from "./marks.js";

/** @import { Vector } from "./linalg.js" */
/** @import { PlaneView } from "./planeview.js" */
/** @import { Stage } from "./stage.js" */
/** @import { Side, State } from "./types.js" */
/** @import { View } from "./viewport.js" */

export class Overlays {
  /** @param {Stage} stage */
  constructor(stage) {
    this.stage = stage;
    /** @type {Vector[] | null} */
    this.candidates = null;
  }

  /**
   * @param {Side} side
   * @returns {Vector}
   */
  middleOfImage(side) {
    const image = this.stage.images[side];
    return indexToWorld(image, image.size.map((n) => (n - 1) / 2));
  }

  /** The model changed. */
  forget() {
    this.stage.drawSoon();
  }

  /**
   * Everything between the picture and the marks.
   * @param {PlaneView} pane
   * @param {CanvasRenderingContext2D} context
   * @param {View} view
   * @param {State} state
   */
  drawBelow(pane, context, view, state) {
    if (state.overlays.candidates && pane.side === "fixed") this.drawCandidates(pane, context, view);
  }

  /**
   * @param {PlaneView} pane
   * @param {CanvasRenderingContext2D} context
   * @param {View} view
   */
  drawCandidates(pane, context, view) {
    context.fillStyle = COLOURS.candidate;
    for (const point of this.candidates ?? []) {
      const [x, y] = worldToScreen(pane.plane, view, point);
      context.fillRect(x - 1.5, y - 1.5, 3, 3);
    }
  }
}
