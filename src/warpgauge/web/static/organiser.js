/**
 * The organiser's page: a row for each rater, a row for each location, adjudication, links.
 * @module
 */

import { RefusedError } from "./api.js";
import { buildAdjudication } from "./adjudicate.js";
import { byId, make, number, rounded, unitName, whenReleased } from "./dom.js";
import { biasArrow } from "./charts.js";
import { certificateWords } from "./figures.js";
import { scaleColour } from "./colour.js";
import { takeaway } from "./takeaway.js";

/** @import { Annotator } from "./annotator.js" */
/** @typedef {import("./wire.js").RaterAnswer} RaterRow */
/** @typedef {import("./wire.js").MarkAnswer} RaterMark */
/** @typedef {import("./wire.js").LocationAnswer} Place */

const LIVE = 3000; // milliseconds between two looks at what the raters do

export class Organiser {
  /** @param {Annotator} annotator */
  constructor({ stage, delivery }) {
    this.stage = stage;
    this.delivery = delivery;
    this.element = byId("organiser");
    this.units = stage.project.units;
    this.unit = unitName(this.units);
    this.links = make("div", { class: "choices" });
    this.raters = make("div");
    this.places = make("div");
    this.adjudication = make("div");
    this.note = make("p", { role: "status", class: "quiet" });
    /** @type {{locations: Place[], alpha: number, generation: number}} */
    this.found = { locations: [], alpha: 0.01, generation: 0 };
    /** @type {{raters: RaterRow[], pooled_sd: number | null, sealed: number}} */
    this.known = { raters: [], pooled_sd: null, sealed: 0 };
    /** @type {number | null} */
    this.chosen = null;
    this.byDistance = true;
    /** What was read last, to build anew only what has changed. */
    this.seen = "";
  }

  /** @type {any} */
  timer = null;

  /** Show the button that opens it. */
  offer() {
    const button = byId("organiser-button");
    button.addEventListener("click", () => this.toggle());
    button.dataset.ready = "";
    this.element.replaceChildren(
      make("div", { class: "sheet" },
        make("div", { class: "raters" }, make("h2", {}, "Raters"), this.raters, this.inviting(), this.links, make("h2", {}, "Download"), takeaway(this.stage)),
        make("div", { class: "judging" }, make("h2", {}, "Disagreements"), this.note, this.adjudication),
        make("div", { class: "questions" }, make("h2", {}, "Questions"), this.places)));
  }

  toggle() {
    this.element.hidden = !this.element.hidden;
    byId("organiser-button").setAttribute("aria-pressed", String(!this.element.hidden));
    this.stage.extras.clear();
    this.seen = "";
    if (!this.element.hidden) void this.keepReading();
    else this.stage.focus();
  }

  /** Live: what raters do appears by itself. */
  async keepReading() {
    clearTimeout(this.timer);
    await this.read();
    if (!this.element.hidden) this.timer = setTimeout(() => void this.keepReading(), LIVE);
  }

  async read() {
    try {
      const [raters, found] = await Promise.all([this.stage.api.get("/api/raters"), this.stage.api.get("/api/locations")]);
      const now = JSON.stringify([raters, found]);
      if (now === this.seen) return;
      this.seen = now;
      this.found = found;
      this.known = raters;
      whenReleased(this.element, () => {
        this.chosen ??= this.ordered.find((place) => !place.locked && place.max_distance !== null)?.query ?? null;
        this.showRaters(this.known.raters, this.known.pooled_sd, this.known.sealed);
        this.showPlaces();
        this.showChosen();
      });
    } catch (error) {
      this.tell(error);
    }
  }

  /** @param {unknown} error */
  tell(error) {
    if (!(error instanceof RefusedError)) throw error;
    this.note.textContent = error.message;
  }

  inviting() {
    const { home } = document.documentElement.dataset;
    if (home !== undefined) return make("p", {}, "People are invited on the page of ", make("a", { href: home }, "all pairs"), ".");
    const name = make("input", { type: "text", placeholder: "Name", maxLength: 100, "aria-label": "Name of a rater" });
    const role = make("select", { "aria-label": "Role" }, ...["rater", "organiser"].map((one) => make("option", { value: one }, one)));
    const add = () => void this.register(name.value.trim(), "add", role.value);
    return make("p", {}, name, " ", role, " ", make("button", { type: "button", "data-act": "invite", onclick: add }, "Invite with a link"));
  }

  /**
   * @param {string} name
   * @param {"add" | "revoke"} action
   * @param {string} role
   */
  async register(name, action, role) {
    if (!name) return;
    try {
      const body = action === "add" ? { action, name, role } : { action, name };
      const { link } = await this.stage.api.post("/api/raters", body);
      if (link) {
        const field = make("input", { type: "text", class: "link", readOnly: true, value: link, "aria-label": `Link of ${name}`, onfocus: () => field.select() });
        this.links.prepend(make("div", {}, make("span", {}, `Link for ${name} (shown only now): `),
          make("button", { type: "button", onclick: () => void navigator.clipboard.writeText(link) }, "Copy"), field));
      }
      await this.read();
    } catch (error) {
      this.tell(error);
    }
  }

  /**
   * @param {RaterRow[]} raters
   * @param {number | null} pooled
   * @param {number} sealed answers
   */
  showRaters(raters, pooled, sealed) {
    const { budget } = this.stage.project.settings;
    const people = raters.filter((one) => one.role !== "organiser" || one.placed > 0 || Object.keys(one.skipped).length > 0);
    const most = Math.max(1, budget ?? 0, ...people.map((one) => one.placed));
    const skipped = (/** @type {RaterRow} */ one) =>
      Object.entries(one.skipped).filter(([, count]) => count > 0).map(([reason, count]) => `${count} ${reason.replaceAll("_", " ")}`).join(", ");
    this.raters.replaceChildren(
      make("div", { class: "cards" }, ...people.map((one) => make("div", { class: `card ${one.revoked ? "off" : ""}`, "data-rater": one.name },
        make("h3", {}, one.name, make("span", { class: "quiet" }, one.revoked ? "revoked" : one.role === one.name ? "" : one.role)),
        make("progress", { max: most, value: one.placed, "aria-label": `Marks placed by ${one.name}` }),
        make("span", {}, `${one.placed}${budget ? ` of ${budget}` : ""} placed${one.intra?.pairs ? `, ${one.intra.pairs} of them repeats` : ""}${skipped(one) ? `; skipped: ${skipped(one)}` : ""}`),
        make("span", { class: "quiet" }, one.median_seconds === null ? "no time yet" : `${rounded(one.median_seconds)} s per answer`),
        ...certificateWords(one.certificate, this.unit).map((words) => make("span", { "data-certificate": "" }, words)),
        one.snap_asked === 0 ? null : make("span", { "data-snap": "", title: "Better places that the images proposed; the log has each of them" }, `Snap asked ${one.snap_asked}, shown ${one.snap_shown}, taken ${one.snap_taken}`),
        one.scatter === null ? null : make("span", { title: "Root mean square of the distances from the raters' common points" }, `typically ${rounded(one.scatter)} ${this.unit} from the raters' common point`),
        one.bias ? make("span", { class: "offset", title: `Mean offset: ${one.bias.map(number).join(", ")} ${this.unit}` }, one.bias.length === 2 ? biasArrow(one.bias) : null, `offset ${rounded(Math.hypot(...one.bias))} ${this.unit} from the others`) : null,
        make("div", { class: "row" }, ...this.linkButtons(one))))),
      make("p", { class: "quiet" }, pooled === null ? "Agreement appears here when two raters have answered the same question." : `Raters scatter around each other by ${rounded(pooled)} ${this.unit} (pooled standard deviation).`),
      sealed === 0 ? "" : make("p", { class: "quiet", "data-sealed": "" }, `${sealed} ${sealed === 1 ? "answer is" : "answers are"} sealed: not used, and not told which, until you run warpgauge unseal.`));
  }

  /** @param {RaterRow} one */
  linkButtons(one) {
    if (one.name === this.stage.project.rater) return [];
    const renew = make("button", { type: "button", onclick: () => void this.register(one.name, "add", one.role === "organiser" ? one.role : "rater") }, one.has_link && !one.revoked ? "New link" : "Link");
    const revoke = make("button", { type: "button", "data-act": "revoke", onclick: () => void this.register(one.name, "revoke", one.role) }, "Revoke");
    return one.registered && !one.revoked ? [renew, " ", revoke] : [renew];
  }

  /** Locations, the largest disagreement first unless sorted otherwise. */
  get ordered() {
    const order = [...this.found.locations];
    if (this.byDistance) order.sort((one, other) => (other.max_distance ?? -1) - (one.max_distance ?? -1));
    return order;
  }

  showPlaces() {
    const sort = (/** @type {string} */ title, /** @type {boolean} */ by) => make("button", { type: "button", onclick: () => {
      this.byDistance = by;
      this.showPlaces();
    } }, `${title} ${this.byDistance === by ? (by ? "▾" : "▴") : ""}`);
    const worst = Math.max(1e-9, ...this.found.locations.map((place) => place.max_distance ?? 0));
    this.places.replaceChildren(
      make("table", {}, make("thead", {}, make("tr", {}, make("th", { "aria-sort": this.byDistance ? "none" : "ascending" }, sort("No.", false)), make("th", {}, "Raters"), make("th", { class: "num", "aria-sort": this.byDistance ? "descending" : "none" }, sort(`Apart, ${this.unit}`, true)), make("th", {}, "State"))),
        make("tbody", {}, ...this.ordered.filter((place) => place.marks.length + Object.keys(place.skips).length > 0).map((place) => make("tr", {
          class: `go ${place.query === this.chosen ? "here" : ""}`, tabIndex: 0, "data-place": place.query,
          onclick: () => this.choose(place.query),
          onkeydown: (/** @type {KeyboardEvent} */ event) => event.key === "Enter" && this.choose(place.query) },
          make("td", {}, String(place.query + 1)),
          make("td", {}, `${place.marks.length} placed${Object.keys(place.skips).length ? `, ${Object.keys(place.skips).length} skipped` : ""}`),
          make("td", { class: "num" }, ...this.disagreement(place, worst)),
          make("td", {}, stateOf(place)))))));
  }

  /**
   * @param {Place} place
   * @param {number} worst
   */
  disagreement(place, worst) {
    if (place.max_distance === null) return ["–"];
    const spot = make("span", { class: "disagree" });
    spot.style.background = scaleColourText(place.max_distance / worst);
    return [spot, rounded(place.max_distance)];
  }

  /** Go to the open location, not the present one, whose marks lie farthest apart. */
  nextDisagreement() {
    const open = this.found.locations.filter((place) => !place.locked && place.max_distance !== null).sort((one, other) => Number(other.max_distance) - Number(one.max_distance));
    const now = open.findIndex((place) => place.query === this.chosen);
    const next = open[now + 1] ?? open[0];
    if (next) this.choose(next.query);
    else this.note.textContent = "No open disagreement is left.";
  }

  /**
   * Keep one mark: the others are excluded, and the location is settled.
   * @param {Place} place
   * @param {RaterMark} mark
   */
  async keep(place, mark) {
    for (const other of place.marks) {
      const wanted = other.rater === mark.rater;
      if (other.excluded !== wanted) continue;
      if (!(await this.act(place, wanted ? "include" : "exclude", { rater: other.rater }))) return;
    }
    await this.act(place, "resolve", { text: "One of the marks is taken." });
  }

  /** @param {number} query */
  choose(query) {
    this.chosen = query;
    this.showPlaces();
    this.showChosen();
    // In a narrow window the pictures stand above the list.
    this.adjudication.parentElement?.scrollIntoView({ block: "nearest" });
  }

  showChosen() {
    const place = this.found.locations.find(({ query }) => query === this.chosen);
    this.stage.extras.clear();
    if (!place) {
      this.adjudication.replaceChildren(make("p", { class: "quiet" }, this.found.locations.some((place) => place.marks.length > 1) ? "Choose a question on the left to see all marks over the images." : "Where several raters have answered the same question, their marks are compared here."));
      return;
    }
    buildAdjudication(this.stage, this.adjudication, place, {
      units: this.unit,
      act: (act, body) => void this.act(place, act, body),
      keep: (mark) => void this.keep(place, mark),
      next: () => this.nextDisagreement(),
    });
  }

  /**
   * @param {Place} place
   * @param {"resolve" | "exclude" | "include" | "ask_again"} act
   * @param {Record<string, unknown>} body
   * @returns {Promise<boolean>} whether it was saved
   */
  async act(place, act, body) {
    let done = false;
    try {
      const { saved } = await this.stage.api.post(`/api/locations/${place.query}/${act}`, { ...body, generation: this.found.generation });
      this.stage.store.set({ saved });
      this.note.textContent = "Saved.";
      this.delivery.written();
      done = true;
    } catch (error) {
      this.tell(error);
    }
    await this.read();
    return done;
  }
}

/** @param {Place} place */
function stateOf(place) {
  const excluded = place.marks.filter((mark) => mark.excluded).length;
  const words = [place.marks.some((mark) => mark.control) ? "control" : "", place.locked ? "settled" : place.resolved === null ? "" : "asked again", excluded ? `${excluded} excluded` : ""].filter(Boolean);
  return words.join(", ") || (place.marks.length > 1 ? "open" : "");
}

/**
 * @param {number} share 0 agrees, 1 is the largest disagreement
 * @returns {string}
 */
function scaleColourText(share) {
  const [r, g, b] = scaleColour("error", Math.min(1, Math.max(0, share)));
  return `rgb(${r} ${g} ${b})`;
}
