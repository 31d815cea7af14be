/** Small line drawings for buttons. Every button that has one also has a name. @module */

import { html } from "./vendor/preact-htm.js";

/** Paths on a 20 x 20 sheet. @type {Record<string, string>} */
const PATHS = {
  accept: "M4 10.5l4 4 8-9",
  skip: "M7.2 7.4a2.9 2.9 0 1 1 4.2 2.8c-.9.5-1.4 1-1.4 2.2M10 15.4v.2",
  undo: "M7.5 4L4 7.5 7.5 11M4.5 7.5H12a4 4 0 0 1 0 8H8",
  drawer: "M4 5h12M4 10h12M4 15h12",
  view: "M3 10s2.6-4.5 7-4.5S17 10 17 10s-2.6 4.5-7 4.5S3 10 3 10zM10 8a2 2 0 1 0 0 4 2 2 0 0 0 0-4",
  fit: "M4 8V4h4M12 4h4v4M16 12v4h-4M8 16H4v-4",
  organiser: "M7 9a2.2 2.2 0 1 0 0-4.4A2.2 2.2 0 0 0 7 9zM13.5 9.5a1.8 1.8 0 1 0 0-3.6M2.8 15.5c.3-2.6 2-4 4.2-4s3.9 1.4 4.2 4M13.3 11.8c2 0 3.4 1.2 3.8 3.4",
  close: "M5 5l10 10M15 5L5 15",
};

/** @param {{name: string}} properties */
export function Icon({ name }) {
  return html`<svg viewBox="0 0 20 20" class="icon" aria-hidden="true"><path d=${PATHS[name]} /></svg>`;
}
