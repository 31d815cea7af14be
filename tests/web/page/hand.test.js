import assert from "node:assert/strict";
import test from "node:test";

import { CLICK_RADIUS, GestureMachine, forHand, wheelNotches } from "../../../src/warpgauge/web/static/gestures.js";
import { keyOfEvent } from "../../../src/warpgauge/web/static/keys.js";

/** A machine whose calls are written down. */
function recorded({ holds = false } = {}) {
  const calls = [];
  const write = (name) => (...values) => calls.push([name, ...values.map((v) => (Array.isArray(v) ? v.map(Math.round) : v)).filter((v) => typeof v !== "object" || Array.isArray(v) || v === null)]);
  const hand = { holds: () => holds, click: write("click"), drag: write("drag"), pan: write("pan"), pinch: write("pinch"), hover: () => {} };
  return { machine: new GestureMachine(hand), calls };
}

const at = (x, y, more = {}) => ({ id: 1, x, y, button: 0, touch: false, shift: false, ...more });

test("under four pixels is a click at the place that was pressed; from four on a handle is dragged, and all else pans", () => {
  const short = recorded();
  short.machine.down(at(10, 10));
  short.machine.move(at(10 + CLICK_RADIUS - 0.1, 10));
  short.machine.up(at(10 + CLICK_RADIUS - 0.1, 10));
  assert.deepEqual(short.calls, [["click", [10, 10]]]);
  for (const touch of [false, true]) {
    const pan = recorded();
    pan.machine.down(at(5, 5, { touch }));
    pan.machine.move(at(25, 5, { touch }));
    pan.machine.up(at(25, 5, { touch }));
    assert.deepEqual(pan.calls, [["pan", [20, 0]]]);
  }
  const long = recorded({ holds: true });
  long.machine.down(at(10, 10));
  long.machine.move(at(10, 10 + CLICK_RADIUS));
  long.machine.move(at(30, 40));
  long.machine.up(at(30, 40));
  assert.deepEqual(long.calls.map(([name, phase]) => [name, phase]), [["drag", "start"], ["drag", "move"], ["drag", "move"], ["drag", "end"]]);
});

test("another button is a drag at once, whatever lies there: it sets brightness and contrast", () => {
  const { machine, calls } = recorded();
  machine.down(at(5, 5, { button: 2 }));
  machine.move(at(9, 5));
  machine.up(at(9, 5, { button: 2 }));
  assert.deepEqual(calls.map(([name, phase]) => [name, phase]), [["drag", "start"], ["drag", "move"], ["drag", "end"]]);
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

test("Escape during a drag takes it back, and the release afterwards does nothing", () => {
  const { machine, calls } = recorded({ holds: true });
  machine.down(at(0, 0));
  machine.move(at(20, 0));
  machine.abandon();
  machine.up(at(20, 0));
  assert.deepEqual(calls.map(([, phase]) => phase), ["start", "move", "cancel"]);
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
  const sentence = "Where is this place? Click it in the other image.";
  assert.equal(forHand(sentence, false), sentence);
  assert.equal(forHand(sentence, true), "Where is this place? Tap it in the other image.");
  assert.equal(forHand("Click the match first, or press Space for a ring there; press S if you cannot tell.", true), "Tap the match first; choose Cannot tell if you cannot tell.");
  assert.equal(forHand("Enter saves it. Until then you can still move both.", true), "Accept saves it. Until then you can still move both.");
});
