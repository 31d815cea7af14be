// What the tests of the page's geometry share: seeded numbers, and frames that are awkward on purpose.

import assert from "node:assert/strict";

/** Seeded numbers in [0, 1): a failure must repeat. */
export function seeded(seed) {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

export function close(actual, expected, tolerance = 1e-9, what = "") {
  const [a, b] = [[actual].flat(3), [expected].flat(3)];
  assert.equal(a.length, b.length, what);
  a.forEach((value, i) => {
    assert.ok(
      Math.abs(value - b[i]) <= tolerance * Math.max(1, Math.abs(b[i])),
      `${what} element ${i}: ${value} is not ${b[i]} to ${tolerance}`,
    );
  });
}

/** A rotation of space by Euler angles. */
export function rotation(a, b, c) {
  const z = [[Math.cos(a), -Math.sin(a), 0], [Math.sin(a), Math.cos(a), 0], [0, 0, 1]];
  const y = [[Math.cos(b), 0, Math.sin(b)], [0, 1, 0], [-Math.sin(b), 0, Math.cos(b)]];
  const x = [[1, 0, 0], [0, Math.cos(c), -Math.sin(c)], [0, Math.sin(c), Math.cos(c)]];
  const times = (p, q) => p.map((row) => q[0].map((_, j) => row.reduce((s, v, k) => s + v * q[k][j], 0)));
  return times(times(z, y), x);
}

export const flat = { size: [640, 480], spacing: [0.5, 0.8], origin: [10, -20], direction: [[1, 0], [0, 1]] };
export const oblique = {
  size: [96, 80, 24],
  spacing: [0.7, 0.9, 3.2],
  origin: [-31, 12, 140],
  direction: rotation(0.4, -0.3, 0.25),
};
export const flipped = {
  size: [40, 50, 60],
  spacing: [1, 1, 2],
  origin: [5, 6, 7],
  direction: [[-1, 0, 0], [0, 1, 0], [0, 0, -1]],
};

/** The shape matrix of an ellipse, by its axes. */
export function shapeFromEllipse({ radii: [a, b], angle }) {
  const axes = [[Math.cos(angle), Math.sin(angle)], [-Math.sin(angle), Math.cos(angle)]];
  return [0, 1].map((i) => [0, 1].map((j) => a * a * axes[0][i] * axes[0][j] + b * b * axes[1][i] * axes[1][j]));
}

/** A point of the rim of an ellipse. */
export function rimPoint({ centre, radii: [a, b], angle }, t) {
  const [c, s] = [Math.cos(angle), Math.sin(angle)];
  const [x, y] = [a * Math.cos(t), b * Math.sin(t)];
  return [centre[0] + c * x - s * y, centre[1] + s * x + c * y];
}
