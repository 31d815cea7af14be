import assert from "node:assert/strict";
import test from "node:test";

import { CLICK_RADIUS, GestureMachine, LONG_PRESS, forHand, wheelNotches } from "../../../src/warpgauge/web/static/gestures.js";
import { keyOfEvent } from "../../../src/warpgauge/web/static/keys.js";

/** A machine whose calls are written down, with a clock that the test turns. */
function recorded({ holds = false } = {}) {
  const calls = [];
  const timers = [];
  const write = (name) => (...values) => calls.push([name, ...values.map((v) => (Array.isArray(v) ? v.map(Math.round) : v)).filter((v) => typeof v !== "object" || Array.isArray(v) || v === null)]);
  const hand = { holds: () => holds, click: write("click"), drag: write("drag"), pan: write("pan"), pinch: write("pinch"), hover: () => {} };
  const machine = new GestureMachine(hand, {
    set: (run, ms) => timers.push({ run, ms }) - 1,
    clear: (id) => id !== null && id !== undefined && (timers[id] = null),
  });
  const pass = (ms) => timers.forEach((timer) => timer && timer.ms <= ms && timer.run());
  return { machine, calls, pass };
}

const at = (x, y, more = {}) => ({ id: 1, x, y, button: 0, touch: false, shift: false, alt: false, control: false, ...more });

test("under four pixels is a click at the place that was pressed; from four on it is a drag", () => {
  const short = recorded();
  short.machine.down(at(10, 10));
  short.machine.move(at(10 + CLICK_RADIUS - 0.1, 10));
  short.machine.up(at(10 + CLICK_RADIUS - 0.1, 10));
  assert.deepEqual(short.calls, [["click", [10, 10]]]);
  const long = recorded();
  long.machine.down(at(10, 10));
  long.machine.move(at(10, 10 + CLICK_RADIUS));
  long.machine.move(at(30, 40));
  long.machine.up(at(30, 40));
  assert.deepEqual(long.calls.map(([name, phase]) => [name, phase]), [["drag", "start"], ["drag", "move"], ["drag", "move"], ["drag", "end"]]);
});

test("another button pans, unless the hand has a use for it", () => {
  const free = recorded();
  free.machine.down(at(5, 5, { button: 1 }));
  free.machine.move(at(9, 5, { button: -1 }));
  free.machine.up(at(9, 5, { button: 1 }));
  assert.deepEqual(free.calls, [["pan", [4, 0]]]);
  const used = recorded();
  used.machine.hand.grips = ({ button }) => button === 1;
  used.machine.down(at(5, 5, { button: 1 }));
  used.machine.move(at(9, 5, { button: -1 }));
  used.machine.up(at(9, 5, { button: 1 }));
  assert.deepEqual(used.calls.map(([name, phase]) => [name, phase]), [["drag", "start"], ["drag", "move"], ["drag", "end"]]);
});

test("a hundred fast clicks are a hundred clicks", () => {
  const { machine, calls } = recorded();
  for (let i = 0; i < 100; i++) {
    machine.down(at(i, 5));
    machine.up(at(i + 1, 6));
  }
  assert.equal(calls.length, 100);
  assert.ok(calls.every(([name]) => name === "click"));
});

test("the right button and the space bar pan, and never draw", () => {
  for (const [space, button] of [[false, 2], [false, 1], [true, 0]]) {
    const { machine, calls } = recorded();
    machine.space = space;
    machine.down(at(10, 10, { button }));
    machine.move(at(15, 12));
    machine.move(at(25, 20));
    machine.up(at(25, 20));
    assert.deepEqual(calls, [["pan", [5, 2]], ["pan", [10, 8]]]);
  }
});

test("Escape during a drag takes it back, and the release afterwards does nothing", () => {
  const { machine, calls } = recorded();
  machine.down(at(0, 0));
  machine.move(at(20, 0));
  machine.abandon();
  machine.up(at(20, 0));
  assert.deepEqual(calls.map(([, phase]) => phase), ["start", "move", "cancel"]);
});

test("a finger: tap clicks, drag pans, long press and drag draws, a handle is dragged at once", () => {
  const tap = recorded();
  tap.machine.down(at(5, 5, { touch: true }));
  tap.machine.up(at(6, 5, { touch: true }));
  assert.deepEqual(tap.calls, [["click", [5, 5]]]);
  const pan = recorded();
  pan.machine.down(at(5, 5, { touch: true }));
  pan.machine.move(at(25, 5, { touch: true }));
  pan.machine.up(at(25, 5, { touch: true }));
  assert.deepEqual(pan.calls, [["pan", [20, 0]]]);
  const press = recorded();
  press.machine.down(at(5, 5, { touch: true }));
  press.pass(LONG_PRESS);
  press.machine.move(at(25, 5, { touch: true }));
  press.machine.up(at(25, 5, { touch: true }));
  assert.deepEqual(press.calls.map(([name, phase]) => [name, phase]), [["drag", "start"], ["drag", "move"], ["drag", "end"]]);
  const handle = recorded({ holds: true });
  handle.machine.down(at(5, 5, { touch: true }));
  handle.machine.move(at(25, 5, { touch: true }));
  assert.equal(handle.calls[0][0], "drag");
});

test("two fingers pinch: the factor is the ratio of their distances, and what was begun is cancelled", () => {
  const { machine, calls } = recorded();
  machine.down(at(0, 0, { touch: true }));
  machine.down(at(100, 0, { touch: true, id: 2 }));
  machine.move(at(200, 0, { touch: true, id: 2 }));
  machine.up(at(200, 0, { touch: true, id: 2 }));
  machine.up(at(0, 0, { touch: true }));
  assert.deepEqual(calls, [["pan", [50, 0]], ["pinch", [100, 0], 2]]);
  machine.down(at(1, 1, { touch: true }));
  machine.up(at(1, 1, { touch: true }));
  assert.equal(calls.at(-1)[0], "click", "the next touch starts anew");
});

test("the wheel in notches, whatever the unit, sideways with Shift, and bounded", () => {
  assert.equal(wheelNotches({ deltaX: 0, deltaY: 100, deltaMode: 0 }), 1);
  assert.equal(wheelNotches({ deltaX: -100, deltaY: 0, deltaMode: 0 }), -1);
  assert.ok(Math.abs(wheelNotches({ deltaX: 0, deltaY: 3, deltaMode: 1 }) - 1) < 0.02);
  assert.equal(wheelNotches({ deltaX: 0, deltaY: 1e6, deltaMode: 0 }), 3);
});

test("keys by name: letters in lower case, the shift of a sign is part of the sign", () => {
  const key = (name, more = {}) => keyOfEvent({ key: name, shiftKey: false, altKey: false, ctrlKey: false, metaKey: false, ...more });
  assert.equal(key("z"), "z");
  assert.equal(key("Z", { shiftKey: true }), "Shift+z");
  assert.equal(key("?", { shiftKey: true }), "?");
  assert.equal(key("+", { shiftKey: true }), "+");
  assert.equal(key("ArrowUp", { altKey: true }), "Alt+ArrowUp");
  assert.equal(key("z", { metaKey: true }), "Ctrl+z");
});

test("what is said to a mouse is said to a finger in its own words", () => {
  const sentence = "Where is this point? Click it; drag to show how sure you are.";
  assert.equal(forHand(sentence, false), sentence);
  assert.equal(forHand(sentence, true), "Where is this point? Tap it; press, hold and drag to show how sure you are.");
  assert.equal(forHand("± 3 px, your usual size. Handles or [ ] change it, Enter accepts.", true), "± 3 px, your usual size. Its handles change it, Accept saves it.");
  assert.equal(forHand("The mark is moved by 3 px. Enter accepts it there, Z takes it back.", true), "The mark is moved by 3 px. Accept saves it there, Z takes it back.");
  assert.equal(forHand("Click the match first; press S if you cannot tell, then press Enter.", true), "Tap the match first; choose Cannot tell if you cannot tell, then choose Accept.");
  assert.equal(forHand("Click the match first, or press Space for a mark in the middle; S if you cannot tell.", true), "Tap the match first; S if you cannot tell.");
});
