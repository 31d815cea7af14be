import assert from "node:assert/strict";
import test from "node:test";

import { mixSamples } from "../../../src/warpgauge/web/static/channels.js";
import { brightnessTables, colourSamples, scaleColour } from "../../../src/warpgauge/web/static/colour.js";
import { histogramOf, rangeOf } from "../../../src/warpgauge/web/static/contrast.js";
import { brightnessOf, showChannel, stainsOfImage } from "../../../src/warpgauge/web/static/stains.js";
import { eigenvalues } from "../../../src/warpgauge/web/static/figures.js";
import { piecesByDepth } from "../../../src/warpgauge/web/static/gridlines.js";
import { applyLocal, localMap } from "../../../src/warpgauge/web/static/link.js";
import { sortedRows } from "../../../src/warpgauge/web/static/list.js";
import { deviationOfEntropy, hatchStrength, readMap } from "../../../src/warpgauge/web/static/maps.js";
import { fade } from "../../../src/warpgauge/web/static/marks.js";
import { samplesUnder } from "../../../src/warpgauge/web/static/samples.js";
import { TileSource } from "../../../src/warpgauge/web/static/tiles.js";
import { edgeDirection } from "../../../src/warpgauge/web/static/structure.js";
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
  const tables = brightnessTables(big, { windows, invert: false, gamma: 1, channel: "colour", shown: [] });
  const rgba = new Uint8ClampedArray(8);
  colourSamples(new Uint8Array([5, 77, 140, 15, 255, 250]), 3, tables, rgba);
  assert.deepEqual([...rgba], [0, 77, 102, 255, 128, 255, 255, 255]);
  const inverted = brightnessTables(big, { windows, invert: true, gamma: 1, channel: "colour", shown: [] });
  assert.deepEqual([inverted[0][5], inverted[0][25]], [255, 0]);
  const grey = new Uint8ClampedArray(4);
  colourSamples(new Uint16Array([3000]), 1, brightnessTables({ dtype: "uint16" }, { windows: [{ low: 1000, high: 5000 }], invert: false, gamma: 1, channel: "colour", shown: [] }), grey);
  assert.deepEqual([...grey], [128, 128, 128, 255]);
});

test("channels that are not colours: the light of those shown adds up, each by its own window", () => {
  const shown = [{ channel: 3, colour: "#ff0000" }, { channel: 0, colour: "#ff8000" }];
  const windows = [{ low: 0, high: 510 }, { low: 0, high: 1 }, { low: 0, high: 1 }, { low: 100, high: 355 }];
  const tables = brightnessTables({ dtype: "uint16" }, { windows, invert: false, gamma: 1, channel: "colour", shown });
  const rgba = new Uint8ClampedArray(8);
  mixSamples(new Uint16Array([150, 200, 355, 510]), shown, tables, rgba);
  assert.deepEqual([...rgba], [150, 50, 0, 255, 255, 128, 0, 255]);
});

test("the edge direction of a ramp runs along its level lines, for anisotropic and flipped pixels too; noise has none", () => {
  for (const angle of [0, 0.5, 1.2, 2.4]) {
    for (const step of [[1, 1], [0.5, 2], [-1, 1]]) {
      const normal = [Math.cos(angle + Math.PI / 2), Math.sin(angle + Math.PI / 2)];
      const sample = (x, y) => Math.tanh(((x - 20) * step[0] * normal[0] + (y - 30) * step[1] * normal[1]) / 6);
      const found = edgeDirection(sample, [20, 30], 6, step);
      const off = Math.abs(((found - angle) % Math.PI) + Math.PI) % Math.PI;
      assert.ok(Math.min(off, Math.PI - off) < 0.05, `${found} is not ${angle} with step ${step}`);
    }
  }
  assert.equal(edgeDirection(() => 7, [5, 5], 6, [1, 1]), null);
  assert.equal(edgeDirection(() => null, [5, 5], 6, [1, 1]), null);
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

test("the local map of linked views is exact for an affine map", () => {
  const map = ([x, y]) => [2 * x - y + 3, 0.5 * x + y - 7];
  const from = [10, 20];
  const local = localMap(from, map(from), [[4, 0], [0, 4]], [map([14, 20]), map([10, 24])]);
  close(applyLocal(local, [33, -8]), map([33, -8]));
});

test("pieces of the grid fade with their distance from the slice; interruptions stay", () => {
  const lines = [[[0, 0, 0], [1, 0, 0], null, [2, 0, 0], [3, 0, 10]]];
  const found = piecesByDepth(lines, (point) => point);
  assert.deepEqual(found.map(({ pieces }) => pieces.length), [1, 1]);
  assert.ok(found[0].alpha < 0.5 * found[1].alpha, "the one five slices away is faint and drawn first");
  assert.deepEqual(found[1].pieces, [[[0, 0, 0], [1, 0, 0]]]);
  assert.deepEqual(piecesByDepth([[[0, 0], [1, 1]]], (point) => point), [{ alpha: 1, pieces: [[[0, 0], [1, 1]]] }]);
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
      showChannel(pixel, brightnessOf(channel), (value) => value, shown);
      const wanted = channel === name ? 255 * (1 - 0.6 / 1.2) : 255;
      assert.ok(Math.abs(shown[0] - wanted) <= 4, `${name} in ${channel}: ${shown[0]}`);
    }
  }
});

test("the stains of an image are found where its own colours differ from the published ones, and taken apart", () => {
  const unit = (v) => v.map((value) => value / Math.hypot(...v));
  const [blue, brown] = [unit([0.8, 0.52, 0.3]), unit([0.2, 0.45, 0.87])];
  let seed = 7;
  const random = () => (seed = (seed * 16807) % 2147483647) / 2147483647;
  const pixelOf = (a, b) => [0, 1, 2].map((k) => Math.round(256 * 10 ** -(a * blue[k] + b * brown[k]) - 1));
  const pixels = Array.from({ length: 6000 }, (_, i) => {
    const much = 0.5 + 0.6 * random();
    return i % 3 === 0 ? pixelOf(much, 0.02 * random()) : i % 3 === 1 ? pixelOf(0.02 * random(), much) : pixelOf(0.3 * random(), 0.3 * random());
  });
  const [first, second] = stainsOfImage(pixels);
  close(first, blue, 0.04, "the stain that absorbs more red comes first");
  close(second, brown, 0.04);
  const [ofFirst, ofSecond] = ["first", "second"].map((channel) => brightnessOf(channel, [first, second]));
  assert.ok(ofFirst(...pixelOf(0.8, 0)) < 110 && ofSecond(...pixelOf(0.8, 0)) > 235);
  assert.ok(ofSecond(...pixelOf(0, 0.8)) < 110 && ofFirst(...pixelOf(0, 0.8)) > 235);
  assert.equal(stainsOfImage(pixels.map(() => [250, 249, 251])), null, "an empty slide has none");
  assert.equal(stainsOfImage(pixels.map((_, i) => pixelOf(0.4 + 0.0001 * i, 0))), null, "one stain alone is not two");
});

test("the value under the pointer is that of the finest level in memory", () => {
  const source = new TileSource("fixed", big, {}, () => {}, () => {});
  const plane = planeOfImage(big, 2);
  const headers = new Map([["X-Height", "1"], ["X-Width", "2"], ["X-Channels", "3"]]);
  assert.equal(samplesUnder(source, plane, [1, 0], 0), null);
  source.keep("2/0/2/0/0", Uint8Array.from([1, 2, 3, 4, 5, 6]).buffer, headers, false);
  assert.deepEqual(samplesUnder(source, plane, [1, 0], 0), { samples: [1, 2, 3], exact: false });
  source.keep("2/0/0/0/0", Uint8Array.from([7, 8, 9, 10, 11, 12]).buffer, headers, true);
  assert.deepEqual(samplesUnder(source, plane, [1, 0], 0), { samples: [10, 11, 12], exact: false }, "a rough one");
  const before = source.bytes;
  source.keep("2/0/0/0/0", Uint8Array.from([7, 8, 9, 10, 11, 12]).buffer, headers, false);
  assert.equal(source.bytes, before, "it takes the place of the rough one");
  assert.deepEqual(samplesUnder(source, plane, [1, 0], 0), { samples: [10, 11, 12], exact: true });
  assert.deepEqual(samplesUnder(source, plane, [5.5, 0], 0), { samples: [4, 5, 6], exact: false });
});

test("sliders and histogram of 16 bits span what occurs and what is shown, so that both can be used", () => {
  const pixels = [[31000], [31500], [32000]];
  const range = rangeOf(pixels, 65535, [{ low: 30500, high: 31800 }]);
  assert.deepEqual(range, [30500, 32000]);
  assert.deepEqual(rangeOf([[3]], 255, [{ low: 10, high: 20 }]), [0, 255]);
  const counts = histogramOf(pixels, range, 0, { windows: [], invert: false, gamma: 1, channel: "colour", stains: null });
  assert.deepEqual([counts[21], counts[42], counts[63]], [1, 1, 1]);
});
