/**
 * The list of one's annotations: thumbnails, leave-one-out residual, flags; sortable, click to go there.
 * @module
 */

import { make, number } from "./dom.js";
import { drawPlace, spanOf } from "./thumbs.js";

/** @import { Annotator } from "./annotator.js" */
/** @import { Stage } from "./stage.js" */
/** @import { Row } from "./types.js" */
/** @typedef {"query" | "distance" | "mahalanobis"} Order */

/** @type {{by: Order, down: boolean}} */
let order = { by: "query", down: false };

/**
 * @param {Row[]} rows
 * @param {{by: Order, down: boolean}} how
 * @returns {Row[]} those without a figure last
 */
export function sortedRows(rows, { by, down }) {
  const key = (/** @type {Row} */ row) => row[by] ?? (down ? -Infinity : Infinity);
  return [...rows].sort((one, other) => (key(one) - key(other)) * (down ? -1 : 1) || one.query - other.query);
}

/**
 * @param {Row} row
 * @returns {string}
 */
function flags(row) {
  const words = [];
  if (row.skipped) words.push(`× skipped: ${(row.reason ?? "").replaceAll("_", " ")}`);
  if (row.outlier) words.push("△ outlier");
  if (row.swapped) words.push("△ likely swapped");
  if (row.disabled) words.push("off");
  if (row.excluded) words.push("excluded by the organiser");
  return words.join(", ");
}

/**
 * @param {Stage} stage
 * @param {Annotator} annotator
 * @param {HTMLElement} leaf
 */
export function buildList(stage, annotator, leaf) {
  const { store } = stage;
  stage.extras.clear();
  const { rows } = store.state;
  if (rows.length === 0) {
    leaf.replaceChildren(make("p", { class: "quiet" }, "Nothing is annotated yet."));
    return;
  }
  const scroll = leaf.scrollTop;
  const head = (/** @type {string} */ title, /** @type {Order} */ by) =>
    make("th", { class: by === "query" ? "" : "num", "aria-sort": order.by === by ? (order.down ? "descending" : "ascending") : "none" },
      make("button", { type: "button", onclick: () => {
        order = { by, down: order.by === by ? !order.down : by !== "query" };
        buildList(stage, annotator, leaf);
      } }, `${title}${order.by === by ? (order.down ? " ▾" : " ▴") : ""}`));
  const body = make("tbody", {}, ...sortedRows(rows, order).map((row) => line(stage, annotator, row)));
  const units = annotator.project.units === "um" ? "µm" : annotator.project.units;
  leaf.replaceChildren(
    make("table", {},
      make("thead", {}, make("tr", {}, head("No", "query"), make("th", {}, "Fixed, moving"), head(`Resid. ${units}`, "distance"), head("Mahal.", "mahalanobis"), make("th", {}, "On"))),
      body),
    make("p", { class: "quiet" }, "Residual: how far the mark lies from where all others put it (leave-one-out). Mahalanobis: the same in standard deviations."),
  );
  leaf.scrollTop = scroll;
  stage.drawSoon();
}

/**
 * @param {Stage} stage
 * @param {Annotator} annotator
 * @param {Row} row
 */
function line(stage, annotator, row) {
  const { store } = stage;
  const thumbs = /** @type {const} */ (["fixed", "moving"]).map((side) => {
    const canvas = make("canvas", { class: "thumb" });
    const point = side === "fixed" ? row.location : row.point;
    if (point) {
      const marks = side === "moving" && row.covariance ? [{ point, covariance: row.covariance, alpha: row.alpha ?? 0.01 }] : [];
      // Only those in sight are drawn: a list of hundreds asks for no tiles that nobody sees.
      stage.extras.add({ draw: () => inSight(canvas) && drawPlace(stage, side, canvas, { point, span: spanOf(stage, side, row.covariance), marks, query: side === "fixed" }) });
    }
    return canvas;
  });
  const on = make("input", { type: "checkbox", checked: !row.disabled, disabled: row.skipped, "aria-label": `Use annotation ${row.query + 1}`,
    onclick: (/** @type {Event} */ event) => {
      event.stopPropagation();
      void annotator.disable(row.query, !row.disabled);
    } });
  const go = () => void annotator.goTo(row.query);
  const classes = ["go", row.disabled ? "off" : "", row.query === store.state.query?.query ? "here" : ""].join(" ");
  return make("tr", { class: classes, tabIndex: 0, "data-query": row.query, onclick: go,
    onkeydown: (/** @type {KeyboardEvent} */ event) => event.key === "Enter" && event.target === event.currentTarget && go(),
    onpointerenter: () => store.set({ picked: row.query }), onpointerleave: () => store.set({ picked: null }) },
    make("td", {}, String(row.query + 1), row.rater && row.rater !== annotator.project.rater ? make("div", { class: "quiet" }, row.rater) : null),
    make("td", { class: "pair" }, ...thumbs, make("div", { class: "flag", title: row.sentence }, flags(row))),
    make("td", { class: "num" }, row.distance === null ? "–" : number(Number(row.distance.toPrecision(2)))),
    make("td", { class: "num", title: row.p === null ? "" : `p = ${number(row.p)}` }, row.mahalanobis === null ? "–" : row.mahalanobis.toFixed(row.mahalanobis < 10 ? 2 : 1)),
    make("td", {}, on));
}

/** @param {HTMLElement} element */
function inSight(element) {
  const box = element.getBoundingClientRect();
  return element.isConnected && box.bottom > 0 && box.top < innerHeight;
}
