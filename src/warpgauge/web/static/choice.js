/**
 * The quiet line with a choice: a placement that looks like a slip, and what else waits for a yes or a no.
 * @module
 */

import { answerAlignment } from "./alignment.js";
import { byId, make } from "./dom.js";

/** @import { Annotator } from "./annotator.js" */

/** @param {Annotator} annotator */
export function buildChoice(annotator) {
  const { store, delivery, ownPoints, areas } = annotator;
  const place = byId("choice");
  const button = (/** @type {string} */ name, /** @type {string} */ words, /** @type {() => void} */ run) => make("button", { type: "button", "data-choice": name, onclick: run }, words);
  const show = () => {
    const { doubt, task, writing, aligning, query, corners, areas: drawn } = store.state;
    if (aligning) place.replaceChildren(button("yes", "Yes", () => void answerAlignment(annotator, true)), button("no", "No", () => void answerAlignment(annotator, false)));
    else if (doubt) place.replaceChildren(button("keep", "Keep it", () => void delivery.keepSlip()), button("change", "Change", () => delivery.changeSlip()));
    else if (task === "start") place.replaceChildren(button("skip-start", "Skip this start", () => void ownPoints.skipStart()));
    else if (task === "area" && corners.length > 2) place.replaceChildren(button("missing", "No match here", () => void areas.save("missing")), button("piece", "Moves on its own", () => void areas.save("piece")));
    else if (task === "area") place.replaceChildren(...drawn.map((one, k) => button(`erase-${one.number}`, `Erase area ${k + 1} (${one.what === "missing" ? "no match" : "moves on its own"})`, () => void areas.erase(one.number))), button("leave-area", "Back to the question", () => void ownPoints.leaveTask()));
    else if (task === "answer" && query?.answer) place.replaceChildren(button("back", "Back to the open question", () => void annotator.current()));
    else place.replaceChildren();
    place.hidden = place.childElementCount === 0 || writing === "saving";
  };
  store.watch(["doubt", "task", "writing", "aligning", "query", "corners", "areas"], show);
  show();
}
