/**
 * Added transforms: their ranking so far with intervals, and the map of the one chosen.
 * @module
 */

import { make, number } from "./dom.js";

/** @import { Stage } from "./stage.js" */

/**
 * @param {Stage} stage
 * @param {HTMLElement} leaf
 */
export async function buildCompare(stage, leaf) {
  const answer = await stage.api.get("/api/transforms");
  /** @type {any[]} */
  const transforms = Array.isArray(answer) ? answer : answer.transforms;
  if (transforms.length === 0) {
    leaf.replaceChildren(make("p", { class: "quiet" }, "No transform has been added to this project yet."));
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
    return make("button", { type: "button", "aria-pressed": String(overlays.transform === name && overlays.map === map), onclick: () => choose(name, map) }, map);
  };
  leaf.replaceChildren(
    make("table", {},
      make("thead", {}, make("tr", {}, make("th", {}, "Transform"), make("th", { class: "num" }, "Error"), make("th", { class: "num" }, "Best"), make("th", {}, "Map"))),
      make("tbody", {}, ...transforms.map((entry) => make("tr", {},
        make("td", { title: entry.description ?? "" }, entry.name),
        make("td", { class: "num" }, interval(entry)),
        make("td", { class: "num" }, entry.probability_best === undefined || entry.probability_best === null ? "–" : `${Math.round(100 * entry.probability_best)} %`),
        make("td", {}, button(entry.name, "error"), " ", button(entry.name, "blended")))))),
    make("p", { class: "quiet" }, "Error: expected distance from the true match over the targets, with its interval. Best: probability of being the best of these."),
  );
}

/** @param {any} entry */
function interval(entry) {
  const value = entry.error ?? entry.expected_error ?? entry.score;
  const range = entry.interval;
  return range ? `${number(value)} (${number(range[0])} to ${number(range[1])})` : number(value);
}
