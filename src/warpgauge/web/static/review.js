/** The drawer on the right: the list of answers, the progress, the comparison of registration results; or the organiser's. @module */

import { axesOfMark, markFromCovariance } from "./ellipsoid.js";
import { Icon } from "./icons.js";
import { lookAtMark } from "./looking.js";
import { Organiser } from "./organiser.js";
import { Compare, Progress } from "./progress.js";
import { useStore } from "./store.js";
import { Thumb } from "./thumbs.js";
import { html, useState } from "./vendor/preact-htm.js";
import { coordinates, rounded, unitName } from "./words.js";

/** @import { Annotator } from "./annotator.js" */
/** @import { Leaf, Row } from "./types.js" */
/** @typedef {"query" | "distance" | "size"} Order */

/** Whether a mark is worth a second look. @param {Row} row */
export function isFlagged(row) {
  return row.outlier || row.flagged;
}

/** @type {Record<string, (row: Row, me: string) => boolean>} */
const FILTERS = {
  all: () => true,
  placed: (row) => !row.skipped,
  skipped: (row) => row.skipped,
  flagged: isFlagged,
  mine: (row, me) => !row.rater || row.rater === me,
};

/** @param {Row[]} rows @param {string} which @param {string} me */
function filteredRows(rows, which, me) {
  return rows.filter((row) => FILTERS[which](row, me));
}

/** Longest half-length of a mark's region. @param {Row} row @returns {number | null} */
function sizeOfRow({ point, covariance, alpha }) {
  return point && covariance ? axesOfMark(markFromCovariance(point, covariance, alpha ?? 0.01))[0] : null;
}

/** @param {Row[]} rows @param {{by: Order, down: boolean}} how @returns {Row[]} those without a figure last */
export function sortedRows(rows, { by, down }) {
  const figure = (/** @type {Row} */ row) => (by === "size" ? sizeOfRow(row) : by === "query" ? row.number : row.distance);
  const key = (/** @type {Row} */ row) => figure(row) ?? (down ? -Infinity : Infinity);
  return [...rows].sort((one, other) => (key(one) - key(other)) * (down ? -1 : 1) || one.query - other.query);
}

/** Why a mark is worth a second look, in a sentence; "" where it is not. @param {Row} row @param {string} units */
export function reasonToLook(row, units) {
  if (row.outlier && row.distance !== null && row.mahalanobis !== null) {
    return `It lies ${rounded(row.distance)} ${units} from where the others expect it, ${rounded(row.mahalanobis)} times as far as usual.`;
  }
  return row.flagged ? "It was kept after a question." : "";
}

/** What it means that no mark is worth a second look: never that all are right. @param {number | null} detectable @param {string} units */
export function nothingFound(detectable, units) {
  if (detectable === null) return "The marks cannot be checked against each other here.";
  return `Nothing detectable above ${rounded(detectable)} ${units}: a smaller slip would not show among these marks.`;
}

/** @param {{annotator: Annotator, openDrawer: (leaf: Leaf | null) => void}} properties */
export function Drawer({ annotator, openDrawer }) {
  const { stage } = annotator;
  const { drawer } = useStore(stage.store, ["drawer"]);
  if (!drawer) return null;
  const close = html`<button type="button" class="icon-only bare" aria-label="Close" onClick=${() => openDrawer(null)}><${Icon} name="close" />
    </button>`;
  if (drawer === "organiser") {
    return html`<div class="tabs"><h2>Organiser</h2><span class="spring"></span>${close}</div><div class="leaf" tabindex="0">
      <${Organiser} annotator=${annotator} /></div>`;
  }
  /** @type {Leaf[]} */
  const names = ["list", "progress", ...(stage.project.compare ? [/** @type {Leaf} */ ("compare")] : [])];
  const step = (/** @type {KeyboardEvent} */ event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by) return;
    const next = names[(names.indexOf(drawer) + by + names.length) % names.length];
    openDrawer(next);
    /** @type {HTMLElement | null} */ (document.querySelector(`[data-leaf=${next}]`))?.focus();
  };
  const leaf = { list: html`<${List} annotator=${annotator} />`, progress: html`<${Progress} stage=${stage} />`, compare: html`<${Compare} stage=${stage} />` }[drawer];
  return html`<div class="tabs"><div class="tabs" role="tablist" aria-label="Review" onKeyDown=${step}>
      ${names.map((name) => html`<button type="button" role="tab" data-leaf=${name} aria-selected=${drawer === name} tabindex=${drawer === name ? 0 : -1} onClick=${() => openDrawer(name)}>${name[0].toUpperCase() + name.slice(1)}</button>`)}
    </div><span class="spring"></span>${close}</div><div class="leaf" tabindex="0" key=${drawer}>${leaf}</div>`;
}

/** Thumbnails at one scale, size, distance, flags and notes; filters, orders, a click goes there. @param {{annotator: Annotator}} properties */
function List({ annotator }) {
  const { stage, store } = annotator;
  const { rows, query } = useStore(store, ["rows", "query", "pose"]);
  const [order, setOrder] = useState(/** @type {{by: Order, down: boolean}} */ ({ by: "query", down: false }));
  const [filter, setFilter] = useState("all");
  const me = stage.project.rater;
  const units = unitName(stage.project.units);
  const others = rows.some((row) => row.rater && row.rater !== me);
  // Where expectations are hidden, nothing is said that rests on them.
  const kinds = ["all", "placed", "skipped", ...(stage.withheld ? [] : ["flagged"]), ...(others ? ["mine"] : [])];
  const head = (/** @type {Order} */ by, /** @type {string} */ title, /** @type {string} */ said) =>
    html`<th class=${by === "query" ? "" : "num"} title=${said} aria-sort=${order.by === by ? (order.down ? "descending" : "ascending") : "none"}>
      <button type="button" data-order=${by} onClick=${() => setOrder({ by, down: order.by === by ? !order.down : by !== "query" })}>
        ${title}${order.by === by ? (order.down ? " ▾" : " ▴") : ""}</button></th>`;
  if (rows.length === 0) return html`<p class="quiet">Your answers will be listed here.</p>`;
  const shown = sortedRows(filteredRows(rows, filter, me), order);
  return html`<div class="filters" role="group" aria-label="Show">
    ${kinds.map((kind) => html`<button type="button" data-filter=${kind} aria-pressed=${filter === kind} onClick=${() => setFilter(kind)}>
    ${kind[0].toUpperCase()}${kind.slice(1)} ${filteredRows(rows, kind, me).length}</button>`)}</div>
    <table><thead><tr>${head("query", "No.", "Number of the question")}<th>This place, its match</th>
      ${head("size", `± ${units}`, "How unsure you were: the longest half-axis of your region")}
      ${!stage.withheld && head("distance", `Away, ${units}`, "How far the mark lies from where all other marks put it")}<th>Use</th></tr></thead>
      <tbody>${shown.map((row) => html`<${Line} key=${`${row.query} ${row.rater}`} annotator=${annotator} row=${row} here=${row.query === query?.query} />`)}</tbody></table>
    ${shown.length === 0 && html`<p class="quiet">None of this kind.</p>`}`;
}

/** @param {Row} row */
function flags(row) {
  const words = [];
  if (row.skipped) words.push(`skipped: ${(row.reason ?? "").replaceAll("_", " ")}`);
  if (row.outlier) words.push("△ away from where the others say");
  if (row.flagged && !row.outlier) words.push("△ kept after a question");
  if (row.chosen === "volunteered") words.push("your own choice");
  if (row.disabled) words.push("not used");
  if (row.excluded) words.push("excluded by the organiser");
  return words.join(", ");
}

/** @param {{annotator: Annotator, row: Row, here: boolean}} properties */
function Line({ annotator, row, here }) {
  const { stage, store } = annotator;
  // Another rater's mark is not ours to switch off or to change: it is looked at.
  const mine = !row.rater || row.rater === stage.project.rater;
  const { units } = stage.project;
  const go = () => {
    // The work goes on in the images: Enter accepts there.
    stage.focus();
    if (mine) void annotator.go(`/api/query/${row.query}`);
    else lookAtMark(stage, row);
  };
  const key = (/** @type {KeyboardEvent} */ event) => event.key === "Enter" && event.target === event.currentTarget && go();
  const use = (/** @type {Event} */ event) => {
    event.stopPropagation();
    void annotator.disable(row.query, !row.disabled);
  };
  const size = sizeOfRow(row);
  const least = 0.005 * stage.images.moving.spacing[0];
  return html`<tr class=${`go ${row.disabled ? "off" : ""} ${here ? "here" : ""}`} tabindex="0" data-query=${row.query} onClick=${go} onKeyDown=${key} onPointerEnter=${() => store.set({ picked: row.query })} onPointerLeave=${() => store.set({ picked: null })}>
    <td>${row.number}${!mine && html`<div class="quiet">${row.rater}</div>`}</td>
    <td class="pair"><${Thumb} stage=${stage} side="fixed" row=${row} /><${Thumb} stage=${stage} side="moving" row=${row} />
      <div class="note" data-at>${coordinates(row.location, units)}${row.point && ` → ${coordinates(row.point, units)}`}</div>
      <div class=${isFlagged(row) ? "flag" : "note"} title=${reasonToLook(row, unitName(units))}>${flags(row)}</div>
        ${row.text && html`<div class="note">“${row.text}”</div>`}</td>
    <td class="num">${size === null ? "–" : rounded(size)}</td>
    ${!stage.withheld && html`<td class="num">${row.distance === null ? "–" : row.distance < least ? "0" : rounded(row.distance)}</td>`}
    <td>${mine && html`<input type="checkbox" checked=${!row.disabled} disabled=${row.skipped} aria-label=${`Use answer ${row.number}`} onClick=${use} />`}</td></tr>`;
}
