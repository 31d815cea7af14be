/**
 * A proposed rough alignment: the images are shown over each other, and the expert says yes or no.
 * @module
 */

import { RefusedError } from "./api.js";
import { say } from "./message.js";

/** @import { Annotator } from "./annotator.js" */
/** @import { Stage } from "./stage.js" */

/**
 * Ask about a proposed alignment, where there is one.
 * @param {Stage} stage
 * @returns {Promise<boolean>} whether it is asked about
 */
export async function offerAlignment(stage) {
  try {
    const { asks } = await stage.api.get("/api/alignment");
    if (!asks) return false;
  } catch (error) {
    if (error instanceof RefusedError) return false;
    throw error;
  }
  stage.store.set({ aligning: true, layout: "overlay", compare: "opacity" });
  say(stage.store, "Do the two images lie roughly like this?", "warning");
  return true;
}

/**
 * @param {Annotator} annotator
 * @param {boolean} accepted
 */
export async function answerAlignment(annotator, accepted) {
  const { stage, delivery } = annotator;
  await delivery.sending(async () => {
    const { saved } = await stage.api.post("/api/alignment", { accepted, generation: delivery.generation });
    stage.store.set({ saved, writing: "idle", aligning: false, layout: "two", compare: "off" });
    stage.forgetModel();
    annotator.show(await stage.api.get("/api/query"));
  });
}
