/** The organiser's drawer: people and progress, the verdict, and disagreements, whose marks stand in the two panes. @module */

import { RefusedError } from "./api.js";
import { confidenceRadius } from "./confidence.js";
import { levelOfWorld, markFromCovariance } from "./ellipsoid.js";
import { Takeaway } from "./finish.js";
import { distance } from "./linalg.js";
import { lookAtMark } from "./looking.js";
import { RATER_COLOURS } from "./planemarks.js";
import { Verdict } from "./progress.js";
import { useStore } from "./store.js";
import { html, useEffect, useRef, useState } from "./vendor/preact-htm.js";
import { rounded, sizeInWords, unitName } from "./words.js";

/** @import { Annotator } from "./annotator.js" */
/** @import { Location } from "./types.js" */
/** @import { CertificateAnswer as Certificate, LocationsAnswer, MarkAnswer as RaterMark, RaterAnswer as Rater, RatersAnswer } from "./wire.js" */
/** @typedef {{raters: RatersAnswer, locations: LocationsAnswer}} Work */

const LIVE = 3000; // milliseconds between two looks at what the raters do

/** Whether the marks that count lie no farther apart than their raters' own uncertainties explain. @param {RaterMark[]} marks */
export function marksAgree(marks) {
  const counted = marks.filter((mark) => !mark.excluded && !mark.disabled);
  return counted.every((one, i) => counted.slice(0, i).every((other) => {
    const alpha = Math.min(one.alpha, other.alpha);
    const shape = one.covariance.map((row, k) => row.map((value, j) => value + other.covariance[k][j]));
    return levelOfWorld({ point: one.point, shape }, other.point) <= confidenceRadius(shape.length, alpha);
  }));
}

/** Whether the organiser has something to decide: marks that do not agree, not settled since. @param {Location} place */
export function isOpen({ marks, locked }) {
  return !locked && marks.length > 1 && !marksAgree(marks);
}

/** The marks begin with another rater at each place, so that a letter is nobody's. @param {Location} place @returns {Location} */
export function inTurn(place) {
  const first = place.marks.length > 0 ? place.query % place.marks.length : 0;
  return { ...place, marks: [...place.marks.slice(first), ...place.marks.slice(0, first)] };
}

/**
 * How exact a rater is, by questions with known answers and by repeats.
 * @param {Certificate | null} found @param {string} unit @returns {string[]}
 */
function certificateWords(found, unit) {
  if (!found) return [];
  const range = (/** @type {number | null | undefined} */ low, /** @type {number | null | undefined} */ high) => (low === null || low === undefined || high === null || high === undefined ? "" : ` (${rounded(low)} to ${rounded(high)})`);
  const words = [];
  if (found.controls > 0) words.push(`${found.inside} of ${found.controls} known matches in the drawn region`);
  if (found.bias) words.push(`bias ${found.bias.map((value, k) => `${"xyz"[k]} ${rounded(value)}${range(found.bias_low?.[k], found.bias_high?.[k])}`).join(", ")} ${unit}`);
  if (found.sd !== null) words.push(`SD ${rounded(found.sd)}${range(found.sd_low, found.sd_high)} ${unit}`);
  if (found.repeat_sd !== null) words.push(`repeatability SD ${rounded(found.repeat_sd)}${range(found.repeat_low, found.repeat_high)} ${unit}`);
  return words;
}

/** @param {{annotator: Annotator}} properties */
export function Organiser({ annotator }) {
  const { stage, store, delivery } = annotator;
  const { api, project } = stage;
  const { judged, choosing, progress } = useStore(store, ["judged", "choosing", "progress"]);
  const [work, setWork] = useState(/** @type {Work | null} */ (null));
  const [note, say] = useState("");
  const seen = useRef("");
  const unit = unitName(project.units);

  /** @param {() => Promise<unknown>} attempt @returns {Promise<boolean>} whether it was done */
  const trying = async (attempt) => {
    try {
      await attempt();
      return true;
    } catch (error) {
      if (!(error instanceof RefusedError)) throw error;
      say(error.message);
      return false;
    }
  };
  const read = () => trying(async () => {
    const [raters, locations] = await Promise.all([api.get("/api/raters"), api.get("/api/locations")]);
    locations.locations = locations.locations.map(inTurn);
    const now = JSON.stringify([raters, locations]);
    if (now === seen.current) return;
    seen.current = now;
    setWork({ raters, locations });
    const before = store.state.judged;
    if (before) store.set({ judged: locations.locations.find((/** @type {Location} */ { query }) => query === before.query) ?? null });
  });
  useEffect(() => {
    void read();
    const timer = setInterval(() => void read(), LIVE);
    return () => {
      clearInterval(timer);
      store.set({ judged: null, choosing: null });
    };
  }, []);
  if (!work) return html`<p class="quiet" role="status">${note || "Reading what the raters have done…"}</p>`;

  const { locations, generation } = work.locations;
  const open = locations.filter(isOpen).sort((one, other) => (other.max_distance ?? 0) - (one.max_distance ?? 0));
  const choose = (/** @type {Location} */ place) => {
    store.set({ judged: place });
    // As near as shows how far apart they are.
    if (place.max_distance !== null) stage.setSpan(Math.max(8 * place.max_distance, stage.extent / 10), 8);
    lookAtMark(stage, { location: place.location, point: place.fused?.point ?? place.marks[0]?.point ?? null });
  };
  /** @param {Location} place @param {"resolve" | "exclude" | "include" | "ask_again"} act @param {Record<string, unknown>} body @param {number} [at] */
  const act = async (place, act, body, at = generation) => {
    let saved = null;
    const done = await trying(async () => {
      saved = await api.post(`/api/locations/${place.query}/${act}`, { ...body, generation: at });
      store.set({ saved });
      say("Saved.");
      delivery.written();
    });
    await read();
    return done ? /** @type {any} */ (saved).generation : null;
  };
  /** Keep one mark: the others are excluded, and the place is settled. @param {Location} place @param {RaterMark} mark */
  const keep = async (place, mark) => {
    let at = generation;
    for (const other of place.marks) {
      const wanted = other.rater === mark.rater;
      if (other.excluded !== wanted) continue;
      at = await act(place, wanted ? "include" : "exclude", { rater: other.rater }, at);
      if (at === null) return;
    }
    await act(place, "resolve", { text: "One of the marks is taken." }, at);
  };
  return html`
    ${progress?.verdict && html`<${Verdict} lines=${progress.verdict} />`}
    <${People} annotator=${annotator} raters=${work.raters} settled=${open.length === 0} unit=${unit} say=${say} read=${read} />
    ${work.raters.raters.every(({ placed }) => placed === 0) && html`<p class="row">
      <button type="button" data-act="choose" onClick=${() => (choosing ? store.set({ choosing: null }) : void annotator.choosePlace(null))}>
      ${choosing ? "Enough places" : "Choose places"}</button>
      <span class="quiet">${choosing ? `${choosing.chosen} chosen` : "that all raters are asked: about 20 clicks in the first image, before they begin"}</span></p>`}
    <p role="status" class="quiet" id="note">${note}</p>
    <h2>Disagreements</h2>
    ${judged && html`<${Judging} place=${judged} unit=${unit} named=${open.length === 0} act=${act} keep=${keep} />`}
    ${open.length === 0 && html`<p class="quiet">
      ${locations.some(({ marks }) => marks.length > 1) ? "No open disagreement is left: marks of the same place agree within their ±." : "Where several raters have answered the same question, their marks are compared here."}</p>`}
    <${Places} places=${open} chosen=${judged?.query ?? null} choose=${choose} unit=${unit} />
    <details><summary>All places</summary>
      <${Places} places=${locations.filter(({ marks, skips }) => marks.length + Object.keys(skips).length > 0)} chosen=${judged?.query ?? null} choose=${choose} unit=${unit} /></details>
    <h2>Download</h2><${Takeaway} stage=${stage} />`;
}

/** @param {{annotator: Annotator, raters: Work["raters"], settled: boolean, unit: string, say: (words: string) => void, read: () => Promise<boolean>}} properties */
function People({ annotator, raters: { raters, pooled_sd: pooled, sealed }, settled, unit, say, read }) {
  const { stage } = annotator;
  const { budget } = stage.project.settings;
  const { home } = document.documentElement.dataset;
  const [name, setName] = useState("");
  const [role, setRole] = useState("rater");
  const [links, setLinks] = useState(/** @type {{name: string, link: string}[]} */ ([]));
  const people = raters.filter((one) => one.role !== "organiser" || one.placed > 0 || Object.keys(one.skipped).length > 0);
  const most = Math.max(1, budget ?? 0, ...people.map((one) => one.placed));
  const register = async (/** @type {Record<string, string>} */ body) => {
    if (!body.name) return;
    try {
      const { link } = await stage.api.post("/../../api/people", body);
      if (link) setLinks((before) => [{ name: body.name, link }, ...before]);
    } catch (error) {
      if (!(error instanceof RefusedError)) throw error;
      say(error.message);
    }
    await read();
  };
  const invite = () => void register({ action: "add", name: name.trim(), role });
  return html`<h2>People</h2>
    <div class="cards">${people.map((one) => html`<div key=${one.name} class="card" data-rater=${one.name}>
      <h3>${one.name}<span class="quiet">${one.role === one.name ? "" : one.role}</span></h3>
      <progress max=${most} value=${one.placed} aria-label=${`Marks placed by ${one.name}`}></progress>
      <span>${workOf(one, budget)}</span>
      ${certificateWords(one.certificate, unit).map((words) => html`<span data-certificate>${words}</span>`)}
      ${settled && one.bias && html`<span class="quiet">typically ${rounded(Math.hypot(...one.bias))} ${unit} off from the others on average</span>`}
      ${one.name !== stage.project.rater && html`<div class="row">
        <button type="button" data-act="link" onClick=${() => void register({ action: "add", name: one.name, role: one.role === "organiser" ? one.role : "rater" })}>${one.has_link ? "New link" : "Link"}</button>
        ${one.has_link && html`<button type="button" data-act="revoke" onClick=${() => void register({ action: "revoke", name: one.name })}>Revoke</button>`}</div>`}</div>`)}</div>
    <p class="quiet">${pooled === null ? "Agreement appears here when two raters have answered the same question." : `Raters scatter around each other by ${rounded(pooled)} ${unit}.`}</p>
    ${sealed > 0 && html`<p class="quiet" data-sealed>
      ${sealed} ${sealed === 1 ? "answer is" : "answers are"} kept back for the certificate: shown to who gave them, and used for nothing else until they are opened.</p>`}
    ${home !== undefined ? html`<p>People are invited on the page of <a href=${home}>all pairs</a>.</p>` : html`<p class="row">
      <input type="text" placeholder="Name" maxlength="100" aria-label="Name of a rater" value=${name} onInput=${(/** @type {any} */ event) => setName(event.target.value)} />
      <select aria-label="Role" onChange=${(/** @type {any} */ event) => setRole(event.target.value)}>
        ${["rater", "organiser"].map((one) => html`<option value=${one} selected=${one === role}>${one}</option>`)}</select>
      <button type="button" data-act="invite" onClick=${invite}>Invite with a link</button></p>`}
    ${links.map((one) => html`<div key=${one.link}><span>Link for ${one.name} (shown only now): </span>
      <button type="button" onClick=${() => void navigator.clipboard.writeText(one.link)}>Copy</button>
      <input type="text" class="link" readonly value=${one.link} aria-label=${`Link of ${one.name}`} onFocus=${(/** @type {any} */ event) => event.target.select()} /></div>`)}`;
}

/** @param {Rater} one @param {number | null} budget */
function workOf({ placed, repeats, skipped, median_seconds: seconds }, budget) {
  const reasons = Object.entries(skipped).filter(([, count]) => count > 0).map(([reason, count]) => `${count} ${reason.replaceAll("_", " ")}`);
  const words = [`${placed}${budget ? ` of ${budget}` : ""} placed`];
  if (repeats) words.push(`${repeats} of them repeats`);
  if (reasons.length) words.push(`skipped: ${reasons.join(", ")}`);
  if (seconds !== null) words.push(`${rounded(seconds)} s each`);
  return words.join("; ");
}

/** @param {{places: Location[], chosen: number | null, choose: (place: Location) => void, unit: string}} properties */
function Places({ places, chosen, choose, unit }) {
  if (places.length === 0) return null;
  return html`<table class="places"><thead><tr><th>No.</th><th>Marks</th><th class="num">Apart, ${unit}</th><th>State</th></tr></thead><tbody>
    ${places.map((place) => html`
    <tr key=${place.query} class=${`go ${place.query === chosen ? "here" : ""}`} tabindex="0" data-place=${place.query} onClick=${() => choose(place)} onKeyDown=${(/** @type {KeyboardEvent} */ event) => event.key === "Enter" && choose(place)}>
      <td>${place.query + 1}</td><td>
        ${place.marks.length} placed${Object.keys(place.skips).length > 0 && `, ${Object.keys(place.skips).length} skipped`}</td>
      <td class="num">${place.max_distance === null ? "–" : rounded(place.max_distance)}</td><td>${stateOf(place)}</td></tr>`)}</tbody></table>`;
}

/** @param {Location} place */
function stateOf(place) {
  const excluded = place.marks.filter((mark) => mark.excluded).length;
  const words = [place.marks.some((mark) => mark.control) ? "control" : "", place.locked ? "settled" : place.resolved === null ? "" : "asked again", excluded ? `${excluded} excluded` : ""].filter(Boolean);
  return words.join(", ") || (isOpen(place) ? "open" : "");
}

/**
 * What the organiser makes of the marks at a place. Whose they are is hidden while any place is open.
 * @param {{place: Location, unit: string, named: boolean, act: (place: Location, act: "resolve" | "exclude" | "include" | "ask_again", body: Record<string, unknown>) => Promise<unknown>, keep: (place: Location, mark: RaterMark) => Promise<void>}} properties
 */
function Judging({ place, unit, named, act, keep }) {
  const { marks, fused, skips, resolved, locked } = place;
  const agree = marksAgree(marks);
  const button = (/** @type {string} */ name, /** @type {string} */ words, /** @type {() => unknown} */ run) => html`<button type="button" data-act=${name} onClick=${run}>${words}</button>`;
  return html`<div class="judging" data-judged=${place.query}>
    ${resolved !== null && html`<p class=${locked ? "quiet" : "flag"} data-state=${locked ? "settled" : "reopened"}>
      ${locked ? `Settled. ${resolved}` : `Open again: it was settled (“${resolved}”), then asked again. Decide anew once the answer is there.`}</p>`}
    <p>Place ${place.query + 1}: all its marks stand in the other image${fused && marks.length > 1 ? "; white, dashed: all of them together" : ""}.</p>
    <table><tbody>${marks.map((mark, k) => {
      const letter = String.fromCharCode(65 + k);
      const state = mark.disabled ? "switched off by its rater" : mark.excluded ? "excluded" : "";
      return html`<tr key=${mark.rater} class=${mark.excluded ? "off" : ""} data-mark=${letter}>
        <td><span class="disagree" style=${{ background: RATER_COLOURS[k % RATER_COLOURS.length] }}></span>${named ? mark.rater : `Rater ${letter}`}
          <div class="note">± ${sizeInWords(markFromCovariance(mark.point, mark.covariance, mark.alpha))} ${unit}${fused && marks.length > 1 && `, ${rounded(distance(mark.point, fused.point))} ${unit} away`}${state && `, ${state}`}</div></td>
        <td><div class="row">
          ${button("keep", `Keep ${letter}`, () => keep(place, mark))}${button(mark.excluded ? "include" : "exclude", mark.excluded ? "Put back" : "Exclude", () => act(place, mark.excluded ? "include" : "exclude", { rater: mark.rater }))}${button("ask", "Ask again", () => act(place, "ask_again", { rater: mark.rater }))}</div></td></tr>`;
    })}</tbody></table>
    ${Object.entries(skips).map(([rater, reason], i) => html`<p class="quiet">
      ${named ? rater : `Another rater ${i + 1}`} skipped: ${reason.replaceAll("_", " ")}</p>`)}
    ${!agree && html`<p data-apart>The marks lie farther apart than their ± explains: keep one, exclude one, or ask again.</p>`}
    <div class="row"><button type="button" class=${agree ? "primary" : ""} data-act="resolve" disabled=${locked || marks.length === 0} onClick=${() => act(place, "resolve", { text: "All marks are taken together." })}>Keep all together</button>${button("ask-all", "Ask all again", () => act(place, "ask_again", {}))}</div></div>`;
}
