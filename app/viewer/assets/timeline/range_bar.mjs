// What can be done with the range box, as buttons.

import { make, part } from "./dom.mjs";
import { timeText } from "./format.mjs";

export class RangeBar {
  /** @param {import("./timeline.mjs").Timeline} timeline */
  constructor(timeline) {
    this.host = part(timeline.root, "range");
    this.length = make("span");
    const zoom = { type: "button", title: "Zoom to the range box (f, Enter)", onclick: () => timeline.zoomToRange() };
    const clear = { type: "button", title: "Clear the range box (Esc)", onclick: () => timeline.setRange(null) };
    this.host.replaceChildren(this.length, make("button", zoom, "Zoom"), make("button", clear, "Clear"));
  }

  /** @param {import("./address.mjs").Span | null} range */
  show(range) {
    this.host.hidden = !range;
    this.length.textContent = range ? `Range ${timeText(range.to - range.from)}` : "";
  }
}
