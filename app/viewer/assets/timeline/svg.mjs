// A picture in SVG, drawn by the same code as the canvas.

import { FONT } from "./painter.mjs";

const ONE_BY_DEFAULT = new Set(["fill-opacity", "stroke-opacity", "stroke-width"]);

/**
 * @typedef {import("./painter.mjs").Painter} Painter
 * @implements {Painter}
 */
export class SvgPainter {
  /**
   * @param {number} width
   * @param {number} height
   * @param {(text: string, style?: import("./painter.mjs").TextStyle) => number} measure a canvas painter's
   */
  constructor(width, height, measure) {
    this.width = width;
    this.height = height;
    this.measure = measure;
    this.parts = [];
    this.definitions = [];
    this.hatches = new Map();
    this.open = 0; // groups that the document has to close
  }

  rect(x, y, width, height, fill, alpha = 1) {
    this.#add("rect", { x, y, width, height, fill, "fill-opacity": alpha });
  }

  frame(x, y, width, height, stroke, line = 1) {
    const box = { x: x + line / 2, y: y + line / 2, width: Math.max(width - line, 0.5), height: height - line };
    this.#add("rect", { ...box, fill: "none", stroke, "stroke-width": line });
  }

  hatch(x, y, width, height, stroke) {
    if (!this.hatches.has(stroke)) {
      const id = `hatch${this.hatches.size}`;
      this.hatches.set(stroke, id);
      const size = { width: 6, height: 6, patternUnits: "userSpaceOnUse" };
      const lines = element("path", { d: "M-1 7L7 -1M-1 1L1 -1M5 7L7 5", stroke, "stroke-width": 1.6 });
      this.definitions.push(element("pattern", { id, ...size }, lines));
    }
    this.#add("rect", { x, y, width, height, fill: `url(#${this.hatches.get(stroke)})` });
  }

  line(x1, y1, x2, y2, stroke, style = {}) {
    this.#add("line", { x1, y1, x2, y2, ...strokeOf(stroke, style) });
  }

  curve([x1, y1, ...rest], stroke, style = {}) {
    const d = `M${round(x1)} ${round(y1)}C${rest.map(round).join(" ")}`;
    this.#add("path", { d, fill: "none", ...strokeOf(stroke, style) });
  }

  polygon(points, fill, alpha = 1) {
    this.#add("polygon", { points: points.map(round).join(" "), fill, "fill-opacity": alpha });
  }

  text(text, x, y, fill, { size = 11, bold = false, align = "left", alpha = 1 } = {}) {
    const anchor = { left: "start", center: "middle", right: "end" }[align];
    const weight = bold ? { "font-weight": 600 } : {};
    // Not "dominant-baseline": programs that read SVG files differ about it.
    const place = { x, y: y + 0.36 * size, "font-size": size, "text-anchor": anchor };
    this.#add("text", { ...place, ...weight, fill, "fill-opacity": alpha }, escaped(text));
  }

  clip(x, y, width, height) {
    const id = `clip${this.definitions.length}`;
    this.definitions.push(element("clipPath", { id }, element("rect", { x, y, width, height })));
    this.parts.push(`<g clip-path="url(#${id})">`);
  }

  unclip() {
    this.parts.push("</g>");
  }

  /** All that follows is moved to the right. @param {number} by pixels */
  shift(by) {
    this.parts.push(`<g transform="translate(${by} 0)">`);
    this.open += 1;
  }

  /** The whole picture. @returns {string} */
  document() {
    const size = { width: this.width, height: this.height, viewBox: `0 0 ${this.width} ${this.height}` };
    const content = `<defs>${this.definitions.join("")}</defs>${this.parts.join("\n")}${"</g>".repeat(this.open)}`;
    return element("svg", { xmlns: "http://www.w3.org/2000/svg", ...size, "font-family": FONT }, content);
  }

  #add(name, attributes, content = "") {
    this.parts.push(element(name, attributes, content));
  }
}

/** @returns {Record<string, string | number>} */
function strokeOf(stroke, { width = 1, dash = [], alpha = 1 }) {
  const dashes = dash.length ? { "stroke-dasharray": dash.join(" ") } : {};
  return { stroke, "stroke-width": width, "stroke-opacity": alpha, ...dashes };
}

/**
 * @param {string} name
 * @param {Record<string, string | number>} attributes
 * @param {string} [content] markup
 * @returns {string}
 */
function element(name, attributes, content = "") {
  const written = Object.entries(attributes)
    .filter(([key, value]) => !(value === 1 && ONE_BY_DEFAULT.has(key)))
    .map(([key, value]) => ` ${key}="${typeof value === "number" ? round(value) : escaped(value)}"`);
  return `<${name}${written.join("")}${content ? `>${content}</${name}>` : "/>"}`;
}

/** @param {number} value @returns {number} */
function round(value) {
  return Math.round(value * 100) / 100;
}

/** A text within markup; halves of surrogate pairs, which XML forbids, are left out. @param {string} text */
function escaped(text) {
  return text.replace(/\p{Cs}/gu, "").replace(/[&<>"]/g, (sign) => `&#${sign.charCodeAt(0)};`);
}
