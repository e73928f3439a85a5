// The timeline on the page: holds the parts together, and knows what is shown.

import { parse } from "./address.mjs";
import { isAbort } from "./api.mjs";
import { Arm } from "./arm.mjs";
import { listenToKeys } from "./commands.mjs";
import { Detail } from "./detail.mjs";
import { part } from "./dom.mjs";
import { Help } from "./help.mjs";
import { History } from "./history.mjs";
import { Navigation } from "./navigation.mjs";
import { lines, pick } from "./pick.mjs";
import { Picture } from "./picture.mjs";
import { Pointer } from "./pointer.mjs";
import { RangeBar } from "./range_bar.mjs";
import { Screen } from "./screen.mjs";
import { Search } from "./search.mjs";
import { Selection } from "./selection.mjs";
import { Steps } from "./steps.mjs";
import { Toolbar } from "./toolbar.mjs";
import { Tooltip } from "./tooltip.mjs";
import { Viewport } from "./viewport.mjs";

export class Timeline {
  /** @param {HTMLElement} root the skeleton that the page has */
  constructor(root) {
    this.root = root;
    this.closing = new AbortController();
    this.signal = this.closing.signal;
    /** Whether what the address line asks for is shown; until then it is not written. */
    this.settled = false;
    /** Place of the pointer over the lanes, ns. @type {number | null} */
    this.cursor = null;
    this.hover = null;
    this.state = parse(location.search);
    this.arms = this.#makeArms();
    this.viewport = new Viewport(() => this.#moved());
    this.screen = new Screen(this);
    this.canvas = this.screen.canvas;
    this.steps = new Steps(() => this.redraw());
    this.history = new History(this);
    this.navigation = new Navigation(this);
    this.selection = new Selection(this);
    this.pointer = new Pointer(this);
    this.toolbar = new Toolbar(this);
    this.search = new Search(this);
    this.detail = new Detail(this);
    this.tooltip = new Tooltip(this);
    this.rangeBar = new RangeBar(this);
    this.picture = new Picture(this);
    this.help = new Help(this);
    listenToKeys(this);
    this.canvas.addEventListener("focus", () => this.speak(this.selection.spoken()), { signal: this.signal });
    void this.#open();
  }

  /** Whether the page has gone. */
  get closed() {
    return this.signal.aborted;
  }

  /** Ends all that is under way, and forgets all listeners. */
  close() {
    this.closing.abort();
    this.screen.close();
    this.viewport.stop();
    this.history.close();
    this.search.close();
    this.tooltip.close();
    this.help.close();
    this.arms.forEach((arm) => arm.close());
  }

  /** @param {string | null | undefined} name @returns {Arm | undefined} */
  arm(name) {
    return this.arms.find((arm) => arm.name === name);
  }

  /** Shows another state: the browser went back or forward. */
  restore() {
    const runs = JSON.stringify(this.state.runs);
    this.state = parse(location.search);
    if (JSON.stringify(this.state.runs) !== runs) {
      this.arms.forEach((arm) => arm.close());
      this.arms = this.#makeArms();
      this.selection.chosen = null;
    }
    void this.#open();
  }

  /** The time at a pixel of the canvas. @param {number} x */
  time(x) {
    const { from, to } = this.viewport;
    return from + (x / this.screen.width) * (to - from);
  }

  /** Where a track is drawn; null if it is not shown. */
  lineOf(arm, lane, track) {
    const same = (line) => line.arm === arm && line.box.lane.lane === lane && line.track.track === track;
    return lines(this.screen.layout.blocks).find(same) ?? null;
  }

  redraw() {
    this.screen.redraw();
  }

  /** The pointer is here; null: it has gone. @param {{x: number, y: number} | null} place */
  point(place) {
    const picked = place && pick(this.screen.scene(), place.x, place.y);
    this.cursor = place && this.time(place.x);
    this.hover = picked && "mark" in picked ? { arm: picked.arm.name, row: picked.mark.row } : null;
    this.canvas.classList.toggle("pointed", Boolean(this.hover));
    this.tooltip.show(picked, place);
    this.redraw();
  }

  /** Selects what is at a place of the canvas. @param {{x: number, y: number}} place */
  select(place) {
    const picked = pick(this.screen.scene(), place.x, place.y);
    if (picked && "mark" in picked) {
      this.selection.choose(picked.arm, picked.mark);
    } else if (picked) {
      this.viewport.zoom(0.25, this.time(place.x));
    } else {
      this.clear();
    }
  }

  /** @param {import("./address.mjs").Span | null} range */
  setRange(range) {
    this.state.range = range && range.to > range.from ? range : null;
    this.rangeBar.show(this.state.range);
    this.noteState();
    this.redraw();
  }

  zoomToRange() {
    const { range } = this.state;
    if (range) {
      this.setRange(null);
      this.viewport.show(range);
    } else {
      this.zoomToChosen();
    }
  }

  zoomToChosen() {
    const { chosen } = this.selection;
    if (chosen) {
      const start = chosen.start - this.arm(chosen.arm).origin;
      const margin = Math.max(chosen.duration * 0.2, 200);
      this.viewport.show({ from: start - margin, to: start + chosen.duration + margin });
    }
  }

  /** Takes away the range box, else the selection. */
  clear() {
    if (this.state.range) {
      this.setRange(null);
    } else {
      this.selection.clear();
    }
  }

  /** @param {string} text */
  searchFor(text) {
    this.state.text = text;
    this.search.show(text);
    this.noteState();
    this.redraw();
  }

  /** Hides or folds a lane, or the contrary. @param {"hidden" | "folded"} what @param {string} key */
  toggle(what, key) {
    const set = this.state[what];
    if (!set.delete(key)) {
      set.add(key);
    }
    this.lanesChanged();
  }

  lanesChanged() {
    this.toolbar.showLanes();
    this.noteState();
    this.redraw();
  }

  /** Writes the address line. @param {{push?: boolean}} [how] push: a place to come back to */
  noteState(how) {
    if (!this.settled) {
      return;
    }
    this.state.window = this.viewport.whole ? null : this.viewport.target;
    const { chosen } = this.selection;
    this.state.selected = chosen && { arm: chosen.arm, row: chosen.row };
    this.history.note(how);
  }

  /** Says something on the page, and to screen readers. @param {string} text */
  say(text, { spoken = true } = {}) {
    part(this.root, "note").textContent = text;
    if (spoken) {
      this.speak(text);
    }
  }

  /** @param {string} text for screen readers */
  speak(text) {
    part(this.root, "live").textContent = text;
  }

  /** Does something that the server may refuse; says why. @param {() => Promise<void>} work */
  async attempt(work) {
    try {
      await work();
    } catch (error) {
      if (!isAbort(error)) {
        this.say(error.message);
      }
    }
  }

  #makeArms() {
    const { arms, api } = this.root.dataset;
    return JSON.parse(arms).map(({ files, ...given }) => {
      const wanted = this.state.runs[given.name] ?? 0;
      const run = wanted < files.length ? wanted : 0;
      return new Arm({ ...given, ...files[run], run }, api, () => this.redraw());
    });
  }

  async #open() {
    const { state, viewport, arms } = this;
    this.settled = false;
    await this.attempt(async () => {
      await Promise.all(arms.map((arm) => arm.opened || arm.open()));
      viewport.whole = state.window === null;
      await this.navigation.align();
      if (state !== this.state) {
        return; // another state is asked for meanwhile
      }
      this.toolbar.showLanes();
      if (state.window) {
        viewport.show(state.window, { glide: false });
      }
      this.setRange(state.range);
      this.searchFor(state.text);
      if (state.row !== null) {
        await this.navigation.goToRow(this.arm(state.arm) ?? arms[0], state.row);
      } else {
        await this.selection.restore(state.selected);
      }
    });
    if (state === this.state) {
      state.row = null;
      this.settled = true;
      this.noteState();
      this.root.dataset.ready = "true";
    }
  }

  #moved() {
    this.noteState();
    this.redraw();
  }
}
