/**
 * A first visit explains itself in three steps; it can be skipped, and never comes again.
 * @module
 */

import { ask, cancelButton, closeDialog } from "./dialogs.js";
import { make } from "./dom.js";

const KEY = "warpgauge:welcomed";
const STEPS = [
  ["Find the same spot", "An orange cross marks a point in the fixed image, on the left. Find the same spot in the moving image, on the right."],
  ["Show where, and how sure you are", "Click the spot. If you are not sure, drag instead: the ellipse should almost certainly contain the match. You can change it with its handles or the keys [ and ]. The wheel only zooms."],
  ["Press Enter to accept", "If you cannot tell, press S and say why: that helps as well. Z undoes anything, ? shows all keys. Every answer is saved at once."],
];

/** Whether this browser has seen it. */
export function welcomed() {
  try {
    return localStorage.getItem(KEY) !== null;
  } catch {
    return true;
  }
}

export async function welcome() {
  try {
    localStorage.setItem(KEY, "1");
  } catch {
    // Then it comes again; it can be skipped.
  }
  for (let i = 0; i < STEPS.length; i++) {
    const [title, words] = STEPS[i];
    const next = make("button", { type: "button", class: "primary", "data-act": "next", onclick: () => closeDialog("next") }, i < STEPS.length - 1 ? "Next" : "Begin");
    const foot = cancelButton("Skip");
    foot.append(next);
    const answer = await ask(title, [make("div", { class: "steps" }, make("p", {}, words), make("p", { class: "quiet" }, `Step ${i + 1} of ${STEPS.length}`)), foot], (key) => (key === "Enter" ? "next" : null));
    if (answer !== "next") return;
  }
}
