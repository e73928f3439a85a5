// Colours come from the style sheets, so that dark and light need nothing from here.

/**
 * @typedef {object} Theme
 * @property {string} ground
 * @property {string} ink
 * @property {string} faint second-rank text
 * @property {string} grid
 * @property {string} line between lanes
 * @property {string} band ground of the head of an arm
 * @property {string} shade of the aligned step
 * @property {string} accent selection, crosshair, range
 * @property {string} hit outline of what is found
 * @property {string} arrow
 * @property {(name: string) => string} arm
 * @property {(key: string) => Tone} tone
 *
 * @typedef {{fill: string, text: string, soft: boolean}} Tone soft: drawn as an outline on a light ground
 */

const NAMES = ["ground", "ink", "faint", "grid", "line", "band", "shade", "accent", "hit", "arrow"];
const SOFT = new Set(["step", "range", "gpu-range"]); // they hold other marks, and must not outshine them

/**
 * @param {HTMLElement} root the element that has the variables
 * @param {"" | "light"} scheme "light" whatever the page has: for files
 * @returns {Theme}
 */
export function readTheme(root, scheme = "") {
  // The colour of an element is resolved; a variable may still say "light for this, dark for that".
  const probe = root.appendChild(document.createElement("span"));
  probe.style.colorScheme = scheme;
  const resolved = (...variables) => {
    probe.style.color = variables.reduceRight((other, name) => `var(--${name}${other && `, ${other}`})`, "");
    return getComputedStyle(probe).color;
  };
  /** @type {any} */
  const colours = Object.fromEntries(NAMES.map((name) => [name, resolved(`timeline-${name}`)]));
  const arms = new Map(["on", "off", "one"].map((name) => [name, resolved(`arm-${name}`)]));
  const tones = new Map();
  for (const key of (root.dataset.tones ?? "").split(" ")) {
    const fill = resolved(`tone-${key}`, "step");
    tones.set(key, { fill, text: readable(fill), soft: SOFT.has(key) });
  }
  const other = { fill: resolved("step"), text: readable(resolved("step")), soft: false };
  probe.remove();
  return { ...colours, arm: (name) => arms.get(name) ?? other.fill, tone: (key) => tones.get(key) ?? other };
}

/** Black or white, whichever is the easier to read on a colour. @param {string} fill "rgb(1, 2, 3)" */
function readable(fill) {
  const [red, green, blue] = (fill.match(/[\d.]+/g) ?? []).map((value) => linear(Number(value) / 255));
  // Relative luminance of WCAG 2; 0.179 has the same contrast to black and to white.
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.179 ? "#000000" : "#ffffff";
}

/** @param {number} value of a channel, 0 to 1 @returns {number} */
function linear(value) {
  return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
}
