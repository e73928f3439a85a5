// Which step the arms are aligned at, and the ways to another one: steps, rows, blocking copies, search hits.

import { isAbort, Refused } from "./api.mjs";
import { harmless } from "./format.mjs";
import { laneKey } from "./layout.mjs";
import { nameOf } from "./selection.mjs";

const HOME_MARGIN = 0.03; // of the step, on either side of it

export class Navigation {
  /** @param {import("./timeline.mjs").Timeline} timeline */
  constructor(timeline) {
    this.timeline = timeline;
    this.turn = 0; // of alignments: what an older one finds out is of no use
  }

  /** Aligns all arms at the step that the state asks for. */
  async align() {
    const { timeline } = this;
    const { state } = timeline;
    const arms = timeline.arms.filter(({ opened }) => opened);
    const turn = ++this.turn;
    const lead = arms.find(({ name }) => name === state.arm) ?? arms[0];
    if (!lead) {
      timeline.say("No recording can be shown.");
      return;
    }
    const found = await this.#leadStep(lead, state);
    const others = await Promise.all(
      arms.map((arm) => (arm === lead ? found : counterpart(arm, found.step))),
    );
    if (turn !== this.turn || timeline.closed) {
      return;
    }
    arms.forEach((arm, index) => arm.alignAt(others[index].step, others[index].missing));
    if (found.step) {
      Object.assign(state, { arm: lead.name, step: found.step.step, place: null });
    }
    this.#setLimits(arms);
    timeline.toolbar.showStep(lead, found.step);
    timeline.say(found.why || shortOf(arms, found.step));
    if (timeline.viewport.whole) {
      timeline.viewport.show(this.home(), { glide: false, whole: true });
    }
    timeline.redraw();
  }

  /** The span of the aligned step, the longer one of two. @returns {import("./address.mjs").Span} */
  home() {
    const { arms } = this.timeline;
    const lengths = arms.filter(({ step }) => step).map(({ step }) => step.end - step.start);
    const longest = lengths.length ? Math.max(...lengths) : Math.max(...arms.map(({ end }) => end));
    const margin = Math.max(longest * HOME_MARGIN, 100);
    return { from: -margin, to: longest + margin };
  }

  goHome() {
    this.timeline.viewport.show(this.home(), { whole: true });
  }

  /** @param {1 | -1} direction */
  async nextStep(direction) {
    const { state } = this.timeline;
    const lead = this.timeline.arm(state.arm);
    if (!lead?.step) {
      this.timeline.say("Cannot tell steps in this recording.");
      return;
    }
    const next = lead.step.step + direction;
    if (next < 0 || next >= lead.step.steps) {
      this.timeline.say(direction > 0 ? "This is the last step." : "This is the first step.");
    } else {
      await this.goToStep(lead, next);
    }
  }

  /**
   * @param {import("./arm.mjs").Arm} arm
   * @param {number} step
   */
  async goToStep(arm, step) {
    const { timeline } = this;
    const before = arm.step?.step;
    timeline.history.flush();
    Object.assign(timeline.state, { arm: arm.name, step, place: null });
    await this.align();
    if (arm.step && arm.step.step !== before) {
      timeline.noteState({ push: true });
      timeline.speak(`${arm.title}: step ${arm.step.step}, ${harmless(arm.step.step_class)}`);
    }
  }

  /**
   * Aligns at the step of a row, brings the row into view and selects it.
   * @param {import("./arm.mjs").Arm} arm
   * @param {number} row
   * @param {string} [name]
   */
  async goToRow(arm, row, name) {
    const { timeline } = this;
    await timeline.attempt(async () => {
      const found = await arm.rowAt(row);
      timeline.say("", { spoken: false });
      await this.#alignAround(arm, found.start);
      if (timeline.state.hidden.delete(laneKey(arm.name, found.lane))) {
        timeline.lanesChanged();
      }
      timeline.viewport.reveal(found.start - arm.origin, found.duration, true);
      timeline.screen.scrollTo(arm, found.lane);
      timeline.selection.choose(arm, { ...found, name: name ?? nameOf(found) });
    });
  }

  /** @param {1 | -1} direction */
  async nextBlockingCopy(direction) {
    await this.#next({ what: "blocking-copy", direction });
  }

  /** @param {1 | -1} direction */
  async nextHit(direction) {
    const { text } = this.timeline.state;
    if (text) {
      await this.#next({ what: "search", text, direction });
    } else {
      this.timeline.say("Type a name into the search box first.");
    }
  }

  /** The arm that keys refer to: that of the selected row, else the first. */
  focused() {
    const { timeline } = this;
    return timeline.arm(timeline.selection.chosen?.arm) ?? timeline.arms.find(({ opened }) => opened) ?? timeline.arms[0];
  }

  async #next(what) {
    const { timeline } = this;
    const arm = this.focused();
    const { chosen } = timeline.selection;
    const { from, to } = timeline.viewport.target;
    const edge = what.direction > 0 ? from : to;
    const after = Math.round(chosen?.arm === arm.name ? chosen.start : arm.origin + edge);
    await timeline.attempt(async () => {
      const found = await arm.ask("next", { after, ...what });
      if (found.row === null) {
        timeline.say(`${arm.title}: ${harmless(found.why)}`);
      } else {
        await this.goToRow(arm, found.row, found.name);
      }
    });
  }

  /** Aligns at the step that holds a time, unless it is aligned there or there are no steps. */
  async #alignAround(arm, at) {
    let step = null;
    try {
      step = await arm.stepAt({ at });
    } catch (error) {
      if (!(error instanceof Refused)) {
        throw error;
      }
    }
    if (step && (arm.missing || step.step !== arm.step?.step)) {
      await this.goToStep(arm, step.step);
    }
  }

  /** The step of the arm that leads; where it is refused, a typical one and why. */
  async #leadStep(lead, { step, place }) {
    const wanted =
      step !== null ? { step } : place ? { class: place.name, ordinal: place.ordinal } : { step: "typical" };
    let why = "";
    for (const which of [wanted, { step: "typical" }]) {
      try {
        return { step: await lead.stepAt(which), missing: "", why };
      } catch (error) {
        if (isAbort(error)) {
          throw error;
        }
        why ||= error.message;
      }
    }
    return { step: null, missing: "", why };
  }

  /** As far as the longest arm reaches on either side of its step. */
  #setLimits(arms) {
    const { viewport } = this.timeline;
    const from = Math.min(...arms.map(({ origin }) => -origin));
    const to = Math.max(...arms.map(({ origin, end }) => end - origin));
    const margin = (to - from) * 0.02;
    viewport.limits = { from: from - margin, to: to + margin };
  }
}

/** Says which arms have no such step, and show the last one like it. @returns {string} */
function shortOf(arms, step) {
  const short = arms.filter((arm) => step && arm.step && arm.step.ordinal !== step.ordinal);
  return short.map((arm) => `${arm.title} has fewer steps of this class: its last one is shown.`).join(" ");
}

/** The same step of another arm: the one with as many of its class before it. */
async function counterpart(arm, step) {
  if (!step) {
    return { step: null, missing: "" };
  }
  try {
    return { step: await arm.stepAt({ class: step.step_class, ordinal: step.ordinal }), missing: "" };
  } catch (error) {
    if (isAbort(error)) {
      throw error;
    }
    return { step: null, missing: `No counterpart of this step: ${error.message}` };
  }
}
