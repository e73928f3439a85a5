// The marks of one lane, and the dust between them.

import { trackKey } from "./answer.mjs";
import { plain } from "./format.mjs";
import { AXIS, rowBox } from "./layout.mjs";
import { fitted } from "./painter.mjs";

const DIM = 0.18; // of what a search does not find
const LEAST_WIDTH = 1;
const LEAST_ALPHA = 0.35; // of a mark that is much narrower than a pixel
const LABEL = { size: 12 };
const LABEL_ROOM = 22; // pixels below which a mark has no label
const HATCH_LABEL = 0.65; // of a waiting mark's width: the rest shows that it is hatched
const SOFT_FRAME = 6; // pixels from which the outline of a soft mark is drawn: a row of them is no hatching
const SOFT = 0.28; // opacity of the body of a soft mark
const MIN_DUST = 2; // pixels: even a little dust is seen

/**
 * @param {import("./painter.mjs").Painter} painter
 * @param {import("./draw.mjs").Scene} scene
 * @param {import("./arm.mjs").Arm} arm
 * @param {import("./layout.mjs").LaneBox} box
 */
export function drawLane(painter, scene, arm, box) {
  const top = box.y - scene.scroll;
  if (!arm.answer || top > scene.height || top + box.height < AXIS) {
    return;
  }
  const tones = arm.tones.map(({ key }) => scene.theme.tone(key));
  const hits = arm.answer.hits(scene.text);
  for (const track of box.tracks) {
    const known = arm.answer.tracks.get(trackKey(box.lane.lane, track.track));
    if (known) {
      drawDust(painter, scene, { arm, box, track, tones, dim: hits !== null }, known.dust);
      drawMarks(painter, scene, { arm, box, track, tones, hits }, known.marks);
    }
  }
}

/** A column for each pixel of the answer, as high as its part that is busy. */
function drawDust(painter, scene, { arm, box, track, tones, dim }, dust) {
  const { from, scale, dustPixels } = arm.answer;
  const width = Math.max(scene.x(scale * dustPixels) - scene.x(0), 0.5);
  for (let index = 0; index < dust.pixel.length; index += 1) {
    const x = scene.x(from + dust.pixel[index] * scale - arm.origin);
    if (x > -width && x < scene.width) {
      const place = rowBox(box, track, dust.depth[index]);
      const bottom = place.y - scene.scroll + place.height;
      const height = Math.max(MIN_DUST, dust.busy[index] * place.height);
      const tone = tones[dust.tone[index]];
      painter.rect(x, bottom - height, width, height, tone.fill, dim ? DIM : tone.soft ? SOFT : 0.85);
    }
  }
}

function drawMarks(painter, scene, { arm, box, track, tones, hits }, marks) {
  const { x, width, theme, chosen, hover } = scene;
  const selected = chosen?.arm === arm.name ? chosen.row : -1;
  const hovered = hover?.arm === arm.name ? hover.row : -1;
  const outlines = [];
  for (let index = 0; index < marks.row.length; index += 1) {
    const start = marks.start[index] - arm.origin;
    const left = x(start);
    const right = x(start + marks.duration[index]);
    if (right < -1 || left > width + 1) {
      continue;
    }
    const place = rowBox(box, track, marks.depth[index]);
    const shape = {
      left: Math.max(left, -3),
      right: Math.max(Math.min(right, width + 3), left + LEAST_WIDTH),
      y: place.y - scene.scroll,
      height: place.height,
      blocked: Math.min(x(start + marks.blocked[index]), width + 3),
      // A row of calls shorter than a pixel must not look as if the thread were busy all the time.
      alpha: Math.min(1, Math.max(right - left, LEAST_ALPHA)),
    };
    const hit = hits === null || hits[marks.name[index]];
    const tone = tones[marks.tone[index]];
    drawMark(painter, theme, shape, tone, hit);
    if (!box.folded && hit) {
      drawLabel(painter, theme, shape, tone, plain(arm.answer.names[marks.name[index]]), width);
    }
    if (hits !== null && hit) {
      outlines.push({ shape, colour: theme.hit, line: 2 });
    }
    if (marks.row[index] === selected || marks.row[index] === hovered) {
      outlines.push({ shape, colour: theme.ink, line: marks.row[index] === selected ? 2 : 1 });
    }
  }
  // After all marks: a neighbour must not cover a part of them.
  outlines.forEach(({ shape, colour, line }) => outline(painter, shape, colour, line));
}

/** The body of a mark: its tone, and hatched where it waits. */
function drawMark(painter, theme, { left, right, y, height, blocked, alpha: seen }, tone, hit) {
  // A gap of half a pixel keeps neighbours apart where there is room for it.
  const width = right - left > 3 ? right - left - 0.5 : right - left;
  const alpha = hit ? seen : DIM;
  if (tone.soft) {
    painter.rect(left, y, width, height, tone.fill, SOFT * alpha);
    if (hit && width > SOFT_FRAME) {
      painter.frame(left, y, width, height, tone.fill);
    }
    return;
  }
  const waits = Math.min(blocked - left, width);
  if (waits < 2 || !hit) {
    painter.rect(left, y, width, height, tone.fill, alpha);
    return;
  }
  painter.rect(left, y, waits, height, theme.ground);
  painter.rect(left, y, waits, height, tone.fill, 0.22);
  painter.hatch(left, y, waits, height, tone.fill);
  painter.rect(left + waits, y, width - waits, height, tone.fill);
  painter.frame(left, y, width, height, tone.fill);
}

/** The name, at the left end of the part in view. */
function drawLabel(painter, theme, { left, right, y, height, blocked }, tone, name, width) {
  const from = Math.max(left, 0);
  const to = Math.min(right, width);
  if (to - from < LABEL_ROOM) {
    return;
  }
  const waits = !tone.soft && blocked - left >= 2;
  const shown = fitted(painter, name, waits ? (to - from) * HATCH_LABEL - 8 : to - from - 8, LABEL);
  if (!shown) {
    return;
  }
  if (waits) {
    // Letters on a hatched ground cannot be read.
    painter.rect(from + 2, y + 2, painter.measure(shown, LABEL) + 5, height - 4, theme.ground, 0.92);
  }
  painter.text(shown, from + 4, y + height / 2, tone.soft || waits ? theme.ink : tone.text, LABEL);
}

function outline(painter, { left, right, y, height }, colour, line) {
  painter.frame(left - line, y - line, Math.max(right - left, 1) + 2 * line, height + 2 * line, colour, line);
}
