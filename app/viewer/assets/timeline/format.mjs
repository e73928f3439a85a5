// Numbers and texts as people read them; times are in nanoseconds.

const MAX_TEXT = 200; // characters of a name: kernel symbols can be thousands long
// Control characters, and those that turn the direction of the text around them.
const UNSEEN = /[\u0000-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/**
 * A text with nothing in it that acts instead of being seen.
 * @param {string} text
 * @returns {string}
 */
export function harmless(text) {
  return text.replace(UNSEEN, "·");
}

/**
 * A text of a trace, fit to be shown on one line.
 * @param {string} text
 * @returns {string}
 */
export function plain(text) {
  const seen = harmless(text);
  return seen.length > MAX_TEXT ? `${seen.slice(0, MAX_TEXT - 1)}…` : seen;
}

/**
 * A duration or a place on the axis: "726 ns", "19.1 µs", "1.59 ms", "2.10 s".
 * @param {number} ns
 * @returns {string}
 */
export function timeText(ns) {
  const size = Math.abs(ns);
  const sign = ns < 0 ? "−" : "";
  if (size < 999.5) {
    return `${sign}${Math.round(size)} ns`;
  }
  if (size < 999_500) {
    return `${sign}${significant(size / 1e3)} µs`;
  }
  return size < 999.5e6 ? `${sign}${significant(size / 1e6)} ms` : `${sign}${significant(size / 1e9)} s`;
}

/**
 * Three digits that matter, never fewer than all before the point.
 * @param {number} value not negative
 * @returns {string}
 */
function significant(value) {
  return value.toFixed(value < 9.995 ? 2 : value < 99.95 ? 1 : 0);
}

/**
 * A size with a binary unit.
 * @param {number} bytes
 * @returns {string}
 */
export function bytesText(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  let size = bytes;
  while (size >= 1024 && unit < units.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${size.toFixed(unit === 0 || size >= 99.5 ? 0 : 1)} ${units[unit]}`;
}

/**
 * A count with thin groups of thousands.
 * @param {number} count
 * @returns {string}
 */
export function countText(count) {
  return String(count).replace(/\B(?=(\d{3})+$)/g, "\u202f");
}

/**
 * Ticks of an axis, about one in `room` pixels, at round places.
 * @param {number} from left end, ns
 * @param {number} to right end, ns
 * @param {number} width pixels between them
 * @param {number} [room] pixels that a tick needs
 * @returns {{at: number, text: string}[]}
 */
export function ticks(from, to, width, room = 90) {
  const least = ((to - from) * room) / Math.max(width, 1);
  const power = 10 ** Math.floor(Math.log10(least));
  const step = power * [1, 2, 5, 10].find((factor) => power * factor >= least);
  const unit = axisUnit(Math.max(Math.abs(from), Math.abs(to)));
  const digits = Math.max(0, Math.ceil(Math.log10(unit.ns / step) - 1e-9));
  const found = [];
  for (let index = Math.ceil(from / step); index * step <= to; index += 1) {
    const value = ((index * step) / unit.ns).toFixed(digits).replace("-", "−");
    found.push({ at: index * step, text: index === 0 ? "0" : `${value} ${unit.name}` });
  }
  return found;
}

/** @param {number} largest @returns {{name: string, ns: number}} */
function axisUnit(largest) {
  if (largest < 2e3) {
    return { name: "ns", ns: 1 };
  }
  if (largest < 2e6) {
    return { name: "µs", ns: 1e3 };
  }
  return largest < 2e9 ? { name: "ms", ns: 1e6 } : { name: "s", ns: 1e9 };
}
