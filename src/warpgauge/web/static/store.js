/**
 * One watchable state for the whole page. Values are replaced, never changed in place.
 * @module
 */

/**
 * @template {object} S
 */
export class Store {
  /** @param {S} initial */
  constructor(initial) {
    /** @type {S} */
    this.state = initial;
    /** @type {Set<(state: S, before: S) => void>} */
    this.watchers = new Set();
  }

  /**
   * Replace some of the values and tell everybody who watches.
   * @param {Partial<S>} changes
   */
  set(changes) {
    const keys = /** @type {(keyof S)[]} */ (Object.keys(changes));
    if (keys.every((key) => Object.is(this.state[key], changes[key]))) return;
    const before = this.state;
    this.state = { ...before, ...changes };
    for (const watcher of [...this.watchers]) watcher(this.state, before);
  }

  /**
   * Call `react` after each change of one of `keys`; without keys, after every change.
   * @param {(keyof S)[]} keys
   * @param {(state: S, before: S) => void} react
   * @returns {() => void} to stop
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
 * A history of values with undo and redo.
 * @template V
 * @typedef {{past: V[], present: V, future: V[]}} History
 */

/**
 * @template V
 * @param {History<V>} history
 * @param {V} value
 * @returns {History<V>}
 */
export function advanced(history, value) {
  return { past: [...history.past, history.present].slice(-500), present: value, future: [] };
}

/**
 * @template V
 * @param {History<V>} history
 * @returns {History<V>}
 */
export function steppedBack(history) {
  if (history.past.length === 0) return history;
  return {
    past: history.past.slice(0, -1),
    present: history.past[history.past.length - 1],
    future: [history.present, ...history.future],
  };
}

/**
 * @template V
 * @param {History<V>} history
 * @returns {History<V>}
 */
export function steppedForward(history) {
  if (history.future.length === 0) return history;
  return { past: [...history.past, history.present], present: history.future[0], future: history.future.slice(1) };
}
