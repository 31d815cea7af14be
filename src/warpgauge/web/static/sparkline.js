/**
 * A curve without axes, as small as a word: only where it came from and where it goes.
 * @module
 */

const SVG = "http://www.w3.org/2000/svg";

/**
 * @param {number[]} values positive; drawn by their logarithm
 * @returns {SVGSVGElement}
 */
export function sparkline(values) {
  const logs = values.filter((value) => value > 0).map(Math.log);
  const [low, high] = [Math.min(...logs), Math.max(...logs)];
  const points = logs.map((value, i) => `${(i / Math.max(logs.length - 1, 1)) * 54 + 1},${18 - ((value - low) / Math.max(high - low, 1e-9)) * 16}`);
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", "0 0 56 20");
  svg.setAttribute("aria-hidden", "true");
  const line = document.createElementNS(SVG, "polyline");
  for (const [name, value] of Object.entries({ points: points.join(" "), fill: "none", stroke: "currentColor", "stroke-width": "1.6" })) line.setAttribute(name, value);
  svg.append(line);
  return svg;
}
