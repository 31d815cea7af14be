/** The table of commands: what each is called, its keys, and what it does on this page. @module */

import { ballMark } from "./ellipsoid.js";
import { subtract } from "./linalg.js";
import { planeToWorld } from "./plane.js";
import { surroundColour, toggleTheme } from "./theme.js";
import { screenToWorld, turnToPlane } from "./viewport.js";

/** @import { Annotator } from "./annotator.js" */
/** @import { Command } from "./keys.js" */
/** @import { Stage } from "./stage.js" */
/** @import { ImageInfo, Leaf } from "./types.js" */

const PAN = 60; // screen pixels of an arrow
/** Screen pixels per unit at 1x: at 10x a screen pixel shows 1 µm, as a slide scanner counts. @type {Record<string, number>} */
const AT_ONE = { um: 0.1, mm: 100, nm: 0.0001 };

/**
 * Magnifications of 2D images: as pathologists say them, or percents of pixels of unknown size.
 * @param {ImageInfo} image @returns {{words: string, scale: number}[]}
 */
export function magnifications({ units, spacing }) {
  const one = AT_ONE[units];
  if (one) return [1, 5, 10, 20, 40].map((times) => ({ words: `${times}×`, scale: times * one }));
  return [25, 50, 100, 200, 400].map((percent) => ({ words: `${percent} %`, scale: percent / 100 / spacing[0] }));
}

/** @param {Annotator} annotator @param {(leaf: Leaf | null) => void} openDrawer @returns {Command[]} */
export function makeCommands(annotator, openDrawer) {
  const { stage, store, marks } = annotator;
  const zoom = (/** @type {number} */ factor) => {
    const pane = stage.activePane();
    stage.zoom(pane, pane.pointer ?? stage.anchor(pane), factor);
  };
  const escape = () => {
    for (const pane of stage.panes) pane.machine.abandon();
    const { menu, asking, drawer, dirty, own, doubt, query } = store.state;
    const chosen = own && (query?.answer?.kind !== "place" || query.answer.fixed !== own);
    if (menu || asking) store.set({ menu: false, asking: false });
    else if (drawer && !dirty && !chosen && !doubt) openDrawer(null);
    else annotator.escape();
  };
  /** @type {Command[]} */
  const commands = [
    { id: "accept", label: "Accept", keys: ["Enter"], shown: "Enter", run: () => void annotator.accept() },
    { id: "skip", label: "Cannot tell; then 1 to 5", keys: ["s"], shown: "S", run: () => annotator.beginSkip() },
    { id: "undo", label: "Undo", keys: ["z", "Ctrl+z"], shown: "Z", run: () => void annotator.undo() },
    { id: "redo", label: "Redo", keys: ["Shift+z", "Ctrl+Shift+z", "Ctrl+y"], shown: "⇧Z", run: () => void annotator.redo() },
    { id: "escape", label: "Clear what is not accepted; close a panel", keys: ["Escape"], shown: "Esc", run: escape },
    { id: "put", label: "A ring at the pointer, or in the circle", keys: [" "], shown: "Space", run: () => putRing(annotator) },
    ...arrows(annotator),
    { id: "smaller", label: "Smaller ring", keys: ["["], shown: "[", run: () => marks.resize(-1, stage.scaleOf("moving")), repeats: true },
    { id: "larger", label: "Larger ring", keys: ["]"], shown: "]", run: () => marks.resize(1, stage.scaleOf("moving")), repeats: true },
    { id: "fit", label: "Both images whole", keys: ["0"], shown: "0", run: () => fit(stage) },
    { id: "zoom-in", label: "Zoom in", keys: ["+", "="], shown: "+", run: () => zoom(1.25), repeats: true },
    { id: "zoom-out", label: "Zoom out", keys: ["-"], shown: "−", run: () => zoom(1 / 1.25), repeats: true },
    ...(stage.solid ? volumeKeys(stage) : magnifyKeys(stage)),
    { id: "previous", label: "Your earlier answer", keys: ["Backspace"], shown: "⌫", run: () => void annotator.previous() },
    { id: "another", label: "Later: another question", keys: ["n"], shown: "N", run: () => void annotator.another() },
    { id: "current", label: "Back to the open question", keys: ["q"], shown: "Q", run: () => void annotator.go("/api/query") },
    { id: "drawer", label: "Review", keys: ["d"], shown: "D", run: () => openDrawer(store.state.drawer ? null : "list") },
    { id: "hide", label: "Hold: hide where it is expected", keys: ["h"], shown: "H", run: () => store.set({ hidden: true }), release: () => store.set({ hidden: stage.withheld }) },
    { id: "warped", label: "Hold: the other image, warped, over this place", keys: ["w"], shown: "W", run: () => store.set({ warped: true }), release: () => store.set({ warped: false }) },
    { id: "theme", label: "Dark or light", keys: ["t"], shown: "T", run: () => changeTheme(stage) },
    { id: "keys", label: "All keys", keys: ["?"], shown: "?", run: () => showKeys() },
  ];
  // What shows where the model expects matches is not offered where raters must not see that.
  return stage.withheld ? commands.filter(({ id }) => id !== "hide" && id !== "warped") : commands;
}

/** @param {Stage} stage */
export function changeTheme(stage) {
  toggleTheme();
  stage.surround = surroundColour();
  stage.drawSoon();
}

export function showKeys() {
  /** @type {HTMLDialogElement | null} */ (document.querySelector("dialog#keys"))?.showModal();
}

/** @param {Stage} stage */
export function fit(stage) {
  if (stage.store.state.maximised !== null) stage.store.set({ maximised: null });
  else {
    stage.lookAgain = null;
    stage.fit();
  }
}

/** @param {Stage} stage @returns {Command[]} */
function magnifyKeys(stage) {
  return magnifications(stage.images.fixed).map(({ words, scale }, k) => ({
    id: `magnify-${k}`,
    label: words,
    keys: [String(k + 1)],
    shown: String(k + 1),
    run: () => {
      const [pane] = stage.planesOf("fixed");
      stage.zoom(pane, stage.anchor(pane), scale / stage.store.state.scale);
    },
  }));
}

/** @param {Stage} stage @returns {Command[]} */
function volumeKeys(stage) {
  const names = ["axial", "coronal", "sagittal"];
  const { store } = stage;
  return [
    { id: "back", label: "Slice back", keys: [","], shown: ",", run: () => stage.activePane().turnSlices(-1), repeats: true },
    { id: "forth", label: "Slice forth", keys: ["."], shown: ".", run: () => stage.activePane().turnSlices(1), repeats: true },
    ...[2, 1, 0].map((axis, i) => ({
      id: `plane-${names[i]}`,
      label: `Only the ${names[i]} plane`,
      keys: [String(i + 1)],
      shown: String(i + 1),
      run: () => store.set({ maximised: store.state.maximised === axis ? null : axis }),
    })),
  ];
}

/** Put a ring without a mouse: at the pointer, else where the match is expected, else in the middle of what is seen. @param {Annotator} annotator */
function putRing(annotator) {
  const { stage, store, marks } = annotator;
  const here = stage.activePane();
  if (here.side === "fixed" && here.pointer) {
    here.hand.click(here.pointer);
    return;
  }
  if (!marks.editable) {
    annotator.explainLock();
    return;
  }
  const pane = stage.activePane("moving");
  const at = pane.pointer ?? stage.anchor(pane);
  const point = screenToWorld(pane.plane, pane.view, at, pane.depth);
  const { mark } = store.state;
  if (!mark) marks.edit(ballMark(point, marks.ringRadius(pane.view.scale), marks.alpha));
  else if (pane.pointer) marks.edit({ ...mark, point });
  if (stage.solid && (!mark || pane.pointer)) stage.setCross("moving", point, pane.axis);
}

/** Arrows move the mark, or without one the image. @param {Annotator} annotator @returns {Command[]} */
function arrows({ stage, store, marks }) {
  const signs = /** @type {const} */ ([["Left", -1, 0, "←"], ["Right", 1, 0, "→"], ["Up", 0, -1, "↑"], ["Down", 0, 1, "↓"]]);
  const move = (/** @type {number} */ dx, /** @type {number} */ dy) => {
    const pane = stage.activePane("moving");
    const origin = planeToWorld(pane.plane, [0, 0], 0);
    const shift = turnToPlane(pane.view, [dx / pane.view.scale, dy / pane.view.scale]);
    if (store.state.mark) marks.nudge(subtract(planeToWorld(pane.plane, shift, 0), origin));
    else stage.pan(stage.activePane(), [-Math.sign(dx) * PAN, -Math.sign(dy) * PAN]);
  };
  return [["", 1], ["Shift+", 10]].flatMap(([prefix, step]) =>
    signs.map(([name, x, y, sign]) => ({
      id: `${prefix}${name}`,
      label: `Move the ring by ${step} screen ${step === 1 ? "pixel" : "pixels"}; without one the image`,
      keys: [`${prefix}Arrow${name}`],
      shown: `${prefix ? "⇧" : ""}${sign}`,
      run: () => move(x * Number(step), y * Number(step)),
      repeats: true,
    })),
  );
}
