/** How the second image must be turned, and perhaps mirrored, to look like the first one: three pairs tell. @module */

import { worldToPlane } from "./plane.js";
import { withCentre } from "./stage.js";
import { panByScreen, planeToScreen, worldToScreen } from "./viewport.js";

/** @import { Vector } from "./linalg.js" */
/** @import { Stage } from "./stage.js" */
/** @import { Pose, Row } from "./types.js" */

const UPRIGHT = 8; // degrees: nearer to a quarter turn than this it is one, so that pixels stay square
const CLEARER = 0.6; // a mirror image must fit this much better than a turn alone

/**
 * The similarity that best takes points of the fixed image to those of the moving one, as a turn of the screen.
 * @param {{fixed: Vector, moving: Vector}[]} pairs 2D @returns {Pose | null} null with fewer than three pairs, or where they lie on one spot
 */
export function poseOfPairs(pairs) {
  if (pairs.length < 3) return null;
  const middle = (/** @type {Vector[]} */ points) => [0, 1].map((k) => points.reduce((sum, point) => sum + point[k], 0) / points.length);
  const [f, m] = [middle(pairs.map(({ fixed }) => fixed)), middle(pairs.map(({ moving }) => moving))];
  let [spread, size, same, cross, sameMirrored, crossMirrored] = [0, 0, 0, 0, 0, 0];
  for (const { fixed, moving } of pairs) {
    const [x, y, u, v] = [fixed[0] - f[0], fixed[1] - f[1], moving[0] - m[0], moving[1] - m[1]];
    spread += x * x + y * y;
    size += u * u + v * v;
    same += x * u + y * v;
    cross += x * v - y * u;
    // With the fixed image mirrored left to right first.
    sameMirrored += -x * u + y * v;
    crossMirrored += -x * v - y * u;
  }
  if (!(spread > 0) || !(size > 0)) return null;
  // Squared length that a turn (or a mirrored one) with its best scale leaves unexplained.
  const left = size - (same ** 2 + cross ** 2) / spread;
  const leftMirrored = size - (sameMirrored ** 2 + crossMirrored ** 2) / spread;
  const mirrored = leftMirrored < CLEARER * left;
  const [c, s] = mirrored ? [sameMirrored, crossMirrored] : [same, cross];
  const scale = Math.hypot(c, s) / spread;
  const angle = straightened((Math.atan2(s, c) * 180) / Math.PI);
  const [cos, sin] = [Math.cos((angle * Math.PI) / 180), Math.sin((angle * Math.PI) / 180)];
  // The inverse of moving = R F fixed, on the screen: turn back, then mirror back.
  const turn = mirrored ? [[-cos, -sin], [-sin, cos]] : [[cos, sin], [-sin, cos]];
  return { turn: turn.map((row) => row.map((value) => (Math.abs(value) < 1e-12 ? 0 : value))), scale, degrees: angle === 0 ? 0 : -angle, mirrored };
}

/** @param {number} degrees */
function straightened(degrees) {
  const quarter = 90 * Math.round(degrees / 90);
  const turned = Math.abs(degrees - quarter) < UPRIGHT ? quarter : Math.round(degrees);
  return turned === -180 ? 180 : turned;
}

/** Whether two poses look so different that the image should be shown anew. @param {Pose | null} one @param {Pose | null} other */
export function differs(one, other) {
  if (!one || !other) return one !== other;
  const away = Math.abs(((one.degrees - other.degrees + 540) % 360) - 180);
  return one.mirrored !== other.mirrored || away > 10 || Math.abs(Math.log(one.scale / other.scale)) > 0.1;
}

/** Show the second image as the marks placed so far say that it lies; nothing moves for a small change. @param {Stage} stage @param {Row[]} rows */
export function poseByRows(stage, rows) {
  const { pose, start, query } = stage.store.state;
  // Nothing turns in the start, nor under a hand that is drawing; the next answer brings it.
  if (stage.solid || (start?.due && !query?.answer) || stage.panes.some(({ machine }) => machine.now)) return;
  const pairs = rows.filter((row) => row.point && !row.disabled && !row.excluded).map((row) => ({ fixed: row.location, moving: /** @type {Vector} */ (row.point) }));
  const next = poseOfPairs(pairs);
  if (!next || !differs(pose, next)) return;
  const { mark, expected, dirty } = stage.store.state;
  const about = mark?.point ?? expected ?? (stage.withheld ? undefined : query?.prediction?.mean);
  const before = stage.planesOf("moving").map((pane) => about && worldToScreen(pane.plane, pane.view, about));
  stage.store.set({ pose: next });
  if (stage.lookAgain && !dirty) {
    stage.lookAgain();
    return;
  }
  // What one works at stays where it was on the screen.
  let { centres } = stage.store.state;
  stage.planesOf("moving").forEach((pane, k) => {
    const from = before[k];
    if (!about || !from) return;
    const now = planeToScreen(pane.view, worldToPlane(pane.plane, about));
    centres = withCentre(centres, pane, panByScreen(pane.view, [from[0] - now[0], from[1] - now[1]]).centre);
  });
  stage.store.set({ centres });
}
