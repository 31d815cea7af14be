/**
 * Further images of the same frame, such as another stain or a segmentation, shown in the place of an image to look at.
 * @module
 */

import { initialColours } from "./colour.js";
import { make } from "./dom.js";
import { say } from "./message.js";
import { TileSource } from "./tiles.js";

/** @import { Stage } from "./stage.js" */
/** @import { Colours, Side, State } from "./types.js" */
/** @typedef {{side: Side, name: string, source: TileSource, colours: Colours}} Context */

export class Contexts {
  /**
   * @param {Stage} stage
   * @param {(sentence: string) => void} tell
   */
  constructor(stage, tell) {
    this.stage = stage;
    /** @type {Context[]} */
    this.all = stage.project.contexts.map(({ side, image }, n) => ({ side, name: image.name, source: new TileSource(`/api/contexts/${n}/tile`, image, stage.api, () => stage.drawSoon(), tell), colours: initialColours(image) }));
  }

  get sources() {
    return this.all.map(({ source }) => source);
  }

  /**
   * What is shown in the place of an image, and how.
   * @param {Side} side
   * @param {State} state
   * @returns {{source: TileSource, colours: Colours}}
   */
  shown(side, { context, colours }) {
    const chosen = context[side];
    return chosen === null ? { source: this.stage.sources[side], colours: colours[side] } : this.all[chosen];
  }

  /**
   * The next image of a side's frame; after the last, the image itself.
   * @param {Side} side
   */
  next(side) {
    const { store } = this.stage;
    const own = this.all.flatMap((one, n) => (one.side === side ? [n] : []));
    const now = store.state.context[side];
    const chosen = own[now === null ? 0 : own.indexOf(now) + 1] ?? null;
    store.set({ context: { ...store.state.context, [side]: chosen } });
    if (own.length === 0) say(store, `There is no further image of the ${side} image's frame.`);
  }

  /**
   * A field with the images of a side, for the head of its pane; none where there is only one.
   * @param {Side} side
   */
  field(side) {
    const { store, images } = this.stage;
    const own = this.all.flatMap((one, n) => (one.side === side ? [{ name: one.name, n }] : []));
    if (own.length === 0) return null;
    const field = make("select", { class: "context", "aria-label": `Image shown as ${side}`, title: "Further images of the same frame (⇧V)", "data-context": side, onchange: () => {
      store.set({ context: { ...store.state.context, [side]: field.value === "" ? null : Number(field.value) } });
      this.stage.focus();
    } }, make("option", { value: "" }, images[side].name), ...own.map(({ name, n }) => make("option", { value: String(n) }, name)));
    const show = () => (field.value = String(store.state.context[side] ?? ""));
    store.watch(["context"], show);
    show();
    return field;
  }
}
