/**
 * The organiser's page: a row for each rater, a row for each location, adjudication, links.
 * @module
 */

import { RefusedError } from "./api.js";
import { buildAdjudication } from "./adjudicate.js";
import { byId, length, make, number } from "./dom.js";

/** @import { Annotator } from "./annotator.js" */
/** @import { Matrix, Vector } from "./linalg.js" */
/** @import { Stage } from "./stage.js" */
/**
 * @typedef {object} RaterRow
 * @property {string} name
 * @property {string} role
 * @property {boolean} registered
 * @property {boolean} has_link
 * @property {boolean} revoked
 * @property {number} placed
 * @property {number} deferred
 * @property {Record<string, number>} skipped
 * @property {number | null} median_seconds
 * @property {Vector | null} bias
 * @property {number | null} scatter
 * @property {{pairs: number, mean_distance: number | null} | null} intra
 */
/** @typedef {{rater: string, query: number, point: Vector, covariance: Matrix, alpha: number, disabled: boolean, excluded: boolean}} RaterMark */
/**
 * @typedef {object} Place
 * @property {number} query
 * @property {Vector} location
 * @property {RaterMark[]} marks
 * @property {Record<string, string>} skips
 * @property {number | null} mean_distance
 * @property {number | null} max_distance
 * @property {{point: Vector, covariance: Matrix} | null} fused
 * @property {string | null} resolved
 * @property {boolean} locked
 */

export class Organiser {
  /**
   * @param {Stage} stage
   * @param {Annotator} annotator
   */
  constructor(stage, annotator) {
    this.stage = stage;
    this.annotator = annotator;
    this.element = byId("organiser");
    this.units = annotator.project.units;
    this.links = make("div", { class: "choices" });
    this.raters = make("div");
    this.places = make("div");
    this.adjudication = make("div");
    this.note = make("p", { role: "status", class: "quiet" });
    /** @type {{locations: Place[], alpha: number, generation: number}} */
    this.found = { locations: [], alpha: 0.01, generation: 0 };
    /** @type {number | null} */
    this.chosen = null;
    this.byDistance = false;
  }

  /** Show the button that opens it. */
  offer() {
    const button = byId("organiser-button");
    button.hidden = false;
    button.addEventListener("click", () => this.toggle());
    this.element.replaceChildren(
      make("div", { class: "sheet" },
        make("div", {}, make("h2", {}, "Raters"), this.raters, this.inviting(), this.links, make("h2", {}, "Locations"), this.places),
        make("div", {}, make("h2", {}, "Adjudication"), this.note, this.adjudication)));
  }

  toggle() {
    this.element.hidden = !this.element.hidden;
    byId("organiser-button").setAttribute("aria-pressed", String(!this.element.hidden));
    this.stage.extras.clear();
    if (!this.element.hidden) void this.read();
  }

  async read() {
    try {
      const [raters, found] = await Promise.all([this.stage.api.get("/api/raters"), this.stage.api.get("/api/locations")]);
      this.found = found;
      this.showRaters(raters.raters, raters.pooled_sd);
      this.showPlaces();
      this.showChosen();
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
    const name = make("input", { type: "text", placeholder: "name", maxLength: 100, "aria-label": "Name of a rater" });
    const role = make("select", { "aria-label": "Role" }, ...["rater", "viewer", "organiser"].map((one) => make("option", { value: one }, one)));
    const add = () => void this.register(name.value.trim(), "add", role.value);
    return make("p", {}, name, " ", role, " ", make("button", { type: "button", "data-act": "invite", onclick: add }, "Add, with a link"));
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
   */
  showRaters(raters, pooled) {
    const skipped = (/** @type {RaterRow} */ one) =>
      Object.entries(one.skipped).filter(([, count]) => count > 0).map(([reason, count]) => `${count} ${reason.replaceAll("_", " ")}`).join(", ") || "0";
    const head = ["Rater", "Placed", "Skipped", "Seconds", "Bias", "Scatter", "Self", ""];
    this.raters.replaceChildren(
      make("table", {}, make("thead", {}, make("tr", {}, ...head.map((title) => make("th", { class: ["Placed", "Seconds", "Scatter", "Self"].includes(title) ? "num" : "" }, title)))),
        make("tbody", {}, ...raters.map((one) => make("tr", { class: one.revoked ? "off" : "", "data-rater": one.name },
          make("td", {}, one.name, make("div", { class: "quiet" }, one.revoked ? "revoked" : one.role)),
          make("td", { class: "num" }, String(one.placed)),
          make("td", {}, skipped(one)),
          make("td", { class: "num" }, number(one.median_seconds)),
          make("td", { title: one.bias ? one.bias.map(number).join(", ") : "" }, one.bias ? arrow(one.bias) : "–"),
          make("td", { class: "num" }, number(one.scatter)),
          make("td", { class: "num", title: "Mean distance between two answers to the same location" }, one.intra ? number(one.intra.mean_distance) : "–"),
          make("td", {}, ...this.linkButtons(one)))))),
      make("p", { class: "quiet" }, pooled === null ? "One rater alone tells nothing about agreement." : `Raters scatter around each other by ${length(pooled, this.units)} (pooled standard deviation). Bias: mean offset from the others.`));
  }

  /** @param {RaterRow} one */
  linkButtons(one) {
    if (one.name === this.annotator.project.rater) return [];
    const renew = make("button", { type: "button", onclick: () => void this.register(one.name, "add", one.role) }, one.has_link && !one.revoked ? "New link" : "Link");
    const revoke = make("button", { type: "button", "data-act": "revoke", onclick: () => void this.register(one.name, "revoke", one.role) }, "Revoke");
    return one.registered && !one.revoked ? [renew, " ", revoke] : [renew];
  }

  showPlaces() {
    const order = [...this.found.locations];
    if (this.byDistance) order.sort((one, other) => (other.max_distance ?? -1) - (one.max_distance ?? -1));
    const sort = make("button", { type: "button", onclick: () => {
      this.byDistance = !this.byDistance;
      this.showPlaces();
    } }, `Distance ${this.byDistance ? "▾" : ""}`);
    this.places.replaceChildren(
      make("table", {}, make("thead", {}, make("tr", {}, make("th", {}, "No"), make("th", {}, "Raters"), make("th", { class: "num" }, sort), make("th", {}, "State"))),
        make("tbody", {}, ...order.map((place) => make("tr", {
          class: `go ${place.query === this.chosen ? "here" : ""}`, tabIndex: 0, "data-place": place.query,
          onclick: () => this.choose(place.query),
          onkeydown: (/** @type {KeyboardEvent} */ event) => event.key === "Enter" && this.choose(place.query) },
          make("td", {}, String(place.query + 1)),
          make("td", {}, `${place.marks.length} placed${Object.keys(place.skips).length ? `, ${Object.keys(place.skips).length} skipped` : ""}`),
          make("td", { class: "num" }, number(place.max_distance)),
          make("td", {}, stateOf(place)))))));
  }

  /** @param {number} query */
  choose(query) {
    this.chosen = query;
    this.showPlaces();
    this.showChosen();
  }

  showChosen() {
    const place = this.found.locations.find(({ query }) => query === this.chosen);
    this.stage.extras.clear();
    if (!place) {
      this.adjudication.replaceChildren(make("p", { class: "quiet" }, "Choose a location on the left."));
      return;
    }
    buildAdjudication(this.stage, this.adjudication, place, (act, body) => void this.act(place, act, body));
  }

  /**
   * @param {Place} place
   * @param {"resolve" | "exclude" | "include" | "ask_again"} act
   * @param {Record<string, unknown>} body
   */
  async act(place, act, body) {
    try {
      const { saved } = await this.stage.api.post(`/api/locations/${place.query}/${act}`, { ...body, generation: this.found.generation });
      this.stage.store.set({ saved });
      this.note.textContent = "Saved.";
      this.annotator.onWritten();
    } catch (error) {
      this.tell(error);
    }
    await this.read();
  }
}

/** @param {Place} place */
function stateOf(place) {
  const excluded = place.marks.filter((mark) => mark.excluded).length;
  const words = [place.locked ? "settled" : "", excluded ? `${excluded} excluded` : ""].filter(Boolean);
  return words.join(", ") || (place.marks.length > 1 ? "open" : "");
}

/**
 * The bias as an arrow, the first two coordinates, scaled to its own length.
 * @param {Vector} bias
 */
function arrow(bias) {
  const space = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(space, "svg");
  svg.setAttribute("viewBox", "-22 -22 44 44");
  svg.setAttribute("class", "bias");
  const size = Math.hypot(bias[0], bias[1]) || 1;
  const [x, y] = [(bias[0] / size) * 16, (bias[1] / size) * 16];
  const path = document.createElementNS(space, "path");
  path.setAttribute("d", `M${-x} ${-y}L${x} ${y}m${(-x - y * 0.7) * 0.4} ${(-y + x * 0.7) * 0.4}L${x} ${y}l${(-x + y * 0.7) * 0.4} ${(-y - x * 0.7) * 0.4}`);
  path.setAttribute("fill", "none");
  path.setAttribute("stroke", "currentColor");
  path.setAttribute("stroke-width", "2");
  const text = document.createElementNS(space, "text");
  text.textContent = number(Math.hypot(...bias));
  text.setAttribute("font-size", "11");
  text.setAttribute("y", "21");
  text.setAttribute("text-anchor", "middle");
  text.setAttribute("fill", "currentColor");
  svg.append(path, text);
  return svg;
}
