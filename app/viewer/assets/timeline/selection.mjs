// The selected row: chosen by pointer, keys or a link, shown in the detail panel, spoken for screen readers.

import { isAbort } from "./api.mjs";
import { plain, timeText } from "./format.mjs";
import { across, beside } from "./pick.mjs";

/**
 * @typedef {object} Chosen
 * @property {string} arm
 * @property {number} row
 * @property {number} lane
 * @property {number} start ns from the base of the run
 * @property {number} duration
 * @property {string} name
 * @property {{name: string, value: string, unit: string, meaning: string}[]} columns none until they are there
 * @property {{row: number, lane: number, start: number, duration: number, name: string}[]} linked
 */

export class Selection {
  /** @param {import("./timeline.mjs").Timeline} timeline */
  constructor(timeline) {
    this.timeline = timeline;
    /** @type {Chosen | null} */
    this.chosen = null;
    /** Why the row of a link cannot be shown. */
    this.problem = "";
  }

  /**
   * Selects a row of which the place is known already, and fetches the rest.
   * @param {import("./arm.mjs").Arm} arm
   * @param {{row: number, lane: number, start: number, duration: number, name: string}} mark
   */
  choose(arm, { row, lane, start, duration, name }) {
    this.chosen = { arm: arm.name, row, lane, start, duration, name, columns: [], linked: [] };
    this.problem = "";
    this.timeline.speak(this.spoken());
    this.#shown();
    void this.#complete(arm, row);
  }

  /** Selects the row of a link, or none. @param {import("./address.mjs").Selected | null} wanted */
  async restore(wanted) {
    const arm = wanted && this.timeline.arm(wanted.arm);
    if (!arm) {
      this.clear();
    } else if (this.chosen?.arm !== wanted.arm || this.chosen.row !== wanted.row) {
      this.chosen = null;
      await this.#complete(arm, wanted.row);
    }
  }

  clear() {
    this.chosen = null;
    this.problem = "";
    this.#shown();
  }

  /** Moves along the row of the selected mark. @param {1 | -1} direction */
  along(direction) {
    const found = this.#line();
    if (!found) {
      this.across(1);
      return;
    }
    const next = beside(found, found.mark, direction);
    if (next) {
      this.#reach(found.arm, next);
    } else {
      this.timeline.speak(`No ${direction > 0 ? "later" : "earlier"} mark is known in this row; move the view.`);
    }
  }

  /** Moves to a row above or below. @param {1 | -1} direction */
  across(direction) {
    const scene = this.timeline.screen.scene();
    const here = this.#line();
    const place = here && { arm: here.arm.name, ...here.mark };
    const start = here ? here.mark.start - here.arm.origin : 0;
    const time = Math.min(Math.max(start, scene.view.from), scene.view.to);
    const next = across(scene, place, time, direction);
    if (next) {
      this.#reach(next.arm, next.mark);
    }
  }

  /** What a screen reader says of the selected row. @returns {string} */
  spoken() {
    const { chosen, timeline } = this;
    if (!chosen) {
      return "Nothing is selected.";
    }
    const arm = timeline.arm(chosen.arm);
    const lane = arm.lanes.find((one) => one.lane === chosen.lane);
    const start = timeText(chosen.start - arm.origin);
    const where = `${arm.title}, ${lane ? plain(lane.title) : `lane ${chosen.lane}`}`;
    return `${where}: ${plain(chosen.name)}, start ${start}, duration ${timeText(chosen.duration)}`;
  }

  /** The selected mark and where it is drawn; null if it is not among the marks that are known. */
  #line() {
    const { chosen, timeline } = this;
    const arm = chosen && timeline.arm(chosen.arm);
    const mark = arm?.answer?.mark(chosen.row);
    const found = mark && timeline.lineOf(arm, mark.lane, mark.track);
    return found ? { arm, ...found, mark } : null;
  }

  #reach(arm, mark) {
    this.timeline.viewport.reveal(mark.start - arm.origin, mark.duration);
    this.timeline.screen.scrollTo(arm, mark.lane);
    this.choose(arm, mark);
  }

  async #complete(arm, row) {
    try {
      const answer = await arm.rowAt(row);
      if (this.chosen && (this.chosen.arm !== arm.name || this.chosen.row !== row)) {
        return; // another one was selected meanwhile
      }
      const { lane, start, duration, columns, linked } = answer;
      this.chosen = { arm: arm.name, row, lane, start, duration, name: this.chosen?.name ?? nameOf(answer), columns, linked };
      this.problem = "";
    } catch (error) {
      if (isAbort(error)) {
        return;
      }
      this.problem = error.message;
    }
    this.#shown();
  }

  #shown() {
    this.timeline.detail.show(this);
    this.timeline.noteState();
    this.timeline.redraw();
  }
}

/** What a row is called, by its columns. @param {any} answer of /row @returns {string} */
export function nameOf({ name, columns }) {
  const value = (wanted) => columns.find((column) => column.name === wanted)?.value;
  return name ?? value("kernel") ?? value("name") ?? value("operation") ?? value("kind") ?? "row";
}
