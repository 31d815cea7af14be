/**
 * What the hand does: click, drag, pan, pinch, wheel, tap, long press. No picture, no state of the page.
 *
 * A movement under 4 screen pixels is a click, however long or short it takes: no fast click is swallowed as a drag.
 * @module
 */

/** @import { Vector } from "./linalg.js" */
/** @typedef {{shift: boolean, alt: boolean, control: boolean, touch: boolean, button: number}} Modifiers button: 0 left, 1 middle, 2 right, -1 none */
/**
 * @typedef {object} Hand
 * @property {(at: Vector, modifiers: Modifiers) => boolean} holds whether there is something to drag under a touch
 * @property {(at: Vector, modifiers: Modifiers) => void} click
 * @property {(phase: "start" | "move" | "end" | "cancel", from: Vector, to: Vector, modifiers: Modifiers) => void} drag
 * @property {(shift: Vector) => void} pan
 * @property {(at: Vector, factor: number) => void} pinch
 * @property {(at: Vector | null, modifiers?: Modifiers) => void} hover
 * @property {(modifiers: Modifiers) => boolean} [grips] whether a drag with another button than the left does something else than pan
 */
/** @typedef {{id: number, x: number, y: number, button: number, touch: boolean, shift: boolean, alt: boolean, control: boolean}} PointerLike */

export const CLICK_RADIUS = 4;
export const LONG_PRESS = 400;

/** Whether the hand is a finger: then there may be no keys, and a drag pans. */
export function byFinger() {
  return globalThis.matchMedia?.("(pointer: coarse)").matches ?? false;
}

/** @type {[RegExp, string][]} */
const FINGER = [
  [/\bClick\b/g, "Tap"], [/\bclick\b/g, "tap"], [/\bdrag (instead|to show)/g, "press, hold and drag $1"], [/\bEnter (?:accepts(?: it)?|saves it)\b/g, "Accept saves it"],
  [/\bpress Enter\b/g, "choose Accept"], [/\bPress Enter\b/g, "Choose Accept"], [/\bpress S\b/g, "choose Cannot tell"], [/\bHandles or (Shift\+)?\[ \] change\b/g, "Its handles change"],
  [/, or press Space[^;]*/g, ""],
];

/**
 * A sentence for the hand that is there: what is clicked with a mouse is tapped with a finger.
 * @param {string} sentence
 * @param {boolean} [finger]
 * @returns {string}
 */
export function forHand(sentence, finger = byFinger()) {
  return finger ? FINGER.reduce((text, [mouse, touch]) => text.replace(mouse, touch), sentence) : sentence;
}

/** The machine behind the events, without a browser. */
export class GestureMachine {
  /**
   * @param {Hand} hand
   * @param {{set: (run: () => void, ms: number) => any, clear: (timer: any) => void}} timers
   */
  constructor(hand, timers) {
    this.hand = hand;
    this.timers = timers;
    this.space = false;
    /** @type {Map<number, Vector>} */
    this.fingers = new Map();
    /** @type {null | {id: number, kind: "press" | "drag" | "pan" | "pinch" | "spent", from: Vector, last: Vector, modifiers: Modifiers, timer: any}} */
    this.now = null;
  }

  /** @param {PointerLike} event */
  down(event) {
    const at = [event.x, event.y];
    if (event.touch) this.fingers.set(event.id, at);
    if (event.touch && this.fingers.size === 2) {
      this.abandon();
      this.now = { id: event.id, kind: "pinch", from: at, last: at, modifiers: modifiersOf(event), timer: null };
      return;
    }
    if (this.now) return;
    const modifiers = modifiersOf(event);
    const other = event.button !== 0 || this.space;
    const gripped = other && !this.space && (this.hand.grips?.(modifiers) ?? false);
    this.now = { id: event.id, kind: gripped ? "drag" : other ? "pan" : "press", from: at, last: at, modifiers, timer: null };
    if (gripped) this.hand.drag("start", at, at, modifiers);
    if (event.touch) this.now.timer = this.timers.set(() => this.longPress(), LONG_PRESS);
  }

  /** @param {PointerLike} event */
  move(event) {
    const at = [event.x, event.y];
    const now = this.now;
    if (!now) {
      this.hand.hover(at, modifiersOf(event));
      return;
    }
    if (now.kind === "pinch") {
      this.movePinch(event.id, at);
      return;
    }
    if (event.id !== now.id) return;
    if (event.touch) this.fingers.set(event.id, at);
    if (now.kind === "press" && Math.hypot(at[0] - now.from[0], at[1] - now.from[1]) >= CLICK_RADIUS) this.begin(event.touch);
    // What a finger drags over empty ground is the picture; with the mouse it is an ellipse.
    if (now.kind === "pan") this.hand.pan([at[0] - now.last[0], at[1] - now.last[1]]);
    if (now.kind === "drag") this.hand.drag("move", now.from, at, modifiersOf(event));
    if (now.kind !== "press") this.hand.hover(event.touch ? null : at);
    now.last = at;
  }

  /** @param {PointerLike} event */
  up(event) {
    const at = [event.x, event.y];
    this.fingers.delete(event.id);
    const now = this.now;
    if (!now) return;
    if (now.kind === "pinch") {
      if (this.fingers.size === 0) this.now = null;
      return;
    }
    if (event.id !== now.id) return;
    this.timers.clear(now.timer);
    this.now = null;
    if (now.kind === "press") this.hand.click(now.from, now.modifiers);
    if (now.kind === "drag") this.hand.drag("end", now.from, at, modifiersOf(event));
  }

  /** The browser took the pointer away, or the key Escape was pressed. */
  abandon() {
    const now = this.now;
    if (!now) return;
    this.timers.clear(now.timer);
    this.now = null;
    if (now.kind === "drag") this.hand.drag("cancel", now.from, now.last, now.modifiers);
  }

  /** @param {number} id */
  cancel(id) {
    this.fingers.delete(id);
    if (this.fingers.size === 0) this.abandon();
  }

  /** @param {boolean} touch */
  begin(touch) {
    const now = this.now;
    if (!now) return;
    this.timers.clear(now.timer);
    now.kind = touch && !this.hand.holds(now.from, now.modifiers) ? "pan" : "drag";
    if (now.kind === "drag") this.hand.drag("start", now.from, now.from, now.modifiers);
  }

  longPress() {
    const now = this.now;
    if (now?.kind !== "press") return;
    now.kind = "drag";
    this.hand.drag("start", now.from, now.from, now.modifiers);
  }

  /**
   * @param {number} id
   * @param {Vector} at
   */
  movePinch(id, at) {
    const before = [...this.fingers.values()];
    if (!this.fingers.has(id) || before.length < 2) return;
    this.fingers.set(id, at);
    const after = [...this.fingers.values()];
    const [middleBefore, middleAfter] = [before, after].map(([p, q]) => [(p[0] + q[0]) / 2, (p[1] + q[1]) / 2]);
    const [wideBefore, wideAfter] = [before, after].map(([p, q]) => Math.hypot(p[0] - q[0], p[1] - q[1]));
    this.hand.pan([middleAfter[0] - middleBefore[0], middleAfter[1] - middleBefore[1]]);
    if (wideBefore > 0) this.hand.pinch(middleAfter, wideAfter / wideBefore);
  }
}

/**
 * @param {PointerLike} event
 * @returns {Modifiers}
 */
function modifiersOf({ shift, alt, control, touch, button }) {
  return { shift, alt, control, touch, button };
}

/**
 * How far a wheel was turned, in notches, whatever the device and the browser's unit; down is positive.
 * @param {{deltaX: number, deltaY: number, deltaMode: number}} event
 * @returns {number}
 */
export function wheelNotches(event) {
  // With Shift held, browsers turn the wheel sideways.
  const delta = Math.abs(event.deltaY) >= Math.abs(event.deltaX) ? event.deltaY : event.deltaX;
  const pixels = delta * (event.deltaMode === 1 ? 33 : event.deltaMode === 2 ? 300 : 1);
  return Math.max(-3, Math.min(3, pixels / 100));
}

/** True while the space bar is held: then a drag pans. */
let spaceHeld = false;
let spaceDragged = false;

/** @param {boolean} held */
export function holdSpace(held) {
  if (held && !spaceHeld) spaceDragged = false;
  spaceHeld = held;
}

/** Whether something was dragged while the space bar was held last. */
export function draggedWithSpace() {
  return spaceDragged;
}

/**
 * Bind the machine to an element.
 * @param {HTMLElement} element
 * @param {Hand} hand
 * @param {(at: Vector, notches: number, modifiers: Modifiers) => void} wheel
 * @returns {GestureMachine}
 */
export function listenToHand(element, hand, wheel) {
  const timers = { set: (/** @type {() => void} */ run, /** @type {number} */ ms) => setTimeout(run, ms), clear: clearTimeout.bind(globalThis) };
  const machine = new GestureMachine(hand, timers);
  /** @param {PointerEvent} event @returns {PointerLike} */
  const plain = (event) => {
    const box = element.getBoundingClientRect();
    return {
      id: event.pointerId,
      x: event.clientX - box.left,
      y: event.clientY - box.top,
      button: event.button,
      touch: event.pointerType === "touch",
      shift: event.shiftKey,
      alt: event.altKey,
      control: event.ctrlKey || event.metaKey,
    };
  };
  element.addEventListener("pointerdown", (event) => {
    machine.space = spaceHeld;
    if (spaceHeld) spaceDragged = true;
    try {
      element.setPointerCapture(event.pointerId);
    } catch {
      // The pointer is gone already; its other events decide.
    }
    machine.down(plain(event));
    if (event.pointerType !== "touch") event.preventDefault();
    element.focus({ preventScroll: true });
  });
  element.addEventListener("pointermove", (event) => machine.move(plain(event)));
  element.addEventListener("pointerup", (event) => machine.up(plain(event)));
  element.addEventListener("pointercancel", (event) => machine.cancel(event.pointerId));
  element.addEventListener("pointerleave", () => machine.now || hand.hover(null));
  element.addEventListener("contextmenu", (event) => event.preventDefault());
  element.addEventListener(
    "wheel",
    (event) => {
      event.preventDefault();
      const box = element.getBoundingClientRect();
      const at = [event.clientX - box.left, event.clientY - box.top];
      const modifiers = { shift: event.shiftKey, alt: event.altKey, control: event.ctrlKey || event.metaKey, touch: false, button: -1 };
      wheel(at, wheelNotches(event), modifiers);
    },
    { passive: false },
  );
  return machine;
}
