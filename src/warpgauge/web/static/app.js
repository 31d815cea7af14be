/** The page: puts the parts together. @module */

import { Annotator } from "./annotator.js";
import { Api, RefusedError } from "./api.js";
import { Bottom, Top } from "./bar.js";
import { initialColours } from "./colour.js";
import { makeCommands } from "./commands.js";
import { Finish } from "./finish.js";
import { keyFor } from "./kept.js";
import { giveFocusBack, listenToKeys, showFocusToKeys } from "./keys.js";
import { lookAtWhole } from "./looking.js";
import { Legend } from "./maps.js";
import { Keys, Menu } from "./menu.js";
import { buildPane } from "./panes.js";
import { poseByRows } from "./pose.js";
import { Drawer } from "./review.js";
import { SIDES, Stage } from "./stage.js";
import { Store } from "./store.js";
import { restoreTheme, surroundColour } from "./theme.js";
import { html, render } from "./vendor/preact-htm.js";
import { byId } from "./words.js";

/** @import { Leaf, Project, State } from "./types.js" */

/** @param {Project} project @returns {State} */
function initialState(project) {
  const colours = { fixed: initialColours(project.images.fixed), moving: initialColours(project.images.moving) };
  return {
    project, colours, query: null, done: null, start: null, own: null, expected: null, doubt: null, conflict: null, mark: null, dirty: false, past: [], future: [], ring: 1,
    saved: null, writing: "idle", connection: "ok", trouble: "", message: "Opening the project…", tone: "note", hidden: project.settings.hide_prediction, warped: false,
    scale: 1, centres: { fixed: {}, moving: {} }, cross: { fixed: null, moving: null }, maximised: null, drawer: null, menu: false, asking: false, overview: true, bar: true,
    map: null, judged: null, choosing: null, pose: null, rows: [], detectable: null, progress: null, picked: null,
  };
}

async function open() {
  restoreTheme();
  /** @type {Store<State> | null} */
  let told = null;
  const api = new Api({ onConnection: (connected, trouble = "") => {
    if (told && told.state.connection !== "refused") told.set({ connection: connected ? "ok" : "lost", trouble });
    else if (!told && !connected) byId("bottom").textContent = trouble || "Not connected. It is tried again.";
  } });
  /** @type {Project} */
  const project = await api.get("/api/project");
  document.title = `${project.name} · warpgauge`;
  restoreTheme(project.d === 3 && project.images.fixed.channels === 1);
  api.key = keyFor(project, "pending");
  api.visitor = { "X-Warpgauge-Visitor": encodeURIComponent(project.rater) };
  const store = new Store(initialState(project));
  told = store;
  const stage = new Stage(store, api, project);
  for (const side of SIDES) store.set({ colours: { ...store.state.colours, [side]: stage.rememberedColours(side, store.state.colours[side]) } });
  stage.surround = surroundColour();
  const annotator = new Annotator(stage, () => {
    stage.forgetModel();
    void refresh();
  });
  for (const side of SIDES) buildPane(annotator, side);

  /** Panels never lie over each other. @param {Leaf | null} leaf */
  const openDrawer = (leaf) => store.set({ drawer: leaf, menu: false });
  store.watch(["drawer"], ({ drawer, done }, before) => {
    byId("stage").classList.toggle("with-drawer", drawer !== null);
    byId("drawer").hidden = drawer === null;
    if (before.drawer === "organiser" && !done) void annotator.go("/api/query");
    else annotator.sayTask();
    if (drawer === null) stage.focus();
  });
  const commands = makeCommands(annotator, openDrawer);
  listenToKeys(commands);
  showFocusToKeys();
  giveFocusBack(() => stage.focus());
  render(html`<${Top} annotator=${annotator} openDrawer=${openDrawer} />`, byId("top"));
  render(html`<${Bottom} annotator=${annotator} />`, byId("bottom"));
  render(html`<${Menu} stage=${stage} />`, byId("menu"));
  render(html`<${Drawer} annotator=${annotator} openDrawer=${openDrawer} />`, byId("drawer"));
  render(html`<${Finish} annotator=${annotator} openDrawer=${openDrawer} />`, byId("finish"));
  render(html`<${Keys} commands=${commands} solid=${stage.solid} />`, byId("keys"));
  stage.overlays.onMap = (map) => {
    const { transform = null } = store.state.map ?? {};
    const region = store.state.progress?.region ?? 1;
    render(map && html`<${Legend} map=${map} transform=${transform} d=${project.d} units=${project.units} region=${region} />`, byId("legend"));
  };

  let asking = 0;
  const refresh = async () => {
    const mine = ++asking;
    try {
      const [list, progress] = await Promise.all([api.get("/api/list"), api.get("/api/progress")]);
      if (mine !== asking) return; // what is asked later is newer, in whatever order the answers come
      store.set({ rows: list.rows, detectable: list.detectable, progress });
      poseByRows(stage, list.rows);
    } catch (error) {
      if (!(error instanceof RefusedError)) throw error;
    }
  };
  // For tests and for the browser's console: to read, not to change. Opened: all that comes by itself is there.
  const opened = { store, stage, opened: false };
  Object.assign(globalThis, { warpgauge: opened });
  // The picture goes before everything else: first both images whole, then the question.
  lookAtWhole(stage);
  await stage.glimpsed;
  // Who organises and does not mark begins with the people, and is asked nothing: a question would be one for all.
  const organises = project.role === "organiser" && (await raters(api));
  if (organises) openDrawer("organiser");
  else {
    await annotator.start();
    await stage.pictured;
    stage.focus();
  }
  await refresh();
  opened.opened = true;
}

/** Whether others answer here and the visitor has not. @param {Api} api */
async function raters(api) {
  const { raters: people } = await api.get("/api/raters");
  return people.some((/** @type {{role: string}} */ { role }) => role === "rater") && people.every((/** @type {{role: string, placed: number}} */ { role, placed }) => role === "rater" || placed === 0);
}

open().catch((error) => {
  byId("bottom").innerHTML = '<p id="message" class="error" role="status"></p>';
  byId("message").textContent = error.message;
});
