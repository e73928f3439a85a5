// An answer of /view, as it is drawn and searched.

/**
 * @typedef {object} Marks rows drawn as rectangles, by time; times are ns from the base of the run
 * @property {number[]} row
 * @property {number[]} start
 * @property {number[]} duration
 * @property {number[]} depth
 * @property {number[]} name index into the names of the answer
 * @property {number[]} tone
 * @property {number[]} blocked ns of the duration that is waiting
 *
 * @typedef {object} Dust rows too short to be drawn, summed in columns
 * @property {number[]} pixel
 * @property {number[]} busy
 * @property {number[]} count
 * @property {number[]} tone
 * @property {number[]} depth the row of the track that the column is drawn in
 *
 * @typedef {{lane: number, track: string, marks: Marks, dust: Dust}} Track
 * @typedef {{lane: number, track: string, index: number, marks: Marks}} Place where a row is among the marks
 *
 * @typedef {object} Mark one row
 * @property {number} row
 * @property {number} lane
 * @property {string} track
 * @property {number} depth
 * @property {number} start
 * @property {number} duration
 * @property {string} name
 * @property {number} tone
 * @property {number} blocked
 */

export class Answer {
  /**
   * @param {any} json
   * @param {string} lanes those that were asked for
   */
  constructor(json, lanes) {
    this.from = json.from;
    this.to = json.to;
    this.pixels = json.pixels;
    /** Width of a column of dust, pixels. */
    this.dustPixels = json.dust_pixels;
    this.lanes = lanes;
    /** @type {string[]} */
    this.names = json.names;
    this.links = json.links;
    /** @type {Map<string, Track>} */
    this.tracks = new Map();
    for (const lane of json.lanes) {
      for (const track of lane.tracks) {
        const dust = { ...track.dust, depth: this.#freeRows(track) };
        this.tracks.set(trackKey(lane.lane, track.track), { ...track, lane: lane.lane, dust });
      }
    }
    this.places = placesOf(this.tracks);
  }

  /** Nanoseconds of one pixel. */
  get scale() {
    return (this.to - this.from) / this.pixels;
  }

  /** For each column of dust the first row that no mark takes there: short calls lie within long ones, or between. */
  #freeRows({ marks, dust }) {
    const rows = []; // for each depth the marks in it, which do not overlap, and how far the columns have come
    marks.depth.forEach((depth, index) => {
      rows[depth] ??= { starts: [], ends: [], at: 0 };
      rows[depth].starts.push(marks.start[index]);
      rows[depth].ends.push(marks.start[index] + marks.duration[index]);
    });
    return dust.pixel.map((pixel) => {
      const time = this.from + (pixel + this.dustPixels / 2) * this.scale;
      const free = rows.findIndex((row) => !row || !covers(row, time));
      return free < 0 ? rows.length : free;
    });
  }

  /** @param {number} row @returns {Mark | null} */
  mark(row) {
    const place = this.places.get(row);
    return place ? this.at(place) : null;
  }

  /** @param {Place} place @returns {Mark} */
  at({ lane, track, index, marks }) {
    return {
      row: marks.row[index],
      lane,
      track,
      depth: marks.depth[index],
      start: marks.start[index],
      duration: marks.duration[index],
      name: this.names[marks.name[index]],
      tone: marks.tone[index],
      blocked: marks.blocked[index],
    };
  }

  /**
   * For each name whether it holds a text, whatever the case; null if nothing is searched.
   * @param {string} text
   * @returns {boolean[] | null}
   */
  hits(text) {
    if (this.searched?.text !== text) {
      const wanted = text.toLowerCase();
      this.searched = { text, hits: text ? this.names.map((name) => name.toLowerCase().includes(wanted)) : null };
    }
    return this.searched.hits;
  }
}

/** Whether one of the marks of a row is under way; times come in ascending order. */
function covers(row, time) {
  while (row.at < row.ends.length && row.ends[row.at] < time) {
    row.at += 1;
  }
  return row.at < row.ends.length && row.starts[row.at] <= time;
}

/** @param {number} lane @param {string} track @returns {string} */
export function trackKey(lane, track) {
  return `${lane}/${track}`;
}

/** @param {Map<string, Track>} tracks @returns {Map<number, Place>} */
function placesOf(tracks) {
  const places = new Map();
  for (const { lane, track, marks } of tracks.values()) {
    marks.row.forEach((row, index) => places.set(row, { lane, track, index, marks }));
  }
  return places;
}
