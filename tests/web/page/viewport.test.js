import assert from "node:assert/strict";
import test from "node:test";

import * as frames from "../../../src/warpgauge/web/static/plane.js";
import { magnifications } from "../../../src/warpgauge/web/static/commands.js";
import * as viewport from "../../../src/warpgauge/web/static/viewport.js";
import { close, flat, flipped, oblique, seeded } from "./helpers.js";

const planes = [
  ...[flat].map((frame) => frames.planeOfImage(frame, 2)),
  ...[oblique, flipped].flatMap((frame) => [0, 1, 2].map((axis) => frames.planeOfImage(frame, axis))),
];

test("screen to world and back returns to the same pixel, after any zoom and pan, in every plane", () => {
  const random = seeded(1);
  for (const plane of planes) {
    let view = viewport.fitPlaneToScreen(plane, { width: 613, height: 401 });
    const limits = viewport.scaleLimits(plane, view);
    for (let step = 0; step < 50; step++) {
      view = viewport.zoomAboutScreen(view, [random() * 613, random() * 401], 0.5 + random() * 1.5, limits);
      view = viewport.panByScreen(view, [random() * 80 - 40, random() * 80 - 40]);
      const screen = [random() * 613, random() * 401];
      const depth = random() * 30;
      const world = viewport.screenToWorld(plane, view, screen, depth);
      close(viewport.worldToScreen(plane, view, world), screen, 1e-9);
      if (plane.d === 3) close(frames.worldToPlane(plane, world)[2], depth, 1e-9);
    }
  }
});

test("zooming about the cursor leaves what is under it there, and stops at the limits", () => {
  const plane = frames.planeOfImage(flat, 2);
  const view = viewport.fitPlaneToScreen(plane, { width: 600, height: 400 });
  const limits = viewport.scaleLimits(plane, view);
  const cursor = [123, 321];
  for (const factor of [1.7, 0.3, 1e9, 1e-9]) {
    const zoomed = viewport.zoomAboutScreen(view, cursor, factor, limits);
    close(viewport.screenToPlane(zoomed, cursor), viewport.screenToPlane(view, cursor));
    assert.ok(zoomed.scale >= limits[0] && zoomed.scale <= limits[1]);
  }
  close([limits[1] * Math.min(...flat.spacing)], [16], 1e-9);
});

test("a miniature holds the whole image, turned as it is, and nothing else", () => {
  const plane = frames.planeOfImage(flat, 2);
  const [left, top, right, bottom] = frames.extentInPlane(plane);
  for (const turn of [undefined, [[0, -1], [1, 0]], [[-1, 0], [0, 1]]]) {
    const view = viewport.miniatureOfPlane(plane, 130, turn);
    const corners = [[left, top], [right, bottom]].map((corner) => viewport.planeToScreen(view, corner));
    for (const k of [0, 1]) close([Math.min(corners[0][k], corners[1][k]), Math.max(corners[0][k], corners[1][k])], [0, [view.width, view.height][k]], 1e-9);
    close([Math.max(view.width, view.height)], [130], 1e-9);
  }
});

test("magnifications are those of a slide scanner, 40x at 0.25 um per pixel, in any unit; else percents of pixels", () => {
  const um = { units: "um", spacing: [0.5, 0.5] };
  close([magnifications(um)[4].scale], [4]);
  close([magnifications({ units: "mm", spacing: [5e-4, 5e-4] })[4].scale], [4000]);
  assert.equal(magnifications({ units: "px", spacing: [1, 1] })[1].words, "50 %");
  assert.deepEqual(magnifications({ units: "px", spacing: [2, 2] }).map(({ words, scale }) => [words, scale])[2], ["100 %", 0.5]);
});

test("a position in the world is origin + direction (spacing index), by hand", () => {
  const quarter = { size: [4, 4], spacing: [2, 3], origin: [10, 20], direction: [[0, -1], [1, 0]] };
  close(frames.indexToWorld(quarter, [1, 0]), [10, 22]);
  close(frames.indexToWorld(quarter, [0, 1]), [7, 20]);
  close(frames.indexToWorld(quarter, [1, 1]), [7, 22]);
});

test("anisotropic voxels keep their physical aspect: a millimetre is as long down as right", () => {
  const frame = { size: [10, 10, 10], spacing: [1, 1, 5], origin: [0, 0, 0], direction: [[1, 0, 0], [0, 1, 0], [0, 0, 1]] };
  const coronal = frames.planeOfImage(frame, 1);
  const view = { centre: [0, 0], scale: 7, width: 100, height: 100 };
  const at = (index) => viewport.worldToScreen(coronal, view, frames.indexToWorld(frame, index));
  const [origin, right, down] = [at([0, 0, 0]), at([5, 0, 0]), at([0, 0, 1])];
  close([right[0] - origin[0], right[1] - origin[1]], [35, 0]);
  close([down[0] - origin[0], down[1] - origin[1]], [0, -35], 1e-9, "head up");
});

test("patient left is on the right, posterior down and the head up, however the axes of the file run", () => {
  for (const frame of [flipped, { ...flipped, direction: [[1, 0, 0], [0, -1, 0], [0, 0, 1]] }]) {
    assert.deepEqual(frames.edgeLetters(frames.planeOfImage(frame, 2)), ["R", "A", "L", "P"]);
    assert.deepEqual(frames.edgeLetters(frames.planeOfImage(frame, 1)), ["R", "S", "L", "I"]);
    assert.deepEqual(frames.edgeLetters(frames.planeOfImage(frame, 0)), ["A", "S", "P", "I"]);
  }
});

test("a slice and its depth: the depth of slice k is the plane's third coordinate of its voxels", () => {
  for (const axis of [0, 1, 2]) {
    const plane = frames.planeOfImage(oblique, axis);
    const index = [3, 4, 5];
    const depth = frames.worldToPlane(plane, frames.indexToWorld(oblique, index))[2];
    close(frames.sliceToDepth(plane, index[axis]), depth);
    assert.equal(frames.depthToSlice(plane, depth + 0.4 * oblique.spacing[axis]), index[axis]);
    assert.equal(frames.depthToSlice(plane, 1e9), oblique.size[axis] - 1);
    assert.equal(frames.depthToSlice(plane, -1e9), 0);
  }
});

test("the extent reaches half a pixel beyond the outer centres, and fit shows all of it", () => {
  close(frames.extentInPlane(frames.planeOfImage(flat, 2)), [-0.25, -0.4, 319.75, 383.6]);
  for (const plane of planes) {
    const view = viewport.fitPlaneToScreen(plane, { width: 300, height: 500 });
    const [left, top, right, bottom] = frames.extentInPlane(plane);
    for (const corner of [[left, top], [right, bottom]]) {
      const [x, y] = viewport.planeToScreen(view, corner);
      assert.ok(x >= -1e-9 && x <= 300 + 1e-9 && y >= -1e-9 && y <= 500 + 1e-9);
    }
  }
});

test("the scale bar has a round length that fits", () => {
  for (const scale of [0.013, 0.7, 1, 19, 333]) {
    const bar = viewport.scaleBar({ centre: [0, 0], scale, width: 10, height: 10 }, 120);
    close(bar.pixels, bar.length * scale);
    assert.ok(bar.pixels <= 120 && bar.pixels > 120 / 2.51);
    const mantissa = bar.length / 10 ** Math.floor(Math.log10(bar.length) + 1e-9);
    assert.ok([1, 2, 5].some((n) => Math.abs(mantissa - n) < 1e-9));
  }
});

test("looking at a point near the edge shows little beside the image, and the point stays in sight", () => {
  const plane = frames.planeOfImage(flat, 2);
  for (const scale of [0.3, 2, 20]) {
    const view = { centre: [0, 0], scale, width: 600, height: 400 };
    for (const point of [[0, 0], [319, 383], [160, 190], [0, 383]]) {
      const seen = { ...view, centre: viewport.centreWithinImage(plane, view, point) };
      const [x, y] = viewport.planeToScreen(seen, point);
      assert.ok(x >= 0 && x <= 600 && y >= 0 && y <= 400, `${point} at scale ${scale} is at ${x}, ${y}`);
      const [left, top] = viewport.planeToScreen(seen, [-0.25, -0.4]);
      if (scale === 20) assert.ok(left <= 0.2 * 600 + 1e-6 && top <= 0.2 * 400 + 1e-6);
    }
  }
  close(viewport.centreWithinImage(plane, { centre: [0, 0], scale: 20, width: 600, height: 400 }, [160, 190]), [160, 190]);
});
