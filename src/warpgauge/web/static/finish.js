/** The page at the end: in one sentence what was reached, what is worth a second look, and files to take away. @module */

import { RefusedError } from "./api.js";
import { progressInWords } from "./progress.js";
import { isFlagged, nothingFound, reasonToLook } from "./review.js";
import { useStore } from "./store.js";
import { html, useEffect, useState } from "./vendor/preact-htm.js";
import { extentOf, unitName } from "./words.js";

/** @import { Annotator } from "./annotator.js" */
/** @import { Stage } from "./stage.js" */
/** @import { Leaf } from "./types.js" */

/** @param {{annotator: Annotator, openDrawer: (leaf: Leaf | null) => void}} properties */
export function Finish({ annotator, openDrawer }) {
  const { stage, store } = annotator;
  const { done, rows, progress, detectable, drawer } = useStore(store, ["done", "rows", "progress", "detectable", "drawer"]);
  const [closed, close] = useState(false);
  const shown = done && !done.start.due && !closed && !drawer;
  useEffect(() => {
    if (!done) close(false);
    if (drawer) close(true);
    document.body.classList.toggle("finished", Boolean(shown));
  }, [done, drawer, shown]);
  if (!done || !shown) return null;
  const { project } = stage;
  const { home } = document.documentElement.dataset;
  const units = unitName(project.units);
  const flagged = rows.filter((row) => (!row.rater || row.rater === project.rater) && isFlagged(row));
  const skipped = done.skipped ? ` ${done.skipped} skipped.` : "";
  return html`<div class="sheet">
    <h2>You are done. Thank you.</h2>
    <p data-reached>${done.reasons.join(" ")}${skipped} ${progress && progressInWords(progress, units, extentOf(stage.images.fixed))[0]}</p>
    <h3>Worth a second look</h3>
    ${flagged.length ? html`<div class="choices">
      ${flagged.map((row) => html`<button type="button" data-look=${row.query} onClick=${() => void annotator.go(`/api/query/${row.query}`)}>Mark ${row.number}: ${reasonToLook(row, units)}</button>`)}</div>` : html`<p data-detectable>${nothingFound(detectable, units)}</p>`}
    <h3>Take with you</h3>
    <${Takeaway} stage=${stage} />
    <p class="quiet">Everything is saved; you may close this page. If you are asked once more, the question appears here by itself.</p>
    <div class="row">${home !== undefined && html`<a class="button" href=${home} data-act="home">Go on with another pair</a>`}
      <button type="button" class="primary" data-act="review" onClick=${() => openDrawer("list")}>Review your marks</button>
      <button type="button" data-act="images" onClick=${() => close(true)}>Back to the images</button>
      <button type="button" data-act="undo" onClick=${() => void annotator.undo()}>Undo the last answer</button></div></div>`;
}

/** One's own marks as CSV; for organisers also all marks, and fused ones. @param {{stage: Stage}} properties */
export function Takeaway({ stage }) {
  const { api, project } = stage;
  const [words, say] = useState("");
  const take = async (/** @type {string} */ path) => {
    say("Being made…");
    try {
      const { bytes, headers } = await api.bytes(path);
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([bytes]));
      link.download = headers.get("Content-Disposition")?.match(/filename="([^"]+)"/)?.[1] ?? "warpgauge";
      link.click();
      URL.revokeObjectURL(link.href);
      say("Downloaded.");
    } catch (error) {
      say(error instanceof RefusedError ? error.message : "The server cannot be reached: try again.");
    }
  };
  const button = (/** @type {string} */ name, /** @type {string} */ label, /** @type {string} */ path) => html`<button type="button" data-download=${name} onClick=${() => void take(path)}>${label}</button>`;
  const marks = (/** @type {string} */ whose, /** @type {string} */ label) => button(whose, label, `/api/marks/${whose}`);
  const organises = project.role === "organiser";
  return html`<div class="takeaway">
    ${marks("mine", "Your marks")}${organises && [marks("all", "Marks of all raters"), marks("fused", "Fused marks, one per place")]}
    <span class="quiet" role="status">${words}</span></div>`;
}
