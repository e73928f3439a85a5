// What colours and patterns mean.

import { make, part } from "./dom.mjs";

/**
 * Lists the tones that occur among the marks that are known.
 * @param {import("./timeline.mjs").Timeline} timeline
 */
export function showLegend({ root, arms, theme }) {
  const host = part(root, "legend");
  const used = usedTones(arms);
  const looks = JSON.stringify([...used.keys()]);
  if (host.dataset.shown === looks) {
    return;
  }
  host.dataset.shown = looks;
  const items = [...alike(used, theme).values()].map(([{ key, soft }, ...titles]) => {
    const kind = soft ? "timeline-swatch soft" : "timeline-swatch";
    const swatch = make("span", { class: kind, style: `--swatch: var(--tone-${key}, var(--step))` });
    return make("li", {}, swatch, titles.join(" · "));
  });
  const hatched = make("li", {}, make("span", { class: "timeline-swatch hatched" }), "hatched: the part that waits for the GPU");
  const dust = make("li", {}, make("span", { class: "timeline-swatch dust" }), "columns: many short rows, as high as they are busy");
  host.replaceChildren(...items, hatched, dust);
}

/** Titles of tones that look the same, after one of them. */
function alike(used, theme) {
  const found = new Map();
  for (const [key, title] of used) {
    const { fill, soft } = theme.tone(key);
    const look = fill + soft;
    found.set(look, [...(found.get(look) ?? [{ key, soft }]), title]);
  }
  return found;
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
