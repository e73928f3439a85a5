// What is shown, as it stands in the address line: a link shows another person the same.

/**
 * @typedef {{from: number, to: number}} Span nanoseconds from the start of the aligned step
 * @typedef {{arm: string, row: number}} Selected a row of the file of an arm
 * @typedef {object} State
 * @property {string | null} arm the arm that says which step; null: the first
 * @property {number | null} step number of the step in that arm; null: a typical one
 * @property {{name: string, ordinal: number} | null} place the k-th step of a class, if no number is given
 * @property {number | null} row a row to go to, once
 * @property {Span | null} window what is in view; null: the whole step
 * @property {Selected | null} selected
 * @property {Span | null} range the range box
 * @property {string} text searched
 * @property {Set<string>} hidden lanes, as "on.3"
 * @property {Set<string>} folded lanes that are drawn as one thin row
 * @property {Record<string, number>} runs arm → number of the recording shown
 */

const OWN = ["arm", "step", "class", "ordinal", "row", "from_us", "to_us", "sel", "range_us", "q", "hide", "fold"];
const MAX_TEXT = 200;
const LANE = /^\w{1,8}\.\d{1,9}$/;

/**
 * @param {string} search with or without "?"
 * @returns {State}
 */
export function parse(search) {
  const given = new URLSearchParams(search);
  const name = given.get("class");
  const ordinal = whole(given.get("ordinal"));
  const [from, to] = (given.get("range_us") ?? "").split(",");
  return {
    arm: given.get("arm"),
    step: whole(given.get("step")),
    place: name !== null && ordinal !== null ? { name, ordinal } : null,
    row: whole(given.get("row")),
    window: span(given.get("from_us"), given.get("to_us")),
    selected: selected(given.get("sel")),
    range: span(from, to),
    text: (given.get("q") ?? "").slice(0, MAX_TEXT),
    hidden: lanes(given.get("hide")),
    folded: lanes(given.get("fold")),
    runs: runs(given),
  };
}

/**
 * The parameters that say this state; those that are not the timeline's stay.
 * @param {string} search what the address line holds
 * @param {State} state
 * @returns {string} with "?", or empty
 */
export function written(search, state) {
  const made = new URLSearchParams(search);
  OWN.forEach((key) => made.delete(key));
  const values = {
    arm: state.step !== null || state.place ? state.arm : null,
    step: state.step,
    class: state.step === null ? state.place?.name : null,
    ordinal: state.step === null ? state.place?.ordinal : null,
    from_us: state.window && micro(state.window.from),
    to_us: state.window && micro(state.window.to),
    sel: state.selected && `${state.selected.arm}:${state.selected.row}`,
    range_us: state.range && `${micro(state.range.from)},${micro(state.range.to)}`,
    q: state.text || null,
    hide: [...state.hidden].join(",") || null,
    fold: [...state.folded].join(",") || null,
  };
  for (const [key, value] of Object.entries(values)) {
    if (value !== null && value !== undefined) {
      made.set(key, String(value));
    }
  }
  // These need no escaping in a query, and links are read by people.
  const text = made.toString().replaceAll("%3A", ":").replaceAll("%2C", ",");
  return text && `?${text}`;
}

/** @param {number} ns @returns {string} */
function micro(ns) {
  return String(Math.round(ns) / 1e3);
}

/** @param {string | null} text @returns {number | null} */
function whole(text) {
  return text !== null && /^\d{1,15}$/.test(text) ? Number(text) : null;
}

/**
 * @param {string | null | undefined} from µs
 * @param {string | null | undefined} to µs
 * @returns {Span | null}
 */
function span(from, to) {
  if (!from || !to) {
    return null;
  }
  const made = { from: Number(from) * 1e3, to: Number(to) * 1e3 };
  const usable = Number.isFinite(made.from) && Number.isFinite(made.to) && made.to > made.from;
  return usable && Math.max(Math.abs(made.from), Math.abs(made.to)) < Number.MAX_SAFE_INTEGER ? made : null;
}

/** @param {string | null} text @returns {Selected | null} */
function selected(text) {
  const found = /^(\w{1,8}):(\d{1,15})$/.exec(text ?? "");
  return found && { arm: found[1], row: Number(found[2]) };
}

/** @param {string | null} text @returns {Set<string>} */
function lanes(text) {
  return new Set((text ?? "").split(",").filter((name) => LANE.test(name)));
}

/** @param {URLSearchParams} given @returns {Record<string, number>} */
function runs(given) {
  /** @type {Record<string, number>} */
  const found = {};
  for (const [key, value] of given) {
    if (key.startsWith("run_") && whole(value) !== null) {
      found[key.slice(4)] = Number(value);
    }
  }
  return found;
}
