// The search box: how often a name occurs in each arm, and which names they are.

import { isAbort, Latest } from "./api.mjs";
import { COMMANDS } from "./commands.mjs";
import { make, part } from "./dom.mjs";
import { countText, plain } from "./format.mjs";
import { commandButton } from "./toolbar.mjs";

const SHOWN_NAMES = 12;
const MAX_TEXT = 200;

export class Search {
  /** @param {import("./timeline.mjs").Timeline} timeline */
  constructor(timeline) {
    this.timeline = timeline;
    this.asking = new Latest((text, signal) => this.#count(text, signal));
    this.field = make("input", {
      type: "search",
      placeholder: "Search names",
      "aria-label": "Search names",
      maxlength: MAX_TEXT,
      autocomplete: "off",
      spellcheck: "false",
      oninput: () => this.#changed(),
      onkeydown: (event) => this.#key(event),
    });
    this.counts = make("output", { class: "timeline-counts" });
    this.names = make("div", { class: "timeline-names" });
    const buttons = COMMANDS.filter(({ group }) => group === "search").map((command) => commandButton(timeline, command));
    part(timeline.root, "search").replaceChildren(this.field, ...buttons, this.counts, this.names);
  }

  /** @param {string} text */
  show(text) {
    if (this.field.value !== text) {
      this.field.value = text;
    }
    this.names.replaceChildren();
    this.counts.textContent = "";
    if (text) {
      this.asking.want(text, true);
    } else {
      this.asking.stop();
    }
  }

  focus() {
    this.field.focus();
    this.field.select();
  }

  close() {
    this.asking.stop();
  }

  #changed() {
    this.timeline.searchFor(this.field.value);
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    if (event.key === "Enter") {
      event.preventDefault();
      void this.timeline.navigation.nextHit(event.shiftKey ? -1 : 1);
    } else if (event.key === "Escape" && !this.field.value) {
      this.timeline.canvas.focus();
    }
  }

  async #count(text, signal) {
    const { arms } = this.timeline;
    try {
      const found = await Promise.all(arms.map((arm) => arm.ask("search", { text }, signal)));
      if (text === this.timeline.state.text) {
        this.#showFound(found);
      }
    } catch (error) {
      if (!isAbort(error)) {
        this.counts.textContent = error.message;
      }
    }
  }

  #showFound(found) {
    const { arms } = this.timeline;
    const counts = found.map(({ count }, index) => `${arms.length > 1 ? `${arms[index].name} ` : ""}${countText(count)}`);
    this.counts.textContent = `${counts.join(" · ")} found`;
    const names = new Map();
    found.forEach((answer, index) => {
      for (const { name, count } of answer.names) {
        names.set(name, names.get(name) ?? arms.map(() => 0));
        names.get(name)[index] = count;
      }
    });
    const sorted = [...names].sort(([, a], [, b]) => Math.max(...b) - Math.max(...a));
    const shown = sorted.slice(0, SHOWN_NAMES).map(([name, count]) => this.#nameButton(name, count));
    const more = sorted.length > SHOWN_NAMES ? [make("span", {}, `and ${sorted.length - SHOWN_NAMES} names more`)] : [];
    this.names.replaceChildren(...shown, ...more);
  }

  #nameButton(name, counts) {
    const choose = () => {
      this.field.value = name.slice(0, MAX_TEXT);
      this.#changed();
      this.focus();
    };
    const title = `Search for ${plain(name)}`;
    const count = make("span", {}, counts.map(countText).join(" · "));
    return make("button", { type: "button", title, onclick: choose }, make("span", {}, plain(name)), count);
  }
}
