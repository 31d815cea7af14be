/**
 * What is laid over the first image: a map, or the warped second image. A picture stays until the next one is there: turning slices does not make it
 * flicker.
 * @module
 */

import { RefusedError } from "./api.js";
import { chosenChannels } from "./colour.js";
import { mapPicture } from "./maps.js";
import { hatchMask, layPicture } from "./planepicture.js";
import { WarpedPlane, showWarped, warpedQuestion } from "./warped.js";

/** @import { MapPicture } from "./maps.js" */
/** @import { PlaneFrame } from "./planepicture.js" */
/** @import { Drawing } from "./planeview.js" */
/** @import { Stage } from "./stage.js" */
/** @import { MapChoice } from "./types.js" */

export class Overlays {
  /** @param {Stage} stage */
  constructor(stage) {
    this.stage = stage;
    this.version = 0;
    /** @type {Map<string, {key: string, value: any}>} */
    this.kept = new Map();
    /** @type {Set<string>} */
    this.asking = new Set();
    /** Told which map is drawn. @type {(map: MapPicture | null) => void} */
    this.onMap = () => {};
    stage.store.watch(["map"], ({ map }) => map ?? this.onMap(null));
  }

  /** The model changed: ask anew, and show the former picture until then. */
  forget() {
    this.version += 1;
    this.stage.drawSoon();
  }

  /**
   * What was asked for, or the last of its kind until it is there.
   * @template V @param {string} slot of its kind @param {string} key @param {() => Promise<V>} read @returns {V | null}
   */
  recall(slot, key, read) {
    const versioned = `${key} ${this.version}`;
    const known = this.kept.get(slot);
    if (known?.key !== versioned && !this.asking.has(slot)) {
      this.asking.add(slot);
      read()
        .then((value) => this.kept.set(slot, { key: versioned, value }))
        .catch((error) => this.refused(slot, versioned, error))
        .finally(() => {
          this.asking.delete(slot);
          this.stage.drawSoon();
        });
    }
    return known?.value ?? null;
  }

  /** @param {string} slot @param {string} key @param {unknown} error */
  refused(slot, key, error) {
    this.kept.set(slot, { key, value: null });
    if (error instanceof RefusedError) this.stage.store.set({ message: error.message, tone: "warning", map: null, warped: false });
  }

  /** Between the picture and the marks. @param {Drawing} on */
  draw(on) {
    const { warped, map } = on.state;
    if (warped) this.drawWarped(on);
    else if (map) this.drawMap(on, map);
  }

  /** @param {Drawing} on */
  drawWarped(on) {
    const { api, images } = this.stage;
    const { moving } = on.state.colours;
    const question = warpedQuestion(on);
    const chosen = chosenChannels(moving);
    const warped = question && this.recall(`warped ${on.pane.axis}`, `${question} ${chosen}`, () => WarpedPlane.read(api, images.moving, `/api/warped?${question}`, chosen));
    const laid = warped && warped.coloured(moving);
    if (laid) showWarped(on, laid);
  }

  /** @param {Drawing} on @param {MapChoice} choice */
  drawMap({ pane, context, view }, { kind, transform }) {
    const named = kind === "blended" ? `&transform=${encodeURIComponent(transform ?? "")}` : "";
    const question = `axis=${pane.axis}&index=${pane.slice}&width=192${named}`;
    /** @type {{made: MapPicture, frame: PlaneFrame} | null} */
    const laid = this.recall(`${kind} ${pane.axis}`, `${kind} ${question}`, async () => {
      const { bytes, headers } = await this.stage.api.bytes(`/api/map/${kind}?${question}`);
      return { made: mapPicture(kind, new Float32Array(bytes), headers), frame: JSON.parse(headers.get("X-Frame") ?? "null") };
    });
    if (!laid) return;
    this.onMap(laid.made);
    context.save();
    // Without its own colours below: a stain must not tint the map.
    context.globalCompositeOperation = "saturation";
    context.fillStyle = "#808080";
    context.fillRect(0, 0, view.width, view.height);
    context.globalCompositeOperation = "source-over";
    context.globalAlpha = 0.6;
    context.imageSmoothingEnabled = true;
    layPicture(context, pane.plane, view, laid.frame, laid.made.colour);
    context.restore();
    hatchMask(context, (target) => layPicture(target, pane.plane, view, laid.frame, laid.made.unknown), view);
  }
}
