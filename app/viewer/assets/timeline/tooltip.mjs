// What is under the pointer, in a few words beside it.

import { make, part } from "./dom.mjs";
import { bytesText, countText, plain, timeText } from "./format.mjs";

const WAIT_MS = 150; // that the pointer rests before the size of a row is asked for
const OFFSET = 14;

export class Tooltip {
  /** @param {import("./timeline.mjs").Timeline} timeline */
  constructor(timeline) {
    this.timeline = timeline;
    this.box = part(timeline.root, "tip");
    this.timer = 0;
    this.asked = "";
  }

  /**
   * @param {import("./pick.mjs").Picked | import("./pick.mjs").PickedDust | null} picked
   * @param {{x: number, y: number} | null} place pixels of the canvas
   */
  show(picked, place) {
    this.box.hidden = !picked;
    if (!picked || !place) {
      this.asked = "";
      clearTimeout(this.timer);
      return;
    }
    this.box.replaceChildren(...("mark" in picked ? markLines(picked) : dustLines(picked)));
    this.#put(place);
    this.#askForSize(picked);
  }

  close() {
    clearTimeout(this.timer);
  }

  /** Beside the pointer, where there is room. */
  #put({ x, y }) {
    const { canvas } = this.timeline;
    const left = canvas.offsetLeft + x;
    const room = this.box.offsetParent.clientWidth;
    const flip = left + OFFSET + this.box.offsetWidth > room;
    const above = y + 2 * OFFSET + this.box.offsetHeight > canvas.clientHeight;
    this.box.style.left = `${Math.max(0, flip ? left - OFFSET - this.box.offsetWidth : left + OFFSET)}px`;
    this.box.style.top = `${Math.max(0, above ? y - OFFSET - this.box.offsetHeight : y + OFFSET)}px`;
  }

  #askForSize(picked) {
    if (!("mark" in picked)) {
      return;
    }
    const { arm, mark } = picked;
    const wanted = `${arm.name}:${mark.row}`;
    if (this.asked === wanted) {
      this.#addSize(wanted);
      return;
    }
    this.asked = wanted;
    this.size = "";
    clearTimeout(this.timer);
    this.timer = setTimeout(async () => {
      try {
        const { columns } = await arm.rowAt(mark.row);
        const bytes = columns.find(({ name }) => name === "bytes");
        this.size = bytes ? bytesText(Number(bytes.value.replace(/\D/g, ""))) : "";
        this.#addSize(wanted);
      } catch {
        // The size is a nicety; what is wrong is said when the row is selected.
      }
    }, WAIT_MS);
  }

  #addSize(wanted) {
    if (this.size && this.asked === wanted) {
      this.box.append(make("div", {}, this.size));
    }
  }
}

function markLines({ arm, mark }) {
  const waits = mark.blocked > 0 ? `, of which waits ${timeText(mark.blocked)}` : "";
  return [
    make("b", {}, plain(mark.name)),
    make("div", {}, timeText(mark.duration) + waits),
    make("div", { class: "faint" }, `starts at ${timeText(mark.start - arm.origin)} · ${arm.tones[mark.tone]?.title ?? ""}`),
  ];
}

function dustLines({ arm, dust }) {
  const rows = dust.count === 1 ? "1 short row" : `${countText(dust.count)} short rows`;
  return [
    make("b", {}, rows),
    make("div", {}, `busy ${(dust.busy * 100).toFixed(0)} % of ${timeText(dust.scale)}`),
    make("div", { class: "faint" }, `mostly: ${arm.tones[dust.tone]?.title ?? ""}; zoom in to see each`),
  ];
}
