/**
 * The few questions that the page asks in a window of their own.
 * @module
 */

import { byId, clock, length, make } from "./dom.js";
import { norm, subtract } from "./linalg.js";

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
 * Show a dialog; the promise holds what it was closed with, "" for Escape and Cancel. The focus begins on its title, so
 * that Enter does nothing before the user has chosen something.
 * @param {string} title
 * @param {Node[]} content
 * @param {(key: string, typing: boolean) => string | null} [onKey] answer that a key stands for
 * @param {boolean} [low] whether it stands in the place of the bottom bar, so that the images stay in sight as they are
 * @returns {Promise<string>}
 */
export function ask(title, content, onKey, low = false) {
  const dialog = /** @type {HTMLDialogElement} */ (byId("dialog"));
  if (dialog.open) dialog.close("");
  dialog.classList.toggle("low", low);
  const heading = make("h2", { tabIndex: -1, id: "dialog-title" }, title);
  dialog.setAttribute("aria-labelledby", "dialog-title");
  dialog.replaceChildren(heading, ...content);
  return new Promise((done) => {
    /** @param {KeyboardEvent} event */
    const key = (event) => {
      // Keys pressed in a dialog do nothing on the page behind it.
      event.stopPropagation();
      const typing = event.target instanceof HTMLInputElement && event.target.type === "text";
      // The key belongs to the button that has the focus.
      if (event.key === "Enter" && event.target instanceof HTMLButtonElement) return;
      const answer = onKey ? onKey(event.key, typing) : null;
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
    heading.focus();
  });
}

/** @param {string} value */
export function closeDialog(value) {
  /** @type {HTMLDialogElement} */ (byId("dialog")).close(value);
}

/** @param {string} [name] */
export function cancelButton(name = "Cancel") {
  return make("div", { class: "foot" }, make("button", { type: "button", "data-cancel": "", onclick: () => closeDialog("") }, name));
}

/**
 * Why the question is skipped.
 * @returns {Promise<{reason: string, text: string} | null>}
 */
export async function askReason() {
  const text = make("input", { type: "text", maxLength: 500, placeholder: "Note, if you like", "aria-label": "Note" });
  const buttons = REASONS.map(([reason, label], i) =>
    make("button", { type: "button", onclick: () => closeDialog(reason) }, make("kbd", {}, String(i + 1)), label),
  );
  const hint = make("p", { class: "quiet" }, "Press 1 to 5, or write a note and press Enter.");
  const reason = await ask("Why can you not tell?", [make("div", { class: "choices" }, ...buttons, text), hint, cancelButton()], (key, typing) => {
    if (typing) return key === "Enter" ? "other" : null;
    return REASONS[["1", "2", "3", "4", "5"].indexOf(key)]?.[0] ?? null;
  }, true);
  return reason ? { reason, text: text.value.trim() } : null;
}

/**
 * @param {Record<string, any> | null} answer
 * @returns {string}
 */
function told(answer) {
  if (!answer) return "No answer: it was taken back.";
  const when = answer.time ? ` at ${clock(answer.time)}` : " just now";
  if (answer.reason) return `Skipped${when}: ${String(answer.reason).replaceAll("_", " ")}.`;
  return `Placed${when}.`;
}

/**
 * Both versions of an answer; the expert chooses.
 * @param {Conflict} conflict
 * @param {number} number of the question, for this rater
 * @param {string} units
 * @param {(canvas: HTMLCanvasElement, answer: any) => void} picture draws an answer
 * @returns {Promise<"mine" | "theirs">}
 */
export async function askConflict(conflict, number, units, picture) {
  const side = (/** @type {string} */ title, /** @type {any} */ answer, /** @type {string} */ value, /** @type {string} */ button) => {
    const canvas = make("canvas", { "data-version": value, role: "img", "aria-label": title });
    queueMicrotask(() => picture(canvas, answer));
    return make("div", { class: "choices" }, make("strong", {}, title), canvas, make("p", {}, told(answer)),
      make("button", { type: "button", "data-choose": value, onclick: () => closeDialog(value) }, button));
  };
  const [one, other] = [conflict.yours, conflict.theirs].map((answer) => /** @type {number[] | undefined} */ (/** @type {any} */ (answer)?.point));
  const apart = one && other ? ` The two marks are ${length(Number(norm(subtract(one, other)).toPrecision(2)), units)} apart.` : "";
  const content = [
    make("p", {}, `You answered it in another tab or window after this one was opened.${apart} Nothing is changed until you choose.`),
    make("div", { class: "sides" }, side("This answer", conflict.yours, "mine", "Keep this answer"), side("The other answer", conflict.theirs, "theirs", "Keep the other answer")),
  ];
  const title = `Question ${number} has two answers`;
  for (;;) {
    const answer = await ask(title, content);
    if (answer === "mine" || answer === "theirs") return answer;
  }
}

/** What the arrows do with each modifier. */
const ARROWS = [["screen", "Nudge by 1 screen pixel"], ["ten", "… by 10 (Shift)"], ["tenth", "… by 0.1 image pixel (Alt)"], ["view", "Move the view (Ctrl)"]];

/**
 * @param {Command[]} arrows
 * @param {(command: Command, brief: boolean) => HTMLElement} button
 */
function arrowRows(arrows, button) {
  if (arrows.length === 0) return [];
  return ARROWS.map(([unit, label]) => make("div", { class: "arrows" }, make("span", {}, label), ...arrows.filter(({ id }) => id.startsWith(`arrow-${unit}-`)).map((command) => button(command, true))));
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
    } }, brief ? null : make("span", {}, command.label), make("kbd", {}, brief ? command.shown.slice(-1) : command.shown));
  const groups = ["Answer", "Shape of your mark", "Page", "Seeing", "Overlays"].map((group) => {
    const own = commands.filter((command) => command.group === group);
    const arrows = own.filter(({ id }) => id.startsWith("arrow"));
    return make("div", { class: "group" }, make("h3", {}, group), ...own.filter((command) => !arrows.includes(command)).map((command) => button(command, false)), ...arrowRows(arrows, button));
  });
  const mouse = [
    ["Click", "put your mark"],
    ["Drag", "put it and show how sure you are"],
    ["Drag a handle or the rim", "change its shape"],
    ["Alt + drag", "turn it"],
    ["Right or Space + drag", "pan"],
    ["Wheel", "zoom (3D: slices; Shift zooms)"],
    ["Ctrl + drag", "brightness and contrast"],
    ["3D: middle drag", "brightness and contrast"],
    ["3D: Shift + right drag", "slices"],
    ["3D: Shift + move", "all planes follow the pointer"],
    ["Drag in the warped image", "pull tissue; the mark follows"],
    ["Touch", "tap; long press, then drag; pinch"],
  ];
  const hand = make("div", { class: "group" }, make("h3", {}, "Mouse and touch"), ...mouse.map(([what, gives]) =>
    make("div", { class: "static" }, make("span", {}, what), make("span", { class: "quiet" }, gives))));
  await ask("Keys and mouse", [make("div", { class: "columns" }, hand, ...groups), cancelButton("Close")], (key) => (key === "?" ? "" : null));
}
