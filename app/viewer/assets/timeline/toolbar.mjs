// The buttons above the lanes.

import { COMMANDS } from "./commands.mjs";
import { make, part } from "./dom.mjs";
import { plain } from "./format.mjs";
import { laneKey } from "./layout.mjs";

const GROUPS = { step: "Step", view: "View", jump: "Jump", save: "Save and help" };

export class Toolbar {
  /** @param {import("./timeline.mjs").Timeline} timeline */
  constructor(timeline) {
    this.timeline = timeline;
    const host = part(timeline.root, "bar");
    host.replaceChildren(...Object.entries(GROUPS).map(([group, label]) => this.#group(group, label)));
    this.#addStepField(host.querySelector("[data-group=step]"));
    this.#addRangeSwitch(host.querySelector("[data-group=view]"));
    this.#addLanes(host.querySelector("[data-group=save]"));
  }

  /**
   * @param {import("./arm.mjs").Arm} lead
   * @param {import("./arm.mjs").Step | null} step
   */
  showStep(lead, step) {
    this.number.value = step ? String(step.step) : "";
    this.number.max = step ? String(step.steps - 1) : "";
    this.number.disabled = !step;
    const which = lead.name === "one" ? "" : `, ${lead.title}`;
    this.about.textContent = step ? `of ${step.steps}${which}` : "no steps: aligned at the first row";
  }

  /** Lists the lanes, with a box for each that says whether it is shown. */
  showLanes() {
    const { arms, state } = this.timeline;
    this.lanes.replaceChildren(
      ...arms.map((arm) =>
        make(
          "fieldset",
          {},
          make("legend", {}, arm.title),
          ...arm.lanes.map((lane) => this.#laneBox(laneKey(arm.name, lane.lane), plain(lane.title))),
        ),
      ),
    );
    const { size } = state.hidden;
    this.summary.textContent = size ? `Lanes (${size} hidden)` : "Lanes";
  }

  #laneBox(key, title) {
    const box = make("input", { type: "checkbox", onchange: () => this.timeline.toggle("hidden", key) });
    box.checked = !this.timeline.state.hidden.has(key);
    return make("label", {}, box, ` ${title}`);
  }

  #group(group, label) {
    const buttons = COMMANDS.filter((command) => command.group === group).map((command) => commandButton(this.timeline, command));
    return make("div", { class: "timeline-group", role: "group", "aria-label": label, "data-group": group }, ...buttons);
  }

  #addStepField(group) {
    const go = () => {
      const lead = this.timeline.arm(this.timeline.state.arm);
      if (lead?.step && this.number.value !== "" && this.number.validity.valid) {
        void this.timeline.navigation.goToStep(lead, Number(this.number.value));
      }
    };
    this.number = make("input", { type: "number", min: 0, step: 1, onchange: go, inputmode: "numeric" });
    this.about = make("span", { class: "timeline-about" });
    group.prepend(make("label", {}, "Step ", this.number), this.about);
  }

  #addRangeSwitch(group) {
    const { pointer } = this.timeline;
    const button = make(
      "button",
      {
        type: "button",
        "aria-pressed": "false",
        title: "Dragging makes a range box (as Shift + drag does)",
        onclick: () => {
          pointer.ranging = !pointer.ranging;
          button.setAttribute("aria-pressed", String(pointer.ranging));
        },
      },
      "Range",
    );
    group.append(button);
  }

  #addLanes(group) {
    this.summary = make("summary", {}, "Lanes");
    this.lanes = make("div", { class: "timeline-lanes" });
    group.prepend(make("details", { class: "timeline-menu" }, this.summary, this.lanes));
  }
}

/**
 * @param {import("./timeline.mjs").Timeline} timeline
 * @param {import("./commands.mjs").Command} command
 */
export function commandButton(timeline, command) {
  const keys = command.keys.length ? ` (${keyNames(command)})` : "";
  const properties = {
    type: "button",
    "aria-label": command.name,
    title: command.name + keys,
    onclick: () => void command.run(timeline),
  };
  return make("button", properties, command.button);
}

/** @param {import("./commands.mjs").Command} command @returns {string} */
export function keyNames({ keys }) {
  const shown = keys.filter((key) => !/^Shift\+\w$/.test(key) && key !== "=");
  return shown.map((key) => key.replace("Arrow", "").replace("Left", "←").replace("Right", "→").replace("Up", "↑").replace("Down", "↓")).join(" or ");
}
