/**
 * Who gets which pair, and the links of people.
 * @module
 */

import { RefusedError } from "./api.js";
import { make } from "./dom.js";

/** @import { Api } from "./api.js" */
/** @typedef {import("./wire.js").PairRaterAnswer} Person */

const PARCEL = 500; // pairs in one request

export class Assignment {
  /**
   * @param {Api} api
   * @param {() => void} changed
   * @param {() => string[]} chosen keys of the pairs that are chosen
   */
  constructor(api, changed, chosen) {
    this.api = api;
    this.changed = changed;
    this.chosen = chosen;
    this.note = make("p", { role: "status", id: "assigned" });
    this.raters = make("select", { multiple: true, size: 4, "aria-label": "Raters", id: "raters" });
    this.overlap = make("input", { type: "number", min: "0", max: "100", step: "5", value: "10", "aria-label": "Percent of the pairs that get two raters", id: "overlap" });
    this.hand = make("span", { class: "quiet" });
    this.element = make("section", { class: "assignment", "aria-label": "Assignment" },
      make("h2", {}, "Assign"),
      make("div", { class: "controls" }, make("label", {}, "Raters (none chosen: all) ", this.raters),
        make("div", {},
          make("p", {}, make("button", { type: "button", "data-act": "evenly", onclick: () => void this.evenly() }, "Share out evenly"), " and give ", this.overlap, " % of the pairs to two raters, to measure agreement"),
          make("p", {}, make("button", { type: "button", "data-act": "assign", onclick: () => void this.byHand("assign") }, "Assign"), " or ", make("button", { type: "button", "data-act": "unassign", onclick: () => void this.byHand("unassign") }, "take away"), " ", this.hand))),
      this.note);
    this.links = make("div", { class: "choices", id: "links" });
    const name = make("input", { type: "text", placeholder: "Name", maxLength: 100, "aria-label": "Name of a person" });
    const role = make("select", { "aria-label": "Role" }, ...["rater", "organiser"].map((one) => make("option", { value: one }, one)));
    this.inviting = make("div", {}, make("p", {}, name, " ", role, " ", make("button", { type: "button", "data-act": "invite", onclick: () => void this.person(name.value.trim(), "add", role.value) }, "Invite with a link")), this.links);
    this.listed = "";
  }

  /**
   * @param {Person[]} people
   * @param {number} chosen
   */
  show(people, chosen) {
    this.hand.textContent = chosen ? `the ${chosen} ${chosen === 1 ? "pair" : "pairs"} chosen above` : "the pairs that you choose above";
    const names = people.filter((one) => !one.revoked && one.role === "rater").map((one) => one.name);
    if (JSON.stringify(names) === this.listed) return;
    this.listed = JSON.stringify(names);
    const before = new Set(this.who());
    this.raters.replaceChildren(...names.map((name) => make("option", { value: name, selected: before.has(name) }, name)));
  }

  /** @returns {string[]} the raters chosen */
  who() {
    return [...this.raters.selectedOptions].map((option) => option.value);
  }

  /** @returns {string[]} those chosen or, where none is, all */
  whoever() {
    const chosen = this.who();
    return chosen.length ? chosen : [...this.raters.options].map((option) => option.value);
  }

  async evenly() {
    const raters = this.whoever();
    if (!raters.length) return this.say("Invite raters first.");
    await this.tell(async () => this.counted((await this.api.post("/api/share-out", { raters, overlap: Number(this.overlap.value) / 100 })).changed));
  }

  /** @param {"assign" | "unassign"} action */
  async byHand(action) {
    const [raters, pairs] = [this.who(), this.chosen()];
    if (!raters.length || !pairs.length) return this.say("Choose pairs in the table and raters in the list.");
    await this.tell(async () => {
      let changed = 0;
      for (let at = 0; at < pairs.length; at += PARCEL) changed += (await this.api.post("/api/assign", { action, raters, pairs: pairs.slice(at, at + PARCEL) })).changed;
      return this.counted(changed);
    });
  }

  /**
   * @param {number} changed
   * @returns {string}
   */
  counted(changed) {
    return `${changed} ${changed === 1 ? "assignment" : "assignments"} changed.`;
  }

  /**
   * Do it, and say what came of it.
   * @param {() => Promise<string>} work
   */
  async tell(work) {
    try {
      this.say(await work());
    } catch (error) {
      if (!(error instanceof RefusedError)) throw error;
      this.say(error.message);
    }
    this.changed();
  }

  /** @param {string} words */
  say(words) {
    this.note.textContent = words;
  }

  /**
   * @param {Person} one
   * @returns {HTMLElement[]}
   */
  linkButtons(one) {
    const renew = make("button", { type: "button", "data-act": "link", onclick: () => void this.person(one.name, "add", one.role) }, one.has_link && !one.revoked ? "New link" : "Make a link");
    const revoke = make("button", { type: "button", "data-act": "revoke", onclick: () => void this.person(one.name, "revoke", one.role) }, "Revoke");
    return one.revoked ? [renew] : [renew, revoke];
  }

  /**
   * @param {string} name
   * @param {"add" | "revoke"} action
   * @param {string} role
   */
  async person(name, action, role) {
    if (!name) return;
    await this.tell(async () => {
      const { link } = await this.api.post("/api/people", action === "add" ? { action, name, role } : { action, name });
      if (!link) return `${name} is revoked; all that they saved is kept.`;
      const field = make("input", { type: "text", class: "link", readOnly: true, value: link, "aria-label": `Link of ${name}`, onfocus: () => field.select() });
      this.links.prepend(make("div", {}, make("span", {}, `Link for ${name} (shown only now): `),
        make("button", { type: "button", onclick: () => void navigator.clipboard.writeText(link) }, "Copy"), field));
      return `${name} has a new link.`;
    });
  }
}
