/** What the browser keeps for a rater from one visit to the next. @module */

/**
 * Keys of what belongs to one rater in one project; pairs of one server may have the same name.
 * @param {{name: string, rater: string}} project @param {string} what
 */
export function keyFor({ name, rater }, what) {
  return `warpgauge:${what}:${name}:${rater}${location.pathname}`;
}

/** @param {string} key @returns {any} null where there is nothing, or nothing that can be read */
export function kept(key) {
  try {
    return JSON.parse(localStorage.getItem(key) ?? "null");
  } catch {
    return null;
  }
}

/** @param {string} key @param {unknown} value null removes it */
export function keep(key, value) {
  try {
    if (value === null) localStorage.removeItem(key);
    else localStorage.setItem(key, JSON.stringify(value));
  } catch {
    // Storage is full or forbidden: it lives as long as the page does.
  }
}
