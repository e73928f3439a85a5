// What is drawn on: a canvas, or a text in SVG (svg.mjs) with the same few methods.

export const FONT = "system-ui, sans-serif";
const HATCH = 6; // pixels between the lines of a hatched area

/**
 * @typedef {object} Painter
 * @property {(x: number, y: number, width: number, height: number, fill: string, alpha?: number) => void} rect
 * @property {(x: number, y: number, width: number, height: number, stroke: string, line?: number) => void} frame
 * @property {(x: number, y: number, width: number, height: number, stroke: string) => void} hatch
 * @property {(x1: number, y1: number, x2: number, y2: number, stroke: string, style?: LineStyle) => void} line
 * @property {(points: number[], stroke: string, style?: LineStyle) => void} curve from, two controls, to
 * @property {(points: number[], fill: string, alpha?: number) => void} polygon
 * @property {(text: string, x: number, y: number, fill: string, style?: TextStyle) => void} text at its middle height
 * @property {(text: string, style?: TextStyle) => number} measure
 * @property {(x: number, y: number, width: number, height: number) => void} clip until unclip
 * @property {() => void} unclip
 *
 * @typedef {{width?: number, dash?: number[], alpha?: number}} LineStyle
 * @typedef {{size?: number, bold?: boolean, align?: "left" | "center" | "right", alpha?: number}} TextStyle
 */

/** @implements {Painter} */
export class CanvasPainter {
  /** @param {CanvasRenderingContext2D} context whose unit is a CSS pixel */
  constructor(context) {
    this.context = context;
    this.patterns = new Map();
    this.widths = new Map();
  }

  rect(x, y, width, height, fill, alpha = 1) {
    this.context.globalAlpha = alpha;
    this.context.fillStyle = fill;
    this.context.fillRect(x, y, width, height);
  }

  frame(x, y, width, height, stroke, line = 1) {
    this.context.globalAlpha = 1;
    this.context.strokeStyle = stroke;
    this.context.lineWidth = line;
    this.context.strokeRect(x + line / 2, y + line / 2, Math.max(width - line, 0.5), Math.max(height - line, 0.5));
  }

  hatch(x, y, width, height, stroke) {
    this.context.globalAlpha = 1;
    this.context.fillStyle = this.#pattern(stroke);
    this.context.fillRect(x, y, width, height);
  }

  line(x1, y1, x2, y2, stroke, style = {}) {
    this.#stroke(stroke, style, () => {
      this.context.moveTo(x1, y1);
      this.context.lineTo(x2, y2);
    });
  }

  curve([x1, y1, x2, y2, x3, y3, x4, y4], stroke, style = {}) {
    this.#stroke(stroke, style, () => {
      this.context.moveTo(x1, y1);
      this.context.bezierCurveTo(x2, y2, x3, y3, x4, y4);
    });
  }

  polygon(points, fill, alpha = 1) {
    const { context } = this;
    context.globalAlpha = alpha;
    context.fillStyle = fill;
    context.beginPath();
    for (let index = 0; index < points.length; index += 2) {
      context.lineTo(points[index], points[index + 1]);
    }
    context.fill();
  }

  text(text, x, y, fill, style = {}) {
    const { context } = this;
    context.globalAlpha = style.alpha ?? 1;
    context.fillStyle = fill;
    context.font = fontOf(style);
    context.textAlign = style.align ?? "left";
    context.textBaseline = "middle";
    context.fillText(text, x, y + 0.5);
  }

  measure(text, style = {}) {
    const font = fontOf(style);
    const key = font + text;
    let width = this.widths.get(key);
    if (width === undefined) {
      if (this.widths.size > 20_000) {
        this.widths.clear();
      }
      this.context.font = font;
      width = this.context.measureText(text).width;
      this.widths.set(key, width);
    }
    return width;
  }

  clip(x, y, width, height) {
    this.context.save();
    this.context.beginPath();
    this.context.rect(x, y, width, height);
    this.context.clip();
  }

  unclip() {
    this.context.restore();
  }

  #stroke(stroke, { width = 1, dash = [], alpha = 1 }, path) {
    const { context } = this;
    context.globalAlpha = alpha;
    context.strokeStyle = stroke;
    context.lineWidth = width;
    context.setLineDash(dash);
    context.beginPath();
    path();
    context.stroke();
    context.setLineDash([]);
  }

  #pattern(stroke) {
    let pattern = this.patterns.get(stroke);
    if (!pattern) {
      pattern = this.context.createPattern(hatchTile(stroke), "repeat");
      this.patterns.set(stroke, pattern);
    }
    return pattern;
  }
}

/** @param {TextStyle} style @returns {string} */
export function fontOf({ size = 11, bold = false }) {
  return `${bold ? "600 " : ""}${size}px ${FONT}`;
}

/** One tile of diagonal lines. @param {string} stroke @returns {HTMLCanvasElement} */
function hatchTile(stroke) {
  const tile = document.createElement("canvas");
  tile.width = HATCH;
  tile.height = HATCH;
  const context = tile.getContext("2d");
  context.strokeStyle = stroke;
  context.lineWidth = 1.6;
  context.beginPath();
  for (const shift of [-HATCH, 0, HATCH]) {
    context.moveTo(shift - 1, HATCH + 1);
    context.lineTo(shift + HATCH + 1, -1);
  }
  context.stroke();
  return tile;
}

/**
 * As much of a text as fits, with "…" where something is left out; empty if hardly anything fits.
 * @param {Painter} painter
 * @param {string} text
 * @param {number} room pixels
 * @param {TextStyle} [style]
 * @returns {string}
 */
export function fitted(painter, text, room, style = {}) {
  if (room < 8) {
    return "";
  }
  const width = painter.measure(text, style);
  if (width <= room) {
    return text;
  }
  const count = Math.floor((text.length * (room - painter.measure("…", style))) / width);
  return count < 2 ? "" : `${text.slice(0, count)}…`;
}
