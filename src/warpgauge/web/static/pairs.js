/**
 * The page of all pairs: a rater's own with what is left in each, and the organiser's table.
 * @module
 */

import { Api, RefusedError } from "./api.js";
import { Assignment } from "./assignment.js";
import { byId, make, rounded, unitName } from "./dom.js";
import { restoreTheme, toggleTheme } from "./theme.js";

/** @typedef {import("./wire.js").OwnPairAnswer} OwnPair */
/** @typedef {import("./wire.js").PairAnswer} Pair */
/** @typedef {import("./wire.js").PairsAnswer} Pairs */

const LIVE = 5000; // milliseconds between two looks at what the raters do
const SHOWN = 100; // rows at first, and with each "more"

/**
 * What is left, in words.
 * @param {OwnPair[]} pairs
 * @param {number} done
 * @returns {string}
 */
export function leftInWords(pairs, done) {
  if (!pairs.length) return "No pairs are assigned to you yet. The organiser assigns them; this page then shows them by itself.";
  const left = pairs.reduce((sum, pair) => sum + (pair.left ?? 0), 0);
  const counted = pairs.some((pair) => pair.left !== null);
  if (counted && done === pairs.length) return `All ${pairs.length} pairs are done. Thank you.`;
  return `${done} of ${pairs.length} ${pairs.length === 1 ? "pair is" : "pairs are"} done${counted ? `; ${left} ${left === 1 ? "landmark is" : "landmarks are"} left` : ""}.`;
}

/**
 * The pair to go on with: the one begun last that is not done, else the first that is not done.
 * @param {OwnPair[]} pairs
 * @returns {OwnPair | null}
 */
export function nextPair(pairs) {
  const open = pairs.filter((pair) => pair.left !== 0 && !pair.problem);
  const begun = open.filter((pair) => pair.last).sort((a, b) => ((a.last ?? "") < (b.last ?? "") ? 1 : -1));
  return begun[0] ?? open[0] ?? null;
}

/**
 * @param {string | null} time
 * @returns {string}
 */
function when(time) {
  return time ? new Date(time).toLocaleString([], { dateStyle: "medium", timeStyle: "short" }) : "–";
}

/**
 * A share as a bar; nothing where no number is known.
 * @param {number} done
 * @param {number | null} all
 * @returns {HTMLElement | null}
 */
function bar(done, all) {
  return all === null ? null : make("progress", { max: Math.max(all, 1), value: Math.min(done, all), "aria-label": "Share of the landmarks" });
}

/**
 * @param {string[]} heads
 * @param {HTMLElement[]} rows
 * @returns {HTMLElement}
 */
function table(heads, rows) {
  return make("div", { class: "scroll" }, make("table", {}, make("thead", {}, make("tr", {}, ...heads.map((head) => make("th", {}, head)))), make("tbody", {}, ...rows)));
}

/** @param {import("./wire.js").OwnPairsAnswer} found */
function showMine(found) {
  const next = nextPair(found.pairs);
  const rows = found.pairs.map((pair) => make("tr", { "data-pair": pair.key },
    make("td", {}, make("a", { href: pair.address }, pair.name), pair.problem ? make("p", { class: "problem" }, pair.problem) : null),
    make("td", {}, bar(pair.placed, pair.left === null ? null : pair.placed + pair.left) ?? ""),
    make("td", { class: "figure" }, String(pair.placed)), make("td", { class: "figure" }, String(pair.skipped)),
    make("td", { class: "figure" }, pair.left === null ? "–" : pair.left === 0 ? "done" : String(pair.left)),
    make("td", { class: "quiet" }, when(pair.last))));
  byId("mine").replaceChildren(make("h2", {}, "Your pairs"), make("p", { id: "left" }, leftInWords(found.pairs, found.done)),
    ...(next ? [make("p", {}, make("a", { class: "button primary", id: "next", href: next.address }, next.last ? `Go on with ${next.name}` : `Begin with ${next.name}`))] : []),
    ...(rows.length ? [table(["Pair", "", "Placed", "Skipped", "Left", "Last answer"], rows)] : []));
}

/** The organiser's table. */
class Table {
  /** @param {Api} api */
  constructor(api) {
    this.api = api;
    /** @type {Pairs | null} */
    this.found = null;
    /** @type {Set<string>} */
    this.chosen = new Set();
    this.most = SHOWN;
    this.seen = "";
    this.search = make("input", { type: "search", placeholder: "Find a pair or rater", "aria-label": "Find a pair or rater", oninput: () => this.show() });
    this.which = make("select", { "aria-label": "Which pairs", onchange: () => this.show() },
      ...[["all", "All pairs"], ["unassigned", "Not assigned"], ["undone", "Not done"], ["apart", "Raters disagree most"], ["problem", "With a problem"]].map(([value, words]) => make("option", { value }, words)));
    this.rows = make("div");
    this.people = make("div");
    this.totals = make("p", { id: "totals" });
    this.assignment = new Assignment(api, () => void this.read(), () => [...this.chosen]);
    byId("all").replaceChildren(
      make("h2", {}, "All pairs"), this.totals,
      make("div", { class: "controls" }, this.search, this.which, make("a", { class: "button", id: "export", href: `${document.documentElement.dataset.root ?? ""}/api/export`, download: "" }, "Export everything")),
      this.rows, this.assignment.element, make("h2", {}, "People"), this.people);
  }

  async read() {
    this.found = await this.api.get("/api/pairs");
    const now = JSON.stringify(this.found);
    if (now === this.seen) return;
    this.seen = now;
    this.show();
  }

  /** @returns {Pair[]} those that are looked for */
  wanted() {
    const words = this.search.value.trim().toLowerCase();
    const pairs = (this.found?.pairs ?? []).filter((pair) => !words || [pair.name, ...pair.raters].some((text) => text.toLowerCase().includes(words)));
    if (this.which.value === "unassigned") return pairs.filter((pair) => !pair.raters.length);
    if (this.which.value === "undone") return pairs.filter((pair) => !isDone(pair));
    if (this.which.value === "problem") return pairs.filter((pair) => pair.problem);
    if (this.which.value === "apart") return pairs.filter((pair) => pair.distance !== null).sort((a, b) => (b.distance ?? 0) - (a.distance ?? 0));
    return pairs;
  }

  show() {
    if (!this.found) return;
    const { pairs, raters } = this.found;
    const count = (/** @type {(pair: Pair) => unknown} */ test) => pairs.filter(test).length;
    const uncounted = count((pair) => !pair.counted);
    this.totals.textContent = `${pairs.length} pairs: ${count(isDone)} done, ${count((pair) => !pair.raters.length)} not assigned, ${count((pair) => pair.certified)} certified, ${count((pair) => pair.problem)} with a problem.${uncounted ? ` ${uncounted} are still being counted.` : ""}`;
    const wanted = this.wanted();
    const rows = wanted.slice(0, this.most).map((pair) => this.row(pair));
    const every = make("input", { type: "checkbox", "aria-label": "Choose all that are listed", checked: wanted.length > 0 && wanted.every((pair) => this.chosen.has(pair.key)), onchange: () => this.choose(wanted, every.checked) });
    const listed = table(["", "Pair", "Raters", "Placed", "Skipped", "Disagreement", "Certificate"], rows);
    listed.querySelector("th")?.append(every);
    const more = wanted.length > rows.length ? make("button", { type: "button", onclick: () => { this.most += 10 * SHOWN; this.show(); } }, `Show more (${wanted.length - rows.length})`) : null;
    this.rows.replaceChildren(listed, ...(more ? [more] : []));
    this.assignment.show(raters, this.chosen.size);
    this.people.replaceChildren(this.peopleTable(), this.assignment.inviting);
  }

  /**
   * @param {Pair[]} pairs
   * @param {boolean} chosen
   */
  choose(pairs, chosen) {
    for (const { key } of pairs) {
      if (chosen) this.chosen.add(key);
      else this.chosen.delete(key);
    }
    this.show();
  }

  /**
   * @param {Pair} pair
   * @returns {HTMLElement}
   */
  row(pair) {
    const names = [...new Set([...pair.raters, ...Object.keys(pair.work)])];
    const each = names.map((name) => {
      const placed = pair.work[name]?.placed ?? 0;
      return `${name} ${placed}${pair.budget === null ? "" : `/${pair.budget}`}${pair.raters.includes(name) ? "" : " (not assigned)"}`;
    });
    const sum = (/** @type {"placed" | "skipped"} */ what) => Object.values(pair.work).reduce((total, work) => total + work[what], 0);
    const box = make("input", { type: "checkbox", "aria-label": `Choose ${pair.name}`, checked: this.chosen.has(pair.key), onchange: () => this.choose([pair], box.checked) });
    return make("tr", { "data-pair": pair.key }, make("td", {}, box),
      make("td", {}, make("a", { href: pair.address }, pair.name), pair.problem ? make("p", { class: "problem" }, pair.problem) : null),
      make("td", {}, each.join(", ") || make("span", { class: "quiet" }, "nobody")),
      make("td", { class: "figure" }, pair.counted ? String(sum("placed")) : "…"), make("td", { class: "figure" }, pair.counted ? String(sum("skipped")) : "…"),
      make("td", { class: "figure" }, pair.distance === null ? "–" : `${rounded(pair.distance)} ${unitName(pair.units)} at ${pair.shared}`),
      make("td", { title: pair.certificate ?? "" }, pair.certified ? "certified" : pair.certificate ? "not decided" : "–"));
  }

  /** @returns {HTMLElement} */
  peopleTable() {
    const people = this.found?.raters ?? [];
    return table(["Name", "Role", "Pairs", "Placed", "Skipped", "Link"], people.map((one) => make("tr", { "data-person": one.name },
      make("td", {}, one.name), make("td", {}, one.revoked ? "revoked" : one.role), make("td", { class: "figure" }, String(one.pairs)),
      make("td", { class: "figure" }, String(one.placed)), make("td", { class: "figure" }, String(one.skipped)),
      make("td", {}, ...this.assignment.linkButtons(one)))));
  }
}

/**
 * Whether everybody to whom a pair is assigned has placed what is asked for.
 * @param {Pair} pair
 * @returns {boolean}
 */
export function isDone({ raters, work, budget }) {
  return budget !== null && raters.length > 0 && raters.every((name) => (work[name]?.placed ?? 0) >= budget);
}

async function open() {
  restoreTheme();
  document.body.dataset.built = "";
  byId("theme").addEventListener("click", () => toggleTheme());
  const api = new Api({ onConnection: (connected) => { byId("offline").hidden = connected; } });
  /** @type {Table | null} */
  let all = null;
  const read = async () => {
    try {
      const mine = await api.get("/api/mine");
      api.visitor = { "X-Warpgauge-Visitor": encodeURIComponent(mine.rater) };
      byId("who").textContent = `${mine.rater}, ${mine.role}`;
      byId("mine").hidden = mine.role === "organiser" && !mine.pairs.length;
      showMine(mine);
      if (mine.role === "organiser") {
        byId("all").hidden = false;
        all ??= new Table(api);
        await all.read();
      }
      byId("message").textContent = "";
    } catch (error) {
      if (!(error instanceof RefusedError)) throw error;
      byId("message").textContent = error.message;
      if (error.status === 401) return;
    }
    setTimeout(() => void read(), LIVE);
  };
  await read();
  document.body.dataset.ready = "";
}

void open();
