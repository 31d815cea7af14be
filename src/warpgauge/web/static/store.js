/** One watchable state for the whole page. Values are replaced, never changed in place. @module */

import { useLayoutEffect, useState } from "./vendor/preact-htm.js";

/** @template {object} S */
export class Store {
  /** @param {S} initial */
  constructor(initial) {
    /** @type {S} */
    this.state = initial;
    /** @type {Set<(state: S, before: S) => void>} */
    this.watchers = new Set();
  }

  /** Replace some of the values and tell everybody who watches. @param {Partial<S>} changes */
  set(changes) {
    const keys = /** @type {(keyof S)[]} */ (Object.keys(changes));
    if (keys.every((key) => Object.is(this.state[key], changes[key]))) return;
    const before = this.state;
    this.state = { ...before, ...changes };
    for (const watcher of [...this.watchers]) watcher(this.state, before);
  }

  /**
   * Call `react` after each change of one of `keys`; without keys, after every change.
   * @param {(keyof S)[]} keys @param {(state: S, before: S) => void} react @returns {() => void} to stop
   */
  watch(keys, react) {
    /** @param {S} state @param {S} before */
    const watcher = (state, before) => {
      if (keys.length === 0 || keys.some((key) => !Object.is(state[key], before[key]))) react(state, before);
    };
    this.watchers.add(watcher);
    return () => this.watchers.delete(watcher);
  }
}

/**
 * The state, for a component that is shown anew when one of `keys` changes.
 * @template {object} S @param {Store<S>} store @param {(keyof S)[]} keys @returns {S}
 */
export function useStore(store, keys) {
  const [, again] = useState(0);
  // Before anything else can happen: a change in between would not be seen.
  useLayoutEffect(() => store.watch(keys, () => again((n) => n + 1)), []);
  return store.state;
}
