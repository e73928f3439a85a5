// All that can be done: one table for the buttons, the keys and the help.

const ZOOM = 1.5;
const PAN = 0.25;

/**
 * @typedef {object} Command
 * @property {string} name
 * @property {string[]} keys as KeyboardEvent.key has them
 * @property {boolean} [focused] whether the keys mean this only while the canvas has the focus
 * @property {string} [button] what stands on its button; none: it has no button in the bar
 * @property {string} [group] of buttons
 * @property {(timeline: import("./timeline.mjs").Timeline) => unknown} run
 */

/** @type {Command[]} */
export const COMMANDS = [
  { name: "Previous step, in both arms", keys: [","], group: "step", button: "‹", run: (t) => t.navigation.nextStep(-1) },
  { name: "Next step, in both arms", keys: ["."], group: "step", button: "›", run: (t) => t.navigation.nextStep(1) },
  { name: "Whole step", keys: ["0", "Home"], group: "view", button: "Whole step", run: (t) => t.navigation.goHome() },
  { name: "Zoom out", keys: ["s", "-"], group: "view", button: "−", run: (t) => zoom(t, ZOOM) },
  { name: "Zoom in", keys: ["w", "+", "="], group: "view", button: "+", run: (t) => zoom(t, 1 / ZOOM) },
  { name: "Move left", keys: ["a", "Shift+ArrowLeft"], group: "view", button: "←", run: (t) => t.viewport.pan(-PAN) },
  { name: "Move right", keys: ["d", "Shift+ArrowRight"], group: "view", button: "→", run: (t) => t.viewport.pan(PAN) },
  { name: "Zoom to the range box, else to the selected mark", keys: ["f"], run: (t) => t.zoomToRange() },
  { name: "Zoom to the range box", keys: ["Enter"], focused: true, run: (t) => t.zoomToRange() },
  { name: "Previous blocking copy", keys: ["B", "Shift+B"], group: "jump", button: "‹", run: (t) => t.navigation.nextBlockingCopy(-1) },
  { name: "Next blocking copy", keys: ["b"], group: "jump", button: "Blocking copy ›", run: (t) => t.navigation.nextBlockingCopy(1) },
  { name: "Search by name", keys: ["/"], run: (t) => t.search.focus() },
  { name: "Next hit of the search", keys: ["n"], group: "search", button: "↓", run: (t) => t.navigation.nextHit(1) },
  { name: "Previous hit of the search", keys: ["N", "Shift+N"], group: "search", button: "↑", run: (t) => t.navigation.nextHit(-1) },
  { name: "Next mark in this row", keys: ["ArrowRight"], focused: true, run: (t) => t.selection.along(1) },
  { name: "Previous mark in this row", keys: ["ArrowLeft"], focused: true, run: (t) => t.selection.along(-1) },
  { name: "Mark in the row below", keys: ["ArrowDown"], focused: true, run: (t) => t.selection.across(1) },
  { name: "Mark in the row above", keys: ["ArrowUp"], focused: true, run: (t) => t.selection.across(-1) },
  { name: "Clear the range box, then the selection", keys: ["Escape"], focused: true, run: (t) => t.clear() },
  { name: "Save the picture as PNG", keys: [], group: "save", button: "PNG", run: (t) => t.picture.png() },
  { name: "Save the picture as SVG", keys: [], group: "save", button: "SVG", run: (t) => t.picture.svg() },
  { name: "Keys", keys: ["?"], group: "save", button: "Keys", run: (t) => t.help.open() },
];

/** What the mouse and fingers do: for the help. */
export const GESTURES = [
  ["Drag", "move"],
  ["Ctrl or ⌘ + wheel, pinch", "zoom about the pointer"],
  ["Wheel", "scroll the lanes; zoom where all of them are in view"],
  ["Shift + wheel", "move left and right"],
  ["Shift + drag", "range box: shows how long a stretch is"],
  ["Click", "select a mark"],
];

/** Zooms about the pointer if it is over the lanes, else about the middle. */
function zoom(timeline, factor) {
  const { from, to } = timeline.viewport.target;
  timeline.viewport.zoom(factor, timeline.cursor ?? (from + to) / 2);
}

/**
 * Listens to keys: letters anywhere on the page but in fields, arrows and the like only on the canvas.
 * @param {import("./timeline.mjs").Timeline} timeline
 */
export function listenToKeys(timeline) {
  const known = new Map(COMMANDS.flatMap((command) => command.keys.map((key) => [key, command])));
  const listener = (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) {
      return;
    }
    const command = known.get(event.shiftKey ? `Shift+${event.key}` : event.key) ?? known.get(event.key);
    const onCanvas = event.target === timeline.canvas;
    const ours = onCanvas || (!command?.focused && event.key.length === 1 && isFree(event.target));
    if (command && ours) {
      event.preventDefault();
      void command.run(timeline);
    }
  };
  document.addEventListener("keydown", listener, { signal: timeline.signal });
}

/** Whether letters typed here are nobody else's: links and buttons take none. @param {Element} target */
function isFree(target) {
  return !target.closest("input, select, textarea, [contenteditable]");
}
