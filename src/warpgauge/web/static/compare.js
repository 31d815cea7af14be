/**
 * Added transforms: their ranking so far with intervals, and the map of the one chosen.
 * @module
 */

import { make, rounded, unitName } from "./dom.js";

/** @import { Stage } from "./stage.js" */
/** @typedef {import("./wire.js").TransformRow} Transform */

/**
 * @param {Stage} stage
 * @param {HTMLElement} leaf
 */
export async function buildCompare(stage, leaf) {
  if (!leaf.querySelector("table.compare")) leaf.replaceChildren(make("p", { class: "quiet" }, "Comparing the transforms…"));
  /** @type {import("./wire.js").TransformsAnswer} */
  const { transforms, columns, verdict, targets, flags, units } = await stage.api.get("/api/transforms");
  if (stage.store.state.drawer !== "compare") return; // another leaf was opened meanwhile
  if (transforms.length === 0) {
    leaf.replaceChildren(make("p", { class: "quiet" }, "No registration result has been added yet. Add one with “warpgauge add-transform”, and it is compared here."));
    return;
  }
  const { store } = stage;
  const choose = (/** @type {string} */ name, /** @type {"error" | "blended"} */ map) => {
    const { overlays } = store.state;
    const off = overlays.transform === name && overlays.map === map;
    store.set({ overlays: { ...overlays, transform: name, map: off ? "off" : map } });
    void buildCompare(stage, leaf);
  };
  const button = (/** @type {string} */ name, /** @type {"error" | "blended"} */ map) => {
    const { overlays } = store.state;
    return make("button", { type: "button", "data-map": map, "aria-pressed": String(overlays.transform === name && overlays.map === map), onclick: () => choose(name, map) }, map === "error" ? "Error" : "Where known");
  };
  leaf.replaceChildren(
    ...flags.map((sentence) => make("p", { class: "flag" }, sentence)),
    make("table", { class: "compare" },
      make("thead", {}, make("tr", {}, make("th", {}, "Transform"), ...columns.map(({ head }) => make("th", { class: "num" }, head)), make("th", {}, "Map"))),
      make("tbody", {}, ...transforms.map((entry) => make("tr", {},
        make("td", { title: entry.description }, entry.rank === null ? "" : `${entry.rank}. `, entry.name, entry.problem ? make("div", { class: "flag" }, entry.problem) : null),
        ...columns.map(({ unit }, at) => make("td", { class: "num" }, ...cell(unit, entry.cells[at] ?? null))),
        make("td", {}, ...(entry.mapped ? [button(entry.name, "error"), " ", button(entry.name, "blended")] : [])))))),
    make("p", {}, verdict),
    make("p", { class: "quiet" }, `${targets} Error: root mean square distance from the true match (${unitName(units)}), with its interval. Best: probability of being the best of these.`),
  );
}

/**
 * What a cell of the table shows, by what its column holds.
 * @param {string} unit
 * @param {Transform["cells"][number]} value
 */
function cell(unit, value) {
  const told = (/** @type {number | null | undefined} */ one) => (one === null || one === undefined ? "–" : rounded(one));
  if (Array.isArray(value)) return [told(value[0]), make("div", { class: "note" }, value.slice(1).map(told).join(" to "))];
  if (typeof value !== "number") return [value ?? "–"];
  return [unit === "share" || unit === "probability" ? `${Math.round(100 * value)} %` : told(value)];
}
