/**
 * The bias of a rater as an arrow.
 * @module
 */

/** @import { Vector } from "./linalg.js" */

/**
 * The bias as an arrow, the first two coordinates, scaled to its own length.
 * @param {Vector} bias
 */
export function biasArrow(bias) {
  const space = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(space, "svg");
  svg.setAttribute("viewBox", "-20 -20 40 40");
  svg.setAttribute("aria-hidden", "true");
  svg.setAttribute("class", "bias");
  const size = Math.hypot(bias[0], bias[1]) || 1;
  const [x, y] = [(bias[0] / size) * 16, (bias[1] / size) * 16];
  const path = document.createElementNS(space, "path");
  path.setAttribute("d", `M${-x} ${-y}L${x} ${y}m${(-x - y * 0.7) * 0.4} ${(-y + x * 0.7) * 0.4}L${x} ${y}l${(-x + y * 0.7) * 0.4} ${(-y - x * 0.7) * 0.4}`);
  path.setAttribute("fill", "none");
  path.setAttribute("stroke", "currentColor");
  path.setAttribute("stroke-width", "3");
  svg.append(path);
  return svg;
}
