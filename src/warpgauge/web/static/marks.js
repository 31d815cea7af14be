/**
 * How marks look: one shape and one colour-blind-safe colour (Okabe and Ito) for each kind, with a dark halo so that they show on any tissue.
 * @module
 */

import { handlesOfEllipse } from "./ellipse.js";
import { planeToScreen, turnToScreen } from "./viewport.js";
import { length } from "./words.js";

/** @import { Ellipse } from "./ellipse.js" */
/** @import { Vector } from "./linalg.js" */
/** @import { View } from "./viewport.js" */

export const COLOURS = {
  query: "#E69F00",
  prediction: "#56B4E9",
  yours: "#F0E442",
  former: "#FFFFFF",
  outlier: "#FF8A3D",
  skipped: "#FFFFFF",
};
const HALO = "rgba(0, 0, 0, 0.75)";
const LINE = 1.5;

/**
 * Draw a path twice: the halo, then the line.
 * @param {CanvasRenderingContext2D} context @param {string} colour @param {() => void} path @param {{alpha?: number, dash?: number[], width?: number, fill?: string, halo?: number}} [look]
 */
export function strokeWithHalo(context, colour, path, { alpha = 1, dash = [], width = LINE, fill, halo = 1.6 } = {}) {
  context.save();
  context.globalAlpha = alpha;
  context.setLineDash(dash);
  context.lineJoin = "round";
  context.beginPath();
  path();
  if (fill) {
    context.fillStyle = fill;
    context.fill();
  }
  context.strokeStyle = HALO;
  context.lineWidth = width + halo;
  context.stroke();
  context.strokeStyle = colour;
  context.lineWidth = width;
  context.stroke();
  context.restore();
}

/**
 * The path of a cross that leaves its middle free.
 * @param {CanvasRenderingContext2D} context @param {Vector} at screen @param {number} inner @param {number} outer
 */
export function cross(context, [x, y], inner, outer) {
  for (const [dx, dy] of [[1, 0], [-1, 0], [0, 1], [0, -1]]) {
    line(context, [x + dx * inner, y + dy * inner], [x + dx * outer, y + dy * outer]);
  }
}

/**
 * The point asked for: a crosshair that leaves its middle free.
 * @param {CanvasRenderingContext2D} context @param {Vector} at screen @param {number} [alpha] @param {number} [size] @param {string} [colour]
 */
export function drawQuery(context, [x, y], alpha = 1, size = 20, colour = COLOURS.query) {
  strokeWithHalo(context, colour, () => cross(context, [x, y], size / 4, size), { alpha, width: 2 });
  strokeWithHalo(context, colour, () => context.arc(x, y, 1, 0, 2 * Math.PI), { alpha });
}

/**
 * An ellipse of a plane.
 * @param {CanvasRenderingContext2D} context @param {View} view @param {Ellipse} ellipse @param {string} colour @param {{alpha?: number, dash?: number[], width?: number, fill?: string}} [look]
 */
export function drawEllipse(context, view, ellipse, colour, look) {
  const [x, y] = planeToScreen(view, ellipse.centre);
  const [a, b] = ellipse.radii.map((radius) => Math.max(radius * view.scale, 0.5));
  const angle = screenAngle(view, ellipse.angle);
  strokeWithHalo(context, colour, () => context.ellipse(x, y, a, b, angle, 0, 2 * Math.PI), look);
}

/** The angle on the screen of a direction in the plane. @param {View} view @param {number} angle @returns {number} */
function screenAngle(view, angle) {
  if (!view.turn) return angle;
  const [x, y] = turnToScreen(view, [Math.cos(angle), Math.sin(angle)]);
  return Math.atan2(y, x);
}

/**
 * The handles of one's own ellipse: squares at the ends of the first axis, diamonds at those of the second.
 * @param {CanvasRenderingContext2D} context @param {View} view @param {Ellipse} ellipse @param {number} reach plane units @param {string | null} active name of the handle under the pointer
 */
export function drawHandles(context, view, ellipse, reach, active) {
  const centre = planeToScreen(view, ellipse.centre);
  for (const { name, point } of handlesOfEllipse(ellipse, reach)) {
    const at = planeToScreen(view, point);
    const size = name === active ? 6 : 4;
    if (name === "centre") {
      drawPlus(context, at, COLOURS.yours, 6);
      continue;
    }
    const radius = ellipse.radii[name.startsWith("first") ? 0 : 1];
    if (radius < reach) {
      strokeWithHalo(context, COLOURS.yours, () => line(context, centre, at), { alpha: 0.5, dash: [2, 3], width: 1 });
    }
    const turn = screenAngle(view, ellipse.angle) + (name.startsWith("first") ? 0 : Math.PI / 4);
    strokeWithHalo(context, COLOURS.yours, () => square(context, at, size, turn), { fill: name === active ? COLOURS.yours : "#222" });
  }
}

/** @param {CanvasRenderingContext2D} context @param {Vector} from @param {Vector} to */
function line(context, from, to) {
  context.moveTo(from[0], from[1]);
  context.lineTo(to[0], to[1]);
}

/** @param {CanvasRenderingContext2D} context @param {Vector} at @param {number} size @param {number} angle */
function square(context, [x, y], size, angle) {
  const arm = size * Math.SQRT2;
  for (let k = 0; k < 4; k++) {
    const t = angle + Math.PI / 4 + (k * Math.PI) / 2;
    const corner = [x + arm * Math.cos(t), y + arm * Math.sin(t)];
    if (k === 0) context.moveTo(corner[0], corner[1]);
    else context.lineTo(corner[0], corner[1]);
  }
  context.closePath();
}

/** @param {CanvasRenderingContext2D} context @param {Vector} at @param {string} colour @param {number} size @param {number} [alpha] */
export function drawPlus(context, [x, y], colour, size, alpha = 1) {
  strokeWithHalo(context, colour, () => {
    line(context, [x - size, y], [x + size, y]);
    line(context, [x, y - size], [x, y + size]);
  }, { alpha });
}

/**
 * A former answer: a light ring with a dark halo, which shows on bright tissue and on black; an outlier is a triangle, a skipped question a dot.
 * @param {CanvasRenderingContext2D} context @param {Vector} at @param {"former" | "outlier" | "skipped"} kind @param {{alpha?: number, label?: string, left?: boolean}} [look] left: its number stands left of it
 */
export function drawFormer(context, [x, y], kind, { alpha = 1, label, left = false } = {}) {
  const path = {
    former: () => context.arc(x, y, 5.5, 0, 2 * Math.PI),
    outlier: () => {
      context.moveTo(x, y - 7);
      context.lineTo(x + 6.5, y + 5);
      context.lineTo(x - 6.5, y + 5);
      context.closePath();
    },
    skipped: () => context.arc(x, y, 2, 0, 2 * Math.PI),
  }[kind];
  strokeWithHalo(context, COLOURS[kind], path, { alpha, width: 2, halo: 2.4, fill: kind === "skipped" ? COLOURS.skipped : undefined });
  if (label) drawText(context, label, [left ? x - 9 : x + 9, y + 4], { alpha, size: 12, align: left ? "right" : "left" });
}

/**
 * Text with a halo.
 * @param {CanvasRenderingContext2D} context @param {string} text @param {Vector} at @param {{alpha?: number, align?: CanvasTextAlign, size?: number}} [look]
 */
export function drawText(context, text, [x, y], { alpha = 1, align = "left", size = 13 } = {}) {
  context.save();
  context.globalAlpha = alpha;
  context.font = `${size}px system-ui, sans-serif`;
  context.textAlign = align;
  context.lineWidth = 3;
  context.lineJoin = "round";
  context.strokeStyle = "rgba(0, 0, 0, 0.85)";
  context.strokeText(text, x, y);
  context.fillStyle = "#fff";
  context.fillText(text, x, y);
  context.restore();
}

/** How visible a mark is that lies `away` slices from the one shown: it fades, it never vanishes. @param {number} away slices @returns {number} */
export function fade(away) {
  return Math.max(0.18, 1 - Math.max(0, Math.abs(away) - 0.5) / 6);
}

/**
 * A scale bar on a dark plate, which shows on any tissue.
 * @param {CanvasRenderingContext2D} context @param {{length: number, pixels: number}} bar @param {Vector} at its left end @param {string} units
 */
export function drawScaleBar(context, bar, [x, y], units) {
  const words = length(bar.length, units);
  context.save();
  context.font = "12px system-ui, sans-serif";
  const wide = context.measureText(words).width + 8;
  context.fillStyle = "rgba(20, 20, 20, 0.78)";
  context.beginPath();
  context.roundRect(x - wide - 6, y - 11, wide + bar.pixels + 12, 22, 4);
  context.fill();
  context.fillStyle = "#fff";
  context.fillRect(x, y - 1.5, bar.pixels, 3);
  context.textAlign = "left";
  context.fillText(words, x - wide, y + 4);
  context.restore();
}
