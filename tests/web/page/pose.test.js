import assert from "node:assert/strict";
import test from "node:test";

import { differs, poseOfPairs } from "../../../src/warpgauge/web/static/pose.js";
import { fitPlaneToScreen, keptOnImage, panByScreen, planeToScreen, screenToPlane, zoomAboutScreen } from "../../../src/warpgauge/web/static/viewport.js";
import { planeOfImage } from "../../../src/warpgauge/web/static/plane.js";

const places = [[10, 20], [200, 40], [90, 170], [150, 120]];
const image = { size: [300, 200], spacing: [1, 1], origin: [0, 0], direction: [[1, 0], [0, 1]] };

/** Moving points of a similarity. */
function moved(degrees, mirrored, scale = 1.5) {
  const [c, s] = [Math.cos((degrees * Math.PI) / 180), Math.sin((degrees * Math.PI) / 180)];
  return places.map(([x0, y]) => {
    const x = mirrored ? -x0 : x0;
    return { fixed: [x0, y], moving: [scale * (c * x - s * y) + 30, scale * (s * x + c * y) - 12] };
  });
}

test("shown in its pose, the moving image has every direction of the fixed one", () => {
  for (const mirrored of [false, true]) {
    for (const degrees of [0, 90, 180, -90, 37, -131]) {
      const pairs = moved(degrees, mirrored);
      const pose = poseOfPairs(pairs);
      assert.ok(Math.abs(pose.scale - 1.5) < 1e-9);
      assert.equal(pose.mirrored, mirrored);
      const view = { centre: [0, 0], scale: 1, width: 0, height: 0, turn: pose.turn };
      for (const { fixed, moving } of pairs) {
        const [a, b] = [pairs[0], { fixed, moving }];
        const seen = [0, 1].map((k) => planeToScreen(view, b.moving)[k] - planeToScreen(view, a.moving)[k]);
        const wanted = [0, 1].map((k) => 1.5 * (b.fixed[k] - a.fixed[k]));
        assert.ok(Math.hypot(seen[0] - wanted[0], seen[1] - wanted[1]) < 1e-6, `${degrees} ${mirrored}`);
      }
    }
  }
});

test("a small turn is none, two pairs say nothing, and only a clear change is one", () => {
  assert.equal(poseOfPairs(moved(5, false)).degrees, 0);
  assert.equal(poseOfPairs(moved(90, false).slice(0, 2)), null);
  assert.ok(!differs(poseOfPairs(moved(37, false)), poseOfPairs(moved(41, false))));
  assert.ok(differs(poseOfPairs(moved(37, false)), poseOfPairs(moved(60, false))));
});

test("turned views: screen and plane are inverse after zoom and pan, the whole image fits, and panning stays on it", () => {
  const plane = planeOfImage(image, 2);
  const { turn } = poseOfPairs(moved(37, true));
  let view = fitPlaneToScreen(plane, { width: 500, height: 400 }, turn);
  for (const corner of [[-0.5, -0.5], [299.5, -0.5], [-0.5, 199.5], [299.5, 199.5]]) {
    const [x, y] = planeToScreen(view, corner);
    assert.ok(x >= 0 && x <= 500 && y >= 0 && y <= 400);
  }
  const under = screenToPlane(view, [120, 80]);
  view = zoomAboutScreen(view, [120, 80], 3, [0, 100]);
  const at = planeToScreen(view, under);
  assert.ok(Math.hypot(at[0] - 120, at[1] - 80) < 1e-9);
  const panned = planeToScreen(panByScreen(view, [30, -12]), under);
  assert.ok(Math.hypot(panned[0] - 150, panned[1] - 68) < 1e-9);
  const far = keptOnImage(plane, panByScreen(view, [9000, -9000]));
  assert.ok(far.centre[0] >= -0.5 && far.centre[0] <= 299.5 && far.centre[1] >= -0.5 && far.centre[1] <= 199.5);
});

