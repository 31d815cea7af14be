/** Commands and the keyboard. The list of keys, the buttons and the keyboard are made from one table. @module */

/**
 * @typedef {object} Command
 * @property {string} id
 * @property {string} label
 * @property {string[]} keys as `keyOfEvent` names them
 * @property {string} shown how the key is written
 * @property {() => void} run
 * @property {() => void} [release] for a key that is held
 * @property {boolean} [repeats] whether a key that is held does it again
 */

/**
 * A key with its modifiers, letters in lower case: "z", "Shift+z", "Shift+ArrowUp", "?".
 * @param {{key: string, shiftKey: boolean, altKey: boolean, ctrlKey: boolean, metaKey: boolean}} event @returns {string}
 */
export function keyOfEvent(event) {
  const letter = event.key.length === 1;
  const key = letter ? event.key.toLowerCase() : event.key;
  // For signs the shift is part of the sign; for letters and named keys it is a modifier.
  const sign = letter && key.toUpperCase() === key;
  const shift = event.shiftKey && !sign ? "Shift+" : "";
  // AltGr, with which many keyboards write signs, is reported as Ctrl and Alt.
  const written = sign && event.ctrlKey && event.altKey;
  const control = (event.ctrlKey || event.metaKey) && !written ? "Ctrl+" : "";
  return `${control}${event.altKey && !written ? "Alt+" : ""}${shift}${key}`;
}

/**
 * Whether the keyboard belongs to what has the focus, and not to the page.
 * @param {EventTarget | null} target @param {string} key @returns {boolean}
 */
function belongsToControl(target, key) {
  if (!(target instanceof HTMLElement)) return false;
  if (document.querySelector("dialog[open]")) return true;
  if (key === "Escape") return false;
  if (target instanceof HTMLTextAreaElement || target instanceof HTMLSelectElement) return true;
  if (target instanceof HTMLInputElement && !["button", "checkbox", "radio"].includes(target.type)) {
    return target.type !== "range" || key.startsWith("Arrow");
  }
  if (target.closest("[role=tablist]") && key.startsWith("Arrow")) return true;
  return (key === "Enter" || key === " ") && target.matches("button, a, summary, input, [role=button], tr.go");
}

/** Bind the table to the keyboard. @param {Command[]} commands */
export function listenToKeys(commands) {
  const byKey = new Map(commands.flatMap((command) => command.keys.map((key) => [key, command])));
  /** @type {Command | null} */
  let held = null;
  document.addEventListener("keydown", (event) => {
    const key = keyOfEvent(event);
    if (event.defaultPrevented || belongsToControl(event.target, key)) return;
    const command = byKey.get(key);
    if (!command) return;
    event.preventDefault();
    if (command.release && held) return;
    if (command.release) held = command;
    if (!event.repeat || command.repeats) command.run();
  });
  const letGo = () => {
    held?.release?.();
    held = null;
  };
  document.addEventListener("keyup", (event) => held?.keys.includes(event.key.toLowerCase()) && letGo());
  globalThis.addEventListener("blur", letGo);
}

/** Show where the keyboard is only to those who use it to move. */
export function showFocusToKeys() {
  document.addEventListener("keydown", (event) => event.key === "Tab" && document.body.classList.add("by-keys"));
  document.addEventListener("pointerdown", () => document.body.classList.remove("by-keys"));
}

/**
 * After a button was clicked by hand the keys go on working on the images: Enter accepts, it does not click again.
 * @param {() => void} focusImages
 */
export function giveFocusBack(focusImages) {
  document.addEventListener("click", (event) => {
    // Clicked by the keyboard: the focus is where the user put it.
    if (event.detail === 0 || document.querySelector("dialog[open]")) return;
    const on = (/** @type {string} */ what) => event.composedPath().some((one) => one instanceof Element && one.matches(what));
    if (on("button, input[type=checkbox], tr.go") && on("#top, #bottom, #drawer, #menu") && !on("#drawer [role=tab]")) focusImages();
  });
}
