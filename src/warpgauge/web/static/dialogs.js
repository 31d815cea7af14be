/**
 * The few questions that the page asks in a window of their own.
 * @module
 */

import { byId, clock, make } from "./dom.js";

/** @import { Command } from "./keys.js" */
/** @import { Conflict } from "./types.js" */

export const REASONS = [
  ["not_visible", "It is not visible in the moving image"],
  ["ambiguous", "Several places could be it"],
  ["torn_or_missing", "The tissue is torn or missing there"],
  ["outside_image", "It lies outside the moving image"],
  ["other", "Another reason"],
];

/**
 * Show a dialog; the promise holds what it was closed with, "" for Escape.
 * @param {string} title
 * @param {Node[]} content
 * @param {(key: string) => string | null} [onKey] answer that a key stands for
 * @returns {Promise<string>}
 */
export function ask(title, content, onKey) {
  const dialog = /** @type {HTMLDialogElement} */ (byId("dialog"));
  if (dialog.open) dialog.close("");
  dialog.replaceChildren(make("h2", {}, title), ...content);
  return new Promise((done) => {
    /** @param {KeyboardEvent} event */
    const key = (event) => {
      const typing = event.target instanceof HTMLInputElement && event.target.type === "text";
      const answer = onKey && (!typing || event.key === "Enter") ? onKey(event.key) : null;
      if (answer === null) return;
      event.preventDefault();
      dialog.close(answer);
    };
    dialog.addEventListener("keydown", key);
    dialog.addEventListener("close", () => {
      dialog.removeEventListener("keydown", key);
      done(dialog.returnValue);
    }, { once: true });
    dialog.returnValue = "";
    dialog.showModal();
  });
}

/** @param {string} value */
export function closeDialog(value) {
  /** @type {HTMLDialogElement} */ (byId("dialog")).close(value);
}

/**
 * Why the query is skipped.
 * @returns {Promise<{reason: string, text: string} | null>}
 */
export async function askReason() {
  const text = make("input", { type: "text", maxLength: 500, placeholder: "note (optional)", "aria-label": "Note" });
  const buttons = REASONS.map(([reason, label], i) =>
    make("button", { type: "button", onclick: () => closeDialog(reason) }, make("kbd", {}, String(i + 1)), ` ${label}`),
  );
  const reason = await ask("Why can it not be told?", [make("div", { class: "choices" }, ...buttons, text)], (key) => {
    const i = ["1", "2", "3", "4", "5"].indexOf(key);
    return i >= 0 ? REASONS[i][0] : null;
  });
  return reason ? { reason, text: text.value.trim() } : null;
}

/**
 * @param {Record<string, any> | null} answer
 * @returns {string}
 */
function told(answer) {
  if (!answer) return "No answer: it was taken back.";
  const when = answer.time ? ` at ${clock(answer.time)}` : "";
  if (answer.reason) return `Skipped${when}: ${String(answer.reason).replaceAll("_", " ")}.`;
  const point = /** @type {number[]} */ (answer.point ?? []).map((value) => value.toFixed(1)).join(", ");
  return `Placed${when} at ${point}.`;
}

/**
 * Both versions of an answer; the expert chooses.
 * @param {Conflict} conflict
 * @param {(canvas: HTMLCanvasElement, answer: any) => void} picture draws an answer
 * @returns {Promise<"mine" | "theirs">}
 */
export async function askConflict(conflict, picture) {
  const side = (/** @type {string} */ title, /** @type {any} */ answer, /** @type {string} */ value) => {
    const canvas = make("canvas", { "data-version": value });
    queueMicrotask(() => picture(canvas, answer));
    return make("div", { class: "choices" }, make("strong", {}, title), canvas, make("p", {}, told(answer)),
      make("button", { type: "button", "data-choose": value, onclick: () => closeDialog(value) }, `Keep ${title.toLowerCase()}`));
  };
  const content = [
    make("p", {}, conflict.error),
    make("div", { class: "sides" }, side("This one", conflict.yours, "mine"), side("The other one", conflict.theirs, "theirs")),
  ];
  for (;;) {
    const answer = await ask("Two answers to one query", content);
    if (answer === "mine" || answer === "theirs") return answer;
  }
}

/**
 * All keys, each also a button.
 * @param {Command[]} commands
 */
export async function showKeys(commands) {
  const button = (/** @type {Command} */ command, /** @type {boolean} */ brief) =>
    make("button", { type: "button", title: command.label, "aria-label": command.label, onclick: () => {
      closeDialog("");
      command.run();
      // A key that is held has a button that holds for a while.
      if (command.release) setTimeout(command.release, 2500);
    } }, brief ? null : make("span", {}, command.label), make("kbd", {}, command.shown));
  const groups = [...new Set(commands.map((command) => command.group))].map((group) => {
    const own = commands.filter((command) => command.group === group);
    const nudges = own.filter(({ id }) => id.startsWith("nudge"));
    return make("div", { class: "group" }, make("h3", {}, group),
      ...own.filter((command) => !nudges.includes(command)).map((command) => button(command, false)),
      nudges.length ? make("div", { class: "static" }, "Nudge by a screen pixel; ⇧ by 10; Alt by 0.1 image pixel") : null,
      nudges.length ? make("div", { class: "nudges" }, ...nudges.map((command) => button(command, true))) : null);
  });
  const mouse = [
    ["click", "point, default radius"],
    ["drag", "centre and first half-axis"],
    ["wheel on the ellipse", "second half-axis"],
    ["… with ⇧, with Alt", "both, turn"],
    ["drag inside the ellipse", "second half-axis"],
    ["drag its handles", "stretch and turn"],
    ["drag its rim", "scale"],
    ["right- or space-drag", "pan"],
    ["wheel", "zoom (3D: slices, ⇧ zooms)"],
    ["Ctrl-drag", "brightness, contrast"],
    ["touch", "tap, long press, pinch"],
  ];
  const hand = make("div", { class: "group" }, make("h3", {}, "With the hand"), ...mouse.map(([what, gives]) =>
    make("div", { class: "static" }, make("span", {}, what), make("span", { class: "quiet" }, gives))));
  await ask("Keys", [make("div", { class: "columns" }, ...groups, hand), make("button", { type: "button", onclick: () => closeDialog("") }, "Close")], (key) => (key === "?" ? "" : null));
}
