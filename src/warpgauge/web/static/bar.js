/**
 * The lines above and below the images.
 * @module
 */

import { ALPHAS } from "./commands.js";
import { byId, clock, length, make, number } from "./dom.js";
import { axesOfMark } from "./figures.js";

/** @import { Annotator } from "./annotator.js" */
/** @import { Command } from "./keys.js" */
/** @import { Store } from "./store.js" */
/** @import { Progress, Project, Query, State } from "./types.js" */

/**
 * Buttons for the commands, at the bottom and wherever the page names one.
 * @param {Store<State>} store
 * @param {Command[]} commands
 */
export function buildButtons(store, commands) {
  const row = byId("commands");
  row.replaceChildren(
    ...commands.filter((command) => command.main).map((command) =>
      make("button", { type: "button", "data-command": command.id, title: `${command.label} (${command.shown})` },
        make("kbd", {}, command.shown), ` ${command.short ?? command.label}`)),
  );
  for (const button of document.querySelectorAll("button[data-command]")) {
    const command = commands.find(({ id }) => id === /** @type {HTMLElement} */ (button).dataset.command);
    if (!command) continue;
    button.addEventListener("click", () => {
      command.run();
      // The hand goes on with the keys of the page, not with this button's Enter.
      if (command.group === "Answer") /** @type {HTMLElement} */ (button).blur();
    });
    if (command.pressed) {
      const show = () => button.setAttribute("aria-pressed", String(command.pressed?.()));
      store.watch([], show);
      show();
    }
  }
}

/**
 * @param {Store<State>} store
 * @param {Annotator} annotator
 * @param {Project} project
 */
export function buildBar(store, annotator, project) {
  byId("project-name").textContent = project.name;
  byId("project-name").title = `${project.images.fixed.name} → ${project.images.moving.name}`;
  byId("who").textContent = `${project.rater} (${project.role})`;
  const alpha = /** @type {HTMLSelectElement} */ (byId("alpha"));
  const choices = [...new Set([...ALPHAS, project.settings.alpha])].sort((a, b) => a - b);
  alpha.replaceChildren(...choices.map((value) => make("option", { value: String(value) }, `${number(100 * (1 - value))} %`)));
  alpha.addEventListener("change", () => {
    annotator.setAlpha(Number(alpha.value));
    alpha.blur();
  });
  const show = () => {
    const { state } = store;
    const { query } = state;
    byId("query-number").textContent = query ? queryTitle(query) : state.done ? "done" : "";
    const bar = /** @type {HTMLProgressElement} */ (byId("query-bar"));
    bar.hidden = query !== null && query.total === null;
    bar.value = query ? (query.position - 1) / Math.max(query.total ?? 1, 1) : state.done ? 1 : 0;
    byId("why").textContent = query?.why ?? "";
    byId("why").title = query?.why ?? "";
    const message = byId("message");
    message.textContent = state.message;
    message.title = state.message;
    message.className = state.tone;
    byId("saved").textContent = state.writing === "saving" ? "saving…" : state.saved ? `saved ${clock(state.saved.time)}` : "";
    byId("offline").hidden = state.connection === "ok";
    if (state.connection === "refused") byId("offline").textContent = "The server does not know this browser any more: open the link that it printed. Your last action is kept here.";
    else byId("offline").textContent = "Not connected. Your last action is kept here and will be sent.";
    alpha.value = String(state.mark?.alpha ?? annotator.alpha);
    byId("size-figure").textContent = state.mark ? `± ${axesOfMark(state.mark).map((value) => number(Number(value.toPrecision(2)))).join(" × ")} ${length(0, project.units).slice(2)}` : "";
    for (const id of ["accept", "skip", "another"]) {
      const button = document.querySelector(`#commands button[data-command="${id}"]`);
      if (button) /** @type {HTMLButtonElement} */ (button).disabled = !annotator.editable;
    }
  };
  store.watch(["query", "done", "mark", "message", "tone", "saved", "writing", "connection"], show);
  show();
}

/**
 * The number by which lists and marks call a query; where it is not the how-manieth of this rater, both.
 * @param {Query} query
 */
export function queryTitle({ number: own, position, total }) {
  if (own === position) return `query ${own}${total === null ? "" : ` of ${total}`}`;
  return `query ${own} (${position}.${total === null ? "" : ` of ${total}`})`;
}

/**
 * @param {Progress} progress
 * @param {string} units
 */
export function showUncertainty(progress, units) {
  byId("uncertainty").textContent = progress.mean_sd === null || progress.mean_sd === undefined ? "" : `typical uncertainty ${length(progress.mean_sd, units)}`;
}
