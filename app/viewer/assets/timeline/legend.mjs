// What colours and patterns mean.

import { make, part } from "./dom.mjs";

export const HATCHED = "hatched: the part that waits for the GPU";

/**
 * Lists the tones that occur among the marks that are known.
 * @param {HTMLElement} root
 * @param {import("./arm.mjs").Arm[]} arms
 * @param {import("./theme.mjs").Theme} theme
 */
export function showLegend(root, arms, theme) {
  const host = part(root, "legend");
  const entries = legendOf(arms, theme);
  const looks = JSON.stringify(entries.map(({ key, text }) => [key, text]));
  if (host.dataset.shown === looks) {
    return;
  }
  host.dataset.shown = looks;
  const items = entries.map(({ key, tone, text }) =>
    make("li", {}, swatch(tone.soft ? "soft" : "", `--swatch: var(--tone-${key}, var(--step))`), text),
  );
  const dust = make("li", {}, swatch("dust"), "columns: many short rows, as high as they are busy");
  host.replaceChildren(...items, make("li", {}, swatch("hatched"), HATCHED), dust);
}

/**
 * One entry for each look that occurs; tones that look the same share it.
 * @param {import("./arm.mjs").Arm[]} arms
 * @param {import("./theme.mjs").Theme} theme
 * @returns {{key: string, tone: import("./theme.mjs").Tone, text: string}[]}
 */
export function legendOf(arms, theme) {
  const found = new Map();
  for (const [key, title] of usedTones(arms)) {
    const tone = theme.tone(key);
    const look = tone.fill + tone.soft;
    const known = found.get(look);
    found.set(look, known ? { ...known, text: `${known.text} · ${title}` } : { key, tone, text: title });
  }
  return [...found.values()];
}

function swatch(kind, style = null) {
  return make("span", { class: `timeline-swatch ${kind}`, style });
}

/** @returns {Map<string, string>} key → title, in the order of the server */
function usedTones(arms) {
  const numbers = new Set();
  for (const { answer } of arms) {
    for (const { marks, dust } of answer?.tracks.values() ?? []) {
      marks.tone.forEach((tone) => numbers.add(tone));
      dust.tone.forEach((tone) => numbers.add(tone));
    }
  }
  const tones = arms.flatMap((arm) => arm.tones).filter(({ id }) => numbers.has(id));
  return new Map(tones.map(({ key, title }) => [key, title]));
}
