// The picture: axis, arms, lanes and their marks. Draws what it is given, on a canvas or in SVG.

import { ticks, timeText } from "./format.mjs";
import { AXIS } from "./layout.mjs";
import { drawLane } from "./draw_lane.mjs";
import { drawLinks } from "./draw_links.mjs";

/**
 * @typedef {object} Scene
 * @property {number} width
 * @property {number} height
 * @property {number} scroll pixels that the lanes are scrolled down
 * @property {import("./address.mjs").Span} view
 * @property {import("./layout.mjs").Block[]} blocks
 * @property {import("./theme.mjs").Theme} theme
 * @property {string} text that is searched
 * @property {import("./selection.mjs").Chosen | null} chosen the selected row
 * @property {{arm: string, row: number} | null} hover
 * @property {import("./address.mjs").Span | null} range
 * @property {number | null} cursor place of the crosshair, ns
 * @property {Map<string, StepBar[]>} steps of each arm, those that are known
 * @property {(time: number) => number} x pixel of a time
 * @property {(x: number) => number} time of a pixel
 *
 * @typedef {{step: number, from: number, to: number, name: string, aligned: boolean}} StepBar
 */

/**
 * @param {import("./painter.mjs").Painter} painter
 * @param {Scene} scene
 */
export function drawTimeline(painter, scene) {
  const { width, height, theme, view } = scene;
  painter.rect(0, 0, width, height, theme.ground);
  const marks = ticks(view.from, view.to, width);
  painter.clip(0, AXIS, width, height - AXIS);
  for (const block of scene.blocks) {
    const top = block.y - scene.scroll;
    if (top < height && top + block.height > AXIS) {
      drawBlock(painter, scene, block, marks);
    }
  }
  drawLinks(painter, scene);
  drawRange(painter, scene);
  painter.unclip();
  drawAxis(painter, scene, marks);
}

function drawBlock(painter, scene, block, marks) {
  const { theme, width, x } = scene;
  const top = block.y - scene.scroll;
  const step = block.arm.step;
  if (step) {
    const from = Math.max(0, x(0));
    const to = Math.min(width, x(step.end - step.start));
    if (to > from) {
      painter.rect(from, top, to - from, block.height, theme.shade);
    }
  }
  painter.rect(0, block.band - scene.scroll, width, block.bandHeight, theme.band);
  for (const { at } of marks) {
    painter.line(crisp(x(at)), top, crisp(x(at)), top + block.height, theme.grid);
  }
  drawSteps(painter, scene, block);
  for (const box of block.lanes) {
    const y = crisp(box.y - scene.scroll);
    painter.line(0, y, width, y, theme.line);
    if (!block.arm.missing) {
      drawLane(painter, scene, block.arm, box);
    }
  }
  drawEdges(painter, scene, block);
}

/** Begin and end of the aligned step, through all lanes of the arm. */
function drawEdges(painter, scene, { arm, y, height }) {
  if (!arm.step) {
    return;
  }
  const top = y - scene.scroll;
  for (const time of [0, arm.step.end - arm.step.start]) {
    const at = crisp(scene.x(time));
    painter.line(at, top, at, top + height, scene.theme.arm(arm.name), { dash: [4, 3] });
  }
}

/** The row of steps in the head of an arm, or what stands in its place. */
function drawSteps(painter, scene, { arm, band, bandHeight }) {
  const { theme, width, x } = scene;
  const y = band - scene.scroll + 3;
  const height = bandHeight - 6;
  for (const bar of scene.steps.get(arm.name) ?? []) {
    const from = Math.max(x(bar.from), -2);
    const to = Math.min(x(bar.to), width + 2);
    if (to - from < 1) {
      continue;
    }
    const colour = theme.arm(arm.name);
    painter.rect(from, y, to - from - 1, height, colour, bar.aligned ? 0.42 : 0.14);
    painter.frame(from, y, to - from - 1, height, colour, bar.aligned ? 2 : 1);
    const long = `${bar.name} · ${timeText(bar.to - bar.from)}`;
    const left = Math.max(from, 0) + 6;
    const room = Math.min(to, width) - left - 6;
    const style = { bold: bar.aligned };
    const shown = [long, bar.name, String(bar.step)].find((text) => painter.measure(text, style) <= room);
    painter.text(shown ?? "", left, y + height / 2, theme.ink, style);
  }
  const said = arm.missing || arm.status;
  if (said) {
    painter.rect(4, y, painter.measure(said) + 12, height, theme.ground, 0.9);
    painter.text(said, 10, y + height / 2, theme.ink);
  }
}

function drawAxis(painter, scene, marks) {
  const { width, theme, x } = scene;
  painter.rect(0, 0, width, AXIS, theme.ground);
  painter.line(0, AXIS - 0.5, width, AXIS - 0.5, theme.line);
  const taken = drawCursor(painter, scene);
  for (const { at, text } of marks) {
    const place = crisp(x(at));
    painter.line(place, AXIS - 6, place, AXIS, theme.faint);
    const end = place + 4 + painter.measure(text);
    if (end < width && (end < taken.from || place + 4 > taken.to)) {
      painter.text(text, place + 4, AXIS / 2 - 1, theme.faint);
    }
  }
}

/** The crosshair and its time. Returns the part of the axis that the time takes. */
function drawCursor(painter, { width, height, theme, x, cursor, view }) {
  if (cursor === null || cursor < view.from || cursor > view.to) {
    return { from: Infinity, to: -Infinity };
  }
  const place = crisp(x(cursor));
  painter.line(place, AXIS, place, height, theme.accent, { alpha: 0.8 });
  const text = cursorText(cursor, view);
  const room = painter.measure(text, { bold: true }) + 10;
  const left = Math.max(0, Math.min(place - room / 2, width - room));
  painter.rect(left, 3, room, AXIS - 8, theme.accent);
  painter.text(text, left + 5, AXIS / 2 - 1, theme.ground, { bold: true });
  return { from: left, to: left + room };
}

/** A place to the sharpness of a pixel or so. */
function cursorText(time, view) {
  const unit = Math.abs(time) < 2e6 ? 1e3 : 1e6;
  const digits = Math.min(unit === 1e3 ? 3 : 6, Math.max(0, Math.ceil(Math.log10((unit * 500) / (view.to - view.from)))));
  return `${(time / unit).toFixed(digits).replace("-", "−")} ${unit === 1e3 ? "µs" : "ms"}`;
}

function drawRange(painter, { range, theme, x, height, width }) {
  if (!range) {
    return;
  }
  const from = Math.max(x(range.from), -4);
  const to = Math.min(x(range.to), width + 4);
  if (to <= from) {
    return;
  }
  painter.rect(from, AXIS, to - from, height - AXIS, theme.accent, 0.16);
  painter.frame(from, AXIS, to - from, height - AXIS, theme.accent);
  const text = timeText(range.to - range.from);
  const room = painter.measure(text, { bold: true, size: 12 }) + 12;
  const middle = Math.max(room / 2, Math.min((from + to) / 2, width - room / 2));
  painter.rect(middle - room / 2, AXIS + 3, room, 18, theme.accent);
  painter.text(text, middle, AXIS + 12, theme.ground, { bold: true, size: 12, align: "center" });
}

/** The middle of a pixel, where a line of one pixel is sharp. @param {number} x */
function crisp(x) {
  return Math.round(x - 0.5) + 0.5;
}
