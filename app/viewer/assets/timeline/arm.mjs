// One arm: its lanes, the step it is aligned at, and what is known of the time in view.

import { Answer } from "./answer.mjs";
import { ask, isAbort, Latest, Refused } from "./api.mjs";

const MARGIN = 0.5; // of the view, asked for on either side, so that a pan has something to show
const SAME_SCALE = 1.02;
const KEPT_ROWS = 200;
const KEPT_STEPS = 500;

/**
 * @typedef {{name: string, title: string, file: string, labels: string[], run: number}} ArmGiven from the page
 * @typedef {{lane: number, kind: string, pid: number, title: string, role: string, rows: number,
 *   tracks: {track: string, title: string, depth: number}[]}} Lane
 * @typedef {{step: number, start: number, end: number, step_class: string, phase: string, steps: number,
 *   ordinal: number}} Step
 */

export class Arm {
  /**
   * @param {ArmGiven} given
   * @param {string} api address of the timeline's routes
   * @param {() => void} changed called when there is something new to draw
   */
  constructor(given, api, changed) {
    this.name = given.name;
    this.title = given.title;
    this.file = given.file;
    this.labels = given.labels;
    this.run = given.run;
    this.api = api;
    this.changed = changed;
    this.closing = new AbortController();
    /** @type {Lane[]} */
    this.lanes = [];
    /** @type {{id: number, key: string, title: string}[]} */
    this.tones = [];
    this.end = 0;
    this.opened = false;
    /** @type {Step | null} */
    this.step = null;
    this.origin = 0;
    /** What stands in place of the lanes: why there is nothing. */
    this.missing = "";
    /** What the server is doing, or why it could not answer the last time. */
    this.status = "";
    /** @type {Answer | null} */
    this.answer = null;
    /** What is asked for and not there yet. */
    this.wish = null;
    this.rows = new Map();
    this.steps = new Map();
    this.views = new Latest((wish, signal) => this.#load(wish, signal));
  }

  /** Reads what lanes there are. */
  async open() {
    try {
      const answer = await this.ask("lanes", {});
      this.lanes = answer.lanes.filter((lane) => lane.kind !== "counter");
      this.tones = answer.tones;
      this.end = answer.end;
      this.opened = true;
    } catch (error) {
      if (isAbort(error)) {
        throw error;
      }
      this.missing = error.message;
    }
    this.changed();
  }

  /**
   * @param {string} route
   * @param {Record<string, string | number>} parameters
   * @param {AbortSignal} [signal]
   * @returns {Promise<any>}
   */
  async ask(route, parameters, signal = this.closing.signal) {
    const query = new URLSearchParams({ arm: this.name, run: String(this.run), ...parameters });
    const answer = await ask(`${this.api}/${route}?${query}`, signal, (text) => this.#say(text));
    this.#say("");
    return answer;
  }

  /**
   * A step, by number, time or place in its class.
   * @param {Record<string, string | number>} which
   * @returns {Promise<Step>} throws Refused if there is none
   */
  async stepAt(which) {
    const key = JSON.stringify(which);
    const answer = await remembered(this.steps, key, KEPT_STEPS, () => this.ask("step", which));
    if (answer.step === null) {
      throw new Refused(answer.why);
    }
    return answer;
  }

  /**
   * All columns of a row, and the rows linked to it.
   * @param {number} row
   * @returns {Promise<any>}
   */
  async rowAt(row) {
    return remembered(this.rows, row, KEPT_ROWS, () => this.ask("row", { row }));
  }

  /**
   * Aligns the arm at a step, or where there is none.
   * @param {Step | null} step
   * @param {string} [missing] why nothing can be shown
   */
  alignAt(step, missing = "") {
    this.step = step;
    this.origin = step ? step.start : 0;
    this.missing = missing;
    this.changed();
  }

  /**
   * Makes sure that a span of time is known well enough to be drawn.
   * @param {import("./address.mjs").Span} view relative to the step
   * @param {number} width pixels
   * @param {number[]} lanes those that are shown
   */
  show(view, width, lanes) {
    if (!this.opened || this.missing || !lanes.length || width < 1) {
      return;
    }
    const from = this.origin + view.from;
    const to = this.origin + view.to;
    const shown = lanes.join(",");
    if ([this.answer, this.wish].some((known) => suits(known, from, to, width, shown))) {
      return;
    }
    const margin = (to - from) * MARGIN;
    const pixels = Math.round(width * (1 + 2 * MARGIN));
    const scale = (to - from + 2 * margin) / pixels;
    const useless = Boolean(this.wish) && (this.wish.to < from || this.wish.from > to);
    this.wish = { from: Math.floor(from - margin), to: Math.ceil(to + margin), pixels, scale, lanes: shown };
    this.views.want(this.wish, useless);
  }

  async #load(wish, signal) {
    const { from, to, pixels, lanes } = wish;
    try {
      this.answer = new Answer(await this.ask("view", { from, to, pixels, lanes }, signal), lanes);
      this.#say("");
      this.changed();
    } catch (error) {
      if (!isAbort(error)) {
        this.#say(error.message);
      }
    } finally {
      if (this.wish === wish) {
        this.wish = null;
      }
    }
  }

  /** @param {string} text */
  #say(text) {
    if (this.status !== text) {
      this.status = text;
      this.changed();
    }
  }

  /** Ends all that is under way. */
  close() {
    this.closing.abort();
    this.views.stop();
  }
}

/** Whether an answer, or what was asked for, has the sharpness and the span that are wanted. */
function suits(known, from, to, width, lanes) {
  if (!known || known.lanes !== lanes) {
    return false;
  }
  const ratio = (to - from) / width / known.scale;
  return known.from <= from && known.to >= to && ratio < SAME_SCALE && ratio > 1 / SAME_SCALE;
}

/**
 * The value of a key; a promise that fails is not kept.
 * @template K, V
 * @param {Map<K, Promise<V>>} kept
 * @param {K} key
 * @param {number} most
 * @param {() => Promise<V>} make
 * @returns {Promise<V>}
 */
function remembered(kept, key, most, make) {
  const known = kept.get(key);
  if (known) {
    return known;
  }
  const made = make();
  made.catch(() => kept.delete(key));
  kept.set(key, made);
  if (kept.size > most) {
    kept.delete(kept.keys().next().value);
  }
  return made;
}
