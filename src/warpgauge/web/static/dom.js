/**
 * Making elements, and saying numbers.
 * @module
 */

/**
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T} tag
 * @param {Record<string, any>} [properties] `class`, `on...` handlers, `data-...` and `aria-...` attributes, properties
 * @param {...(Node | string | null | undefined)} children
 * @returns {HTMLElementTagNameMap[T]}
 */
export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class") element.className = value;
    else if (name.includes("-") || name === "role" || name === "for" || name === "colspan") element.setAttribute(name, String(value));
    else Object.assign(element, { [name]: value });
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/**
 * An element of a drawing (SVG).
 * @param {string} tag
 * @param {Record<string, string | number>} attributes
 * @param {...(Node | string)} children
 * @returns {SVGElement}
 */
export function drawn(tag, attributes, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  element.append(...children);
  return element;
}

/**
 * Run once nothing within an element is held down: a button that is rebuilt between press and release loses its click.
 * @param {HTMLElement} element
 * @param {() => void} run reads what is true then
 */
export function whenReleased(element, run) {
  if (element.matches(":active")) setTimeout(() => whenReleased(element, run), 50);
  else run();
}

/**
 * An element that the page has.
 * @param {string} id
 * @returns {HTMLElement}
 */
export function byId(id) {
  const found = document.getElementById(id);
  if (!found) throw new Error(`The page has no element ${id}.`);
  return found;
}

/**
 * Three significant digits, without an exponent where one can do without.
 * @param {number | null | undefined} value
 * @returns {string}
 */
export function number(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size >= 1e6 || (size > 0 && size < 1e-3)) return value.toExponential(1);
  if (size >= 100) return value.toFixed(0);
  return value.toPrecision(3).replace(/(\.\d*?)0+$/, "$1").replace(/\.$/, "");
}

/**
 * Two significant digits: as many as an uncertainty is worth.
 * @param {number} value
 * @returns {string}
 */
export function rounded(value) {
  return number(Number(value.toPrecision(2)));
}

/**
 * Length with its unit as people write it.
 * @param {number | null | undefined} value
 * @param {string} units
 * @returns {string}
 */
export function length(value, units) {
  return `${number(value)} ${unitName(units)}`;
}

/**
 * A unit as people write it.
 * @param {string} units
 * @returns {string}
 */
export function unitName(units) {
  return units === "um" ? "µm" : units;
}

/**
 * Time of day of an ISO time.
 * @param {string} time
 * @returns {string}
 */
export function clock(time) {
  const date = new Date(time);
  return Number.isNaN(date.getTime()) ? time : date.toLocaleTimeString([], { hour12: false });
}
