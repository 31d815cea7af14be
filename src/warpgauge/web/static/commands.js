/**
 * The table of commands: what each is called, its keys, and what it does on this page.
 * @module
 */

import { askReason, showKeys } from "./dialogs.js";
import { unitName } from "./dom.js";
import { nothingFound } from "./finish.js";
import { nextFlagged } from "./list.js";
import { lookAtMark } from "./looking.js";
import { magnifyBoth, presetsOf } from "./magnification.js";
import { say } from "./message.js";
import { activePane, arrow, preset, putMark, stretchSecond, turnMark } from "./shaping.js";
import { snap } from "./snap.js";
import { surroundColour, toggleTheme } from "./theme.js";
import { toggleTurned } from "./turning.js";

/** @import { Annotator } from "./annotator.js" */
/** @import { Command } from "./keys.js" */
/** @import { Stage } from "./stage.js" */
/** @import { Layout, MapName, State, WarpMode } from "./types.js" */

export const ALPHAS = [0.01, 0.05, 0.1, 0.32, 0.5];
const [ANSWER, SHAPE, SEE, OVERLAY, PAGE] = ["Answer", "Shape of your mark", "Seeing", "Overlays", "Page"];
/** Commands that show what the model expects: not offered where raters must not see that. */
const FROM_MODEL = ["hide", "ghost", "layout", "link", "map", "warp", "compare", "lens", "grid"];
/** @type {WarpMode[]} */
export const WARPS = ["off", "opacity", "checkerboard", "flicker", "difference", "lens"];

/**
 * @param {Annotator} annotator
 * @param {{toggleDrawer: () => void}} page
 * @returns {Command[]}
 */
export function makeCommands(annotator, page) {
  const { stage } = annotator;
  const offered = (/** @type {Command} */ { id }) => !(stage.withheld ? FROM_MODEL : stage.project.settings.hide_prediction ? ["hide"] : []).includes(id);
  /** @type {Command[]} */
  const commands = [
    ...answerCommands(annotator),
    ...shapeCommands(annotator),
    ...seeCommands(annotator),
    ...(stage.images.fixed.size.length === 3 ? volumeCommands(stage) : []),
    ...overlayCommands(stage),
    { id: "drawer", label: "Review: list, progress, compare", short: "Review", keys: ["d"], shown: "D", group: PAGE, run: page.toggleDrawer, pressed: () => stage.store.state.drawer !== null },
    { id: "theme", label: "Dark or light", short: "Theme", keys: ["t"], shown: "T", group: PAGE, run: () => {
      toggleTheme();
      stage.surround = surroundColour();
      stage.drawSoon();
    } },
    { id: "keys", label: "All keys", short: "Keys", keys: ["?"], shown: "?", group: PAGE, run: () => void showKeys(commands) },
  ].filter(offered);
  return commands;
}

/**
 * @param {Annotator} annotator
 * @returns {Command[]}
 */
function answerCommands(annotator) {
  const { stage, store, marks, ownPoints } = annotator;
  const skip = async () => {
    if (store.state.task === "start") {
      await ownPoints.skipStart();
      return;
    }
    if (!store.state.query || store.state.task !== "answer") return;
    if (!marks.editable) {
      marks.explainLock();
      return;
    }
    const why = await askReason();
    if (why) await annotator.skip(why.reason, why.text);
  };
  return [
    { id: "accept", label: "Accept", keys: ["Enter"], shown: "Enter", group: ANSWER, run: () => void annotator.accept(), main: true },
    { id: "skip", label: "Cannot tell: skip with a reason", short: "Cannot tell", keys: ["s"], shown: "S", group: ANSWER, run: () => void skip(), main: true },
    { id: "nearby", label: "Something that you recognise near here", short: "Nearby", keys: ["f"], shown: "F", group: ANSWER, run: () => ownPoints.beginNearby(), pressed: () => store.state.task === "nearby", main: true },
    { id: "own", label: "A point of your own", short: "Own point", keys: ["p"], shown: "P", group: ANSWER, run: () => ownPoints.beginOwn(), pressed: () => store.state.task === "own", main: true },
    ...(stage.project.settings.snap ? [snapCommand(annotator)] : []),
    { id: "another", label: "Another point (with Nearby: the next dot)", short: "Another", keys: ["n"], shown: "N", group: ANSWER, run: () => (store.state.task === "nearby" ? ownPoints.chooseOffered() : void annotator.another()), main: true },
    { id: "undo", label: "Undo", keys: ["z", "Ctrl+z"], shown: "Z", group: ANSWER, run: () => void annotator.undo(), main: true },
    { id: "redo", label: "Redo", keys: ["Shift+z", "Ctrl+Shift+z", "Ctrl+y"], shown: "⇧Z", group: ANSWER, run: () => void annotator.redo(), main: true },
    { id: "previous", label: "Your earlier answer", short: "Earlier", keys: ["Backspace"], shown: "⌫", group: ANSWER, run: () => void annotator.previous(), main: true },
    { id: "flagged", label: "Next mark worth a second look", keys: ["Shift+n"], shown: "⇧N", group: ANSWER, run: () => {
      const row = nextFlagged(store.state.rows, store.state.query?.query ?? null);
      if (row) void annotator.goTo(row.query);
      else say(store, nothingFound(store.state.detectable, unitName(stage.project.units)));
    } },
    { id: "current", label: "Back to the open question", keys: ["q"], shown: "Q", group: ANSWER, run: () => void annotator.current() },
    { id: "escape", label: "Clear what is not accepted", keys: ["Escape"], shown: "Esc", group: ANSWER, run: () => {
      for (const pane of stage.panes) pane.machine.abandon();
      annotator.escape();
    } },
  ];
}

/**
 * @param {Annotator} annotator
 * @returns {Command}
 */
function snapCommand(annotator) {
  return { id: "snap", label: "Snap: propose a better place for your mark", short: "Snap", keys: ["r"], shown: "R", group: ANSWER, run: () => void snap(annotator), main: true };
}

/**
 * @param {Annotator} annotator
 * @returns {Command[]}
 */
function shapeCommands(annotator) {
  const { marks } = annotator;
  return [
    { id: "put", label: "Put a mark at the pointer or middle", keys: [], shown: "Space", group: SHAPE, run: () => putMark(annotator) },
    { id: "point", label: "Point: a tiny disc", keys: ["i"], shown: "I", group: SHAPE, run: () => preset(annotator, "point") },
    { id: "edge", label: "Edge: long along the edge", keys: ["e"], shown: "E", group: SHAPE, run: () => preset(annotator, "edge") },
    { id: "blob", label: "Blob: a medium disc", keys: ["b"], shown: "B", group: SHAPE, run: () => preset(annotator, "blob") },
    { id: "smaller", label: "Smaller", keys: ["["], shown: "[", group: SHAPE, run: () => marks.resize(1 / 1.15) },
    { id: "larger", label: "Larger", keys: ["]"], shown: "]", group: SHAPE, run: () => marks.resize(1.15) },
    { id: "narrower", label: "Narrower (second axis)", keys: ["{", "Shift+["], shown: "⇧[", group: SHAPE, run: () => stretchSecond(annotator, 1 / 1.15) },
    { id: "wider", label: "Wider (second axis)", keys: ["}", "Shift+]"], shown: "⇧]", group: SHAPE, run: () => stretchSecond(annotator, 1.15) },
    { id: "turn-back", label: "Turn left by 5°", keys: ["("], shown: "(", group: SHAPE, run: () => turnMark(annotator, -5) },
    { id: "turn-forth", label: "Turn right by 5°", keys: [")"], shown: ")", group: SHAPE, run: () => turnMark(annotator, 5) },
    { id: "alpha", label: "Another confidence level", keys: ["a"], shown: "A", group: SHAPE, run: () => marks.setAlpha(ALPHAS[(ALPHAS.indexOf(marks.alpha) + 1) % ALPHAS.length]) },
    ...arrows(annotator),
  ];
}

/**
 * @param {Annotator} annotator
 * @returns {Command[]}
 */
function arrows(annotator) {
  const signs = /** @type {const} */ ([["Left", -1, 0, "←"], ["Right", 1, 0, "→"], ["Up", 0, -1, "↑"], ["Down", 0, 1, "↓"]]);
  const units = /** @type {const} */ ([["", "screen", ""], ["Shift+", "ten", "⇧"], ["Alt+", "tenth", "Alt "], ["Ctrl+", "view", "Ctrl "]]);
  const told = { screen: "Nudge %s by 1 screen pixel", ten: "Nudge %s by 10 screen pixels", tenth: "Nudge %s by 0.1 image pixel", view: "Move the view %s" };
  return units.flatMap(([prefix, unit, before]) =>
    signs.map(([name, dx, dy, sign]) => ({
      id: `arrow-${unit}-${name.toLowerCase()}`,
      label: told[unit].replace("%s", name.toLowerCase()),
      keys: [`${prefix}Arrow${name}`],
      shown: `${before}${sign}`,
      group: SHAPE,
      run: () => arrow(annotator, dx, dy, unit),
    })),
  );
}

/**
 * @param {Annotator} annotator
 * @returns {Command[]}
 */
function seeCommands({ stage, store }) {
  const zoom = (/** @type {number} */ factor) => {
    const pane = activePane(stage);
    pane.zoom(pane.pointer ?? [pane.size.width / 2, pane.size.height / 2], factor);
  };
  const fit = () => {
    if (store.state.maximised !== null) store.set({ maximised: null });
    else stage.panes.filter((pane) => pane.visible).forEach((pane) => pane.fit());
  };
  const is3d = stage.images.fixed.size.length === 3;
  return [
    { id: "zoom-in", label: "Zoom in", keys: ["+", "="], shown: "+", group: SEE, run: () => zoom(1.25), repeats: true },
    { id: "zoom-out", label: "Zoom out", keys: ["-"], shown: "-", group: SEE, run: () => zoom(1 / 1.25), repeats: true },
    { id: "fit", label: is3d ? "All planes; whole image" : "Whole image", keys: ["0"], shown: "0", group: SEE, run: fit },
    ...(is3d ? [] : flatCommands(stage)),
    { id: "mark-back", label: "Look at the mark before", keys: ["<"], shown: "<", group: SEE, run: () => jump(stage, -1) },
    { id: "mark-forth", label: "Look at the next mark", keys: [">"], shown: ">", group: SEE, run: () => jump(stage, 1) },
    { id: "magnifier", label: "Magnifier", keys: ["u"], shown: "U", group: SEE, run: () => store.set({ magnifier: !store.state.magnifier }), pressed: () => store.state.magnifier },
    { id: "hide", label: "Hide the prediction", short: "Hide", keys: ["h"], shown: "H", group: SEE, run: () => store.set({ predictionHidden: stage.project.settings.hide_prediction || !store.state.predictionHidden }), pressed: () => store.state.predictionHidden, main: true },
    { id: "turn", label: "Moving image turned to match, or upright", keys: ["y"], shown: "Y", group: SEE, run: () => toggleTurned(stage), pressed: () => store.state.turned && store.state.pose !== null },
    { id: "ghost", label: "Show the pointer in the other image", keys: ["Shift+g"], shown: "⇧G", group: SEE, run: () => {
      stage.ghostOffered = true;
      store.set({ ghost: !store.state.ghost && !stage.project.settings.hide_prediction });
    }, pressed: () => store.state.ghost },
    { id: "layout", label: "Layout: two, three, or one over the other", short: "Layout", keys: ["v"], shown: "V", group: SEE, run: () => nextLayout(stage) },
    ...(stage.project.contexts.length ? [{ id: "context", label: "Next image of the same frame", keys: ["Shift+v"], shown: "⇧V", group: SEE, run: () => stage.contexts.next(activePane(stage).side) }] : []),
    { id: "link", label: "Link views", short: "Link", keys: ["l"], shown: "L", group: SEE, run: () => {
      store.set({ linked: !store.state.linked });
      stage.link.follow("fixed");
    }, pressed: () => store.state.linked, main: true },
  ];
}

/**
 * Magnifications, and the overview in the corner.
 * @param {Stage} stage
 * @returns {Command[]}
 */
function flatCommands(stage) {
  const { store } = stage;
  return [
    ...presetsOf(stage.images.fixed).map(({ words }, k) => ({ id: `magnify-${k}`, label: `Both images at ${words}`, keys: [String(k + 1)], shown: String(k + 1), group: SEE, run: () => magnifyBoth(stage, k) })),
    { id: "minimap", label: "Overview in the corner", keys: ["x"], shown: "X", group: SEE, run: () => store.set({ minimap: !store.state.minimap }), pressed: () => store.state.minimap },
  ];
}

/**
 * Look at one's marks one after the other; the question stays.
 * @param {Stage} stage
 * @param {number} step
 */
function jump(stage, step) {
  const { store } = stage;
  const placed = store.state.rows.filter((row) => row.point !== null);
  if (placed.length === 0) {
    say(store, "There is no mark to look at yet.");
    return;
  }
  const now = placed.findIndex((row) => row.query === store.state.picked);
  const row = placed[now < 0 ? (step > 0 ? 0 : placed.length - 1) : (now + step + placed.length) % placed.length];
  lookAtMark(stage, row);
  say(store, `Mark ${row.number}. < and > go to the others, Q back to the question.`);
}

/** @param {Stage} stage */
function nextLayout(stage) {
  const { store } = stage;
  /** @type {Layout[]} */
  const layouts = ["two", "three", "overlay"];
  const layout = layouts[(layouts.indexOf(store.state.layout) + 1) % layouts.length];
  const compare = layout === "overlay" && store.state.compare === "off" ? "checkerboard" : store.state.compare;
  store.set({ layout, compare });
}

/**
 * @param {Stage} stage
 * @returns {Command[]}
 */
function overlayCommands(stage) {
  const { store } = stage;
  const overlays = (/** @type {Partial<State["overlays"]>} */ change) => store.set({ overlays: { ...store.state.overlays, ...change } });
  const is = (/** @type {WarpMode} */ mode) => store.state.overlays.warp === mode;
  const cycleMap = () => {
    /** @type {MapName[]} */
    const names = store.state.overlays.transform ? ["off", "entropy", "error", "blended"] : ["off", "entropy"];
    overlays({ map: names[(names.indexOf(store.state.overlays.map) + 1) % names.length] });
  };
  return [
    { id: "former", label: "Your earlier answers", keys: ["j"], shown: "J", group: OVERLAY, run: () => overlays({ former: !store.state.overlays.former }), pressed: () => store.state.overlays.former },
    { id: "candidates", label: "Points that may be asked", keys: ["k"], shown: "K", group: OVERLAY, run: () => overlays({ candidates: !store.state.overlays.candidates }), pressed: () => store.state.overlays.candidates },
    { id: "foreground", label: "Where there is something to see", keys: ["Shift+k"], shown: "⇧K", group: OVERLAY, run: () => overlays({ foreground: !store.state.overlays.foreground }), pressed: () => store.state.overlays.foreground },
    { id: "map", label: "Map: uncertainty, error, both", keys: ["m"], shown: "M", group: OVERLAY, run: cycleMap, pressed: () => store.state.overlays.map !== "off" },
    { id: "warp", label: "Warped image, see-through", keys: ["o"], shown: "O", group: OVERLAY, run: () => overlays({ warp: is("opacity") ? "off" : "opacity" }), pressed: () => is("opacity") },
    { id: "compare", label: "Next way to compare", keys: ["c"], shown: "C", group: OVERLAY, run: () => {
      const { layout, compare, overlays: { warp } } = store.state;
      const next = (/** @type {WarpMode} */ mode) => WARPS[(WARPS.indexOf(mode) + 1) % WARPS.length];
      if (layout === "two") overlays({ warp: next(warp) });
      else store.set({ compare: next(compare) });
    }, pressed: () => !is("off") && !is("opacity") },
    { id: "lens", label: "Hold: warped image under a lens", keys: ["w"], shown: "W", group: OVERLAY, run: () => overlays({ lensHeld: true }), release: () => overlays({ lensHeld: false }) },
    { id: "grid", label: "Deformation grid", keys: ["g"], shown: "G", group: OVERLAY, run: () => overlays({ grid: !store.state.overlays.grid }), pressed: () => store.state.overlays.grid },
  ];
}

/**
 * @param {Stage} stage
 * @returns {Command[]}
 */
function volumeCommands(stage) {
  const names = ["axial", "coronal", "sagittal"];
  return [
    { id: "back", label: "Slice back", keys: [","], shown: ",", group: SEE, run: () => activePane(stage).turnSlices(-1), repeats: true },
    { id: "forth", label: "Slice forth", keys: ["."], shown: ".", group: SEE, run: () => activePane(stage).turnSlices(1), repeats: true },
    ...[2, 1, 0].map((axis, i) => ({
      id: `plane-${names[i]}`,
      label: `Only the ${names[i]} plane`,
      keys: [String(i + 1)],
      shown: String(i + 1),
      group: SEE,
      run: () => stage.store.set({ maximised: stage.store.state.maximised === axis ? null : axis }),
      pressed: () => stage.store.state.maximised === axis,
    })),
  ];
}
