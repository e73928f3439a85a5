// What colours and patterns mean.

import { make, part } from "./dom.mjs";

export const HATCHED = "hatched: the part that waits for the GPU";

export class Legend {
  /** @param {HTMLElement} root */
  constructor(root) {
    this.host = part(root, "legend");
    this.shown = "";
    /** Tones that occurred so far: what is below must not jump while one looks around. */
    this.seen = new Set();
  }

  /** @param {import("./arm.mjs").Arm[]} arms @param {import("./theme.mjs").Theme} theme */
  show(arms, theme) {
    tonesOf(arms).forEach((tone) => this.seen.add(tone));
    const entries = legendOf(arms, theme, this.seen);
    const looks = JSON.stringify(entries.map(({ key, text }) => [key, text]));
    if (this.shown === looks) {
      return;
    }
    this.shown = looks;
    const items = entries.map(({ key, tone, text }) =>
      make("li", {}, swatch(tone.soft ? "soft" : "", `--swatch: var(--tone-${key}, var(--step))`), text),
    );
    const dust = make("li", {}, swatch("dust"), "columns: many short rows, as high as they are busy");
    this.host.replaceChildren(...items, make("li", {}, swatch("hatched"), HATCHED), dust);
  }
}

/**
 * One entry for each look that occurs; tones that look the same share it.
 * @param {import("./arm.mjs").Arm[]} arms
 * @param {import("./theme.mjs").Theme} theme
 * @param {Set<number>} [used] numbers of tones; those of the marks that are known
 * @returns {{key: string, tone: import("./theme.mjs").Tone, text: string}[]}
 */
export function legendOf(arms, theme, used = tonesOf(arms)) {
  const found = new Map();
  const tones = arms.find(({ opened }) => opened)?.tones ?? [];
  for (const { key, title } of tones.filter(({ id }) => used.has(id))) {
    const tone = theme.tone(key);
    const look = tone.fill + tone.soft;
    const known = found.get(look);
    found.set(look, known ? { ...known, text: `${known.text} · ${title}` } : { key, tone, text: title });
  }
  return [...found.values()];
}

/** Tones among the marks that are known. @returns {Set<number>} */
function tonesOf(arms) {
  const numbers = new Set();
  for (const { answer } of arms) {
    for (const { marks, dust } of answer?.tracks.values() ?? []) {
      marks.tone.forEach((tone) => numbers.add(tone));
      dust.tone.forEach((tone) => numbers.add(tone));
    }
  }
  return numbers;
}

function swatch(kind, style = null) {
  return make("span", { class: `timeline-swatch ${kind}`, style });
}
