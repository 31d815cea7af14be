/**
 * The page: puts the parts together.
 * @module
 */

import { Annotator } from "./annotator.js";
import { Api, RefusedError, root } from "./api.js";
import { buildBar, buildButtons, showUncertainty } from "./bar.js";
import { buildChoice } from "./choice.js";
import { rememberedChannels } from "./channels.js";
import { initialColours } from "./colour.js";
import { makeCommands } from "./commands.js";
import { askConflict } from "./dialogs.js";
import { byId } from "./dom.js";
import { Drawer } from "./drawer.js";
import { extentOf } from "./figures.js";
import { buildFinish } from "./finish.js";
import { draggedWithSpace, holdSpace } from "./gestures.js";
import { giveFocusBack, listenToKeys, listenToSpace, showFocusToKeys } from "./keys.js";
import { buildOverlayPanel } from "./overlaypanel.js";
import { buildPane } from "./panes.js";
import { buildWarpedPane } from "./layout.js";
import { lookAtWhole } from "./looking.js";
import { watchOverviews } from "./readout.js";
import { SIDES, Stage } from "./stage.js";
import { Store } from "./store.js";
import { restoreTheme, surroundColour } from "./theme.js";
import { drawPlace, spanOf } from "./thumbs.js";
import { poseByRows } from "./turning.js";
import { welcome, welcomed } from "./welcome.js";

/** @import { Project, State } from "./types.js" */

const PENDING = "warpgauge:pending:";

/** @type {import("./types.js").Colours} */
const UNCOLOURED = { windows: [], invert: false, gamma: 1, channel: "colour", stains: null, shown: [] };

/** @returns {State} */
function initialState() {
  return {
    project: null,
    query: null,
    done: null,
    task: "answer",
    start: null,
    own: null,
    offered: [],
    doubt: null,
    mark: null,
    proposal: null,
    dirty: false,
    past: [],
    future: [],
    saved: null,
    writing: "idle",
    connection: "ok",
    trouble: "",
    message: "Opening the project…",
    tone: "note",
    predictionHidden: false,
    linked: false,
    views: { fixed: {}, moving: {} },
    cross: { fixed: null, moving: null },
    colours: { fixed: { ...UNCOLOURED }, moving: { ...UNCOLOURED } },
    maximised: null,
    drawer: null,
    overlays: { candidates: false, foreground: false, former: true, grid: false, map: "off", transform: null, warp: "off", opacity: 0.5, lensHeld: false },
    magnifier: false,
    minimap: true,
    context: { fixed: null, moving: null },
    pose: null,
    turned: true,
    layout: "two",
    compare: "off",
    ghost: false,
    rows: [],
    detectable: null,
    progress: null,
    picked: null,
  };
}

async function open() {
  restoreTheme();
  /** @type {Store<State>} */
  const store = new Store(initialState());
  const api = new Api({ onConnection: (connected, trouble = "") => {
    if (store.state.connection !== "refused") store.set({ connection: connected ? "ok" : "lost", trouble });
  } });
  /** @type {Project} */
  const project = await api.get("/api/project");
  document.title = `${project.name} · warpgauge`;
  api.key = `${PENDING}${project.name}:${project.rater}${root()}`; // pairs of one server may have the same name
  api.visitor = { "X-Warpgauge-Visitor": encodeURIComponent(project.rater) };
  const colours = (/** @type {import("./types.js").Side} */ side) => rememberedChannels(project, side, initialColours(project.images[side]));
  store.set({
    project,
    predictionHidden: project.settings.hide_prediction,
    colours: { fixed: colours("fixed"), moving: colours("moving") },
    overlays: { ...store.state.overlays, transform: project.transforms?.[0] ?? null },
  });

  const stage = new Stage(store, api, project);
  const annotator = new Annotator(stage, {
    settle: (conflict, { number }) =>
      askConflict(conflict, number, project.units, (canvas, answer) => {
        if (!answer?.point) return;
        const shown = { point: answer.point, span: spanOf(stage, "moving", answer.covariance), marks: [{ point: answer.point, covariance: answer.covariance, alpha: answer.alpha ?? 0.01 }] };
        stage.extras.add({ draw: () => canvas.isConnected && drawPlace(stage, "moving", canvas, shown) });
        stage.drawSoon();
      }),
    written: () => {
      stage.forgetModel();
      void refresh();
    },
  });
  stage.surround = surroundColour();
  for (const side of SIDES) buildPane(annotator, side, byId(side));
  buildWarpedPane(annotator);
  void watchOverviews(stage);

  const drawer = new Drawer(annotator);
  buildFinish(annotator, drawer);
  const commands = makeCommands(annotator, { toggleDrawer: () => drawer.toggle() });
  listenToKeys(commands);
  listenToSpace(holdSpace, draggedWithSpace, () => commands.find(({ id }) => id === "put")?.run());
  showFocusToKeys();
  giveFocusBack(() => stage.focus());
  buildBar(annotator);
  buildChoice(annotator);
  buildButtons(store, commands);
  buildOverlayPanel(stage, commands);

  let asking = 0;
  const refresh = async () => {
    const mine = ++asking;
    try {
      const [rows, progress] = await Promise.all([api.get("/api/list"), api.get("/api/progress")]);
      if (mine !== asking) return; // what is asked later is newer, in whatever order the answers come
      store.set({ rows: rows.rows, detectable: rows.detectable, progress });
      showUncertainty(progress, project.units, extentOf(project.images.fixed));
      poseByRows(stage);
      stage.ghostWhenKnown(progress);
    } catch (error) {
      if (!(error instanceof RefusedError)) throw error;
    }
    drawer.refresh();
  };
  // For tests and for the browser's console: to read, not to change. Opened: all that comes by itself is there.
  const opened = { store, stage, opened: false };
  Object.assign(globalThis, { warpgauge: opened });
  // The picture goes before everything else: first both images whole, then the question.
  lookAtWhole(stage);
  await stage.glimpsed;
  await annotator.start();
  // With the first question, not after it: nothing covers what somebody has begun to look at.
  const greeted = welcomed() || store.state.done ? null : welcome(store.state.task === "start").then(() => stage.focus());
  await stage.pictured;
  if (!greeted) stage.focus();
  await Promise.all([refresh(), project.role === "organiser" && offerOrganiser(annotator)]);
  opened.opened = true;
}

/** @param {Annotator} annotator */
async function offerOrganiser(annotator) {
  const { Organiser } = await import("./organiser.js");
  new Organiser(annotator).offer();
}

open().catch((error) => {
  const message = byId("message");
  message.className = "error";
  message.textContent = error.message;
});
