/**
 * All commands: what each is called, which keys it has, and what it does. The key overlay, the buttons and the keyboard
 * are made from this one table.
 * @module
 */

/**
 * @typedef {object} Command
 * @property {string} id
 * @property {string} label
 * @property {string[]} keys as `keyOfEvent` names them
 * @property {string} shown how the key is written
 * @property {string} group
 * @property {string} [short] label of its button at the bottom
 * @property {() => void} run
 * @property {() => void} [release] for a key that is held
 * @property {() => boolean} [pressed] whether it is switched on
 * @property {boolean} [main] has a button at the bottom
 */

/**
 * A key with its modifiers, letters in lower case: "z", "Shift+z", "Alt+ArrowUp", "?".
 * @param {{key: string, shiftKey: boolean, altKey: boolean, ctrlKey: boolean, metaKey: boolean}} event
 * @returns {string}
 */
export function keyOfEvent(event) {
  const letter = event.key.length === 1;
  const key = letter ? event.key.toLowerCase() : event.key;
  // For signs the shift is part of the sign; for letters and named keys it is a modifier.
  const sign = letter && key.toUpperCase() === key;
  const shift = event.shiftKey && !sign ? "Shift+" : "";
  const control = event.ctrlKey || event.metaKey ? "Ctrl+" : "";
  return `${control}${event.altKey ? "Alt+" : ""}${shift}${key}`;
}

/**
 * Whether the keyboard belongs to what has the focus, and not to the page.
 * @param {EventTarget | null} target
 * @param {string} key
 * @returns {boolean}
 */
export function belongsToControl(target, key) {
  if (!(target instanceof HTMLElement)) return false;
  if (target.closest("dialog[open]")) return true;
  if (target instanceof HTMLTextAreaElement) return true;
  if (target instanceof HTMLInputElement && !["button", "checkbox", "radio"].includes(target.type)) {
    return target.type !== "range" || key.startsWith("Arrow");
  }
  if (target instanceof HTMLSelectElement) return key !== "Escape";
  if (key === "Tab" || key === "Shift+Tab") return !(target instanceof HTMLCanvasElement) && target !== document.body;
  return (key === "Enter" || key === " ") && target.matches("button, a, summary, input, [role=button], tr.go");
}

/**
 * Bind the table to the keyboard.
 * @param {Command[]} commands
 */
export function listenToKeys(commands) {
  const byKey = new Map(commands.flatMap((command) => command.keys.map((key) => [key, command])));
  /** @type {Command | null} */
  let held = null;
  document.addEventListener("keydown", (event) => {
    const key = keyOfEvent(event);
    if (belongsToControl(event.target, key)) return;
    const command = byKey.get(key);
    if (!command) return;
    event.preventDefault();
    if (command.release) {
      if (held) return;
      held = command;
    }
    if (event.repeat && !command.group.startsWith("Shape") && !["back", "forth", "zoom-in", "zoom-out"].includes(command.id)) return;
    command.run();
  });
  const letGo = () => {
    held?.release?.();
    held = null;
  };
  document.addEventListener("keyup", (event) => held?.keys.includes(event.key.toLowerCase()) && letGo());
  globalThis.addEventListener("blur", letGo);
}
