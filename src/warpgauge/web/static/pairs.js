/** The page of all pairs: a rater's own with what is left in each, and the organiser's table with who gets which. @module */

import { Api, RefusedError } from "./api.js";
import { restoreTheme, toggleTheme } from "./theme.js";
import { html, render, useState } from "./vendor/preact-htm.js";
import { byId } from "./words.js";

/** @import { OwnPairAnswer as OwnPair, OwnPairsAnswer as OwnPairs, PairAnswer as Pair, PairRaterAnswer as Person, PairsAnswer as Pairs } from "./wire.js" */
/** @typedef {{api: Api, read: () => Promise<void>}} Server */

const LIVE = 5000; // milliseconds between two looks at what the raters do
const SHOWN = 100; // rows at first, and with each "more"
const PARCEL = 500; // pairs in one request

/** What is left, in words. @param {OwnPair[]} pairs */
function leftInWords(pairs) {
  const done = pairs.filter((pair) => pair.left === 0).length;
  if (!pairs.length) return "No pairs are assigned to you yet. The organiser assigns them; this page then shows them by itself.";
  const left = pairs.reduce((sum, pair) => sum + (pair.left ?? 0), 0);
  const counted = pairs.some((pair) => pair.left !== null);
  if (counted && done === pairs.length) return `All ${pairs.length} pairs are done. Thank you.`;
  return `${done} of ${pairs.length} ${pairs.length === 1 ? "pair is" : "pairs are"} done${counted ? `; ${left} ${left === 1 ? "landmark is" : "landmarks are"} left` : ""}.`;
}

/**
 * The pair to go on with: the one begun last that is not done, else the first that is not done.
 * @param {OwnPair[]} pairs @returns {OwnPair | null}
 */
function nextPair(pairs) {
  const open = pairs.filter((pair) => pair.left !== 0 && !pair.problem);
  const begun = open.filter((pair) => pair.last).sort((a, b) => ((a.last ?? "") < (b.last ?? "") ? 1 : -1));
  return begun[0] ?? open[0] ?? null;
}

/** Whether everybody to whom a pair is assigned has placed what is asked for. @param {Pair} pair */
function isDone({ raters, work, budget }) {
  return budget !== null && raters.length > 0 && raters.every((name) => (work[name]?.placed ?? 0) >= budget);
}

/** @param {{pair: {name: string, address: string, problem: string | null}}} properties */
function Name({ pair }) {
  return html`<a href=${pair.address}>${pair.name}</a>${pair.problem && html`<p class="problem">${pair.problem}</p>`}`;
}

/** A rater's own pairs. @param {{mine: OwnPairs}} properties */
function Mine({ mine: { pairs } }) {
  const next = nextPair(pairs);
  const when = (/** @type {string | null} */ time) => (time ? new Date(time).toLocaleString([], { dateStyle: "medium", timeStyle: "short" }) : "–");
  return html`<h2>Your pairs</h2><p id="left">${leftInWords(pairs)}</p>
    ${next && html`<p><a class="button primary" id="next" href=${next.address}>${next.last ? `Go on with ${next.name}` : `Begin with ${next.name}`}
      </a></p>`}
    ${pairs.length > 0 && html`<div class="scroll"><table><thead><tr>
      ${["Pair", "", "Placed", "Skipped", "Left", "Last answer"].map((head) => html`<th>${head}</th>`)}</tr></thead><tbody>${pairs.map((pair) => html`
      <tr key=${pair.key} data-pair=${pair.key}><td><${Name} pair=${pair} /></td>
        <td>${pair.left !== null && html`<progress max=${Math.max(pair.placed + pair.left, 1)} value=${pair.placed} aria-label="Share of the landmarks"></progress>`}</td>
        <td class="figure">${pair.placed}</td><td class="figure">${pair.skipped}</td><td class="figure">
          ${pair.left === null ? "–" : pair.left === 0 ? "done" : pair.left}</td><td class="quiet">${when(pair.last)}</td></tr>`)}</tbody></table>
          </div>`}`;
}

/** @type {Record<string, [string, (pair: Pair) => unknown]>} */
const WHICH = {
  all: ["All pairs", () => true],
  unassigned: ["Not assigned", (pair) => !pair.raters.length],
  undone: ["Not done", (pair) => !isDone(pair)],
  problem: ["With a problem", (pair) => pair.problem],
};

/** The organiser's table. @param {{all: Pairs, server: Server}} properties */
function All({ all, server }) {
  const [search, setSearch] = useState("");
  const [which, setWhich] = useState("all");
  const [most, setMost] = useState(SHOWN);
  const [chosen, setChosen] = useState(/** @type {Set<string>} */ (new Set()));
  const { pairs, raters } = all;
  const words = search.trim().toLowerCase();
  const wanted = pairs.filter((pair) => WHICH[which][1](pair) && (!words || [pair.name, ...pair.raters].some((text) => text.toLowerCase().includes(words))));
  const count = (/** @type {(pair: Pair) => unknown} */ test) => pairs.filter(test).length;
  const uncounted = count((pair) => !pair.counted);
  const choose = (/** @type {Pair[]} */ some, /** @type {boolean} */ on) => setChosen((before) => new Set([...before].filter((key) => !some.some((pair) => pair.key === key)).concat(on ? some.map(({ key }) => key) : [])));
  const every = wanted.length > 0 && wanted.every(({ key }) => chosen.has(key));
  return html`<h2>All pairs</h2>
    <p id="totals">${pairs.length} pairs: ${count(isDone)} done, ${count((pair) => !pair.raters.length)} not assigned, ${count((pair) => pair.problem)} with a problem.${uncounted > 0 && ` ${uncounted} are still being counted.`}</p>
    <div class="controls"><input type="search" placeholder="Find a pair or rater" aria-label="Find a pair or rater" value=${search} onInput=${(/** @type {any} */ event) => setSearch(event.target.value)} />
      <select aria-label="Which pairs" onChange=${(/** @type {any} */ event) => setWhich(event.target.value)}>
        ${Object.entries(WHICH).map(([value, [label]]) => html`<option value=${value} selected=${which === value}>${label}</option>`)}</select></div>
    <div class="scroll"><table><thead><tr><th>
      <input type="checkbox" aria-label="Choose all that are listed" checked=${every} onChange=${() => choose(wanted, !every)} /></th>
      ${["Pair", "Raters", "Placed", "Skipped"].map((head) => html`<th>${head}</th>`)}</tr></thead>
      <tbody>${wanted.slice(0, most).map((pair) => html`<${PairRow} key=${pair.key} pair=${pair} chosen=${chosen.has(pair.key)} choose=${(/** @type {boolean} */ on) => choose([pair], on)} />`)}</tbody></table></div>
    ${wanted.length > most && html`<button type="button" onClick=${() => setMost(most + 10 * SHOWN)}>Show more (${wanted.length - most})</button>`}
    <${People} people=${raters} pairs=${pairs} chosen=${[...chosen]} server=${server} />`;
}

/** @param {{pair: Pair, chosen: boolean, choose: (on: boolean) => void}} properties */
function PairRow({ pair, chosen, choose }) {
  const names = [...new Set([...pair.raters, ...Object.keys(pair.work)])];
  const each = names.map((name) => `${name} ${pair.work[name]?.placed ?? 0}${pair.budget === null ? "" : `/${pair.budget}`}${pair.raters.includes(name) ? "" : " (not assigned)"}`);
  const sum = (/** @type {"placed" | "skipped"} */ what) => (pair.counted ? Object.values(pair.work).reduce((total, work) => total + work[what], 0) : "…");
  return html`<tr data-pair=${pair.key}><td>
    <input type="checkbox" aria-label=${`Choose ${pair.name}`} checked=${chosen} onChange=${() => choose(!chosen)} /></td><td><${Name} pair=${pair} />
    </td>
    <td>${each.join(", ") || html`<span class="quiet">nobody</span>`}</td><td class="figure">${sum("placed")}</td><td class="figure">${sum("skipped")}
      </td></tr>`;
}

/** Who gets which pair, and the links of people. @param {{people: Person[], pairs: Pair[], chosen: string[], server: Server}} properties */
function People({ people, pairs, chosen, server: { api, read } }) {
  const [note, say] = useState("");
  const [picked, pick] = useState(/** @type {string[]} */ ([]));
  const [name, setName] = useState("");
  const [role, setRole] = useState("rater");
  const [links, setLinks] = useState(/** @type {{name: string, link: string}[]} */ ([]));
  const names = people.filter((one) => one.has_link && one.role === "rater").map((one) => one.name);
  const counted = (/** @type {number} */ changed) => `${changed} ${changed === 1 ? "assignment" : "assignments"} changed.`;
  const sum = (/** @type {string} */ who, /** @type {"placed" | "skipped"} */ what) => pairs.reduce((total, pair) => total + (pair.work[who]?.[what] ?? 0), 0);
  /** Do it, and say what came of it. @param {() => Promise<string>} work */
  const tell = async (work) => {
    try {
      say(await work());
    } catch (error) {
      if (!(error instanceof RefusedError)) throw error;
      say(error.message);
    }
    await read();
  };
  const byHand = (/** @type {"assign" | "unassign"} */ action) => tell(async () => {
    if (!picked.length || !chosen.length) return "Choose pairs in the table and raters in the list.";
    let changed = 0;
    for (let at = 0; at < chosen.length; at += PARCEL) changed += (await api.post("/api/assign", { action, raters: picked, pairs: chosen.slice(at, at + PARCEL) })).changed;
    return counted(changed);
  });
  const person = (/** @type {string} */ who, /** @type {"add" | "revoke"} */ action, /** @type {string} */ as) => tell(async () => {
    if (!who) return "Write a name first.";
    const { link } = await api.post("/api/people", action === "add" ? { action, name: who, role: as } : { action, name: who });
    if (!link) return `${who} is revoked; all that they saved is kept.`;
    setLinks((before) => [{ name: who, link }, ...before]);
    return `${who} has a new link.`;
  });
  return html`<section class="assignment" aria-label="Assignment"><h2>Assign</h2>
      <div class="controls">
        <label>Raters <select multiple size="4" aria-label="Raters" id="raters" onChange=${(/** @type {any} */ event) => pick([...event.target.selectedOptions].map((/** @type {any} */ option) => option.value))}>${names.map((one) => html`<option value=${one} selected=${picked.includes(one)}>${one}</option>`)}</select></label>
        <div><p><button type="button" data-act="assign" onClick=${() => byHand("assign")}>Assign</button> or <button type="button" data-act="unassign" onClick=${() => byHand("unassign")}>take away</button> <span class="quiet">${chosen.length ? `the ${chosen.length} ${chosen.length === 1 ? "pair" : "pairs"} chosen above` : "the pairs that you choose above"}</span></p></div></div>
      <p role="status" id="assigned">${note}</p></section>
    <h2>People</h2>
    <div class="scroll"><table><thead><tr>${["Name", "Role", "Pairs", "Placed", "Skipped", "Link"].map((head) => html`<th>${head}</th>`)}</tr></thead>
      <tbody>${people.map((one) => html`
      <tr key=${one.name} data-person=${one.name}><td>${one.name}</td><td>${one.role}</td><td class="figure">${pairs.filter((pair) => pair.raters.includes(one.name)).length}</td>
        <td class="figure">${sum(one.name, "placed")}</td><td class="figure">${sum(one.name, "skipped")}</td>
        <td><button type="button" data-act="link" onClick=${() => person(one.name, "add", one.role)}>${one.has_link ? "New link" : "Make a link"}
          </button> ${one.has_link && html`<button type="button" data-act="revoke" onClick=${() => person(one.name, "revoke", one.role)}>Revoke</button>`}</td></tr>`)}</tbody></table></div>
    <p><input type="text" placeholder="Name" maxlength="100" aria-label="Name of a person" value=${name} onInput=${(/** @type {any} */ event) => setName(event.target.value)} /> <select aria-label="Role" onChange=${(/** @type {any} */ event) => setRole(event.target.value)}>${["rater", "organiser"].map((one) => html`<option value=${one} selected=${one === role}>${one}</option>`)}</select> <button type="button" data-act="invite" onClick=${() => person(name.trim(), "add", role)}>Invite with a link</button></p>
    <div class="choices" id="links">${links.map((one) => html`<div key=${one.link}><span>Link for ${one.name} (shown only now): </span>
      <button type="button" onClick=${() => void navigator.clipboard.writeText(one.link)}>Copy</button>
      <input type="text" class="link" readonly value=${one.link} aria-label=${`Link of ${one.name}`} onFocus=${(/** @type {any} */ event) => event.target.select()} /></div>`)}</div>`;
}

async function open() {
  restoreTheme();
  byId("theme").addEventListener("click", () => toggleTheme());
  const api = new Api({ onConnection: (connected) => { byId("offline").hidden = connected; } });
  /** @type {Server} */
  const server = { api, read: () => read() };
  const read = async () => {
    const mine = await api.get("/api/mine");
    api.visitor = { "X-Warpgauge-Visitor": encodeURIComponent(mine.rater) };
    const organises = mine.role === "organiser";
    byId("who").textContent = mine.rater === mine.role ? mine.rater : `${mine.rater}, ${mine.role}`;
    byId("mine").hidden = organises && !mine.pairs.length;
    render(html`<${Mine} mine=${mine} />`, byId("mine"));
    byId("all").hidden = !organises;
    if (organises) render(html`<${All} all=${await api.get("/api/pairs")} server=${server} />`, byId("all"));
  };
  const keepReading = async () => {
    try {
      await read();
      byId("message").textContent = "";
    } catch (error) {
      if (!(error instanceof RefusedError)) throw error;
      byId("message").textContent = error.message;
      if (error.status === 401) return;
    }
    setTimeout(() => void keepReading(), LIVE);
  };
  await keepReading();
  document.body.dataset.ready = "";
}

void open();
