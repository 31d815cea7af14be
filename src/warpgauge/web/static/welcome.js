/**
 * A first visit explains itself in three steps; it can be skipped, and never comes again.
 * @module
 */

import { ask, cancelButton, closeDialog } from "./dialogs.js";
import { make } from "./dom.js";
import { forHand } from "./gestures.js";

const KEY = "warpgauge:welcomed";
const QUESTION = "An orange cross marks a point in the image labelled FIXED. Click the same spot in the one labelled MOVING. If you are not sure, drag instead: the ellipse should almost certainly contain the match.";
const ACCEPT = ["Press Enter to accept", "If you cannot tell, press S and say why: that helps as well. Z undoes anything, ? shows all keys. Every answer is saved at once."];
const STEPS = [
  ["Find the same spot", QUESTION],
  ["Correct it as you like", "Click again to move your mark. Its handles, or the keys [ and ], change its size. The wheel only zooms."],
  ACCEPT,
];
const STEPS_WITH_START = [
  ["Begin with three spots that you know", "Click a spot in the image labelled FIXED, then the same spot in the one labelled MOVING, and press Enter. After three of them the moving image is turned to match."],
  ["Then find the spots that you are asked for", QUESTION],
  ACCEPT,
];

/** Whether this browser has seen it. */
export function welcomed() {
  try {
    return localStorage.getItem(KEY) !== null;
  } catch {
    return true;
  }
}

/** @param {boolean} start whether the visitor begins with places of their own */
export async function welcome(start) {
  const steps = start ? STEPS_WITH_START : STEPS;
  try {
    localStorage.setItem(KEY, "1");
  } catch {
    // Then it comes again; it can be skipped.
  }
  for (let i = 0; i < steps.length; i++) {
    const [title, words] = steps[i];
    const next = make("button", { type: "button", class: "primary", "data-act": "next", onclick: () => closeDialog("next") }, i < steps.length - 1 ? "Next" : "Begin");
    const foot = cancelButton("Skip");
    foot.append(next);
    const answer = await ask(forHand(title), [make("div", { class: "steps" }, make("p", {}, forHand(words)), make("p", { class: "quiet" }, `Step ${i + 1} of ${steps.length}`)), foot], (key) => (key === "Enter" ? "next" : null));
    if (answer !== "next") return;
  }
}
