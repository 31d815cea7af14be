/**
 * What is drawn and not accepted, kept in the browser's storage so that a reload does not lose it.
 * @module
 */

import { keep, kept } from "./kept.js";

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
    keep(this.key, { query, mark });
  }

  /**
   * @param {number} query
   * @returns {Mark | null}
   */
  of(query) {
    const draft = kept(this.key);
    // A draft of an earlier version does not say where it was put.
    return draft?.query === query && draft.mark ? { put: draft.mark.point, ...draft.mark } : null;
  }

  drop() {
    localStorage.removeItem(this.key);
  }
}
