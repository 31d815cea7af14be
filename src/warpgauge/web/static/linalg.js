/** Small matrices: rows of numbers, as the wire format carries them. Two or three rows, nothing larger. @module */

/** @typedef {number[]} Vector */
/** @typedef {number[][]} Matrix */

/** @param {Matrix} a @param {Vector} x @returns {Vector} */
export function multiplyVector(a, x) {
  return a.map((row) => dot(row, x));
}

/** @param {Matrix} a @param {Matrix} b @returns {Matrix} */
export function multiply(a, b) {
  return a.map((row) => b[0].map((_, j) => row.reduce((sum, value, k) => sum + value * b[k][j], 0)));
}

/** @param {Matrix} a @returns {Matrix} */
export function transpose(a) {
  return a[0].map((_, j) => a.map((row) => row[j]));
}

/** T W T', symmetric to the last digit so that a stored covariance passes a strict check. @param {Matrix} t @param {Matrix} w @returns {Matrix} */
export function congruence(t, w) {
  const product = multiply(multiply(t, w), transpose(t));
  return product.map((row, i) => row.map((value, j) => (value + product[j][i]) / 2));
}

/** @param {Matrix} a @param {number} factor @returns {Matrix} */
export function scaled(a, factor) {
  return a.map((row) => row.map((value) => value * factor));
}

/** @param {number} d @returns {Matrix} */
export function identity(d) {
  return Array.from({ length: d }, (_, i) => Array.from({ length: d }, (_, j) => (i === j ? 1 : 0)));
}

/** @param {Matrix} a 2 x 2 or 3 x 3 @returns {number} */
export function determinant(a) {
  if (a.length === 2) return a[0][0] * a[1][1] - a[0][1] * a[1][0];
  const [p, q, r] = a;
  return dot(p, [q[1] * r[2] - q[2] * r[1], q[2] * r[0] - q[0] * r[2], q[0] * r[1] - q[1] * r[0]]);
}

/** @param {Matrix} a 2 x 2 or 3 x 3 @returns {Matrix} */
export function inverse(a) {
  const det = determinant(a);
  if (!Number.isFinite(1 / det)) throw new RangeError("A singular matrix has no inverse.");
  if (a.length === 2) {
    return [
      [a[1][1] / det, -a[0][1] / det],
      [-a[1][0] / det, a[0][0] / det],
    ];
  }
  const minor = (/** @type {number} */ i, /** @type {number} */ j) => {
    const [k, l] = [0, 1, 2].filter((n) => n !== i);
    const [m, n] = [0, 1, 2].filter((o) => o !== j);
    return a[k][m] * a[l][n] - a[k][n] * a[l][m];
  };
  return identity(3).map((row, i) => row.map((_, j) => (((i + j) % 2 ? -1 : 1) * minor(j, i)) / det));
}

/** By the leading minors. @param {Matrix} a symmetric */
export function isPositiveDefinite(a) {
  const corner = a[0][0] * a[1][1] - a[0][1] * a[1][0];
  return a[0][0] > 0 && corner > 0 && (a.length === 2 || determinant(a) > 0);
}

/** Eigenvalues of a symmetric 2 x 2 or 3 x 3 matrix, largest first. @param {Matrix} a @returns {number[]} */
export function eigenvalues(a) {
  if (a.length === 2) {
    const middle = (a[0][0] + a[1][1]) / 2;
    const half = Math.hypot((a[0][0] - a[1][1]) / 2, a[0][1]);
    return [middle + half, middle - half];
  }
  // The three real roots of the characteristic polynomial, by the angle of its depressed form.
  const mean = (a[0][0] + a[1][1] + a[2][2]) / 3;
  const off = a[0][1] ** 2 + a[0][2] ** 2 + a[1][2] ** 2;
  const spread = Math.sqrt(((a[0][0] - mean) ** 2 + (a[1][1] - mean) ** 2 + (a[2][2] - mean) ** 2 + 2 * off) / 6);
  if (spread <= 1e-12 * Math.abs(mean)) return [mean, mean, mean];
  const b = a.map((row, i) => row.map((value, j) => (value - (i === j ? mean : 0)) / spread));
  const angle = Math.acos(Math.min(1, Math.max(-1, determinant(b) / 2))) / 3;
  const first = mean + 2 * spread * Math.cos(angle);
  const last = mean + 2 * spread * Math.cos(angle + (2 * Math.PI) / 3);
  return [first, 3 * mean - first - last, last];
}

/** @param {Vector} a @param {Vector} b @returns {number} */
export function dot(a, b) {
  return a.reduce((sum, value, i) => sum + value * b[i], 0);
}

/** a + factor b. @param {Vector} a @param {Vector} b @param {number} [factor] @returns {Vector} */
export function add(a, b, factor = 1) {
  return a.map((value, i) => value + factor * b[i]);
}

/** a - b. @param {Vector} a @param {Vector} b @returns {Vector} */
export function subtract(a, b) {
  return a.map((value, i) => value - b[i]);
}

/** @param {Vector} a @returns {number} */
export function norm(a) {
  return Math.sqrt(dot(a, a));
}

/** @param {Vector} a @param {Vector} b @returns {number} */
export function distance(a, b) {
  return norm(subtract(a, b));
}
