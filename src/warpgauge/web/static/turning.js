/**
 * The moving image turned on the screen to lie like the fixed one, and turned back.
 * @module
 */

import { say } from "./message.js";
import { differs, poseInWords, poseOfPairs } from "./pose.js";
import { panByScreen, turnedView, worldToScreen } from "./viewport.js";

/** @import { Vector } from "./linalg.js" */
/** @import { Stage } from "./stage.js" */

/**
 * Show the moving image as the marks placed so far say that it lies; nothing moves for a small change.
 * @param {Stage} stage
 */
export function poseByRows(stage) {
  const { rows, pose, task } = stage.store.state;
  if (stage.images.fixed.size.length !== 2 || task !== "answer") return;
  // Nothing turns under a hand that is drawing; the next answer brings it.
  if (stage.panes.some((pane) => pane.machine.now)) return;
  const pairs = rows.filter((row) => row.point && !row.disabled && !row.excluded).map((row) => ({ fixed: row.location, moving: /** @type {Vector} */ (row.point) }));
  const found = poseOfPairs(pairs);
  if (!found || !differs(pose, found)) return;
  const words = poseInWords(found);
  stage.store.set({ pose: found });
  if (stage.lookAgain && !stage.store.state.dirty) stage.lookAgain();
  else turnViews(stage);
  if (words && stage.store.state.turned) say(stage.store, `The moving image is now ${words} to match (Y turns it back).${stage.store.state.query?.answer ? "" : " Where is this point? Click it."}`);
}

/**
 * Bring the views of the moving image to the pose that is wanted, about the match in question or else the middle.
 * @param {Stage} stage
 */
function turnViews(stage) {
  let { views } = stage.store.state;
  const { mark, predictionHidden, query } = stage.store.state;
  const about = mark?.point ?? (predictionHidden ? undefined : query?.prediction?.mean);
  for (const pane of stage.planesOf("moving")) {
    let view = turnedView(pane.view, stage.turnOf("moving"));
    if (about) {
      const [from, to] = [view, pane.view].map((one) => worldToScreen(pane.plane, one, about));
      view = panByScreen(view, [to[0] - from[0], to[1] - from[1]]);
    }
    views = { ...views, moving: { ...views.moving, [pane.axis]: view } };
  }
  stage.store.set({ views });
}

/** @param {Stage} stage */
export function toggleTurned(stage) {
  const { pose, turned } = stage.store.state;
  if (!pose || !poseInWords(pose)) {
    say(stage.store, pose ? "Both images lie the same way." : "Three marks tell how the moving image lies.");
    return;
  }
  stage.store.set({ turned: !turned });
  turnViews(stage);
}
