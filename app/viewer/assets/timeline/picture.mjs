// The picture as a file: all lanes that are shown, with their titles, on a light ground.

import { save } from "./dom.mjs";
import { drawTimeline } from "./draw.mjs";
import { plain } from "./format.mjs";
import { AXIS } from "./layout.mjs";
import { HATCHED, legendOf } from "./legend.mjs";
import { CanvasPainter, fitted } from "./painter.mjs";
import { SvgPainter } from "./svg.mjs";
import { readTheme } from "./theme.mjs";

const TITLES = 190; // width of the titles, pixels
const LINE = 18; // height of a line below the lanes
const SWATCH = 12;
const SCALE = 2; // of PNG: sharp on dense screens
const UNSAFE = /[^\w.-]+/g; // in names of files

export class Picture {
  /** @param {import("./timeline.mjs").Timeline} timeline */
  constructor(timeline) {
    this.timeline = timeline;
  }

  png() {
    const { width, height } = this.#measured();
    const canvas = document.createElement("canvas");
    canvas.width = Math.round(width * SCALE);
    canvas.height = Math.round(height * SCALE);
    const context = canvas.getContext("2d");
    context.scale(SCALE, SCALE);
    this.#draw(new CanvasPainter(context), (by) => context.translate(by, 0));
    canvas.toBlob((content) => content && save(content, this.#name("png")), "image/png");
  }

  svg() {
    const { width, height } = this.#measured();
    const { painter } = this.timeline.screen;
    const svg = new SvgPainter(width, height, (text, style) => painter.measure(text, style));
    this.#draw(svg, (by) => svg.shift(by));
    save(new Blob([svg.document()], { type: "image/svg+xml" }), this.#name("svg"));
  }

  /** Size of the whole picture. */
  #measured() {
    const width = this.timeline.screen.width + TITLES;
    const { height } = this.timeline.screen.layoutFor(false);
    const theme = readTheme(this.timeline.root, "light");
    return { width, height: this.#drawFoot(this.timeline.screen.painter, theme, height, width, false) };
  }

  #draw(painter, shift) {
    const { timeline } = this;
    const theme = readTheme(timeline.root, "light");
    const { blocks, height } = timeline.screen.layoutFor(false);
    const scene = { ...timeline.screen.scene(), blocks, theme, height, scroll: 0, hover: null, cursor: null };
    const { width, height: whole } = this.#measured();
    painter.rect(0, 0, width, whole, theme.ground);
    painter.text("from the start of the step", 6, AXIS / 2, theme.faint);
    blocks.forEach((block) => drawTitles(painter, theme, block));
    this.#drawFoot(painter, theme, height, width, true);
    shift(TITLES);
    painter.clip(0, 0, scene.width, height);
    drawTimeline(painter, scene);
    painter.unclip();
  }

  /** What colours mean, and which recordings these are. Returns where it ends. */
  #drawFoot(painter, theme, top, width, visible) {
    const { arms } = this.timeline;
    let [x, y] = [8, top + LINE];
    const place = (text, room) => {
      const end = x + room + painter.measure(text);
      [x, y] = end > width && x > 8 ? [8, y + LINE] : [x, y];
    };
    for (const { tone, text } of [...legendOf(arms, theme), { tone: null, text: HATCHED }]) {
      place(text, SWATCH + 4);
      if (visible) {
        drawSwatch(painter, theme, x, y, tone);
        painter.text(text, x + SWATCH + 4, y, theme.ink);
      }
      x += SWATCH + 4 + painter.measure(text) + 16;
    }
    for (const { title, file, labels, step } of arms) {
      y += LINE;
      const about = step ? [`step ${step.step}`, plain(step.step_class)] : [];
      const text = [title, plain(file), ...labels.map(plain), ...about].join(" · ");
      if (visible) {
        painter.text(fitted(painter, text, width - 16), 8, y, theme.faint);
      }
    }
    return y + LINE;
  }

  /** Of the first recording; what a file name should not hold is replaced. */
  #name(ending) {
    const { arms } = this.timeline;
    const [first] = arms;
    const step = first.step ? `-step-${first.step.step}` : "";
    const stem = first.file.replace(/\.parquet$/, "").replace(UNSAFE, "-");
    return `${stem}-timeline${step}.${ending}`;
  }
}

/** @param {import("./theme.mjs").Tone | null} tone null: hatched */
function drawSwatch(painter, theme, x, y, tone) {
  const top = y - SWATCH / 2;
  if (!tone) {
    painter.hatch(x, top, SWATCH, SWATCH, theme.ink);
    painter.frame(x, top, SWATCH, SWATCH, theme.ink);
    return;
  }
  painter.rect(x, top, SWATCH, SWATCH, tone.fill, tone.soft ? 0.28 : 1);
  painter.frame(x, top, SWATCH, SWATCH, tone.fill);
}

function drawTitles(painter, theme, { arm, band, bandHeight, lanes }) {
  painter.rect(0, band, TITLES, bandHeight, theme.band);
  painter.rect(0, band, 4, bandHeight, theme.arm(arm.name));
  const labels = arm.labels.map(plain).join(", ");
  const title = labels ? `${arm.title} (${labels})` : arm.title;
  painter.text(fitted(painter, title, TITLES - 16, { bold: true }), 10, band + bandHeight / 2, theme.ink, { bold: true });
  for (const { y, lane, height } of lanes) {
    painter.line(0, Math.round(y) + 0.5, TITLES, Math.round(y) + 0.5, theme.line);
    painter.text(fitted(painter, plain(lane.title), TITLES - 16), 10, y + Math.min(height / 2, 15), theme.ink);
  }
}
