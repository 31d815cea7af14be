/**
 * Small line drawings for buttons. Every button that has one also has a name.
 * @module
 */

import { drawn } from "./dom.js";

/** Paths on a 20 x 20 sheet. @type {Record<string, string>} */
const PATHS = {
  accept: "M4 10.5l4 4 8-9",
  skip: "M7.2 7.4a2.9 2.9 0 1 1 4.2 2.8c-.9.5-1.4 1-1.4 2.2M10 15.4v.2",
  nearby: "M10 3v3M10 14v3M3 10h3M14 10h3M12.5 12.5l4 4M16.5 13v3.5H13",
  own: "M10 3.5v9M5.5 8h9M6 16.5h8",
  snap: "M5 4v6a5 5 0 0 0 10 0V4M5 7h2.5M12.5 7H15",
  another: "M4 10h11M11 5.5l4.5 4.5-4.5 4.5",
  previous: "M16 10H5M9 5.5L4.5 10 9 14.5",
  undo: "M7.5 4L4 7.5 7.5 11M4.5 7.5H12a4 4 0 0 1 0 8H8",
  redo: "M12.5 4L16 7.5 12.5 11M15.5 7.5H8a4 4 0 0 0 0 8h4",
  hide: "M3 10s2.6-4.5 7-4.5S17 10 17 10s-2.6 4.5-7 4.5S3 10 3 10zM4 16L16 4",
  link: "M8.5 11.5l3-3M9 6.5l1.5-1.5a3 3 0 0 1 4.5 4.5L13.5 11M11 13.5L9.5 15A3 3 0 0 1 5 10.5L6.5 9",
  turn: "M15.5 8.5A6 6 0 1 0 16 11.5M16 4.5v4h-4",
  layout: "M3.5 4.5h13v11h-13zM8 4.5v11M12.3 4.5v11",
  drawer: "M4 5h12M4 10h12M4 15h12",
  theme: "M10 4a6 6 0 1 0 0 12zM10 4a6 6 0 0 1 0 12",
  keys: "M3 5.5h14v9H3zM6 8.5h.2M9 8.5h.2M12 8.5h.2M14.5 8.5h.2M6.5 12h7",
  contrast: "M10 4a6 6 0 1 0 0 12 6 6 0 0 0 0-12zM10 4v12",
  fit: "M4 8V4h4M12 4h4v4M16 12v4h-4M8 16H4v-4",
  overlays: "M10 4l7 3.5-7 3.5-7-3.5zM3.5 11l6.5 3.2 6.5-3.2",
  organiser: "M7 9a2.2 2.2 0 1 0 0-4.4A2.2 2.2 0 0 0 7 9zM13.5 9.5a1.8 1.8 0 1 0 0-3.6M2.8 15.5c.3-2.6 2-4 4.2-4s3.9 1.4 4.2 4M13.3 11.8c2 0 3.4 1.2 3.8 3.4",
  close: "M5 5l10 10M15 5L5 15",
  more: "M5 10h.2M10 10h.2M15 10h.2",
};

/**
 * @param {string} name
 * @returns {SVGElement | null} null where there is no drawing of that name
 */
export function icon(name) {
  return PATHS[name] ? drawn("svg", { viewBox: "0 0 20 20", class: "icon", "aria-hidden": "true" }, drawn("path", { d: PATHS[name] })) : null;
}
