import assert from "node:assert/strict";
import test from "node:test";

import { brightnessTables, scaleColour, showSamples } from "../../../src/warpgauge/web/static/colour.js";
import { eigenvalues } from "../../../src/warpgauge/web/static/linalg.js";
import { deviationOfEntropy, hatchStrength, readMap } from "../../../src/warpgauge/web/static/maps.js";
import { fade } from "../../../src/warpgauge/web/static/marks.js";
import { sortedRows } from "../../../src/warpgauge/web/static/review.js";
import { levelForScale, levelInPlane, visibleTiles } from "../../../src/warpgauge/web/static/pyramid.js";
import { planeOfImage } from "../../../src/warpgauge/web/static/plane.js";
import { fitPlaneToScreen } from "../../../src/warpgauge/web/static/viewport.js";
import { close, flipped } from "./helpers.js";

const big = {
  size: [20000, 16000], spacing: [1, 1], origin: [0, 0], direction: [[1, 0], [0, 1]], channels: 3, dtype: "uint8", tile: 256,
  levels: [0, 1, 2, 3, 4, 5, 6].map((l) => ({ size: [20000 >> l, 16000 >> l], spacing: [2 ** l, 2 ** l], origin: [(2 ** l - 1) / 2, (2 ** l - 1) / 2] })),
};

test("a huge image never asks for more tiles than cover the screen, at any zoom", () => {
  const plane = planeOfImage(big, 2);
  const fit = fitPlaneToScreen(plane, { width: 640, height: 560 });
  for (let scale = fit.scale; scale < 100; scale *= 1.7) {
    const view = { ...fit, scale, centre: [9000.3, 7000.7] };
    const tiles = visibleTiles(big, plane, view, levelForScale(big, plane, scale), 0);
    assert.ok(tiles.length > 0 && tiles.length <= 42, `${tiles.length} tiles at ${scale}`);
  }
});

test("the tiles asked for are those that hold the visible pixels, the nearest to the middle first", () => {
  const plane = planeOfImage(big, 2);
  const view = { centre: [1000, 600], scale: 1, width: 300, height: 200 };
  const tiles = visibleTiles(big, plane, view, 0, 0);
  assert.deepEqual(tiles.map(({ row, column }) => [row, column]).sort(), [[1, 3], [1, 4], [2, 3], [2, 4]]);
  assert.deepEqual([tiles[0].row, tiles[0].column], [2, 3]);
});

test("beside the image nothing is asked for", () => {
  const plane = planeOfImage(big, 2);
  assert.deepEqual(visibleTiles(big, plane, { centre: [-5000, 0], scale: 1, width: 300, height: 200 }, 0, 0), []);
});

test("levels of a flipped volume lie where their voxels are, and slices are found at each level", () => {
  const volume = { ...flipped, channels: 1, dtype: "uint16", tile: 256, levels: [
    { size: [40, 50, 60], spacing: [1, 1, 2], origin: [5, 6, 7] },
    { size: [20, 25, 30], spacing: [2, 2, 4], origin: [4.5, 6.5, 6] },
  ] };
  const plane = planeOfImage(volume, 2);
  const place = levelInPlane(volume, plane, 1);
  close(place.start, [-0.5, 0.5], 1e-12, "x is flipped, so that half a pixel lies on the other side");
  assert.deepEqual(place.step, [-2, 2]);
  const view = { centre: [-20, 20], scale: 1, width: 100, height: 100 };
  assert.equal(visibleTiles(volume, plane, view, 0, 40)[0].index, 20);
  assert.equal(visibleTiles(volume, plane, view, 1, 41)[0].index, 10);
});

test("window and level: dark below, bright above, linear between, channel by channel, invertible", () => {
  const windows = [{ low: 10, high: 20 }, { low: 0, high: 255 }, { low: 100, high: 200 }];
  const colours = { windows, invert: false, channel: "colour", shown: [] };
  const rgba = new Uint8ClampedArray(8);
  showSamples(new Uint8Array([5, 77, 140, 15, 255, 250]), 3, colours, brightnessTables(big, colours), rgba);
  assert.deepEqual([...rgba], [0, 77, 102, 255, 128, 255, 255, 255]);
  const inverted = brightnessTables(big, { windows, invert: true, channel: "colour", shown: [] });
  assert.deepEqual([inverted[0][5], inverted[0][25]], [255, 0]);
  const grey = new Uint8ClampedArray(4);
  const deep = { ...colours, windows: [{ low: 1000, high: 5000 }] };
  showSamples(new Uint16Array([3000]), 1, deep, brightnessTables({ dtype: "uint16" }, deep), grey);
  assert.deepEqual([...grey], [128, 128, 128, 255]);
});

test("channels that are not colours: the light of those shown adds up, each by its own window", () => {
  const shown = [{ channel: 3, colour: "#ff0000" }, { channel: 0, colour: "#ff8000" }];
  const windows = [{ low: 0, high: 510 }, { low: 0, high: 1 }, { low: 0, high: 1 }, { low: 100, high: 355 }];
  const colours = { windows, invert: false, channel: "colour", shown };
  const rgba = new Uint8ClampedArray(8);
  showSamples(new Uint16Array([150, 200, 355, 510]), 2, colours, brightnessTables({ dtype: "uint16" }, colours), rgba);
  assert.deepEqual([...rgba], [150, 50, 0, 255, 255, 128, 0, 255]);
});

test("maps: what is not known is told apart from what is good", () => {
  const blended = readMap("blended", new Float32Array([0, 1, 0, 0, 1, 1, NaN, 1]), null);
  assert.deepEqual([...blended.known], [1, 0, 1, 0]);
  assert.deepEqual([...blended.place].slice(0, 3), [0, 0, 1]);
  const entropy = readMap("entropy", new Float32Array([-2, 0, 4, 8]), [0, 4]);
  assert.deepEqual([...entropy.known], [1, 1, 0, 0]);
  assert.deepEqual(entropy.range, [-2, 4, 8], "what is unknown has shades too");
  // Most of it known about equally well: the colours tell it apart all the same, and equal values have one colour.
  close([...readMap("entropy", new Float32Array([-9, 7, 7.5, 7.5, 8]), null).place], [0, 0.25, 0.625, 0.625, 1]);
  assert.deepEqual([...readMap("entropy", new Float32Array([8, 8.01, 8.02]), null).place], [0.5, 0.5, 0.5], "noise has no colours");
  assert.deepEqual([0, 0.25, 0.5, 1].map((known) => hatchStrength("entropy", known)), [1, 0.5, 0, 0]);
  assert.deepEqual([0, 0.25, 1].map((known) => hatchStrength("blended", known)), [1, 0.75, 0]);
  close([deviationOfEntropy(1.5 * Math.log(2 * Math.PI * Math.E) + 3 * Math.log(7), 3)], [7]);
  assert.notDeepEqual(scaleColour("error", 0), scaleColour("error", 1));
});

test("half-lengths of a mark: eigenvalues by hand", () => {
  close(eigenvalues([[2, 1], [1, 2]]), [3, 1]);
  close(eigenvalues([[2, 0, 0], [0, 3, 4], [0, 4, 9]]), [11, 2, 1]);
  close(eigenvalues([[5, 0, 0], [0, 5, 0], [0, 0, 5]]), [5, 5, 5]);
});

test("marks fade with the distance from the slice and never vanish; the list sorts with unknown figures last", () => {
  assert.equal(fade(0), 1);
  assert.ok(fade(2) < 1 && fade(2) > fade(4) && fade(100) > 0.1);
  const rows = [{ query: 0, distance: null }, { query: 1, distance: 2 }, { query: 2, distance: 5 }];
  assert.deepEqual(sortedRows(rows, { by: "distance", down: true }).map((row) => row.query), [2, 1, 0]);
  assert.deepEqual(sortedRows(rows, { by: "distance", down: false }).map((row) => row.query), [1, 2, 0]);
});

test("a stain alone: its own colour is dark in its channel and leaves no trace in the others", () => {
  const vectors = { haematoxylin: [0.65, 0.7, 0.29], eosin: [0.07, 0.99, 0.11], dab: [0.27, 0.57, 0.78] };
  for (const [name, vector] of Object.entries(vectors)) {
    const length = Math.hypot(...vector);
    const pixel = Uint8Array.from(vector, (value) => Math.round(256 * 10 ** (-0.6 * (value / length)) - 1));
    for (const channel of Object.keys(vectors)) {
      const shown = new Uint8ClampedArray(4);
      const colours = { windows: Array(3).fill({ low: 0, high: 255 }), invert: false, channel, shown: [] };
      showSamples(pixel, 3, colours, brightnessTables(big, colours), shown);
      const wanted = channel === name ? 255 * (1 - 0.6 / 1.2) : 255;
      assert.ok(Math.abs(shown[0] - wanted) <= 4, `${name} in ${channel}: ${shown[0]}`);
    }
  }
});

