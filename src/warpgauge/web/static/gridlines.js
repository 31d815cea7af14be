/**
 * The deformation grid on the moving image. On a volume its lines leave the slice: they fade with the distance from it.
 * @module
 */

import { COLOURS, fade, strokeWithHalo } from "./marks.js";
import { worldToPlane } from "./plane.js";
import { planeToScreen } from "./viewport.js";

/** @import { Vector } from "./linalg.js" */
/** @import { PlaneView } from "./planeview.js" */
/** @import { View } from "./viewport.js" */

const STEPS = 6; // shades: one stroke for each, instead of one for each piece

/**
 * The pieces of lines, gathered by how strongly they are drawn, faint ones first.
 * @param {(Vector | null)[][]} lines null interrupts a line
 * @param {(point: Vector) => Vector} toPlane right, down and, in 3D, the distance from the slice in slices
 * @returns {{alpha: number, pieces: [Vector, Vector][]}[]}
 */
export function piecesByDepth(lines, toPlane) {
  /** @type {Map<number, [Vector, Vector][]>} */
  const shades = new Map();
  for (const line of lines) {
    /** @type {Vector | null} */
    let last = null;
    for (const point of line) {
      const at = point && toPlane(point);
      if (at && last) {
        const alpha = at.length < 3 ? 1 : fade((at[2] + last[2]) / 2);
        const shade = Math.max(1, Math.round(alpha * STEPS));
        const pieces = shades.get(shade) ?? [];
        pieces.push([last, at]);
        shades.set(shade, pieces);
      }
      last = at;
    }
  }
  return [...shades].sort(([one], [other]) => one - other).map(([shade, pieces]) => ({ alpha: shade / STEPS, pieces }));
}

/**
 * @param {PlaneView} pane
 * @param {CanvasRenderingContext2D} context
 * @param {View} view
 * @param {(Vector | null)[][]} lines
 * @param {number} strength 0 to 1
 */
export function drawGridLines(pane, context, view, lines, strength) {
  const { plane, depth, axis } = pane;
  const toPlane = (/** @type {Vector} */ point) => {
    const at = worldToPlane(plane, point);
    return plane.d === 2 ? at : [at[0], at[1], (at[2] - depth) / plane.frame.spacing[axis]];
  };
  for (const { alpha, pieces } of piecesByDepth(lines, toPlane)) {
    const path = () => {
      for (const [from, to] of pieces) {
        const [a, b] = [planeToScreen(view, from), planeToScreen(view, to)];
        context.moveTo(a[0], a[1]);
        context.lineTo(b[0], b[1]);
      }
    };
    strokeWithHalo(context, COLOURS.grid, path, { width: 1, alpha: alpha * strength });
  }
}
