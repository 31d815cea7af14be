/** How large the region that holds the true match with probability 1 - alpha is, in standard deviations. @module */

/** Probability that a standard normal vector of d components is no longer than r. @param {number} r @param {number} d 2 or 3 @returns {number} */
export function probabilityWithin(r, d) {
  if (d === 2) return -Math.expm1((-r * r) / 2);
  // d = 3: erf(r / sqrt 2) - sqrt(2 / pi) r exp(-r^2 / 2), as one series of positive terms: nothing cancels.
  let term = (r * r * r) / 3;
  let sum = term;
  for (let n = 5; term > sum * 1e-17; n += 2) {
    term *= (r * r) / n;
    sum += term;
  }
  return Math.sqrt(2 / Math.PI) * Math.exp((-r * r) / 2) * sum;
}

/** @type {Map<string, number>} */
const known = new Map();

/**
 * Radius gamma with `probabilityWithin(gamma, d) = 1 - alpha`: half-length of a drawn axis over its standard deviation.
 * @param {number} d 2 or 3 @param {number} alpha between 0 and 1 @returns {number}
 */
export function confidenceRadius(d, alpha) {
  if (!(alpha > 0 && alpha < 1)) throw new RangeError(`alpha must lie between 0 and 1, got ${alpha}.`);
  if (d === 2) return Math.sqrt(-2 * Math.log(alpha));
  const key = `${d} ${alpha}`;
  let radius = known.get(key);
  if (radius === undefined) {
    let low = 0;
    let high = 12;
    for (let step = 0; step < 200 && high - low > 0; step++) {
      const middle = (low + high) / 2;
      if (middle === low || middle === high) break;
      if (probabilityWithin(middle, d) < 1 - alpha) low = middle;
      else high = middle;
    }
    radius = (low + high) / 2;
    known.set(key, radius);
  }
  return radius;
}
