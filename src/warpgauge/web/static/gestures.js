/**
 * What the hand does: click, drag, pan, pinch, wheel. No picture, no state of the page. A movement under 4 screen pixels is a click, however long or
 * short it takes: no fast click is swallowed as a drag.
 * @module
 */

/** @import { Vector } from "./linalg.js" */
/** @typedef {{shift: boolean, touch: boolean, button: number}} Modifiers button: 0 left, 1 middle, 2 right, -1 none */
/**
 * @typedef {object} Hand
 * @property {(at: Vector, modifiers: Modifiers) => boolean} holds whether there is something to drag under the pointer; else a drag pans
 * @property {(at: Vector, modifiers: Modifiers) => void} click
 * @property {(phase: "start" | "move" | "end" | "cancel", from: Vector, to: Vector, modifiers: Modifiers) => void} drag
 * @property {(shift: Vector) => void} pan
 * @property {(at: Vector, factor: number) => void} pinch
 * @property {(at: Vector | null) => void} hover
 */
/** @typedef {{id: number, x: number, y: number, button: number, touch: boolean, shift: boolean}} PointerLike */

export const CLICK_RADIUS = 4;

/** Whether the hand is a finger: then there may be no keys. */
export function byFinger() {
  return globalThis.matchMedia?.("(pointer: coarse)").matches ?? false;
}

/** @type {[RegExp, string][]} */
const FINGER = [[/\bClick\b/g, "Tap"], [/\bclick\b/g, "tap"], [/\bEnter (?:accepts|saves) it\b/g, "Accept saves it"], [/\bpress Enter\b/g, "choose Accept"], [/\bpress S\b/g, "choose Cannot tell"], [/, or press Space[^;.]*/g, ""]];

/** A sentence for the hand that is there: what is clicked with a mouse is tapped with a finger. @param {string} sentence @param {boolean} [finger] */
export function forHand(sentence, finger = byFinger()) {
  return finger ? FINGER.reduce((text, [mouse, touch]) => text.replace(mouse, touch), sentence) : sentence;
}

/** The machine behind the events, without a browser. */
export class GestureMachine {
  /** @param {Hand} hand */
  constructor(hand) {
    this.hand = hand;
    /** @type {Map<number, Vector>} */
    this.fingers = new Map();
    /** @type {null | {id: number, kind: "press" | "drag" | "pan" | "pinch", from: Vector, last: Vector, modifiers: Modifiers}} */
    this.now = null;
  }

  /** @param {PointerLike} event */
  down(event) {
    const at = [event.x, event.y];
    if (event.touch) this.fingers.set(event.id, at);
    const pinching = event.touch && this.fingers.size === 2;
    if (pinching) this.abandon();
    if (this.now) return;
    const other = event.button !== 0;
    this.now = { id: event.id, kind: pinching ? "pinch" : other ? "drag" : "press", from: at, last: at, modifiers: modifiersOf(event) };
    if (other) this.hand.drag("start", at, at, this.now.modifiers);
  }

  /** @param {PointerLike} event */
  move(event) {
    const at = [event.x, event.y];
    const { now } = this;
    if (!now) {
      this.hand.hover(at);
      return;
    }
    if (now.kind === "pinch") {
      this.movePinch(event.id, at);
      return;
    }
    if (event.id !== now.id) return;
    if (event.touch) this.fingers.set(event.id, at);
    if (now.kind === "press" && Math.hypot(at[0] - now.from[0], at[1] - now.from[1]) >= CLICK_RADIUS) this.begin(now);
    if (now.kind === "pan") this.hand.pan([at[0] - now.last[0], at[1] - now.last[1]]);
    if (now.kind === "drag") this.hand.drag("move", now.from, at, now.modifiers);
    if (now.kind !== "press") {
      this.hand.hover(event.touch ? null : at);
      now.last = at;
    }
  }

  /** @param {PointerLike} event */
  up(event) {
    this.fingers.delete(event.id);
    const { now } = this;
    if (!now || (now.kind === "pinch" ? this.fingers.size > 0 : event.id !== now.id)) return;
    this.now = null;
    if (now.kind === "press") this.hand.click(now.from, now.modifiers);
    if (now.kind === "drag") this.hand.drag("end", now.from, [event.x, event.y], now.modifiers);
  }

  /** The browser took the pointer away, or the key Escape was pressed. */
  abandon() {
    const { now } = this;
    this.now = null;
    if (now?.kind === "drag") this.hand.drag("cancel", now.from, now.last, now.modifiers);
  }

  /** @param {number} id */
  cancel(id) {
    this.fingers.delete(id);
    if (this.fingers.size === 0) this.abandon();
  }

  /** A press has become a movement. @param {NonNullable<GestureMachine["now"]>} now */
  begin(now) {
    now.kind = this.hand.holds(now.from, now.modifiers) ? "drag" : "pan";
    if (now.kind === "drag") this.hand.drag("start", now.from, now.from, now.modifiers);
  }

  /** @param {number} id @param {Vector} at */
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

/** @param {PointerLike} event @returns {Modifiers} */
function modifiersOf({ shift, touch, button }) {
  return { shift, touch, button };
}

/**
 * How far a wheel was turned, in notches, whatever the device and the browser's unit; down is positive.
 * @param {{deltaX: number, deltaY: number, deltaMode: number}} event @returns {number}
 */
export function wheelNotches(event) {
  // With Shift held, browsers turn the wheel sideways.
  const delta = Math.abs(event.deltaY) >= Math.abs(event.deltaX) ? event.deltaY : event.deltaX;
  const pixels = delta * (event.deltaMode === 1 ? 33 : event.deltaMode === 2 ? 300 : 1);
  return Math.max(-3, Math.min(3, pixels / 100));
}

/**
 * Bind the machine to an element.
 * @param {HTMLElement} element @param {Hand} hand @param {(at: Vector, notches: number, sideways: boolean) => void} wheel sideways: with Shift or Ctrl held @returns {GestureMachine}
 */
export function listenToHand(element, hand, wheel) {
  const machine = new GestureMachine(hand);
  /** @param {MouseEvent} event @returns {Vector} */
  const within = (event) => {
    const box = element.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  /** @param {PointerEvent} event @returns {PointerLike} */
  const plain = (event) => {
    const [x, y] = within(event);
    return { id: event.pointerId, x, y, button: event.button, touch: event.pointerType === "touch", shift: event.shiftKey };
  };
  element.addEventListener("pointerdown", (event) => {
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
  const turned = (/** @type {WheelEvent} */ event) => {
    event.preventDefault();
    wheel(within(event), wheelNotches(event), event.shiftKey || event.ctrlKey || event.metaKey);
  };
  element.addEventListener("wheel", turned, { passive: false });
  return machine;
}
