/** The lines above and below the images. @module */

import { starts } from "./annotator.js";
import { fit } from "./commands.js";
import { Icon } from "./icons.js";
import { useStore } from "./store.js";
import { html, useLayoutEffect, useRef } from "./vendor/preact-htm.js";
import { clock, distinctNames } from "./words.js";

/** @import { Annotator } from "./annotator.js" */
/** @import { Leaf, State } from "./types.js" */

/** Landmarks that are likely to be needed where the project has no budget. */
const LIKELY = 20;
/** Seconds of an answer, until there are some. */
const USUAL = 20;

const REASONS = [
  ["not_visible", "It is not visible in the other image"],
  ["ambiguous", "Several places could be it"],
  ["torn_or_missing", "The tissue is torn or missing there"],
  ["outside_image", "It lies outside the other image"],
  ["other", "Another reason"],
];

/** How far the work is: "7 of about 20, 6 min". @param {State} state @returns {{words: string, share: number}} */
export function progressInWords(state) {
  const { query, done, progress } = state;
  const counts = query ?? done;
  if (!counts) return { words: "", share: 0 };
  const { placed, total } = counts;
  const wanted = total ?? LIKELY;
  if (placed >= wanted || done) return { words: `${placed} placed`, share: 1 };
  const minutes = Math.ceil(((wanted - placed) * (progress?.median_seconds ?? USUAL)) / 60);
  return { words: `${placed} of ${total === null ? "about " : ""}${wanted}, ${minutes} min`, share: placed / wanted };
}

/** @param {{annotator: Annotator, openDrawer: (leaf: Leaf | null) => void}} properties */
export function Top({ annotator, openDrawer }) {
  const { store, stage } = annotator;
  const state = useStore(store, ["query", "done", "progress", "connection", "trouble", "drawer", "menu", "start"]);
  const { project } = stage;
  const { fixed, moving } = project.images;
  const { home } = document.documentElement.dataset;
  const { words, share } = progressInWords(state);
  const { query, done, connection, trouble, drawer, menu } = state;
  const number = starts(state) ? "start" : query ? query.number : done ? "done" : drawer === "organiser" ? drawer : "";
  const offline = connection === "refused" ? "Your link is not valid any more; the line at the bottom says why. Your last action is kept here." : `${trouble || "Not connected."} Your last action is kept here and will be sent.`;
  return html`
    ${home !== undefined && html`<a id="home" href=${home}>All pairs</a>`}
    <h1 id="project-name" class="clip" title=${`${fixed.name} → ${moving.name}`}>${project.name} <span class="quiet">
      ${distinctNames(fixed.name, moving.name).join(" → ")}</span></h1>
    ${connection !== "ok" && html`<div id="offline" role="status">${offline}</div>`}
    <span class="spring"></span>
    <span id="query-number" class="figure" data-number=${number}>${words}</span>
    ${words && html`<progress id="query-bar" max="1" value=${share} aria-label="Share of the marks that are likely to be needed"></progress>`}
    <span class="spring"></span>
    <span id="who" class="quiet clip" title=${`You are ${project.rater}, ${project.role}`}>${project.rater}</span>
    <button type="button" data-command="drawer" aria-pressed=${drawer !== null && drawer !== "organiser"} title="Review (D)" onClick=${() => openDrawer(drawer && drawer !== "organiser" ? null : "list")}><${Icon} name="drawer" /><span class="name">Review</span></button>
    <button type="button" data-command="view" aria-pressed=${menu} aria-expanded=${menu} onClick=${() => store.set({ menu: !menu, drawer: menu ? drawer : null })}><${Icon} name="view" /><span class="name">View</span></button>
    ${project.role === "organiser" && html`<button type="button" id="organiser-button" aria-pressed=${drawer === "organiser"} onClick=${() => openDrawer(drawer === "organiser" ? null : "organiser")}><${Icon} name="organiser" /><span class="name">Organiser</span></button>`}`;
}

/** @param {{annotator: Annotator}} properties */
export function Bottom({ annotator }) {
  const { store, stage } = annotator;
  const state = useStore(store, ["query", "done", "message", "tone", "saved", "writing", "doubt", "conflict", "start", "asking", "past", "future", "drawer", "own", "mark"]);
  const { query, message, tone, saved, writing, doubt, conflict, asking } = state;
  if (asking) return html`<${Reasons} annotator=${annotator} />`;
  const busy = writing === "saving";
  const text = conflict?.words ?? doubt ?? message;
  const blocked = !annotator.marks.editable || Boolean(conflict);
  const button = (/** @type {string} */ id, /** @type {string} */ name, /** @type {string} */ key, /** @type {() => void} */ run, /** @type {boolean} */ disabled) =>
    html`<button type="button" class=${id === "accept" ? "primary" : ""} data-command=${id} title=${`${name} (${key})`} disabled=${disabled} onClick=${run}><${Icon} name=${id} /><span class="name">${name}</span><kbd>${key}</kbd></button>`;
  return html`
    <div class="line words">
      <p id="message" role="status" aria-live="polite" class=${doubt || conflict ? "warning" : tone} title=${text}>${text}</p>
      ${(!busy || conflict) && html`<${Choice} annotator=${annotator} />`}
    </div>
    <div class="line">
      <div id="commands" class="commands" role="toolbar" aria-label="Answer">
        ${button("accept", "Accept", "Enter", () => void annotator.accept(), blocked)}
        ${button("skip", "Cannot tell", "S", () => annotator.beginSkip(), blocked || !query || starts(state))}
        ${button("undo", "Undo", "Z", () => void annotator.undo(), !annotator.steps.undo)}
      </div>
      <span class="spring"></span>
      <span id="saved" class="quiet" title=${saved ? `saved ${clock(saved.time)}` : ""}>${busy ? "saving…" : saved ? "✓ saved" : ""}</span>
      <button type="button" data-command="fit" title="Both images whole (0)" onClick=${() => fit(stage)}><${Icon} name="fit" />
        <span class="name">Fit</span></button>
    </div>`;
}

/** The quiet line with a choice, such as whether to keep a placement that looks like a slip. @param {{annotator: Annotator}} properties */
function Choice({ annotator }) {
  const { delivery, store } = annotator;
  const { doubt, conflict, query } = store.state;
  const button = (/** @type {string} */ name, /** @type {string} */ words, /** @type {() => void} */ run) => html`<button type="button" data-choice=${name} onClick=${run}>${words}</button>`;
  let buttons = null;
  if (conflict) buttons = [button("mine", "Store this answer instead", () => delivery.choose?.("mine")), button("theirs", "Keep the stored one", () => delivery.choose?.("theirs"))];
  else if (doubt) buttons = [button("keep", "Keep it", () => void delivery.keepSlip()), button("change", "Change", () => delivery.changeSlip())];
  else if (starts(store.state)) buttons = [button("skip-start", "Skip this start", () => void annotator.skipStart())];
  else if (query?.answer) buttons = [button("back", "Back to the open question", () => void annotator.go("/api/query"))];
  return buttons && html`<span id="choice" class="choice">${buttons}</span>`;
}

/** Why the question is skipped: in the place of the bottom bar, so that nothing covers the images. @param {{annotator: Annotator}} properties */
function Reasons({ annotator }) {
  const note = useRef(/** @type {HTMLInputElement | null} */ (null));
  const heading = useRef(/** @type {HTMLElement | null} */ (null));
  const skip = (/** @type {string} */ reason) => void annotator.skip(reason, note.current?.value.trim() ?? "");
  // Before the next key comes.
  useLayoutEffect(() => {
    heading.current?.focus();
    const key = (/** @type {KeyboardEvent} */ event) => {
      const typing = event.target === note.current;
      const reason = typing ? (event.key === "Enter" ? "other" : undefined) : REASONS[["1", "2", "3", "4", "5"].indexOf(event.key)]?.[0];
      if (!typing && event.key !== "Escape" && event.key !== "Tab" && !(event.target instanceof HTMLButtonElement)) event.preventDefault();
      if (!reason) return;
      event.preventDefault();
      skip(reason);
    };
    document.addEventListener("keydown", key, true);
    return () => {
      document.removeEventListener("keydown", key, true);
      annotator.stage.focus();
    };
  }, []);
  return html`
    <div class="line words">
      <h2 id="reasons" tabindex="-1" ref=${heading}>Why can you not tell?</h2>
      <input ref=${note} type="text" maxlength="500" placeholder="Note, if you like" aria-label="Note" />
      <span class="spring"></span>
      <button type="button" data-choice="cancel" onClick=${() => annotator.store.set({ asking: false })}>Cancel</button>
    </div>
    <div class="line reasons">${REASONS.map(([reason, label], i) => html`<button type="button" data-reason=${reason} onClick=${() => skip(reason)}>
      <kbd>${i + 1}</kbd>${label}</button>`)}</div>`;
}
