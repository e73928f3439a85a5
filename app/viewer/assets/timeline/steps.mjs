// The steps in the head of each arm. They are asked for one after the other, while few are in view.

import { isAbort, Refused } from "./api.mjs";
import { plain } from "./format.mjs";

const MOST = 24; // on either side; more of them are too narrow to be read

export class Steps {
  /** @param {() => void} changed */
  constructor(changed) {
    this.changed = changed;
    /** @type {Map<import("./arm.mjs").Arm, Map<number, import("./arm.mjs").Step | null>>} null: asked, not there yet */
    this.known = new Map();
  }

  /**
   * Steps of an arm that are known and in view; asks for those that are missing.
   * @param {import("./arm.mjs").Arm} arm
   * @param {import("./address.mjs").Span} view relative to the aligned step
   * @returns {import("./draw.mjs").StepBar[]}
   */
  inView(arm, view) {
    const aligned = arm.step;
    if (!aligned || arm.missing) {
      return [];
    }
    const known = this.#of(arm);
    known.set(aligned.step, aligned);
    const bars = [bar(aligned, arm, true)];
    if (view.to - view.from < MOST * (aligned.end - aligned.start)) {
      for (const direction of [1, -1]) {
        bars.push(...this.#beyond(arm, known, view, direction));
      }
    }
    return bars.filter(({ from, to }) => to > view.from && from < view.to);
  }

  #beyond(arm, known, view, direction) {
    const bars = [];
    const beyond = (step) => (direction > 0 ? step.end - arm.origin >= view.to : step.start - arm.origin <= view.from);
    let last = arm.step;
    for (let count = 1; count <= MOST && !beyond(last); count += 1) {
      const number = arm.step.step + direction * count;
      if (number < 0 || number >= arm.step.steps) {
        break;
      }
      const step = known.get(number);
      if (!step) {
        this.#fetch(arm, known, number);
        break;
      }
      bars.push(bar(step, arm, false));
      last = step;
    }
    return bars;
  }

  #fetch(arm, known, number) {
    if (known.has(number)) {
      return;
    }
    known.set(number, null);
    arm.stepAt({ step: number }).then(
      (step) => {
        known.set(number, step);
        this.changed();
      },
      (error) => {
        // A step that is refused stays unknown: the row of steps ends there.
        if (!isAbort(error) && !(error instanceof Refused)) {
          throw error;
        }
      },
    );
  }

  #of(arm) {
    let known = this.known.get(arm);
    if (!known) {
      known = new Map();
      this.known.set(arm, known);
    }
    return known;
  }
}

/** @returns {import("./draw.mjs").StepBar} */
function bar({ step, start, end, step_class: name }, { origin }, aligned) {
  return { step, from: start - origin, to: end - origin, name: `step ${step} · ${plain(name)}`, aligned };
}
