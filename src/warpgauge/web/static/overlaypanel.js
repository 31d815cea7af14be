/**
 * The panel of the overlays: a button for each key, opacity, which transform; and the legend of the map.
 * @module
 */

import { byId, make } from "./dom.js";
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
      } }, make("kbd", {}, command.shown), ` ${command.label}`);
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
  const opener = make("button", { type: "button", "aria-pressed": "false", onclick: () => {
    panel.hidden = !panel.hidden;
    opener.setAttribute("aria-pressed", String(!panel.hidden));
  } }, "Overlays");
  opener.dataset.open = "overlays";
  section.querySelector(".pane-head")?.append(opener);
  section.append(panel);
  showLegend(stage, section);
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
    legend = map ? mapLegend(map, { transform: stage.store.state.overlays.transform, d: stage.images.fixed.size.length, units: stage.images.fixed.units }) : null;
    if (legend) section.append(legend);
  };
}
