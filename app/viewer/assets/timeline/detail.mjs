// The panel with all that is known of the selected row.

import { make, part } from "./dom.mjs";
import { harmless, plain, timeText } from "./format.mjs";

export class Detail {
  /** @param {import("./timeline.mjs").Timeline} timeline */
  constructor(timeline) {
    this.timeline = timeline;
    this.host = part(timeline.root, "detail");
    this.hint = [...this.host.childNodes];
  }

  /** @param {import("./selection.mjs").Selection} selection */
  show({ chosen, problem }) {
    if (problem) {
      this.host.replaceChildren(make("p", { class: "warning" }, problem));
    } else if (chosen) {
      this.host.replaceChildren(this.#head(chosen), this.#facts(chosen), ...this.#linked(chosen), columns(chosen));
    } else {
      this.host.replaceChildren(...this.hint);
    }
  }

  #head(chosen) {
    const { timeline } = this;
    const close = { type: "button", "aria-label": "Clear the selection", title: "Clear the selection (Esc)", onclick: () => timeline.selection.clear() };
    const zoom = { type: "button", title: "Zoom to it (f)", onclick: () => timeline.zoomToChosen() };
    const buttons = make("span", { class: "timeline-buttons" }, make("button", zoom, "Zoom to it"), make("button", close, "×"));
    return make("h3", {}, make("span", {}, plain(chosen.name)), buttons);
  }

  #facts({ arm: name, lane, row, start, duration }) {
    const arm = this.timeline.arm(name);
    const where = arm.lanes.find((one) => one.lane === lane);
    const facts = [
      arm.title,
      where ? plain(where.title) : `lane ${lane}`,
      startText(start - arm.origin),
      `takes ${timeText(duration)}`,
      `row ${row}`,
    ];
    return make("p", { class: `timeline-facts arm arm-${name}` }, facts.join(" · "));
  }

  #linked({ arm: name, start, duration, linked }) {
    if (!linked.length) {
      return [];
    }
    const arm = this.timeline.arm(name);
    const buttons = linked.map((other) => {
      const gap = other.start >= start ? other.start - (start + duration) : start - (other.start + other.duration);
      const when = `${timeText(Math.abs(gap))} ${gapWord(other.start >= start, gap)}`;
      const lane = arm.lanes.find((one) => one.lane === other.lane);
      const text = `${plain(other.name)} on ${lane ? plain(lane.title) : `lane ${other.lane}`}, ${timeText(other.duration)}`;
      const go = () => void this.timeline.navigation.goToRow(arm, other.row, other.name);
      return make("button", { type: "button", class: "timeline-jump", onclick: go }, text, make("span", { class: "faint" }, ` starts ${when}`));
    });
    return [make("div", { class: "timeline-linked" }, make("span", { class: "faint" }, "Linked: "), ...buttons)];
  }
}

/** @param {number} ns from the start of the step */
function startText(ns) {
  return `starts ${timeText(Math.abs(ns))} ${ns < 0 ? "before" : "after"} the start of the step`;
}

/** Where a linked row lies. A negative gap is an overlap. */
function gapWord(later, gap) {
  if (later) {
    return gap < 0 ? "before this ends" : "after this ends";
  }
  return gap < 0 ? "overlapping this" : "before this";
}

/** All columns that hold something, with their units; the meaning as a title. */
function columns({ columns: given }) {
  const rows = given.map(({ name, value, unit, meaning }) =>
    make(
      "div",
      { title: meaning },
      make("dt", {}, name),
      make("dd", {}, harmless(value), ...(unit ? [make("span", { class: "faint" }, ` ${unit}`)] : [])),
    ),
  );
  return make("dl", { class: "timeline-columns" }, ...rows);
}
