// Where lanes stand, one under the other. Pixels from the top of the axis, before scrolling.

export const AXIS = 26;
export const MARK = 20; // height of a mark
const ROW = MARK + 2;
const BAND = 24; // head of an arm, with its steps
const TITLE = 20; // over each lane and each arm, where there is no room for titles beside them
const FOLDED = 12;
const PAD = 5; // above and below the rows of a lane
const GAP = 8; // between the arms
const MIN_LANE = 30; // room for the title and its buttons
const MAX_DEPTH = 24; // rows of a track; what is nested deeper is drawn over the last one

/**
 * @typedef {object} TrackBox
 * @property {string} track
 * @property {string} title
 * @property {number} y top of its first row
 * @property {number} depth number of rows
 *
 * @typedef {object} LaneBox
 * @property {string} key "on.3"
 * @property {import("./arm.mjs").Lane} lane
 * @property {boolean} folded
 * @property {number} y
 * @property {number} height
 * @property {number} top of the part with rows, below the title if it stands above
 * @property {TrackBox[]} tracks
 *
 * @typedef {object} Block an arm
 * @property {import("./arm.mjs").Arm} arm
 * @property {number} y
 * @property {number} height
 * @property {number} band top of the row of steps
 * @property {number} bandHeight
 * @property {LaneBox[]} lanes
 *
 * @typedef {{blocks: Block[], height: number, axis: number}} Layout axis: height of the axis, which stays in view
 */

/** @param {string} arm @param {number} lane @returns {string} */
export function laneKey(arm, lane) {
  return `${arm}.${lane}`;
}

/**
 * @param {import("./arm.mjs").Arm[]} arms
 * @param {{hidden: Set<string>, folded: Set<string>}} state
 * @param {boolean} narrow titles stand above the lanes
 * @returns {Layout}
 */
export function arrange(arms, state, narrow) {
  const title = narrow ? TITLE : 0;
  let y = AXIS;
  const blocks = arms.map((arm) => {
    const block = { arm, y, height: 0, band: y + title, bandHeight: BAND, lanes: [] };
    y += title + BAND;
    for (const lane of arm.lanes) {
      const key = laneKey(arm.name, lane.lane);
      if (!state.hidden.has(key)) {
        const box = laneBox(lane, key, y, state.folded.has(key), title);
        block.lanes.push(box);
        y += box.height;
      }
    }
    if (!block.lanes.length) {
      y += MIN_LANE;
    }
    block.height = y - block.y;
    y += GAP;
    return block;
  });
  return { blocks, height: y - GAP, axis: AXIS };
}

/** @returns {LaneBox} */
function laneBox(lane, key, y, folded, title) {
  const top = y + title;
  let at = top + PAD;
  const tracks = lane.tracks.map(({ track, title: name, depth }) => {
    const rows = Math.max(1, Math.min(depth, MAX_DEPTH));
    const box = { track, title: name, y: folded ? top + PAD : at, depth: folded ? 1 : rows };
    at += rows * ROW;
    return box;
  });
  const end = folded ? top + FOLDED + 2 * PAD : at + PAD;
  return { key, lane, folded, y, top, tracks, height: Math.max(end - y, title ? 0 : folded ? 0 : MIN_LANE) };
}

/**
 * Top and height of the row of a track where a depth is drawn.
 * @param {LaneBox} box
 * @param {TrackBox} track
 * @param {number} depth
 * @returns {{y: number, height: number}}
 */
export function rowBox(box, track, depth) {
  if (box.folded) {
    return { y: track.y, height: FOLDED };
  }
  return { y: track.y + Math.min(depth, track.depth - 1) * ROW, height: MARK };
}

/**
 * The lane and track of a mark, if they are shown.
 * @param {Block[]} blocks
 * @param {string} arm
 * @param {number} lane
 * @param {string} track
 * @returns {{box: LaneBox, track: TrackBox} | null}
 */
export function find(blocks, arm, lane, track) {
  const box = blocks.find((block) => block.arm.name === arm)?.lanes.find((one) => one.lane.lane === lane);
  const found = box?.tracks.find((one) => one.track === track);
  return box && found ? { box, track: found } : null;
}
