/**
 * A first visit explains itself in three steps; it can be skipped, and never comes again.
 * @module
 */

import { ask, cancelButton, closeDialog } from "./dialogs.js";
import { make } from "./dom.js";

const KEY = "warpgauge:welcomed";
const STEPS = [
  ["A point is asked for", "On the left the fixed image shows a point with an orange cross. Find the same spot in the moving image on the right."],
  ["Show where, and how sure you are", "Click it. Drag instead of clicking when you are less sure in one direction: the ellipse should hold the match almost certainly. Handles and the keys [ and ] change it; the wheel only zooms."],
  ["Enter accepts", "Cannot tell? Press S and say why: that helps as well. Z takes anything back. ? shows all keys. Everything you accept is saved at once."],
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
    const answer = await ask(`${i + 1} of ${STEPS.length}: ${title}`, [make("div", { class: "steps" }, make("p", {}, words)), foot], (key) => (key === "Enter" ? "next" : null));
    if (answer !== "next") return;
  }
}
