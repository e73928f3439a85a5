// Which mark is under the pointer, and which one lies next to another.

import { trackKey } from "./answer.mjs";
import { AXIS, rowBox } from "./layout.mjs";

const NEAR = 3; // pixels by which a pointer may miss a narrow mark

/**
 * @typedef {{arm: import("./arm.mjs").Arm, box: import("./layout.mjs").LaneBox,
 *   track: import("./layout.mjs").TrackBox}} Line a track that is shown
 * @typedef {Line & {mark: import("./answer.mjs").Mark}} Picked
 * @typedef {Line & {dust: {count: number, busy: number, tone: number, scale: number}}} PickedDust
 */

/**
 * All tracks that are shown, from top to bottom.
 * @param {import("./layout.mjs").Block[]} blocks
 * @returns {Line[]}
 */
export function lines(blocks) {
  return blocks.flatMap(({ arm, lanes }) =>
    arm.missing ? [] : lanes.flatMap((box) => box.tracks.map((track) => ({ arm, box, track }))),
  );
}

/**
 * @param {import("./draw.mjs").Scene} scene
 * @param {number} x
 * @param {number} y
 * @returns {Picked | PickedDust | null}
 */
export function pick(scene, x, y) {
  if (y < AXIS) {
    return null;
  }
  for (const line of lines(scene.blocks)) {
    const known = line.arm.answer?.tracks.get(trackKey(line.box.lane.lane, line.track.track));
    const found = known && (markAt(scene, line, known.marks, x, y) ?? dustAt(scene, line, known.dust, x, y));
    if (found) {
      return { ...line, ...found };
    }
  }
  return null;
}

/** The narrowest mark that is hit: a wide one is easy to hit elsewhere. */
function markAt(scene, { arm, box, track }, marks, x, y) {
  let best = -1;
  for (let index = 0; index < marks.row.length; index += 1) {
    const place = rowBox(box, track, marks.depth[index]);
    const top = place.y - scene.scroll;
    if (y < top || y > top + place.height) {
      continue;
    }
    const left = scene.x(marks.start[index] - arm.origin);
    const right = scene.x(marks.start[index] + marks.duration[index] - arm.origin);
    const inside = x >= left - NEAR && x <= right + NEAR;
    if (inside && (best < 0 || marks.duration[index] < marks.duration[best])) {
      best = index;
    }
  }
  const { lane } = box.lane;
  return best < 0 ? null : { mark: arm.answer.at({ lane, track: track.track, index: best, marks }) };
}

function dustAt(scene, { arm, box, track }, dust, x, y) {
  const { from, scale, dustPixels } = arm.answer;
  const pixel = (scene.time(x) + arm.origin - from) / scale;
  const index = dust.pixel.findIndex((column) => pixel >= column && pixel < column + dustPixels);
  if (index < 0) {
    return null;
  }
  const place = rowBox(box, track, dust.depth[index]);
  const top = place.y - scene.scroll;
  if (y < top || y > top + place.height) {
    return null;
  }
  return { dust: { count: dust.count[index], busy: dust.busy[index], tone: dust.tone[index], scale: scale * dustPixels } };
}

/**
 * The mark before or after another one in its row of a track; null if it is the last one known.
 * @param {Line} line
 * @param {import("./answer.mjs").Mark} mark
 * @param {1 | -1} direction
 * @returns {import("./answer.mjs").Mark | null}
 */
export function beside(line, mark, direction) {
  let best = null;
  for (const other of marksOf(line)) {
    const later = (other.start - mark.start) * direction || (other.row - mark.row) * direction;
    if (other.depth === mark.depth && later > 0 && (!best || (other.start - best.start) * direction < 0)) {
      best = other;
    }
  }
  return best;
}

/**
 * The mark nearest to a time, in the next row of marks above or below that has any in view.
 * @param {import("./draw.mjs").Scene} scene
 * @param {{arm: string, lane: number, track: string, depth: number} | null} here null: from the top
 * @param {number} time relative to the step, ns
 * @param {1 | -1} direction
 * @returns {Picked | null}
 */
export function across(scene, here, time, direction) {
  const rows = lines(scene.blocks).flatMap((line) =>
    Array.from({ length: line.box.folded ? 1 : line.track.depth }, (_, depth) => ({ line, depth })),
  );
  const isHere = ({ line, depth }) =>
    here && line.arm.name === here.arm && line.box.lane.lane === here.lane &&
    line.track.track === here.track && (line.box.folded || depth === here.depth);
  const at = here ? rows.findIndex(isHere) : direction > 0 ? -1 : rows.length;
  for (let index = at + direction; index >= 0 && index < rows.length; index += direction) {
    const { line, depth } = rows[index];
    const mark = nearest(scene, line, depth, time);
    if (mark) {
      return { ...line, mark };
    }
  }
  return null;
}

/** The mark in view of a row that is nearest to a time. */
function nearest(scene, line, depth, time) {
  const { origin } = line.arm;
  let best = null;
  let least = Infinity;
  for (const mark of marksOf(line)) {
    const from = mark.start - origin;
    const to = from + mark.duration;
    const far = Math.max(from - time, time - to, 0);
    const seen = to >= scene.view.from && from <= scene.view.to;
    if (seen && far < least && (line.box.folded || mark.depth === depth)) {
      best = mark;
      least = far;
    }
  }
  return best;
}

/** @param {Line} line @returns {Generator<import("./answer.mjs").Mark>} */
function* marksOf({ arm, box, track }) {
  const { lane } = box.lane;
  const known = arm.answer?.tracks.get(trackKey(lane, track.track));
  for (let index = 0; index < (known?.marks.row.length ?? 0); index += 1) {
    yield arm.answer.at({ lane, track: track.track, index, marks: known.marks });
  }
}
