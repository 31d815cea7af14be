/**
 * Work in the warped view, as in BigWarp: take hold of the warped tissue and pull it until it fits; the mark follows.
 *
 * The tissue at p is pulled to p + v, so that the map through which the image is seen becomes x -> f(x - v): the match of
 * the point asked for moves from y to y - J v, where J is the slope of the model there. A point of one's own is put where
 * the tissue is let go, and its match is what was taken hold of.
 * @module
 */

import { RefusedError } from "./api.js";
import { ballMark, movedMark } from "./ellipsoid.js";
import { multiplyVector, scaled, subtract } from "./linalg.js";
import { say } from "./message.js";

/** @import { Annotator } from "./annotator.js" */
/** @import { Mark } from "./ellipsoid.js" */
/** @import { Vector } from "./linalg.js" */
/** @import { Local } from "./link.js" */
/** @import { PlaneView } from "./planeview.js" */

/** Whether a pane shows the warped image, and a mark may be pulled there. @param {PlaneView} pane @param {Annotator} annotator */
export function canPull(pane, { marks, store }) {
  const { query, task, own, overlays } = store.state;
  const shown = pane.warped || (pane.side === "fixed" && overlays.warp !== "off");
  return shown && marks.editable && (task === "own" || own !== null || (task === "answer" && query !== null));
}

/** One pull: from where the tissue was taken hold of to where it is let go. */
export class Pull {
  /**
   * @param {Annotator} annotator
   * @param {PlaneView} pane
   * @param {Vector} from_world point of the fixed frame that was taken hold of
   */
  constructor({ stage, store, marks, ownPoints }, pane, from_world) {
    const { query, task, own, mark } = store.state;
    this.store = store;
    this.marks = marks;
    this.ownPoints = ownPoints;
    this.from = from_world;
    this.to = from_world;
    /** Whether the fixed point is chosen by this pull as well. */
    this.free = task === "own";
    this.base = mark;
    this.radius = marks.clickRadius(pane.view.scale).radius;
    this.over = false;
    /** @type {Local | null} */
    this.local = null;
    const at = this.free ? from_world : (own ?? query?.location ?? from_world);
    const reach = Math.max(stage.images.fixed.spacing[0], 16 / pane.view.scale);
    this.ready = stage.link.around("fixed", at, reach).then((local) => {
      this.local = local;
      this.move(this.to);
    }, (error) => {
      if (!(error instanceof RefusedError)) throw error;
      say(store, error.message, "warning");
    });
  }

  /** @param {Vector} to_world */
  move(to_world) {
    this.to = to_world;
    if (!this.local || this.over) return;
    if (this.free) this.store.set({ own: to_world });
    this.marks.preview(this.free ? ballMark(this.local.to, this.radius, this.marks.alpha) : this.pulled(this.local));
  }

  /**
   * @param {Local} local
   * @returns {Mark}
   */
  pulled(local) {
    const start = this.base ?? ballMark(this.store.state.query?.prediction?.mean ?? local.to, this.radius, this.marks.alpha);
    const shift = multiplyVector(local.slope, subtract(this.to, this.from));
    return movedMark(start, scaled([shift], -1)[0]);
  }

  /** Let go. A pull that was faster than the model's answer is done once that is there. */
  async end() {
    await this.ready;
    this.over = true;
    this.marks.commitEdit();
    if (this.local) say(this.store, "The mark follows the tissue. Pull again, or Enter saves it.");
  }
}
