/**
 * What the browser keeps for a rater from one visit to the next.
 * @module
 */

/**
 * @param {string} key
 * @returns {any} null where there is nothing, or nothing that can be read
 */
export function kept(key) {
  try {
    return JSON.parse(localStorage.getItem(key) ?? "null");
  } catch {
    return null;
  }
}

/**
 * @param {string} key
 * @param {unknown} value
 */
export function keep(key, value) {
  try {
    localStorage.setItem(key, JSON.stringify(value));
  } catch {
    // Storage is full or forbidden: it lives as long as the page does.
  }
}
