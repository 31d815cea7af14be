import assert from "node:assert/strict";
import test from "node:test";

import { Api, RefusedError } from "../../../src/warpgauge/web/static/api.js";
import { Store } from "../../../src/warpgauge/web/static/store.js";

class Drawer {
  constructor() {
    this.held = new Map();
  }
  getItem(key) {
    return this.held.get(key) ?? null;
  }
  setItem(key, value) {
    this.held.set(key, value);
  }
  removeItem(key) {
    this.held.delete(key);
  }
}

const json = (status, body) => new Response(JSON.stringify(body), { status });

function apiWith(answers, storage = new Drawer()) {
  const log = { sent: [], connected: [], said: [], pauses: [] };
  const api = new Api({
    storage,
    onConnection: (connected, sentence) => {
      log.connected.push(connected);
      if (sentence) log.said.push(sentence);
    },
    pause: async (ms) => void log.pauses.push(ms),
    send: async (path, init) => {
      log.sent.push([path, init?.body]);
      const next = answers.shift();
      if (next instanceof Error || next === undefined) throw next ?? new TypeError("failed to fetch");
      return next;
    },
  });
  return { api, log, storage };
}

test("only those who watch a key hear of it, once, and after the change", () => {
  const store = new Store({ a: 1, b: 1 });
  const heard = [];
  const stop = store.watch(["a"], (state, before) => heard.push([state.a, before.a]));
  store.set({ b: 2 });
  store.set({ a: 2, b: 3 });
  store.set({ a: 2 });
  stop();
  store.set({ a: 5 });
  assert.deepEqual(heard, [[2, 1]]);
});

test("a write waits for a server that is away, with growing pauses, and is kept until it is acknowledged", async () => {
  const full = json(503, { error: "The disk is full." });
  const { api, log, storage } = apiWith([new TypeError("x"), new TypeError("x"), full, json(200, { saved: 7 })]);
  const answer = api.post("/api/query/3/place", { point: [1, 2] });
  await Promise.resolve();
  await Promise.resolve();
  assert.equal(api.pending().path, "/api/query/3/place");
  assert.deepEqual(await answer, { saved: 7 });
  assert.equal(api.pending(), null);
  assert.equal(storage.held.size, 0);
  assert.deepEqual(log.connected, [false, false, false, true]);
  assert.deepEqual(log.said, ["The disk is full."]);
  assert.deepEqual(log.pauses, [...log.pauses].sort((a, b) => a - b));
  assert.equal(log.sent.length, 4);
});

test("writes go one after the other", async () => {
  const { api, log } = apiWith([new TypeError("x"), json(200, { n: 1 }), json(200, { n: 2 })]);
  const both = await Promise.all([api.post("/one", {}), api.post("/two", {})]);
  assert.deepEqual(both.map(({ n }) => n), [1, 2]);
  assert.deepEqual(log.sent.map(([path]) => path), ["/one", "/one", "/two"]);
});

test("a refusal is an error with the server's sentence and is not sent again; a conflict carries both versions", async () => {
  const theirs = { kind: "skip", reason: "other", text: "" };
  const { api, storage } = apiWith([json(422, { error: "Too thin." }), json(409, { error: "Changed.", yours: {}, theirs, generation: 9 })]);
  await assert.rejects(api.post("/a", {}), (error) => error instanceof RefusedError && error.message === "Too thin." && error.conflict === null);
  await assert.rejects(api.post("/b", {}), (error) => error.conflict?.generation === 9);
  assert.equal(storage.held.size, 0);
});

test("a refusal tells whether the request may have arrived before", async () => {
  const { api } = apiWith([new TypeError("x"), json(422, { error: "Done already." }), json(503, {}), json(422, { error: "No." })]);
  await assert.rejects(api.post("/a", {}), (error) => error.repeated === true);
  await assert.rejects(api.post("/b", {}), (error) => error.repeated === false);
});

test("what a visitor who is not known any more did waits for their next link", async () => {
  const { api, storage } = apiWith([json(401, { error: "No." })]);
  await assert.rejects(api.post("/a", { x: 1 }), RefusedError);
  assert.equal(storage.held.size, 1);
  const again = apiWith([json(200, { ok: true })], storage);
  assert.deepEqual(await again.api.resume(), { ok: true });
  assert.equal(storage.held.size, 0);
});
