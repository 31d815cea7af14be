/**
 * The page at the end: what was measured, how sure, what is worth a second look, and what to do next.
 * @module
 */

import { byId, make, rounded, unitName, whenReleased } from "./dom.js";
import { extentOf } from "./figures.js";
import { isFlagged, reasonToLook } from "./list.js";
import { progressInWords } from "./progress.js";
import { takeaway } from "./takeaway.js";

/** @import { Annotator } from "./annotator.js" */
/** @import { Drawer } from "./drawer.js" */

/**
 * @param {Annotator} annotator
 * @param {Drawer} drawer
 */
export function buildFinish(annotator, drawer) {
  const { stage, store } = annotator;
  const { project } = stage;
  const place = byId("finish");
  let closed = false;
  const show = () => {
    const { done, rows, task, progress, detectable } = store.state;
    place.hidden = !done || closed || task !== "answer";
    if (!done) closed = false;
    document.body.classList.toggle("finished", !place.hidden);
    if (place.hidden) return;
    const units = unitName(project.units);
    const mine = rows.filter((row) => !row.rater || row.rater === project.rater);
    const flagged = mine.filter(isFlagged);
    const known = progress ? progress.mean_sd * progress.region : null;
    place.replaceChildren(make("div", { class: "sheet" },
      make("h2", {}, "You are done. Thank you."),
      make("p", {}, done?.reasons.join(" ") ?? ""),
      make("div", { class: "numbers" },
        figure(String(done?.placed ?? 0), "matches placed"), figure(String(done?.skipped ?? 0), "skipped"),
        figure(known ? `± ${rounded(known)} ${units}` : "–", "is how well a typical match is known")),
      progress ? make("p", {}, progressInWords(progress, units, extentOf(stage.images.fixed)).join(" ")) : null,
      make("h3", {}, "Worth a second look"),
      flagged.length
        ? make("div", { class: "choices" }, ...flagged.map((row) => make("button", { type: "button", "data-look": row.query, onclick: () => void annotator.goTo(row.query) }, `Mark ${row.number}: ${reasonToLook(row, rows, units)}`)))
        : make("p", { "data-detectable": "" }, nothingFound(detectable, units)),
      make("h3", {}, "Take with you"),
      takeaway(stage),
      make("h3", {}, "What to do next"),
      make("p", {}, project.compare && project.transforms?.length ? "See how the registration results compare under Review, or close this page: everything is saved." : project.role === "organiser" ? "Everything is saved. Once registration results are added to the project, they are compared here, under Review." : "Close this page: everything is saved, and whoever sent you the link sees it. If you are asked once more, the question appears here by itself."),
      make("div", { class: "row" }, homeLink(), make("button", { type: "button", class: "primary", "data-act": "review", onclick: () => {
        close();
        drawer.open("list");
      } }, "Review your marks"), make("button", { type: "button", onclick: () => annotator.ownPoints.beginOwn() }, "Add a point of your own"), make("button", { type: "button", "data-act": "undo", onclick: () => void annotator.undo() }, "Undo the last answer"))));
  };
  const close = () => {
    closed = true;
    show();
  };
  store.watch(["done", "rows", "task", "progress"], () => whenReleased(place, show));
  store.watch(["drawer"], () => store.state.drawer && close()); // which lies below this page
  show();
}

/**
 * What it means that no mark is worth a second look: never that all are right.
 * @param {number | null} detectable
 * @param {string} units
 */
export function nothingFound(detectable, units) {
  if (detectable === null) return "The marks cannot be checked against each other here.";
  return `Nothing detectable above ${rounded(detectable)} ${units}: a smaller slip would not show among these marks.`;
}

/**
 * @param {string} value
 * @param {string} words
 */
function figure(value, words) {
  return make("div", { class: "card" }, make("strong", {}, value), make("span", { class: "quiet" }, words));
}

/** @returns {HTMLElement | null} the way to the next pair, where there are several */
function homeLink() {
  const { home } = document.documentElement.dataset;
  return home === undefined ? null : make("a", { class: "button", href: home, "data-act": "home" }, "Go on with another pair");
}
