/**
 * The one sentence below the pictures.
 * @module
 */

import { forHand } from "./gestures.js";

/** @import { Store } from "./store.js" */
/** @import { State } from "./types.js" */

/**
 * @param {Store<State>} store
 * @param {string} message
 * @param {State["tone"]} [tone]
 */
export function say(store, message, tone = "note") {
  store.set({ message: forHand(message), tone });
}
