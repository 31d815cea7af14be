/**
 * What each command does, on this page.
 * @module
 */

import { askReason, showKeys } from "./dialogs.js";
import { presetEllipse } from "./ellipse.js";
import { markWithSection, scaledMark, sectionOfMark } from "./ellipsoid.js";
import { subtract } from "./linalg.js";
import { edgeDirection } from "./structure.js";
import { toggleTheme, surroundColour } from "./theme.js";
import { planeToWorld, worldToIndex } from "./plane.js";

/** @import { Annotator } from "./annotator.js" */
/** @import { Command } from "./keys.js" */
/** @import { PlaneView } from "./planeview.js" */
/** @import { Stage } from "./stage.js" */
/** @import { MapName, State, WarpMode } from "./types.js" */

export const ALPHAS = [0.01, 0.05, 0.1, 0.32, 0.5];

/**
 * The plane that keys work on: the one that the hand was on last.
 * @param {Stage} stage
 * @param {"moving"} [side]
 * @returns {PlaneView}
 */
function activePane(stage, side) {
  const shown = stage.panes.filter((pane) => pane.visible && (!side || pane.side === side));
  const axis = stage.active?.axis;
  if (stage.active && shown.includes(stage.active)) return stage.active;
  return shown.find((pane) => pane.axis === axis) ?? shown[0] ?? stage.panes[0];
}

/**
 * @param {Stage} stage
 * @param {Annotator} annotator
 * @param {"point" | "edge" | "blob"} name
 */
function preset(stage, annotator, name) {
  const { mark } = stage.store.state;
  if (!mark || !annotator.editable) return;
  const pane = activePane(stage, "moving");
  const radius = annotator.radius;
  if (name !== "edge" && mark.point.length === 3) {
    // A ball, whatever plane the hand is on.
    const shape = mark.shape.map((row, i) => row.map((_, j) => (i === j ? radius * radius : 0)));
    annotator.edit(scaledMark({ ...mark, shape, hints: {} }, name === "point" ? 0.5 : 3));
    return;
  }
  const section = sectionOfMark(pane.plane, mark, pane.depth);
  if (!section) return;
  const direction = name === "edge" ? edgeAt(stage, pane) : undefined;
  if (name === "edge" && direction === null) annotator.say("The image shows no clear edge here: the first axis keeps its direction.", "warning");
  annotator.edit(markWithSection(pane.plane, mark, pane.depth, section, presetEllipse(name, section, radius, direction ?? undefined)));
}

/**
 * Direction of the edge at the mark, from the samples of level 0 that are in memory.
 * @param {Stage} stage
 * @param {PlaneView} pane
 * @returns {number | null}
 */
function edgeAt(stage, pane) {
  const { mark } = stage.store.state;
  if (!mark) return null;
  const index = worldToIndex(pane.image, mark.point);
  const [u, v] = pane.plane.order;
  const source = stage.sources[pane.side];
  const step = /** @type {[number, number]} */ ([0, 1].map((k) => pane.plane.sign[k] * pane.image.spacing[pane.plane.order[k]]));
  return edgeDirection((x, y) => source.sample(pane.axis, pane.slice, x, y), [index[u], index[v]], 6, step);
}

/**
 * @param {Stage} stage
 * @param {Annotator} annotator
 * @param {number} dx
 * @param {number} dy
 * @param {"screen" | "ten" | "tenth"} unit
 */
function nudge(stage, annotator, dx, dy, unit) {
  const pane = activePane(stage, "moving");
  const size = unit === "tenth" ? 0.1 * Math.min(...pane.plane.order.slice(0, 2).map((a) => pane.image.spacing[a])) : (unit === "ten" ? 10 : 1) / pane.view.scale;
  const origin = planeToWorld(pane.plane, [0, 0], 0);
  annotator.nudge(subtract(planeToWorld(pane.plane, [dx * size, dy * size], 0), origin));
}

/**
 * @param {Stage} stage
 * @param {Annotator} annotator
 * @param {{toggleDrawer: () => void}} page
 * @returns {Command[]}
 */
export function makeCommands(stage, annotator, page) {
  const { store } = stage;
  const overlays = (/** @type {Partial<State["overlays"]>} */ change) => store.set({ overlays: { ...store.state.overlays, ...change } });
  const warp = (/** @type {WarpMode} */ mode) => overlays({ warp: store.state.overlays.warp === mode ? "off" : mode });
  const is3d = stage.images.fixed.size.length === 3;
  const zoom = (/** @type {number} */ factor) => {
    const pane = activePane(stage);
    pane.zoom(pane.pointer ?? [pane.size.width / 2, pane.size.height / 2], factor);
  };
  const skip = async () => {
    if (!store.state.query) return;
    const why = await askReason();
    if (why) await annotator.skip(why.reason, why.text);
  };
  const cycleMap = () => {
    /** @type {MapName[]} */
    const names = store.state.overlays.transform ? ["off", "entropy", "error", "blended"] : ["off", "entropy"];
    overlays({ map: names[(names.indexOf(store.state.overlays.map) + 1) % names.length] });
  };
  const fit = () => {
    if (store.state.maximised !== null) store.set({ maximised: null });
    else stage.panes.filter((pane) => pane.visible).forEach((pane) => pane.fit());
  };
  const [answer, shape, see, overlay, page_] = ["Answer", "Shape of your mark", "Seeing", "Overlays", "Page"];
  /** @type {Command[]} */
  const commands = [
    { id: "accept", label: "Accept", keys: ["Enter"], shown: "Enter", group: answer, run: () => void annotator.accept(), main: true },
    { id: "skip", label: "Cannot tell: skip with a reason", short: "Cannot tell…", keys: ["s"], shown: "S", group: answer, run: () => void skip(), main: true },
    { id: "another", label: "Another point", short: "Another", keys: ["n"], shown: "N", group: answer, run: () => void annotator.another(), main: true },
    { id: "previous", label: "Former query", short: "Former", keys: ["Backspace"], shown: "⌫", group: answer, run: () => void annotator.previous(), main: true },
    { id: "undo", label: "Undo", keys: ["z", "Ctrl+z"], shown: "Z", group: answer, run: () => void annotator.undo(), main: true },
    { id: "redo", label: "Redo", keys: ["Shift+z", "Ctrl+Shift+z", "Ctrl+y"], shown: "⇧Z", group: answer, run: () => void annotator.redo(), main: true },
    { id: "current", label: "Back to the open query", keys: ["q"], shown: "Q", group: answer, run: () => void annotator.current() },
    { id: "escape", label: "Clear what is not accepted", keys: ["Escape"], shown: "Esc", group: answer, run: () => {
      for (const pane of stage.panes) pane.machine.abandon();
      annotator.escape();
    } },
    { id: "point", label: "Point: a tiny disc", keys: ["p"], shown: "P", group: shape, run: () => preset(stage, annotator, "point") },
    { id: "edge", label: "Edge: long along the edge", keys: ["e"], shown: "E", group: shape, run: () => preset(stage, annotator, "edge") },
    { id: "blob", label: "Blob: a medium disc", keys: ["b"], shown: "B", group: shape, run: () => preset(stage, annotator, "blob") },
    { id: "smaller", label: "Smaller", keys: ["["], shown: "[", group: shape, run: () => annotator.resize(1 / 1.15) },
    { id: "larger", label: "Larger", keys: ["]"], shown: "]", group: shape, run: () => annotator.resize(1.15) },
    { id: "alpha", label: "Another confidence level", keys: ["a"], shown: "A", group: shape, run: () => annotator.setAlpha(ALPHAS[(ALPHAS.indexOf(annotator.alpha) + 1) % ALPHAS.length]) },
    ...nudges(stage, annotator, shape),
    { id: "zoom-in", label: "Zoom in", keys: ["+", "="], shown: "+", group: see, run: () => zoom(1.25) },
    { id: "zoom-out", label: "Zoom out", keys: ["-"], shown: "-", group: see, run: () => zoom(1 / 1.25) },
    { id: "fit", label: is3d ? "All planes; whole image" : "Whole image", keys: ["0"], shown: "0", group: see, run: fit },
    { id: "magnifier", label: "Magnifier", keys: ["v"], shown: "V", group: see, run: () => store.set({ magnifier: !store.state.magnifier }), pressed: () => store.state.magnifier },
    { id: "hide", label: "Hide the prediction", short: "Hide prediction", keys: ["h"], shown: "H", group: see, run: () => store.set({ predictionHidden: annotator.project.settings.hide_prediction || !store.state.predictionHidden }), pressed: () => store.state.predictionHidden, main: true },
    { id: "link", label: "Link views", short: "Link", keys: ["l"], shown: "L", group: see, run: () => {
      store.set({ linked: !store.state.linked });
      stage.link.follow("fixed");
    }, pressed: () => store.state.linked, main: true },
    { id: "candidates", label: "Candidates", keys: ["k"], shown: "K", group: overlay, run: () => overlays({ candidates: !store.state.overlays.candidates }), pressed: () => store.state.overlays.candidates },
    { id: "former", label: "Former annotations", keys: ["j"], shown: "J", group: overlay, run: () => overlays({ former: !store.state.overlays.former }), pressed: () => store.state.overlays.former },
    { id: "map", label: "Map: entropy, error, blended", keys: ["m"], shown: "M", group: overlay, run: cycleMap, pressed: () => store.state.overlays.map !== "off" },
    { id: "warp", label: "Warped moving image, see-through", keys: ["o"], shown: "O", group: overlay, run: () => warp("opacity"), pressed: () => store.state.overlays.warp === "opacity" },
    { id: "flicker", label: "Flicker fixed and warped moving", keys: ["f"], shown: "F", group: overlay, run: () => warp("flicker"), pressed: () => store.state.overlays.warp === "flicker" },
    { id: "checkerboard", label: "Checkerboard of both", keys: ["c"], shown: "C", group: overlay, run: () => warp("checkerboard"), pressed: () => store.state.overlays.warp === "checkerboard" },
    { id: "lens", label: "Hold: warped moving under a lens", keys: ["w"], shown: "W", group: overlay, run: () => overlays({ lensHeld: true }), release: () => overlays({ lensHeld: false }) },
    { id: "grid", label: "Deformation grid", keys: ["g"], shown: "G", group: overlay, run: () => overlays({ grid: !store.state.overlays.grid }), pressed: () => store.state.overlays.grid },
    { id: "drawer", label: "Drawer: list, progress, compare", keys: ["Tab"], shown: "Tab", group: page_, run: page.toggleDrawer },
    { id: "theme", label: "Dark or light", keys: ["t"], shown: "T", group: page_, run: () => {
      toggleTheme();
      stage.surround = surroundColour();
      stage.drawSoon();
    } },
    { id: "keys", label: "This list", keys: ["?"], shown: "?", group: page_, run: () => void showKeys(commands) },
  ];
  if (is3d) commands.push(...volumeCommands(stage, see));
  return commands;
}

/**
 * @param {Stage} stage
 * @param {Annotator} annotator
 * @param {string} group
 * @returns {Command[]}
 */
function nudges(stage, annotator, group) {
  const arrows = /** @type {const} */ ([["Left", -1, 0, "←"], ["Right", 1, 0, "→"], ["Up", 0, -1, "↑"], ["Down", 0, 1, "↓"]]);
  const units = /** @type {const} */ ([["", "screen", ""], ["Shift+", "ten", "⇧"], ["Alt+", "tenth", "Alt "]]);
  const told = { screen: "1 screen pixel", ten: "10 screen pixels", tenth: "0.1 image pixel" };
  return units.flatMap(([prefix, unit, before]) =>
    arrows.map(([name, dx, dy, sign]) => ({
      id: `nudge-${unit}-${name.toLowerCase()}`,
      label: `Nudge ${name.toLowerCase()} by ${told[unit]}`,
      keys: [`${prefix}Arrow${name}`],
      shown: `${before}${sign}`,
      group,
      run: () => nudge(stage, annotator, dx, dy, unit),
    })),
  );
}

/**
 * @param {Stage} stage
 * @param {string} group
 * @returns {Command[]}
 */
function volumeCommands(stage, group) {
  const names = ["axial", "coronal", "sagittal"];
  return [
    { id: "back", label: "Slice back", keys: [","], shown: ",", group, run: () => activePane(stage).turnSlices(-1) },
    { id: "forth", label: "Slice forth", keys: ["."], shown: ".", group, run: () => activePane(stage).turnSlices(1) },
    ...[2, 1, 0].map((axis, i) => ({
      id: `plane-${names[i]}`,
      label: `Only the ${names[i]} plane`,
      keys: [String(i + 1)],
      shown: String(i + 1),
      group,
      run: () => stage.store.set({ maximised: stage.store.state.maximised === axis ? null : axis }),
      pressed: () => stage.store.state.maximised === axis,
    })),
  ];
}
