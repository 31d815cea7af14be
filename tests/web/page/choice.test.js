import assert from "node:assert/strict";
import test from "node:test";

import { aimOf, starts } from "../../../src/warpgauge/web/static/annotator.js";
import { progressInWords } from "../../../src/warpgauge/web/static/bar.js";
import { RINGS } from "../../../src/warpgauge/web/static/markeditor.js";
import { inTurn, isOpen, marksAgree } from "../../../src/warpgauge/web/static/organiser.js";

const query = { location: [100, 50], radius: 20, answer: null, own_choice: false, placed: 7, total: null };

test("a place within the circle answers the question; outside it, and in the start, it is a landmark of one's own", () => {
  assert.equal(aimOf({ query, own: null, start: { due: false } }), "asked");
  assert.equal(aimOf({ query, own: [115, 60], start: { due: false } }), "chosen");
  assert.equal(aimOf({ query, own: [115, 70], start: { due: false } }), "own");
  assert.equal(aimOf({ query: { ...query, radius: 0 }, own: [101, 50], start: { due: false } }), "own", "an exact place has no circle");
  assert.equal(aimOf({ query: null, own: [1, 1], start: null }), "own");
  assert.ok(starts({ query, start: { due: true } }));
  assert.equal(aimOf({ query, own: null, start: { due: true } }), "own");
  const former = { ...query, radius: 0, answer: { kind: "place", fixed: [130, 50] } };
  assert.equal(aimOf({ query: former, own: [130, 50], start: null }), "chosen", "where it was chosen before");
  assert.equal(aimOf({ query: { ...former, own_choice: true }, own: [300, 50], start: null }), "chosen", "one's own landmark may go anywhere");
});

test("the end is said: of a budget, or of about twenty, with the minutes that are left", () => {
  const progress = { median_seconds: 30 };
  assert.equal(progressInWords({ query, done: null, progress }).words, "7 of about 20, 7 min");
  assert.equal(progressInWords({ query: { ...query, total: 9 }, done: null, progress }).words, "7 of 9, 1 min");
  assert.equal(progressInWords({ query: { ...query, placed: 24 }, done: null, progress }).words, "24 placed");
  assert.deepEqual(RINGS.map(({ words, pixels }) => [words, pixels]), [["sharp", 1.5], ["about", 4], ["roughly", 12]]);
});

test("marks that lie no farther apart than their regions explain agree; excluded ones do not count", () => {
  const mark = (x, more = {}) => ({ point: [x, 0], covariance: [[1, 0], [0, 1]], alpha: 0.01, excluded: false, disabled: false, ...more });
  assert.ok(marksAgree([mark(0), mark(4.2)]));
  assert.ok(!marksAgree([mark(0), mark(4.4)]));
  assert.ok(marksAgree([mark(0), mark(40, { excluded: true }), mark(1)]));
  assert.ok(isOpen({ marks: [mark(0), mark(9)], locked: false }));
  assert.ok(!isOpen({ marks: [mark(0), mark(9)], locked: true }));
  assert.ok(!isOpen({ marks: [mark(0), mark(1)], locked: false }));
  const raters = ["ada", "ben", "cy"].map((rater) => ({ rater }));
  assert.deepEqual([0, 1, 2, 3].map((query) => inTurn({ query, marks: raters }).marks[0].rater), ["ada", "ben", "cy", "ada"]);
});
