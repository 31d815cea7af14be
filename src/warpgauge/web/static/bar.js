/**
 * The lines above and below the images.
 * @module
 */

import { sparkline } from "./charts.js";
import { ALPHAS } from "./commands.js";
import { byId, clock, make, number, rounded, unitName } from "./dom.js";
import { axesOfMark, sizeInWords } from "./figures.js";
import { byFinger } from "./gestures.js";
import { icon } from "./icons.js";

/** @import { Annotator } from "./annotator.js" */
/** @import { Command } from "./keys.js" */
/** @import { MarkEditor } from "./markeditor.js" */
/** @import { Stage } from "./stage.js" */
/** @import { Store } from "./store.js" */
/** @import { Progress, State } from "./types.js" */

/**
 * Buttons for the commands, at the bottom and wherever the page names one.
 * @param {Store<State>} store
 * @param {Command[]} commands
 */
export function buildButtons(store, commands) {
  byId("commands").replaceChildren(
    ...commands.filter((command) => command.main).map((command) =>
      make("button", { type: "button", class: command.id === "accept" ? "primary" : "", "data-command": command.id, title: `${command.label} (${command.shown})`, "aria-label": command.short ?? command.label },
        icon(command.id), make("kbd", {}, command.shown), make("span", { class: "name" }, command.short ?? command.label))),
  );
  for (const button of document.querySelectorAll("button[data-command]")) {
    if (!(button instanceof HTMLElement)) continue;
    const command = commands.find(({ id }) => id === button.dataset.command);
    button.hidden = !command;
    if (!command) continue;
    if (button.childElementCount === 0) {
      button.title = `${command.label} (${command.shown})`;
      button.prepend(icon(command.id) ?? "");
      if (!("named" in button.dataset)) {
        button.classList.add("bare");
        button.setAttribute("aria-label", command.short ?? command.label);
        button.append(make("span", { class: "name" }, command.short ?? command.label));
      }
    }
    button.addEventListener("click", () => command.run());
    if (command.pressed) {
      const show = () => button.setAttribute("aria-pressed", String(command.pressed?.()));
      store.watch([], show);
      show();
    }
  }
  document.body.dataset.built = "";
}

/** @param {Annotator} annotator */
export function buildBar({ stage, store, marks }) {
  const { project } = stage;
  const { fixed, moving } = project.images;
  const [from, to] = distinctNames(fixed.name, moving.name);
  byId("project-name").textContent = `${project.name}  ${from} → ${to}`;
  byId("project-name").title = `${fixed.name} → ${moving.name}`;
  byId("who").textContent = project.rater === project.role ? "" : project.rater;
  byId("who").title = `You are ${project.rater}, ${project.role}`;
  const { home } = document.documentElement.dataset;
  byId("home").hidden = home === undefined;
  if (home !== undefined) byId("home").setAttribute("href", home);
  byId("organiser-button").hidden = project.role !== "organiser";
  const alpha = /** @type {HTMLSelectElement} */ (byId("alpha"));
  const choices = [...new Set([...ALPHAS, project.settings.alpha])].sort((a, b) => a - b);
  alpha.replaceChildren(...choices.map((value) => make("option", { value: String(value) }, `${number(100 * (1 - value))} %`)));
  alpha.addEventListener("change", () => {
    marks.setAlpha(Number(alpha.value));
    stage.focus();
  });
  const show = () => {
    const { state } = store;
    showQuestion(state);
    showMessage(state);
    byId("saved").textContent = state.writing === "saving" ? "saving…" : state.saved ? `saved ${clock(state.saved.time)}` : "";
    alpha.value = String(state.mark?.alpha ?? marks.alpha);
    showSize(state, marks, stage);
    for (const id of ["accept", "skip", "another", "nearby", "snap"]) {
      const button = document.querySelector(`#commands button[data-command="${id}"]`);
      const fits = id === "accept" || id === "snap" || state.task === "answer" || (state.task === "nearby" && (id === "nearby" || (id === "another" && state.offered.length > 0)));
      const withheld = id === "snap" && state.task === "answer" && state.query?.unaided;
      if (button instanceof HTMLButtonElement) button.disabled = !marks.editable || !fits || Boolean(withheld);
    }
  };
  store.watch(["query", "done", "mark", "message", "tone", "saved", "writing", "connection", "trouble", "rows", "doubt", "task", "start", "offered"], show);
  show();
}

/**
 * Names of two files without their endings and without the words that both have in the same place.
 * @param {string} one
 * @param {string} other
 * @returns {[string, string]}
 */
export function distinctNames(one, other) {
  const words = [one, other].map((name) => name.replace(/\.(nii\.gz|ome\.tiff?|ome\.zarr|[^.]+)$/i, "").split(/(?<=[-_. ])/));
  while (words.every((list) => list.length > 1) && words[0][0] === words[1][0]) words.forEach((list) => list.shift());
  while (words.every((list) => list.length > 1) && words[0].at(-1) === words[1].at(-1)) words.forEach((list) => list.pop());
  const [from, to] = words.map((list) => list.join("").replace(/[-_. ]+$/, ""));
  return [from, to];
}

/** @param {State} state */
function showQuestion({ query, done, task }) {
  const title = byId("query-number");
  const start = task === "start";
  title.textContent = start ? "Getting started" : task === "own" ? "Your own point" : query?.answer ? `Answer ${query.number}${query.name ? `: ${query.name}` : ""}` : (query?.name ?? "");
  title.dataset.number = start ? "start" : query ? String(query.number) : done ? "done" : "";
  const { placed, skipped, total } = query ?? done ?? { placed: 0, skipped: 0, total: null };
  const words = [`${placed}${total === null ? "" : ` of ${total}`} placed`];
  if (skipped) words.push(`${skipped} skipped`);
  byId("counts").textContent = (query || done) && !start ? words.join(" · ") : "";
  const bar = /** @type {HTMLProgressElement} */ (byId("query-bar"));
  bar.hidden = total === null || start;
  bar.value = Math.min(1, placed / Math.max(total ?? 1, 1));
}

/** @param {State} state */
function showMessage({ message, tone, connection, trouble, doubt }) {
  const line = byId("message");
  line.textContent = doubt ?? message;
  line.title = doubt ?? message;
  line.className = doubt ? "warning" : tone;
  byId("offline").hidden = connection === "ok";
  byId("offline").textContent = connection === "refused"
    ? "Your link is not valid any more; the line at the bottom says why. Your last action is kept here."
    : `${trouble || "Not connected."} Your last action is kept here and will be sent.`;
}

/**
 * @param {State} state
 * @param {MarkEditor} marks
 * @param {Stage} stage
 */
function showSize({ mark }, marks, stage) {
  const figure = byId("size-figure");
  const units = unitName(stage.project.units);
  figure.textContent = mark ? `± ${sizeInWords(axesOfMark(mark))} ${units}` : "";
  const scale = stage.planesOf("moving")[0]?.view.scale ?? 1;
  const { radius, why } = marks.clickRadius(scale, byFinger());
  figure.title = `A click makes ± ${rounded(radius)} ${units}: ${why}.`;
}

/** What was known when this page first said it: the curve is computed anew by every model, so that its beginning drifts. @type {number | null} */
let firstKnown = null;

/**
 * How well the matches are known, what it was at the beginning, and the way from there to here.
 * @param {Progress} progress
 * @param {string} units
 * @param {number} largest beyond this nothing is known: as large as the image
 */
export function showUncertainty(progress, units, largest) {
  const place = byId("uncertainty");
  if (progress.mean_sd === null || progress.mean_sd === undefined || progress.annotations === 0 || progress.mean_sd > largest / 4) {
    place.replaceChildren();
    return;
  }
  const values = progress.curve.map((entry) => entry.mean_sd * progress.region);
  const now = progress.mean_sd * progress.region;
  firstKnown ??= now;
  const was = firstKnown > now * 1.05 ? ` (was ${rounded(firstKnown)})` : "";
  place.title = "How well the match of a typical place is known: the region that is drawn around a prediction, ± its half-width";
  place.replaceChildren(`known to ± ${rounded(now)} ${unitName(units)}${was}`, values.length > 2 ? sparkline(values) : "");
}
