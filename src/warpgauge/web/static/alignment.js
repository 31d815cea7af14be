/**
 * A proposed rough alignment: the images are shown over each other, and the expert says yes or no.
 * @module
 */

import { RefusedError } from "./api.js";

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
  stage.annotator.say("Do the two images lie roughly like this?", "warning");
  return true;
}

/**
 * @param {Stage} stage
 * @param {boolean} accepted
 */
export async function answerAlignment(stage, accepted) {
  const { annotator, store } = stage;
  await annotator.sending(async () => {
    const { saved } = await stage.api.post("/api/alignment", { accepted, generation: annotator.generation });
    store.set({ saved, writing: "idle", aligning: false, layout: "two", compare: "off" });
    stage.link.forget();
    stage.overlays.forget();
    annotator.show(await stage.api.get("/api/query"));
  });
}
