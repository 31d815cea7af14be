/**
 * Two panes, three, or one: which are on the screen, and the head of the third.
 * @module
 */

import { WARPS } from "./commands.js";
import { byId, make } from "./dom.js";
import { PlaneView } from "./planeview.js";

/** @import { Stage } from "./stage.js" */
/** @import { WarpMode } from "./types.js" */

/** @type {Record<WarpMode, string>} */
export const COMPARISONS = { off: "Warped alone", opacity: "See-through", checkerboard: "Checkerboard", flicker: "Flicker", difference: "Difference", lens: "Lens" };

/**
 * The third pane, and what happens when the layout changes.
 * @param {Stage} stage
 */
export function buildWarpedPane(stage) {
  const { store } = stage;
  const section = byId("warped");
  const how = make("select", { "aria-label": "How the images are compared", title: "How the images are compared (C)" },
    ...WARPS.map((mode) => make("option", { value: mode }, COMPARISONS[mode])));
  how.addEventListener("change", () => {
    store.set({ compare: /** @type {WarpMode} */ (how.value) });
    stage.focus();
  });
  const canvas = make("canvas", { tabIndex: 0, role: "img", "aria-label": "moving image warped onto the fixed one" });
  canvas.dataset.axis = "2";
  section.replaceChildren(
    make("div", { class: "pane-head" }, make("strong", { class: "side" }, "WARPED"), make("span", { class: "name clip", title: "The moving image, warped as your marks say; it follows while you drag a mark" }, "moving onto fixed"), make("span", { class: "spring" }), how),
    make("div", { class: "planes" }, canvas));
  stage.panes.push(new PlaneView(stage, "fixed", 2, canvas, true));
  let before = store.state.layout;
  const arrange = () => {
    const { layout, compare } = store.state;
    byId("stage").dataset.layout = layout;
    section.hidden = layout === "two";
    how.value = compare;
    if (layout === "overlay") stage.annotator.say("One image over the other: C compares in another way, V brings both images back.");
    else if (before === "overlay") stage.annotator.sayAgain();
    before = layout;
  };
  store.watch(["layout", "compare"], arrange);
  arrange();
}
