// Keys and gestures, in a dialog.

import { COMMANDS, GESTURES } from "./commands.mjs";
import { make } from "./dom.mjs";
import { keyNames } from "./toolbar.mjs";

export class Help {
  /** @param {import("./timeline.mjs").Timeline} timeline */
  constructor(timeline) {
    const keyed = COMMANDS.filter((command) => command.keys.length);
    const lists = [
      list("Keys", keyed.filter((command) => !command.focused).map(keyRow)),
      list("Keys while the lanes have the focus", keyed.filter((command) => command.focused).map(keyRow)),
      list("Mouse and fingers", GESTURES),
    ];
    const close = make("button", { type: "button", onclick: () => this.dialog.close() }, "Close");
    const title = make("h2", { id: "timeline-keys" }, "Keys and gestures");
    const content = make("div", { class: "timeline-help-lists" }, ...lists);
    this.dialog = make("dialog", { class: "timeline-help", "aria-labelledby": "timeline-keys" }, title, content, close);
    timeline.root.append(this.dialog);
  }

  open() {
    this.dialog.showModal();
  }

  close() {
    this.dialog.remove();
  }
}

/** @param {import("./commands.mjs").Command} command @returns {string[]} */
function keyRow(command) {
  return [keyNames(command), command.name];
}

/** @param {string} title @param {string[][]} rows what is done, and what it does */
function list(title, rows) {
  const made = rows.map(([key, meaning]) =>
    make("tr", {}, make("th", { scope: "row" }, make("kbd", {}, key)), make("td", {}, meaning)),
  );
  return make("section", {}, make("h3", {}, title), make("table", {}, make("tbody", {}, ...made)));
}
