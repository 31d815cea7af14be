/**
 * The drawer on the right: the list, the progress, the comparison of added transforms.
 * @module
 */

import { buildCompare } from "./compare.js";
import { byId, make, whenReleased } from "./dom.js";
import { icon } from "./icons.js";
import { buildList } from "./list.js";
import { buildProgress } from "./progress.js";

/** @import { Annotator } from "./annotator.js" */
/** @typedef {"list" | "progress" | "compare"} LeafName */

export class Drawer {
  /** @param {Annotator} annotator */
  constructor(annotator) {
    const { stage } = annotator;
    this.stage = stage;
    this.annotator = annotator;
    this.element = byId("drawer");
    /** @type {LeafName} */
    this.last = "list";
    this.leaf = make("div", { class: "leaf", tabIndex: 0 });
    /** @type {LeafName[]} */
    const names = ["list", "progress", ...(stage.project.compare ? [/** @type {LeafName} */ ("compare")] : [])];
    this.tabs = names.map((name) =>
      make("button", { type: "button", role: "tab", "data-leaf": name, "aria-selected": "false", onclick: () => this.open(name) }, name[0].toUpperCase() + name.slice(1)));
    const close = make("button", { type: "button", class: "icon-only bare", "aria-label": "Close", onclick: () => this.toggle() }, icon("close"));
    this.element.replaceChildren(make("div", { class: "tabs" }, make("div", { class: "tabs", role: "tablist", "aria-label": "Review" }, ...this.tabs), make("span", { class: "spring" }), close), this.leaf);
    this.element.querySelector("[role=tablist]")?.addEventListener("keydown", (event) => this.stepTab(/** @type {KeyboardEvent} */ (event)));
    stage.store.watch(["drawer"], () => this.arrange());
    stage.store.watch(["rows", "query"], () => stage.store.state.drawer === "list" && this.refresh());
  }

  toggle() {
    const { store } = this.stage;
    if (store.state.drawer) store.set({ drawer: null });
    else this.open(this.last);
  }

  /** @param {LeafName} name */
  open(name) {
    this.last = name;
    this.stage.store.set({ drawer: name });
  }

  /**
   * Arrows go from leaf to leaf.
   * @param {KeyboardEvent} event
   */
  stepTab(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const at = this.tabs.findIndex((tab) => tab === document.activeElement);
    const tab = this.tabs[(at + step + this.tabs.length) % this.tabs.length];
    this.open(/** @type {LeafName} */ (tab.dataset.leaf));
    tab.focus();
  }

  arrange() {
    const { drawer } = this.stage.store.state;
    this.element.hidden = drawer === null;
    byId("stage").classList.toggle("with-drawer", drawer !== null);
    for (const tab of this.tabs) {
      tab.setAttribute("aria-selected", String(tab.dataset.leaf === drawer));
      tab.tabIndex = tab.dataset.leaf === drawer ? 0 : -1;
    }
    this.stage.extras.clear();
    if (drawer) this.fill();
    else this.stage.focus();
  }

  /** What was written changes what the drawer shows. */
  refresh() {
    whenReleased(this.leaf, () => this.stage.store.state.drawer && this.fill());
  }

  fill() {
    const { drawer } = this.stage.store.state;
    if (drawer === "list") buildList(this.annotator, this.leaf);
    if (drawer === "progress") void buildProgress(this.annotator, this.leaf);
    if (drawer === "compare") void buildCompare(this.stage, this.leaf);
  }
}
