/**
 * Snap: the images around a mark propose a better place for it, shown dashed until it is taken or dropped.
 * @module
 */

import { RefusedError } from "./api.js";
import { norm, subtract } from "./linalg.js";
import { say } from "./message.js";

/** @import { Vector } from "./linalg.js" */
/** @import { Annotator } from "./annotator.js" */
/** @import { Mark } from "./ellipsoid.js" */
/** @import { State } from "./types.js" */

/**
 * The proposal for the mark that is drawn now; one for a mark that was changed since does not count.
 * @param {State} state
 * @returns {Mark | null}
 */
export function proposedMark({ proposal, mark }) {
  return proposal && proposal.base === mark ? proposal.mark : null;
}

/**
 * Ask the server for a better place; the ellipse stays the expert's own.
 * @param {Annotator} annotator
 */
export async function snap(annotator) {
  const { query, mark, task, own } = annotator.store.state;
  if (!annotator.marks.editable) {
    annotator.marks.explainLock();
    return;
  }
  const ownChoice = task === "start" || task === "own";
  if (!own && task !== "answer") {
    annotator.ownPoints.sayTask();
    return;
  }
  if (!mark) {
    say(annotator.store, "Click the match first: Snap looks around your own mark.", "warning");
    return;
  }
  const fixed = own ?? (query?.answer?.kind === "place" ? query.answer.fixed : null);
  const about = ownChoice ? { query: null, generation: annotator.delivery.generation } : { query: query?.query, generation: query?.generation };
  say(annotator.store, "Comparing the images around your mark…");
  try {
    const { point, sentence } = await annotator.api.ask("/api/snap", { ...about, point: mark.point, fixed });
    // The mark was changed meanwhile: what was found is about another one.
    if (annotator.store.state.mark !== mark) return;
    const from = mark.snappedFrom ?? mark.point;
    annotator.store.set({ proposal: point ? { base: mark, mark: { ...mark, point, snappedFrom: from } } : null });
    say(annotator.store, point && screenDistance(annotator, mark.point, point) < VISIBLE ? `${sentence} Zoom in to see it.` : sentence);
  } catch (error) {
    if (!(error instanceof RefusedError)) throw error;
    say(annotator.store, error.message, "error");
  }
}

/** Screen pixels from which on a proposal can be told from the mark. */
const VISIBLE = 8;

/**
 * @param {Annotator} annotator
 * @param {Vector} one world
 * @param {Vector} other
 */
function screenDistance(annotator, one, other) {
  const scale = annotator.stage.planesOf("moving").find((pane) => pane.visible)?.view.scale ?? Infinity;
  return norm(subtract(one, other)) * scale;
}

/**
 * Move the mark to where it was proposed; nothing is saved yet.
 * @param {Annotator} annotator
 * @returns {boolean} whether there was a proposal
 */
export function takeProposal(annotator) {
  const proposed = proposedMark(annotator.store.state);
  if (!proposed || !annotator.marks.editable) return false;
  annotator.marks.edit(proposed);
  annotator.store.set({ proposal: null });
  if (annotator.stage.project.d === 3) annotator.stage.setCross("moving", proposed.point);
  say(annotator.store, "Your mark was moved there; its size is still yours. Enter accepts, Z takes it back.");
  return true;
}

/**
 * @param {Annotator} annotator
 * @returns {boolean} whether there was a proposal
 */
export function dropProposal(annotator) {
  if (!proposedMark(annotator.store.state)) return false;
  annotator.store.set({ proposal: null });
  say(annotator.store, "The proposal is dropped; your mark is where you placed it.");
  return true;
}
