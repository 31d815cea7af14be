import assert from "node:assert/strict";
import test from "node:test";

import { confidenceRadius } from "../../../src/warpgauge/web/static/confidence.js";
import * as ellipse from "../../../src/warpgauge/web/static/ellipse.js";
import * as ellipsoid from "../../../src/warpgauge/web/static/ellipsoid.js";
import { isPositiveDefinite } from "../../../src/warpgauge/web/static/linalg.js";
import { planeOfImage, planeToWorld, worldToPlane } from "../../../src/warpgauge/web/static/plane.js";
import { close, flat, flipped, oblique, rimPoint, rotation, seeded } from "./helpers.js";

/** An ellipsoid with known half-lengths and axes, so that surface points can be made without the code under test. */
function known(seed) {
  const random = seeded(seed);
  const axes = rotation(random() * 6, random() * 6, random() * 6);
  const lengths = [1 + random() * 9, 1 + random() * 9, 1 + random() * 9];
  const shape = [0, 1, 2].map((i) => [0, 1, 2].map((j) => [0, 1, 2].reduce((s, k) => s + axes[i][k] * axes[j][k] * lengths[k] ** 2, 0)));
  const point = [random() * 20, random() * 20, random() * 20];
  const level = (world) => {
    const away = world.map((value, i) => value - point[i]);
    return Math.hypot(...[0, 1, 2].map((k) => axes.reduce((s, row, i) => s + row[k] * away[i], 0) / lengths[k]));
  };
  const surface = () => {
    const raw = [random() - 0.5, random() - 0.5, random() - 0.5];
    const size = Math.hypot(...raw);
    return point.map((value, i) => value + [0, 1, 2].reduce((s, k) => s + axes[i][k] * lengths[k] * (raw[k] / size), 0));
  };
  return { mark: { point, shape, alpha: 0.01, hints: {}, put: point }, level, surface };
}

test("the section's rim lies on the ellipsoid, in every plane of oblique and flipped volumes", () => {
  for (let seed = 0; seed < 20; seed++) {
    const { mark, level } = known(seed);
    for (const frame of [oblique, flipped]) {
      for (const axis of [0, 1, 2]) {
        const plane = planeOfImage(frame, axis);
        const depth = worldToPlane(plane, mark.point)[2] + 0.4;
        const section = ellipsoid.sectionOfMark(plane, mark, depth);
        for (let t = 0; t < 6; t += 0.5) close(level(planeToWorld(plane, rimPoint(section, t), depth)), 1, 1e-9);
      }
    }
  }
});

test("the projection holds every point of the surface and touches some", () => {
  const plane = planeOfImage(oblique, 1);
  for (let seed = 0; seed < 10; seed++) {
    const { mark, surface } = known(seed);
    const shadow = ellipsoid.projectionOfMark(plane, mark);
    let largest = 0;
    for (let i = 0; i < 4000; i++) largest = Math.max(largest, ellipse.levelOfPoint(shadow, worldToPlane(plane, surface())));
    assert.ok(largest <= 1 + 1e-9 && largest > 0.99, `largest level ${largest}`);
  }
});

test("a plane beyond the ellipsoid has no section, and the distance tells how far beyond", () => {
  const plane = planeOfImage(flipped, 2);
  const mark = ellipsoid.ballMark([0, 0, 0], 3, 0.01);
  const depth = worldToPlane(plane, mark.point)[2];
  assert.equal(ellipsoid.sectionOfMark(plane, mark, depth + 3.01), null);
  close(ellipsoid.sectionOfMark(plane, mark, depth + 1.8).radii, [2.4, 2.4]);
  close(ellipsoid.distanceFromSlice(plane, mark, depth - 6), 2);
});

test("an edited section is what was asked for, at any depth; the extent along the normal stays", () => {
  const random = seeded(7);
  for (let seed = 0; seed < 30; seed++) {
    const { mark } = known(seed);
    const plane = planeOfImage(oblique, seed % 3);
    const depth = worldToPlane(plane, mark.point)[2] + (seed % 2 ? 0 : 0.7);
    const before = ellipsoid.sectionOfMark(plane, mark, depth);
    const wanted = {
      centre: [before.centre[0] + random(), before.centre[1] - random()],
      radii: [0.3 + random() * 5, 0.3 + random() * 5],
      angle: before.angle + random() - 0.5,
    };
    const edited = ellipsoid.markWithSection(plane, mark, depth, before, wanted);
    const after = ellipsoid.sectionOfMark(plane, edited, depth);
    close([...after.centre, ...after.radii, after.angle], [...wanted.centre, ...wanted.radii, wanted.angle], 1e-7);
    const through = (shape) => ellipsoid.shapeWorldToPlane(plane, shape)[2][2];
    close(through(edited.shape), through(mark.shape), 1e-9);
    assert.ok(isPositiveDefinite(edited.shape));
  }
});

test("turning in one plane is a rotation of the ellipsoid about that plane's normal: volume and normal extent stay", () => {
  const { mark } = known(3);
  const plane = planeOfImage(oblique, 0);
  const depth = worldToPlane(plane, mark.point)[2];
  const before = ellipsoid.sectionOfMark(plane, mark, depth);
  const angle = 0.7;
  const edited = ellipsoid.markWithSection(plane, mark, depth, before, { ...before, angle: before.angle + angle });
  const turn = [[Math.cos(angle), -Math.sin(angle), 0], [Math.sin(angle), Math.cos(angle), 0], [0, 0, 1]];
  const local = ellipsoid.shapeWorldToPlane(plane, mark.shape);
  const expected = turn.map((row) => turn.map((other) => row.reduce((s, a, i) => s + other.reduce((u, b, j) => u + a * b * local[i][j], 0), 0)));
  close(ellipsoid.shapeWorldToPlane(plane, edited.shape), expected, 1e-9);
  close(edited.point, mark.point);
});

test("after thousands of random edits in all planes the covariance is symmetric and positive definite", () => {
  const random = seeded(9);
  const planes = [0, 1, 2].map((axis) => planeOfImage(oblique, axis));
  let mark = ellipsoid.ballMark([0, 0, 150], 2, 0.05);
  let taken = 0;
  for (let i = 0; i < 5000; i++) {
    const plane = planes[Math.floor(random() * 3)];
    const depth = worldToPlane(plane, mark.point)[2];
    const before = ellipsoid.sectionOfMark(plane, mark, depth);
    const name = ["centre", "first", "second", "rim", "firstBack"][Math.floor(random() * 5)];
    const to = [before.centre[0] + random() * 8 - 4, before.centre[1] + random() * 8 - 4];
    const after = ellipse.dragHandle(before, name, rimPoint(before, random() * 6), to, { floor: 0.05, reach: 1 });
    const edited = ellipsoid.markWithSection(plane, mark, depth, before, after);
    if (!ellipsoid.admissible(edited, 0.02, 1e4)) continue;
    taken += 1;
    mark = edited;
    const covariance = ellipsoid.covarianceFromMark(mark);
    assert.ok(isPositiveDefinite(covariance), `edit ${i}`);
    covariance.forEach((row, k) => row.forEach((value, l) => assert.equal(value, covariance[l][k])));
  }
  assert.ok(taken > 1000, `only ${taken} of 5000 edits were possible`);
});

test("admissible: half-lengths between the bounds, by a box of known half-lengths", () => {
  const turn = rotation(0.3, 0.5, 0.7);
  const lengths = [0.5, 2, 9];
  const shape = turn.map((row) => turn.map((other) => row.reduce((s, v, k) => s + v * other[k] * lengths[k] ** 2, 0)));
  const mark = { point: [0, 0, 0], shape, alpha: 0.01, hints: {}, put: [0, 0, 0] };
  assert.ok(ellipsoid.admissible(mark, 0.49, 9.01));
  assert.ok(!ellipsoid.admissible(mark, 0.51, 9.01));
  assert.ok(!ellipsoid.admissible(mark, 0.49, 8.99));
});

test("in 2D the covariance of a drawn ellipse is V diag(r / gamma)^2 V', also with anisotropic pixels", () => {
  const plane = planeOfImage(flat, 2);
  const ball = ellipsoid.ballMark([0, 0], 1, 0.01);
  const drawn = { centre: [30, 40], radii: [6, 2], angle: Math.PI / 2 };
  const mark = ellipsoid.markWithSection(plane, ball, 0, ellipsoid.sectionOfMark(plane, ball, 0), drawn);
  close(mark.point, [40, 20]);
  const gamma = 3.0348542587702925;
  close(ellipsoid.covarianceFromMark(mark), [[(2 / gamma) ** 2, 0], [0, (6 / gamma) ** 2]]);
});

test("a prediction's region is the one that the server gives, whatever its covariance and alpha", () => {
  const [c, s] = [0.8, 0.6];
  const axes = [[c, -s, 0], [s, c, 0], [0, 0, 1]];
  const prediction = { mean: [1, 2, 3], covariance: ellipsoid.ballMark([0, 0, 0], 1, 0.01).shape, alpha: 0.01, outside: false };
  const mark = ellipsoid.markFromPrediction({ ...prediction, half_lengths: [5, 2, 1], axes });
  // By hand: 25 u u' + 4 v v' + 1 w w' with u = (0.8, 0.6, 0), v = (-0.6, 0.8, 0).
  close(mark.shape, [[17.44, 10.08, 0], [10.08, 11.56, 0], [0, 0, 1]]);
  close(mark.point, [1, 2, 3]);
});

test("covariance to mark and back, at another alpha the region is larger and the covariance the same", () => {
  const covariance = [[4, 1, 0.5], [1, 3, 0.2], [0.5, 0.2, 2]];
  for (const alpha of [0.5, 0.05, 0.001]) {
    const mark = ellipsoid.markFromCovariance([1, 2, 3], covariance, alpha);
    close(ellipsoid.covarianceFromMark(mark), covariance);
    close(mark.shape[0][0], 4 * confidenceRadius(3, alpha) ** 2);
  }
});
