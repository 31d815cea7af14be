/** How far the work is: the curve of uncertainty, the stop rules, and how registration results compare. @module */

import { useStore } from "./store.js";
import { html, useEffect, useState } from "./vendor/preact-htm.js";
import { extentOf, number, rounded, unitName } from "./words.js";

/** @import { Stage } from "./stage.js" */
/** @import { Progress as ProgressAnswer } from "./types.js" */
/** @import { TransformsAnswer as Transforms } from "./wire.js" */

/** Answers before it is said how well matches are known. */
const ENOUGH = 3;
/** Share of the image beyond which a match is not known at all. */
const KNOWN = 1 / 4;

/**
 * How far the work has come, without statistics.
 * @param {ProgressAnswer} progress @param {string} units @param {number} [largest] size of the image: beyond it nothing was known @returns {string[]}
 */
export function progressInWords(progress, units, largest = Infinity) {
  const { mean_sd: now, max_sd: worst, curve, region } = progress;
  if (now === null || progress.annotations < ENOUGH || now * region > KNOWN * largest) return ["How well matches are known cannot be said yet: every answer helps."];
  const within = (/** @type {number} */ sd) => `± ${rounded(sd * region)} ${units}`;
  const words = [`A typical match is known to ${within(now)}${worst === null ? "" : `, the least certain one to ${within(worst)}`}.`];
  const back = [...curve].reverse().find((entry) => entry.annotations <= progress.annotations - 10);
  if (back && back.mean_sd > 0) {
    const share = Math.round(100 * (1 - now / back.mean_sd));
    words.push(share >= 1 ? `The last ten answers took ${share} % off the uncertainty.` : "The last ten answers changed little: more will not help much.");
  }
  return words;
}

/** @param {{stage: Stage}} properties */
export function Progress({ stage }) {
  const { progress } = useStore(stage.store, ["progress"]);
  if (!progress) return html`<p class="quiet">One moment…</p>`;
  const units = unitName(stage.images.fixed.units);
  const largest = extentOf(stage.images.fixed);
  const curve = progress.curve.map((entry) => [entry.annotations, entry.mean_sd * progress.region]).filter(([annotations, sd]) => annotations >= ENOUGH && sd <= KNOWN * largest);
  const gains = progress.stop.filter(({ rule }) => rule === "gain");
  const ruled = (/** @type {ProgressAnswer["stop"][number]} */ { rule, met, sentence }) => `${met ? "✓" : "○"} ${rule === "gain" ? (met ? "The next answer would bring little." : "The next answer still brings something.") : sentence}`;
  return html`<h2>When to stop</h2>
    ${progress.stop.length ? progress.stop.map((rule) => html`<p>${ruled(rule)}
      </p>`) : html`<p class="quiet">The project has no stop rule: about 20 marks are likely to be needed, more where the images differ much.</p>`}
    ${progress.verdict && html`<${Verdict} lines=${progress.verdict} />`}
    <h2>How well a typical match is known</h2>
    <p>${progress.placed} ${progress.placed === 1 ? "mark" : "marks"} placed.</p>
    ${progressInWords(progress, units, largest).map((sentence) => html`<p>${sentence}</p>`)}
    ${curve.length > 1 && html`<${Chart} points=${curve} across="marks" up=${units} />`}
    <details><summary>For statisticians</summary>
      <p class="quiet">Expected information of the next answer: ${number(progress.next_gain)} nats. Uncertainty over ${progress.targets} targets. ${progress.model} ${gains.map(({ sentence }) => sentence).join(" ")}</p></details>`;
}

/**
 * A line through points, on a logarithmic scale: uncertainty falls by orders of magnitude.
 * @param {{points: number[][], across: string, up: string}} properties
 */
function Chart({ points, across, up }) {
  const [width, height, left, bottom] = [360, 150, 44, 26];
  const finite = points.filter((point) => point.every(Number.isFinite) && point[1] > 0);
  const last = Math.max(1, ...finite.map(([x]) => x));
  const top = Math.max(...finite.map(([, y]) => y));
  const low = Math.min(top / 2, ...finite.map(([, y]) => y));
  const at = (/** @type {number[]} */ [x, y]) => [left + (x / last) * (width - left - 8), height - bottom - (Math.log(y / low) / Math.log(top / low)) * (height - bottom - 12)];
  const text = (/** @type {number} */ x, /** @type {number} */ y, /** @type {string} */ anchor, /** @type {string} */ words) => html`<text x=${x} y=${y} text-anchor=${anchor} font-size="12" fill="currentColor">${words}</text>`;
  return html`<svg viewBox=${`0 0 ${width} ${height}`} class="chart" role="img" aria-label=${`${up} over ${across}`}>
    <path d=${`M${left} 8V${height - bottom}H${width - 8}`} fill="none" stroke="currentColor" stroke-opacity="0.5" />
    ${text(left - 4, 16, "end", rounded(top))}${text(left - 4, height - bottom, "end", rounded(low))}${text(width - 8, 16, "end", `${up} (logarithmic)`)}${text(width - 8, height - 8, "end", `${last} ${across}`)}
    <polyline points=${finite.map((point) => at(point).join(",")).join(" ")} fill="none" stroke="currentColor" stroke-width="1.8" />
  </svg>`;
}

/** What is to be said of the registration results, in five lines at most. @param {{lines: string}} properties */
export function Verdict({ lines }) {
  return html`<div class="verdict">${lines.split("\n").map((line) => html`<div key=${line}>${line}</div>`)}</div>`;
}

/** Registration results: the verdict first, then a line for each. @param {{stage: Stage}} properties */
export function Compare({ stage }) {
  const { map, saved } = useStore(stage.store, ["map", "saved"]);
  const [answer, setAnswer] = useState(/** @type {Transforms | null} */ (null));
  useEffect(() => {
    let gone = false;
    stage.api.get("/api/transforms").then((next) => gone || setAnswer(next), () => undefined);
    return () => {
      gone = true;
    };
  }, [saved]);
  if (!answer) return html`<p class="quiet">Comparing the registration results…</p>`;
  const { transforms, verdict, targets, flags, units } = answer;
  if (transforms.length === 0) return html`<p class="quiet">No registration result has been added yet. Once there is one, it is compared here.</p>`;
  const chosen = (/** @type {string} */ name) => map?.kind === "blended" && map.transform === name;
  const choose = (/** @type {string} */ name) => stage.store.set({ map: chosen(name) ? null : { kind: "blended", transform: name } });
  const words = (/** @type {number | null} */ value) => (value === null ? "–" : rounded(value));
  const uncertain = map?.kind === "entropy";
  return html`<${Verdict} lines=${verdict} />
    <div class="scroll"><table class="compare"><thead><tr><th>Result</th><th class="num">Error, ${unitName(units)}</th><th class="num">Best</th><th>Map</th>
      </tr></thead>
      <tbody>${transforms.map((entry) => html`<tr key=${entry.name}><td title=${entry.description}>
        ${entry.rank === null ? "" : `${entry.rank}. `}${entry.name}${entry.problem && html`<div class="flag">${entry.problem}</div>`}</td>
        <td class="num">${entry.error ? html`${words(entry.error[0])}<div class="note">${entry.error.slice(1).map(words).join(" to ")}</div>` : "–"}</td><td class="num">${entry.best ?? "–"}</td>
        <td>${entry.mapped && html`<button type="button" data-map=${entry.name} aria-pressed=${chosen(entry.name)} onClick=${() => choose(entry.name)}>Map</button>`}</td></tr>`)}</tbody></table></div>
    ${flags.map((sentence) => html`<p class="flag clip" title=${sentence}>${sentence}</p>`)}
    <p class="quiet">${targets} Error: root mean square distance from the true match, with its interval. Best: probability of being the best of these.</p>
    <button type="button" data-map="entropy" aria-pressed=${uncertain} onClick=${() => stage.store.set({ map: uncertain ? null : { kind: "entropy", transform: null } })}>Map of how well matches are known</button>`;
}
