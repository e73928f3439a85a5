// The picture as a file: all lanes that are shown, with their titles, on a light ground.

import { save } from "./dom.mjs";
import { drawTimeline } from "./draw.mjs";
import { plain } from "./format.mjs";
import { AXIS } from "./layout.mjs";
import { CanvasPainter, fitted } from "./painter.mjs";
import { SvgPainter } from "./svg.mjs";
import { readTheme } from "./theme.mjs";

const TITLES = 190; // width of the titles, pixels
const SCALE = 2; // of PNG: sharp on dense screens
const UNSAFE = /[^\w.-]+/g; // in names of files

export class Picture {
  /** @param {import("./timeline.mjs").Timeline} timeline */
  constructor(timeline) {
    this.timeline = timeline;
  }

  png() {
    const { width, height } = this.#size();
    const canvas = document.createElement("canvas");
    canvas.width = Math.round(width * SCALE);
    canvas.height = Math.round(height * SCALE);
    const context = canvas.getContext("2d");
    context.scale(SCALE, SCALE);
    this.#draw(new CanvasPainter(context), (shift) => context.translate(shift, 0));
    canvas.toBlob((content) => content && save(content, this.#name("png")), "image/png");
  }

  svg() {
    const { width, height } = this.#size();
    const { painter } = this.timeline;
    const svg = new SvgPainter(width, height, (text, style) => painter.measure(text, style));
    this.#draw(svg, (shift) => svg.shift(shift));
    save(new Blob([svg.document()], { type: "image/svg+xml" }), this.#name("svg"));
  }

  #size() {
    return { width: this.timeline.width + TITLES, height: this.timeline.layout.height };
  }

  #draw(painter, shift) {
    const { timeline } = this;
    const theme = readTheme(timeline.root, "light");
    const { blocks, height } = timeline.layoutFor(false);
    const scene = { ...timeline.scene(), blocks, theme, height, scroll: 0, hover: null, cursor: null };
    painter.rect(0, 0, TITLES, height, theme.ground);
    painter.text("from the start of the step", 6, AXIS / 2, theme.faint);
    blocks.forEach((block) => drawTitles(painter, theme, block));
    shift(TITLES);
    painter.clip(0, 0, scene.width, height);
    drawTimeline(painter, scene);
    painter.unclip();
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
