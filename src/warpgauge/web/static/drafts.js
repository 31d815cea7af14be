/**
 * What is drawn and not accepted, kept in the browser's storage so that a reload does not lose it.
 * @module
 */

/** @import { Mark } from "./ellipsoid.js" */

export class Drafts {
  /** @param {string} key of this rater in this project */
  constructor(key) {
    this.key = key;
  }

  /**
   * @param {number} query
   * @param {Mark} mark
   */
  keep(query, mark) {
    try {
      localStorage.setItem(this.key, JSON.stringify({ query, mark }));
    } catch {
      // Storage is full or forbidden: the draft lives as long as the page does.
    }
  }

  /**
   * @param {number} query
   * @returns {Mark | null}
   */
  of(query) {
    try {
      const draft = JSON.parse(localStorage.getItem(this.key) ?? "null");
      // A draft of an earlier version does not say where it was put.
      return draft?.query === query ? { put: draft.mark.point, ...draft.mark } : null;
    } catch {
      return null;
    }
  }

  drop() {
    localStorage.removeItem(this.key);
  }
}
