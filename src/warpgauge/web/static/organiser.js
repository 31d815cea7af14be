/**
 * The organiser's page.
 * @module
 */

/** @import { Annotator } from "./annotator.js" */
/** @import { Stage } from "./stage.js" */

export class Organiser {
  /**
   * @param {Stage} stage
   * @param {Annotator} annotator
   */
  constructor(stage, annotator) {
    this.stage = stage;
    this.annotator = annotator;
  }

  offer() {}
}
