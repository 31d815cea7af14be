/**
 * The list as a review: thumbnails at one scale, size and residual, flags and notes; filters, sorting, click to go there.
 * @module
 */

import { make, rounded, unitName } from "./dom.js";
import { axesOfMark } from "./figures.js";
import { markFromCovariance } from "./ellipsoid.js";
import { coordinatesInWords } from "./readout.js";
import { drawPlace, spanOf } from "./thumbs.js";

/** @import { Annotator } from "./annotator.js" */
/** @import { Stage } from "./stage.js" */
/** @import { Row } from "./types.js" */
/** @typedef {"query" | "distance" | "mahalanobis" | "size"} Order */
/** @typedef {"all" | "placed" | "skipped" | "flagged" | "mine"} Filter */

/** @type {{by: Order, down: boolean}} */
let order = { by: "query", down: false };
/** @type {Filter} */
let filter = "all";

/**
 * Whether a mark is worth a second look.
 * @param {Row} row
 */
export function isFlagged(row) {
  return row.outlier || row.swapped || row.flagged;
}

/**
 * @param {Row[]} rows
 * @param {Filter} which
 * @param {string} me
 * @returns {Row[]}
 */
export function filteredRows(rows, which, me) {
  const keeps = {
    all: () => true,
    placed: (/** @type {Row} */ row) => !row.skipped,
    skipped: (/** @type {Row} */ row) => row.skipped,
    flagged: isFlagged,
    mine: (/** @type {Row} */ row) => !row.rater || row.rater === me,
  };
  return rows.filter(keeps[which]);
}

/**
 * Longest half-length of a mark's region.
 * @param {Row} row
 * @returns {number | null}
 */
export function sizeOfRow(row) {
  if (!row.point || !row.covariance) return null;
  return axesOfMark(markFromCovariance(row.point, row.covariance, row.alpha ?? 0.01))[0];
}

/**
 * @param {Row[]} rows
 * @param {{by: Order, down: boolean}} how
 * @returns {Row[]} those without a figure last
 */
export function sortedRows(rows, { by, down }) {
  const key = (/** @type {Row} */ row) => (by === "size" ? sizeOfRow(row) : row[by]) ?? (down ? -Infinity : Infinity);
  return [...rows].sort((one, other) => (key(one) - key(other)) * (down ? -1 : 1) || one.query - other.query);
}

/**
 * The next mark worth a second look after a question, from the first on again at the end.
 * @param {Row[]} rows
 * @param {number | null} from
 * @returns {Row | null}
 */
export function nextFlagged(rows, from) {
  const flagged = sortedRows(rows.filter(isFlagged), { by: "query", down: false });
  return flagged.find((row) => from !== null && row.query > from) ?? flagged[0] ?? null;
}

/**
 * Why a mark is worth a second look, in a sentence; "" where it is not.
 * @param {Row} row
 * @param {Row[]} rows
 * @param {string} units
 * @returns {string}
 */
export function reasonToLook(row, rows, units) {
  const other = rows.find(({ query }) => query === row.partner)?.number;
  if (row.swapped) return `It fits much better when exchanged with ${other === undefined ? "another mark" : `mark ${other}`}: perhaps the two were swapped.`;
  if (row.outlier && row.distance !== null && row.mahalanobis !== null) {
    return `It lies ${rounded(row.distance)} ${units} from where the others expect it, ${rounded(row.mahalanobis)} times as far as usual.`;
  }
  return row.flagged ? "It was kept after a question." : "";
}

/**
 * @param {Row} row
 * @returns {string}
 */
function flags(row) {
  const words = [];
  if (row.skipped) words.push(`skipped: ${(row.reason ?? "").replaceAll("_", " ")}`);
  if (row.outlier) words.push("△ far from where the others say");
  if (row.swapped) words.push("△ perhaps swapped with another");
  if (row.flagged && !row.outlier) words.push("△ kept after a question");
  if (row.chosen === "volunteered") words.push("own point");
  if (row.chosen === "moved") words.push("moved nearby");
  if (row.snap === "taken") words.push("moved by Snap");
  if (row.snap === "shown") words.push("Snap not taken");
  if (row.disabled) words.push("not used");
  if (row.excluded) words.push("excluded by the organiser");
  return words.join(", ");
}

/**
 * @param {Annotator} annotator
 * @param {HTMLElement} leaf
 */
export function buildList(annotator, leaf) {
  const { stage, store } = annotator;
  stage.extras.clear();
  const { rows } = store.state;
  if (rows.length === 0) {
    leaf.replaceChildren(make("p", { class: "quiet" }, "Your answers will be listed here."));
    return;
  }
  const scroll = leaf.scrollTop;
  const focused = focusedIn(leaf);
  const again = () => buildList(annotator, leaf);
  const head = (/** @type {string} */ title, /** @type {Order} */ by, /** @type {string} */ said) =>
    make("th", { class: by === "query" ? "" : "num", title: said, "aria-sort": order.by === by ? (order.down ? "descending" : "ascending") : "none" },
      make("button", { type: "button", "data-order": by, onclick: () => {
        order = { by, down: order.by === by ? !order.down : by !== "query" };
        again();
      } }, `${title}${order.by === by ? (order.down ? " ▾" : " ▴") : ""}`));
  const shown = sortedRows(filteredRows(rows, filter, stage.project.rater), order);
  // One scale for all thumbnails: sizes can be compared.
  const span = Math.max(...["fixed", "moving"].map((side) => spanOf(stage, /** @type {"fixed"} */ (side), null)));
  const units = unitName(stage.project.units);
  // Where predictions are hidden, nothing is said that rests on them.
  const compared = !stage.withheld;
  const ends = compared ? "Away: distance from where all other marks put this one. × usual: that distance compared with what is expected; 1 is ordinary, 3 is rare. ⇧N goes to the next one marked △." : "";
  leaf.replaceChildren(
    filterButtons(rows, stage, again),
    make("table", {},
      make("thead", {}, make("tr", {}, head("No.", "query", "Number of the question"), make("th", {}, "Fixed, moving"), head(`± ${units}`, "size", "How unsure you were: the longest half-axis of your region"),
        ...(compared ? [head(`Away, ${units}`, "distance", "How far the mark lies from where all other marks put it"), head("× usual", "mahalanobis", "That distance compared with what is expected: 1 is ordinary, 3 and more is rare")] : []), make("th", {}, "Use"))),
      make("tbody", {}, ...shown.map((row) => line(annotator, row, span)))),
    make("p", { class: "quiet" }, shown.length === 0 ? "None of this kind." : ends),
  );
  leaf.scrollTop = scroll;
  if (focused) /** @type {HTMLElement | null} */ (leaf.querySelector(focused))?.focus({ preventScroll: true });
  stage.drawSoon();
}

/**
 * What has the keyboard in the list, so that it has it again once the list was made anew.
 * @param {HTMLElement} leaf
 * @returns {string | null} a selector
 */
function focusedIn(leaf) {
  const active = document.activeElement;
  if (!(active instanceof HTMLElement) || !leaf.contains(active)) return null;
  const { filter: kind, order: by } = active.dataset;
  if (kind || by) return kind ? `[data-filter=${kind}]` : `[data-order=${by}]`;
  const row = active.closest("tr")?.dataset.query;
  return row ? `tr[data-query="${row}"]${active instanceof HTMLInputElement ? " input" : ""}` : null;
}

/**
 * @param {Row[]} rows
 * @param {Stage} stage
 * @param {() => void} again
 */
function filterButtons(rows, stage, again) {
  const me = stage.project.rater;
  const others = rows.some((row) => row.rater && row.rater !== me);
  /** @type {Filter[]} */
  const kinds = ["all", "placed", "skipped", ...(stage.withheld ? [] : [/** @type {Filter} */ ("flagged")]), ...(others ? [/** @type {Filter} */ ("mine")] : [])];
  return make("div", { class: "filters", role: "group", "aria-label": "Show" }, ...kinds.map((kind) =>
    make("button", { type: "button", "data-filter": kind, "aria-pressed": String(filter === kind), onclick: () => {
      filter = kind;
      again();
    } }, `${kind[0].toUpperCase()}${kind.slice(1)} ${filteredRows(rows, kind, me).length}`)));
}

/**
 * @param {Annotator} annotator
 * @param {Row} row
 * @param {number} span
 */
function line(annotator, row, span) {
  const { stage, store } = annotator;
  const thumbs = /** @type {const} */ (["fixed", "moving"]).map((side) => {
    const canvas = make("canvas", { class: "thumb", role: "img", "aria-label": `Question ${row.number}, ${side} image` });
    const point = side === "fixed" ? row.location : row.point;
    if (point) {
      const marks = side === "moving" && row.covariance ? [{ point, covariance: row.covariance, alpha: row.alpha ?? 0.01 }] : [];
      // Only those in sight are drawn: a list of hundreds asks for no tiles that nobody sees.
      stage.extras.add({ draw: () => inSight(canvas) && drawPlace(stage, side, canvas, { point, span, marks, query: side === "fixed" }) });
    }
    return canvas;
  });
  // Another rater's mark is not ours to switch off or to change: it is looked at.
  const mine = !row.rater || row.rater === stage.project.rater;
  const on = make("input", { type: "checkbox", checked: !row.disabled, disabled: row.skipped, "aria-label": `Use annotation ${row.number}`,
    onclick: (/** @type {Event} */ event) => {
      event.stopPropagation();
      void annotator.disable(row.query, !row.disabled);
    } });
  const go = () => {
    // The work goes on in the images: Enter accepts there.
    stage.focus();
    if (mine) void annotator.goTo(row.query);
    else {
      stage.lookAt("fixed", row.location, null);
      if (row.point) stage.lookAt("moving", row.point, null);
    }
  };
  const classes = ["go", row.disabled ? "off" : "", row.query === store.state.query?.query ? "here" : ""].join(" ");
  const size = sizeOfRow(row);
  return make("tr", { class: classes, tabIndex: 0, "data-query": row.query, onclick: go,
    onkeydown: (/** @type {KeyboardEvent} */ event) => event.key === "Enter" && event.target === event.currentTarget && go(),
    onpointerenter: () => store.set({ picked: row.query }), onpointerleave: () => store.set({ picked: null }) },
    make("td", {}, String(row.number), row.rater && row.rater !== stage.project.rater ? make("div", { class: "quiet" }, row.rater) : null),
    make("td", { class: "pair" }, ...thumbs, make("div", { class: "note", "data-at": "" }, placesInWords(row, stage.project.units)), make("div", { class: isFlagged(row) ? "flag" : "note", title: reasonToLook(row, store.state.rows, unitName(stage.project.units)) }, flags(row)), row.text ? make("div", { class: "note" }, `“${row.text}”`) : null),
    make("td", { class: "num" }, size === null ? "–" : rounded(size)),
    ...(stage.withheld ? [] : [make("td", { class: "num" }, row.distance === null ? "–" : row.distance < 0.005 * stage.images.moving.spacing[0] ? "0" : rounded(row.distance)),
      make("td", { class: "num" }, row.mahalanobis === null ? "–" : row.mahalanobis.toFixed(1))]),
    make("td", {}, mine ? on : null));
}

/**
 * Where a mark lies, in both images.
 * @param {Row} row
 * @param {string} units
 */
function placesInWords(row, units) {
  const from = coordinatesInWords(row.location, units);
  return row.point ? `${from} → ${coordinatesInWords(row.point, units)}` : from;
}

/** @param {HTMLElement} element */
function inSight(element) {
  const box = element.getBoundingClientRect();
  return element.isConnected && box.bottom > 0 && box.top < innerHeight;
}
