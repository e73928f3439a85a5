// Titles of arms and lanes: beside the lanes, or above each one where the window is narrow.

import { make, part } from "./dom.mjs";
import { plain } from "./format.mjs";

const TRACK_TITLE_ROOM = 44; // height from which a lane's tracks are named too

export class Gutter {
  /** @param {import("./timeline.mjs").Timeline} timeline */
  constructor(timeline) {
    this.timeline = timeline;
    this.host = part(timeline.root, "gutter");
    this.shown = "";
  }

  /** @param {import("./layout.mjs").Block[]} blocks @param {boolean} narrow */
  show(blocks, narrow) {
    // Built anew only when something moved: a button that has the focus must not vanish.
    const looks = JSON.stringify([narrow, blocks.map(({ arm, y, lanes }) => [arm.file, y, lanes.map(lookOf)])]);
    if (looks === this.shown) {
      return;
    }
    this.shown = looks;
    const focused = document.activeElement?.getAttribute("data-key");
    this.host.replaceChildren(...blocks.flatMap((block) => this.#block(block, narrow)));
    if (focused) {
      part(this.host, `fold[data-key="${CSS.escape(focused)}"]`)?.focus();
    }
  }

  #block({ arm, y, band, bandHeight, lanes }, narrow) {
    const height = narrow ? band - y : bandHeight;
    const labels = arm.labels.map((label) => make("span", { class: "label" }, plain(label)));
    const name = make("span", { class: "timeline-file", title: plain(arm.file) }, plain(arm.file));
    const style = `top:${y}px;height:${height}px`;
    const head = make("div", { class: `timeline-arm arm arm-${arm.name}`, style }, make("b", {}, arm.title), ...labels, name);
    return [head, ...lanes.map((box) => this.#lane(box, narrow))];
  }

  #lane(box, narrow) {
    const title = plain(box.lane.title);
    const height = narrow ? box.top - box.y : box.height;
    const children = [...this.#buttons(box, title), make("span", { class: "timeline-title", title }, title)];
    if (!narrow && !box.folded && box.height >= TRACK_TITLE_ROOM) {
      children.push(...box.tracks.filter(({ y }) => y - box.y > 20).map((track) => trackTitle(track, box)));
    }
    return make("div", { class: "timeline-lane", style: `top:${box.y}px;height:${height}px` }, ...children);
  }

  #buttons({ key, folded }, title) {
    const { timeline } = this;
    const fold = make(
      "button",
      {
        type: "button",
        class: "timeline-fold",
        "data-key": `fold-${key}`,
        "aria-expanded": String(!folded),
        "aria-label": `Rows of ${title}`,
        title: folded ? "Unfold" : "Fold to one thin row",
        onclick: () => timeline.toggle("folded", key),
      },
      folded ? "▸" : "▾",
    );
    const hide = make(
      "button",
      {
        type: "button",
        class: "timeline-hide",
        "aria-label": `Hide ${title}`,
        title: "Hide; “Lanes” brings it back",
        onclick: () => timeline.toggle("hidden", key),
      },
      "×",
    );
    return [fold, hide];
  }
}

function lookOf({ key, y, height, folded, lane }) {
  return [key, y, height, folded, lane.title];
}

/** The name of a track, at its first row. */
function trackTitle({ y, title }, box) {
  return make("span", { class: "timeline-track", style: `top:${y - box.y}px` }, title);
}
