/** The View menu: how each image is shown, the overview, the scale, the theme; and the list of keys. @module */

import { HUES, initialColours, largestSample } from "./colour.js";
import { changeTheme, showKeys } from "./commands.js";
import { PLANE_NAMES } from "./planeview.js";
import { SIDES } from "./stage.js";
import { useStore } from "./store.js";
import { html, useEffect, useState } from "./vendor/preact-htm.js";
import { number } from "./words.js";

/** @import { Command } from "./keys.js" */
/** @import { Stage } from "./stage.js" */
/** @import { Colours, Side } from "./types.js" */

/** Channels at once; the server sends no more. */
const MOST = 6;
const CHANNELS = [["colour", "Colour"], ["grey", "Grey"], ["haematoxylin", "Haematoxylin"], ["eosin", "Eosin"], ["dab", "DAB"]];
const TITLES = { fixed: "This place", moving: "Where is it?" };

/** @param {{stage: Stage}} properties */
export function Menu({ stage }) {
  const { store } = stage;
  const state = useStore(store, ["menu", "overview", "bar", "maximised", "colours"]);
  useEffect(() => {
    const elsewhere = (/** @type {Event} */ event) => {
      const inside = event.composedPath().some((one) => one instanceof Element && one.matches("#menu, [data-command=view]"));
      if (!inside) store.set({ menu: false });
    };
    document.addEventListener("pointerdown", elsewhere);
    return () => document.removeEventListener("pointerdown", elsewhere);
  }, []);
  if (!state.menu) return null;
  const toggle = (/** @type {"overview" | "bar"} */ key, /** @type {string} */ words) => html`<label class="tick">
    <input type="checkbox" data-toggle=${key} checked=${state[key]} onChange=${() => store.set({ [key]: !store.state[key] })} />${words}</label>`;
  return html`<div class="panel">
    ${SIDES.map((side) => html`<${Look} key=${side} stage=${stage} side=${side} />`)}
    <div class="row">
      ${stage.solid && html`<label>Planes <select onChange=${(/** @type {any} */ event) => store.set({ maximised: event.target.value === "" ? null : Number(event.target.value) })}>
        <option value="" selected=${state.maximised === null}>all three</option>
        ${[2, 1, 0].map((axis) => html`<option value=${axis} selected=${state.maximised === axis}>${PLANE_NAMES[axis]}</option>`)}</select></label>`}
      ${!stage.solid && toggle("overview", "Overview")}${toggle("bar", "Scale")}
      <span class="spring"></span>
      <button type="button" data-act="theme" onClick=${() => changeTheme(stage)}>Dark or light</button>
      <button type="button" data-act="keys" onClick=${() => showKeys()}>Keys</button>
    </div>
  </div>`;
}

/** How one image is shown. @param {{stage: Stage, side: Side}} properties */
function Look({ stage, side }) {
  const image = stage.images[side];
  const colours = stage.store.state.colours[side];
  const apart = image.apart.length > 0;
  const [picked, pick] = useState(0);
  const channel = apart && !colours.shown.some((one) => one.channel === picked) ? colours.shown[0].channel : picked;
  const change = (/** @type {Partial<Colours>} */ part) => stage.setColours(side, { ...stage.store.state.colours[side], ...part });
  const window = colours.windows[apart ? channel : 0];
  const [low, high] = rangeOf(image, [...colours.windows, ...initialColours(image).windows]);
  const set = (/** @type {"low" | "high"} */ end, /** @type {number} */ value) => {
    const next = end === "low" ? { low: value, high: Math.max(window.high, value + (high - low) / 1020) } : { high: value, low: Math.min(window.low, value - (high - low) / 1020) };
    change({ windows: colours.windows.map((old, k) => (!apart || k === channel ? next : old)) });
  };
  const slider = (/** @type {"low" | "high"} */ end, /** @type {string} */ words) => html`<label class="told">${words}
    <input type="range" data-end=${end === "low" ? "dark" : "bright"} min=${low} max=${high} step="any" value=${window[end]} onInput=${(/** @type {any} */ event) => set(end, Number(event.target.value))} />
    <output class="figure quiet">${number(window[end] * image.scale + image.offset)}</output></label>`;
  return html`<div class="look" role="group" data-look=${side} aria-label=${TITLES[side]}>
    <h2>${TITLES[side]} <span class="quiet clip">${image.name}</span></h2>
    ${image.channels === 3 && image.dtype === "uint8" && !apart && html`<label class="told">Channel<select data-stain=${side} onChange=${(/** @type {any} */ event) => change({ channel: event.target.value })}>${CHANNELS.map(([value, name]) => html`<option value=${value} selected=${colours.channel === value}>${name}</option>`)}</select></label>`}
    ${apart && html`<${Channels} names=${image.apart.map(({ name }) => name)} colours=${colours} picked=${channel} pick=${pick} change=${change} />`}
    ${slider("low", "Dark at")}${slider("high", "Bright at")}
    <div class="row"><label class="tick">
      <input type="checkbox" checked=${colours.invert} onChange=${() => change({ invert: !colours.invert })} />Invert</label><span class="spring">
      </span>
      <button type="button" data-act="reset" onClick=${() => change(initialColours(image))}>Reset</button></div>
  </div>`;
}

/**
 * Range of samples that the sliders span: all 8 bits, or of 16 bits the windows and as much again on both sides.
 * @param {Parameters<typeof largestSample>[0]} image @param {{low: number, high: number}[]} windows @returns {[number, number]}
 */
function rangeOf(image, windows) {
  const top = largestSample(image);
  if (top < 256) return [0, top];
  const low = Math.min(...windows.map((one) => one.low));
  const high = Math.max(...windows.map((one) => one.high));
  return [Math.max(0, low - (high - low) / 2), Math.min(top, high + (high - low) / 2)];
}

/**
 * Channels that are not grey or red, green, blue: whether each is shown, its colour, and its name, which gives it the sliders.
 * @param {{names: string[], colours: Colours, picked: number, pick: (channel: number) => void, change: (part: Partial<Colours>) => void}} properties
 */
function Channels({ names, colours, picked, pick, change }) {
  const { shown } = colours;
  const show = (/** @type {number} */ channel, /** @type {boolean} */ on) => {
    const others = shown.filter((one) => one.channel !== channel);
    const free = HUES.find(([, colour]) => others.every((one) => one.colour !== colour)) ?? HUES[0];
    if (on) change({ shown: [...others, { channel, colour: free[1] }] });
    else if (others.length) change({ shown: others });
    pick(on || !others.length ? channel : others[0].channel);
  };
  return html`<div class="channels" role="group" aria-label="Channels">${names.map((name, channel) => {
    const here = shown.find((one) => one.channel === channel);
    return html`<div class="row channel">
      <input type="checkbox" aria-label=${`Show ${name}`} checked=${Boolean(here)} disabled=${!here && shown.length >= MOST} onClick=${(/** @type {any} */ event) => show(channel, event.target.checked)} />
      <select aria-label=${`Colour of ${name}`} disabled=${!here} style=${{ borderLeftColor: here?.colour ?? "transparent" }} onChange=${(/** @type {any} */ event) => change({ shown: shown.map((one) => (one.channel === channel ? { channel, colour: event.target.value } : one)) })}>
        ${HUES.map(([word, value]) => html`<option value=${value} selected=${here?.colour === value}>${word}</option>`)}</select>
      <button type="button" title=${`Brightness of ${name}`} disabled=${!here} aria-pressed=${channel === picked} onClick=${() => pick(channel)}>
        ${name}</button></div>`;
  })}</div>`;
}

/** All keys, each also a button. @param {{commands: Command[], solid: boolean}} properties */
export function Keys({ commands, solid }) {
  const close = () => /** @type {HTMLDialogElement | null} */ (document.querySelector("dialog#keys"))?.close();
  const run = (/** @type {Command} */ command) => {
    close();
    command.run();
    // A key that is held has a button that holds for a while.
    if (command.release) setTimeout(command.release, 2500);
  };
  const mouse = [["Click on “This place”", "choose a place"], ["Click on “Where is it?”", "put the ring"], ["Drag", "move the images"], ["Drag a handle or the rim", "change its size and shape"], ["Wheel", solid ? "slices; Shift zooms" : "zoom both"], ["Right or middle drag", "brightness and contrast"], ["Touch", "tap, drag, pinch"]];
  return html`<h2 id="keys-title" tabindex="-1" autofocus>Keys and mouse</h2>
    <div class="columns">
      ${commands.filter(({ id }) => !/^(Shift\+)?(Right|Up|Down)$/.test(id)).map((command) => html`<button type="button" key=${command.id} onClick=${() => run(command)}><span>${command.label}</span><kbd>${command.shown.replace("←", "← → ↑ ↓")}</kbd></button>`)}
      ${mouse.map(([what, gives]) => html`<div class="static"><span>${what}</span><span class="quiet">${gives}</span></div>`)}</div>
    <div class="foot"><button type="button" onClick=${close}>Close</button></div>`;
}
