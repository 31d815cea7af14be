/**
 * Two panes, three, or one: which are on the screen, and the head of the third.
 * @module
 */

import { WARPS } from "./commands.js";
import { byId, make } from "./dom.js";
import { say } from "./message.js";
import { addPlane } from "./panes.js";
import { addReadout } from "./readout.js";

/** @import { Annotator } from "./annotator.js" */
/** @import { WarpMode } from "./types.js" */

/** @type {Record<WarpMode, string>} */
export const COMPARISONS = { off: "Warped alone", opacity: "See-through", checkerboard: "Checkerboard", flicker: "Flicker", difference: "Difference", lens: "Lens" };

/**
 * The third pane, and what happens when the layout changes.
 * @param {Annotator} annotator
 */
export function buildWarpedPane(annotator) {
  const { stage, store } = annotator;
  const section = byId("warped");
  const how = make("select", { "aria-label": "How the images are compared", title: "How the images are compared (C)" },
    ...WARPS.map((mode) => make("option", { value: mode }, COMPARISONS[mode])));
  how.addEventListener("change", () => {
    store.set({ compare: /** @type {WarpMode} */ (how.value) });
    stage.focus();
  });
  const axes = stage.images.fixed.size.length === 3 ? [2, 1, 0] : [2];
  const panes = axes.map((axis) => addPlane(annotator, "fixed", axis, "moving image warped onto the fixed one", true));
  const planes = make("div", { class: axes.length === 3 ? "planes d3" : "planes" }, ...panes.map(({ canvas }) => canvas));
  section.replaceChildren(
    make("div", { class: "pane-head" }, make("strong", { class: "side" }, "WARPED"), make("span", { class: "name clip", title: "The moving image, warped as your marks say; it follows while you drag a mark" }, "moving onto fixed"), make("span", { class: "spring" }), how),
    planes);
  addReadout(stage, () => panes, planes);
  // Beside the two images there is room for one plane of a volume: the one that is shown alone, else the axial one.
  const choosePlane = () => {
    const { maximised, layout } = store.state;
    const shown = maximised ?? (layout === "three" ? 2 : null);
    planes.classList.toggle("one", axes.length === 3 && shown !== null);
    for (const { axis, canvas } of panes) canvas.classList.toggle("shown", axis === shown);
  };
  let before = store.state.layout;
  const arrange = () => {
    const { layout, compare } = store.state;
    byId("stage").dataset.layout = layout;
    section.hidden = layout === "two";
    choosePlane();
    how.value = compare;
    if (layout === "overlay") say(store, "One image over the other: C compares in another way, V brings both images back.");
    else if (before === "overlay") annotator.sayAgain();
    before = layout;
  };
  store.watch(["layout", "compare"], arrange);
  store.watch(["maximised"], choosePlane);
  arrange();
}
