// Arrows from submissions to the GPU work they caused.

import { find, rowBox } from "./layout.mjs";

const MAX_DRAWN = 60; // in view; more of them hide what they connect
const HEAD = 5; // size of an arrow's head, pixels

/**
 * @param {import("./painter.mjs").Painter} painter
 * @param {import("./draw.mjs").Scene} scene
 */
export function drawLinks(painter, scene) {
  for (const { arm } of scene.blocks) {
    if (arm.missing || !arm.answer) {
      continue;
    }
    const links = linksInView(scene, arm);
    const chosen = scene.chosen?.arm === arm.name ? chosenLinks(scene.chosen) : [];
    if (links.length <= MAX_DRAWN && !scene.text) {
      links.forEach((link) => drawLink(painter, scene, arm, link, false));
    }
    chosen.forEach((link) => drawLink(painter, scene, arm, link, true));
  }
}

/**
 * @typedef {{from: Tail, to: Tail}} Link
 * @typedef {{row: number, lane: number, time: number}} Tail
 */

/** @returns {Link[]} */
function linksInView({ view }, arm) {
  const { links } = arm.answer;
  const found = [];
  for (let index = 0; index < links.from_row.length; index += 1) {
    if (links.to_time[index] - arm.origin > view.from && links.from_time[index] - arm.origin < view.to) {
      found.push({
        from: { row: links.from_row[index], lane: links.from_lane[index], time: links.from_time[index] },
        to: { row: links.to_row[index], lane: links.to_lane[index], time: links.to_time[index] },
      });
    }
  }
  return found;
}

/** @param {import("./selection.mjs").Chosen} chosen @returns {Link[]} */
function chosenLinks(chosen) {
  return chosen.linked.map((other) => {
    // The GPU cannot start before the call that asks for it.
    const [first, second] = other.start < chosen.start ? [other, chosen] : [chosen, other];
    return {
      from: { row: first.row, lane: first.lane, time: Math.min(first.start + first.duration, second.start) },
      to: { row: second.row, lane: second.lane, time: second.start },
    };
  });
}

function drawLink(painter, scene, arm, { from, to }, strong) {
  const start = place(scene, arm, from);
  const end = place(scene, arm, to);
  if (!start || !end) {
    return;
  }
  const down = end.y >= start.y;
  const [y1, y2] = down ? [start.y + start.height, end.y] : [start.y, end.y + end.height];
  const bend = Math.max(Math.abs(y2 - y1) / 2, 6) * (down ? 1 : -1);
  const x1 = scene.x(from.time - arm.origin);
  const x2 = scene.x(to.time - arm.origin);
  const colour = strong ? scene.theme.ink : scene.theme.arrow;
  const tip = y2 - (down ? HEAD : -HEAD);
  painter.curve([x1, y1, x1, y1 + bend, x2, tip - bend, x2, tip], colour, { width: strong ? 2 : 1, alpha: 0.8 });
  const half = strong ? HEAD * 0.8 : HEAD * 0.6;
  painter.polygon([x2, y2, x2 - half, tip, x2 + half, tip], colour);
}

/** Where the mark of a row stands; the first row of its lane if it is among the dust. */
function place(scene, arm, { row, lane }) {
  const mark = arm.answer.mark(row);
  const block = scene.blocks.find((one) => one.arm === arm);
  const box = block?.lanes.find((one) => one.lane.lane === lane);
  const track = mark ? mark.track : box?.tracks.at(-1)?.track;
  const found = track && find(scene.blocks, arm.name, lane, track);
  if (!found) {
    return null;
  }
  const spot = rowBox(found.box, found.track, mark ? mark.depth : found.track.depth - 1);
  return { y: spot.y - scene.scroll, height: spot.height };
}
