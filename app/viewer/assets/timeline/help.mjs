// Keys and gestures, in a dialog.

import { COMMANDS, GESTURES } from "./commands.mjs";
import { make } from "./dom.mjs";
import { keyNames } from "./toolbar.mjs";

export class Help {
  /** @param {import("./timeline.mjs").Timeline} timeline */
  constructor(timeline) {
    const keys = COMMANDS.filter((command) => command.keys.length).map((command) =>
      row(make("kbd", {}, keyNames(command)), command.name + (command.focused ? " (the lanes have the focus)" : "")),
    );
    const gestures = GESTURES.map(([gesture, meaning]) => row(gesture, meaning));
    const close = make("button", { type: "button", onclick: () => this.dialog.close() }, "Close");
    const title = make("h2", { id: "timeline-keys" }, "Keys and gestures");
    const table = make("table", {}, make("tbody", {}, ...keys, ...gestures));
    this.dialog = make("dialog", { class: "timeline-help", "aria-labelledby": "timeline-keys" }, title, table, close);
    timeline.root.append(this.dialog);
  }

  open() {
    this.dialog.showModal();
  }

  close() {
    this.dialog.remove();
  }
}

function row(key, meaning) {
  return make("tr", {}, make("th", { scope: "row" }, key), make("td", {}, meaning));
}
