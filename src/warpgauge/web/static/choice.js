/**
 * The quiet line with a choice, such as whether to keep a placement that looks like a slip.
 * @module
 */

import { byId, make } from "./dom.js";

/** @import { Annotator } from "./annotator.js" */

/** @param {Annotator} annotator */
export function buildChoice(annotator) {
  const { store, delivery, ownPoints } = annotator;
  const place = byId("choice");
  const button = (/** @type {string} */ name, /** @type {string} */ words, /** @type {() => void} */ run) => make("button", { type: "button", "data-choice": name, onclick: run }, words);
  const show = () => {
    const { doubt, task, writing, query } = store.state;
    if (doubt) place.replaceChildren(button("keep", "Keep it", () => void delivery.keepSlip()), button("change", "Change", () => delivery.changeSlip()));
    else if (task === "start") place.replaceChildren(button("skip-start", "Skip this start", () => void ownPoints.skipStart()));
    else if (task === "answer" && query?.answer) place.replaceChildren(button("back", "Back to the open question", () => void annotator.current()));
    else place.replaceChildren();
    place.hidden = place.childElementCount === 0 || writing === "saving";
  };
  store.watch(["doubt", "task", "writing", "query"], show);
  show();
}
