/**
 * The panel of the overlays: a button for each key, opacity, which transform; and the legend of the map.
 * @module
 */

import { byId, make } from "./dom.js";
import { icon } from "./icons.js";
import { COMPARISONS } from "./layout.js";
import { mapLegend } from "./maps.js";

/** @import { Command } from "./keys.js" */
/** @import { Stage } from "./stage.js" */

/**
 * @param {Stage} stage
 * @param {Command[]} commands
 */
export function buildOverlayPanel(stage, commands) {
  const { store } = stage;
  const section = byId("fixed");
  const own = commands.filter(({ group }) => group === "Overlays");
  const buttons = own.map((command) => {
    const button = make("button", { type: "button", "data-overlay": command.id, title: command.label,
      onclick: () => {
        command.run();
        if (command.release) setTimeout(command.release, 4000);
      } }, make("kbd", {}, command.shown), command.label);
    if (command.pressed) store.watch(["overlays"], () => button.setAttribute("aria-pressed", String(command.pressed?.())));
    return button;
  });
  const opacity = make("input", { type: "range", min: "0", max: "1", step: "0.02", value: String(store.state.overlays.opacity),
    oninput: () => store.set({ overlays: { ...store.state.overlays, opacity: Number(opacity.value) } }) });
  const names = store.state.project?.transforms ?? [];
  const transform = make("select", { onchange: () => store.set({ overlays: { ...store.state.overlays, transform: transform.value } }) },
    ...names.map((name) => make("option", { value: name }, name)));
  store.watch(["overlays"], () => (transform.value = store.state.overlays.transform ?? ""));
  const panel = make("div", { class: "popover overlays", role: "group", "aria-label": "Overlays", hidden: true },
    ...buttons, make("label", {}, "Opacity", opacity), names.length ? make("label", {}, "Transform", transform) : null);
  const opener = make("button", { type: "button", "aria-label": "Overlays", title: "Overlays: maps, grid, earlier answers", "aria-pressed": "false", onclick: () => {
    panel.hidden = !panel.hidden;
    opener.setAttribute("aria-pressed", String(!panel.hidden));
  } }, icon("overlays"), make("span", { class: "name" }, "Overlays"));
  opener.dataset.open = "overlays";
  section.querySelector(".pane-head")?.append(opener);
  section.append(panel);
  showLegend(stage, section);
  showChip(stage, section);
}

/**
 * The name of what is laid over the images, with a button that takes it off.
 * @param {Stage} stage
 * @param {HTMLElement} section
 */
function showChip(stage, section) {
  const { store } = stage;
  const words = make("span");
  const off = () => store.set({ overlays: { ...store.state.overlays, warp: "off", map: "off", grid: false, candidates: false, foreground: false } });
  const chip = make("div", { class: "chip", hidden: true }, words, make("button", { type: "button", "aria-label": "Take the overlays off", onclick: off }, "×"));
  section.append(chip);
  const show = () => {
    const { warp, map, grid, candidates, foreground } = store.state.overlays;
    const names = [warp === "off" ? "" : `warped: ${COMPARISONS[warp]}`, map === "off" ? "" : { entropy: "uncertainty", sd: "uncertainty", error: "error", blended: "error, where known" }[map], grid ? "grid" : "", candidates ? "points" : "", foreground ? "foreground" : ""].filter(Boolean);
    words.textContent = names.join(", ");
    chip.hidden = names.length === 0;
  };
  store.watch(["overlays"], show);
  show();
}

/**
 * @param {Stage} stage
 * @param {HTMLElement} section
 */
function showLegend(stage, section) {
  /** @type {HTMLElement | null} */
  let legend = null;
  /** @type {unknown} */
  let shown = null;
  stage.overlays.onMap = (map) => {
    if (map === shown) return;
    shown = map;
    legend?.remove();
    legend = map ? mapLegend(map, { transform: stage.store.state.overlays.transform, d: stage.images.fixed.size.length, units: stage.images.fixed.units, region: stage.store.state.progress?.region ?? 1 }) : null;
    if (legend) section.append(legend);
  };
}
