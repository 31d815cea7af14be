import assert from "node:assert/strict";
import test from "node:test";

import { confidenceRadius, probabilityWithin } from "../../../src/warpgauge/web/static/confidence.js";
import * as ellipse from "../../../src/warpgauge/web/static/ellipse.js";
import { close, rimPoint, seeded, shapeFromEllipse } from "./helpers.js";

const limits = { floor: 0.01, reach: 0 };

test("the confidence radius is the root of the chi-square quantile (values of scipy.stats.chi2.isf)", () => {
  const table = [
    [2, 0.01, 3.0348542587702925], [2, 0.05, 2.4477468306808166], [2, 0.5, 1.1774100225154749],
    [3, 0.01, 3.3682141752187267], [3, 0.05, 2.795483482915107], [3, 0.32, 1.8724001590921167],
    [3, 0.5, 1.5381722544550522], [3, 1e-6, 5.537585187264716],
  ];
  for (const [d, alpha, expected] of table) close(confidenceRadius(d, alpha), expected, 1e-11);
  for (const alpha of [0.9, 0.3, 1e-4]) close(probabilityWithin(confidenceRadius(3, alpha), 3), 1 - alpha, 1e-13);
  for (const bad of [0, 1, -1, NaN]) assert.throws(() => confidenceRadius(2, bad), RangeError);
});

test("shape matrix by hand: half-lengths 3 and 1, first axis at 30 degrees", () => {
  const shape = shapeFromEllipse({ centre: [0, 0], radii: [3, 1], angle: Math.PI / 6 });
  close(shape, [[9 * 0.75 + 0.25, 8 * Math.sqrt(3) / 4], [8 * Math.sqrt(3) / 4, 9 * 0.25 + 0.75]]);
});

test("ellipse to shape and back is the same ellipse, thin ones and near discs included", () => {
  const random = seeded(3);
  for (let i = 0; i < 200; i++) {
    const start = {
      centre: [random() * 10, random() * 10],
      radii: [10 ** (random() * 6 - 3), 10 ** (random() * 6 - 3)],
      angle: random() * 20 - 10,
    };
    const again = ellipse.ellipseFromShape(start.centre, shapeFromEllipse(start), start.angle + 0.1);
    const thin = Math.max(...start.radii) / Math.min(...start.radii);
    // The small axis of a thin ellipse is known from W only to the rounding of W.
    close(again.radii, start.radii, 1e-14 * thin ** 2 + 1e-12);
    if (thin > 1.01) close(again.angle, start.angle, 1e-9);
    for (const t of [0, 1, 2, 3]) close(ellipse.levelOfPoint(start, rimPoint(start, t)), 1, 1e-9);
  }
});

test("the first axis stays the first one when the second grows past it", () => {
  const shape = shapeFromEllipse({ centre: [0, 0], radii: [2, 5], angle: 0.3 });
  const again = ellipse.ellipseFromShape([0, 0], shape, 0.3);
  close([...again.radii, again.angle], [2, 5, 0.3]);
  close(ellipse.ellipseFromShape([0, 0], [[4, 0], [0, 4]], 1.1).angle, 1.1);
});

test("an axis end follows the pointer exactly: it stretches and turns; the other half-length stays", () => {
  const start = { centre: [10, 20], radii: [6, 3], angle: 0.5 };
  const random = seeded(4);
  for (const name of ["first", "firstBack", "second", "secondBack"]) {
    const from = ellipse.handlesOfEllipse(start, 0).find((handle) => handle.name === name).point;
    for (let i = 0; i < 20; i++) {
      const to = [10 + random() * 20 - 10, 20 + random() * 20 - 10];
      const dragged = ellipse.dragHandle(start, name, from, to, limits);
      close(ellipse.handlesOfEllipse(dragged, 0).find((handle) => handle.name === name).point, to);
      const other = name.startsWith("first") ? 1 : 0;
      assert.equal(dragged.radii[other], start.radii[other]);
      assert.deepEqual(dragged.centre, start.centre);
    }
  }
});

test("nothing jumps when a drag begins beside the handle or on the stand-off of a small ellipse", () => {
  const start = { centre: [0, 0], radii: [1, 0.5], angle: 1 };
  for (const name of ["centre", "first", "firstBack", "second", "secondBack", "rim"]) {
    const at = ellipse.handlesOfEllipse(start, 5).find((handle) => handle.name === name)?.point ?? rimPoint(start, 1);
    const from = [at[0] + 0.1, at[1] - 0.2];
    const same = ellipse.dragHandle(start, name, from, from, { floor: 0.01, reach: 5 });
    close([...same.centre, ...same.radii, same.angle], [0, 0, 1, 0.5, 1]);
  }
});

test("the rim scales both axes, the centre moves", () => {
  const start = { centre: [0, 0], radii: [4, 2], angle: 0 };
  close(ellipse.dragHandle(start, "rim", [4, 0], [8, 0], limits).radii, [8, 4]);
  close(ellipse.dragHandle(start, "centre", [0, 0], [3, -1], limits).centre, [3, -1]);
});

test("no half-length ever falls below the floor, whatever is dragged or scaled", () => {
  const random = seeded(5);
  let now = { centre: [0, 0], radii: [3, 1], angle: 0.2 };
  for (let i = 0; i < 2000; i++) {
    const names = ["first", "secondBack", "rim", "second"];
    now = ellipse.dragHandle(now, names[i % 4], rimPoint(now, random() * 6), [random() * 2 - 1, random() * 2 - 1], limits);
    now = ellipse.scaledEllipse(now, random() * 2, 0.01);
    assert.ok(now.radii.every((radius) => radius >= 0.01 * (1 - 1e-12) && Number.isFinite(radius)));
  }
});

test("what lies under the pointer: handles first, then the rim, then nothing", () => {
  const start = { centre: [0, 0], radii: [40, 20], angle: 0 };
  const under = (point) => ellipse.handleUnderPoint(start, point, 8, 16);
  assert.equal(under([2, 3]), "centre");
  assert.equal(under([43, 2]), "first");
  assert.equal(under([-37, -2]), "firstBack");
  assert.equal(under([1, 22]), "second");
  assert.equal(under([0, -18]), "secondBack");
  assert.equal(under(rimPoint(start, 0.8)), "rim");
  assert.equal(under([15, 5]), null);
  assert.equal(under([80, 80]), null);
});

test("the rim of a small ellipse is the rim, also where it is nearer to the centre than a handle catches", () => {
  for (const radius of [3, 4, 6, 9]) {
    const small = { centre: [5, 7], radii: [radius, radius], angle: 0.3 };
    const under = (distance) => ellipse.handleUnderPoint(small, [5 + distance, 7], 9, 22);
    for (const distance of [radius - 0.5, radius, radius + 3]) assert.equal(under(distance), "rim", `${radius}: ${distance}`);
    for (const distance of [0, 1.5]) assert.equal(under(distance), "centre", `${radius}: ${distance}`);
    const scaled = ellipse.dragHandle(small, "rim", [5 + radius, 7], [35, 7], { floor: 0.01, reach: 22 });
    close(scaled.centre, small.centre);
    close(scaled.radii, [30, 30]);
  }
});

