/**
 * The direction of the edge that the image shows around a point, from the structure tensor of its gradients.
 * @module
 */

/**
 * @param {(column: number, row: number) => number | null} sample brightness of an element, null where not known
 * @param {[number, number]} at column and row of the middle
 * @param {number} radius in elements
 * @param {[number, number]} step physical size of an element right and down (negative where flipped)
 * @returns {number | null} angle of the edge in plane coordinates, or null where there is none
 */
export function edgeDirection(sample, at, radius, step) {
  const [cx, cy] = at.map(Math.round);
  let [xx, xy, yy] = [0, 0, 0];
  for (let j = -radius; j <= radius; j++) {
    for (let i = -radius; i <= radius; i++) {
      const [x, y] = [cx + i, cy + j];
      const around = [sample(x + 1, y), sample(x - 1, y), sample(x, y + 1), sample(x, y - 1)];
      if (around.some((value) => value === null)) continue;
      const [right, left, below, above] = /** @type {number[]} */ (around);
      const weight = Math.exp((-2 * (i * i + j * j)) / (radius * radius));
      const [gx, gy] = [(right - left) / (2 * step[0]), (below - above) / (2 * step[1])];
      xx += weight * gx * gx;
      xy += weight * gx * gy;
      yy += weight * gy * gy;
    }
  }
  const spread = Math.hypot(xx - yy, 2 * xy);
  // An edge has gradients of one direction: less than a fifth of them in agreement is texture or noise.
  if (!(spread > 0.2 * (xx + yy))) return null;
  return Math.atan2(2 * xy, xx - yy) / 2 + Math.PI / 2;
}
