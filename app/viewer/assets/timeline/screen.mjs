// The canvas and what is laid out around it: draws a frame when something changed.

import { part } from "./dom.mjs";
import { drawTimeline } from "./draw.mjs";
import { Gutter } from "./gutter.mjs";
import { arrange } from "./layout.mjs";
import { Legend } from "./legend.mjs";
import { CanvasPainter } from "./painter.mjs";
import { readTheme } from "./theme.mjs";

const MANY_LANES = 64; // all lanes share what one answer may hold
const NARROW = 700; // pixels of the window below which titles stand above the lanes

export class Screen {
  /** @param {import("./timeline.mjs").Timeline} timeline */
  constructor(timeline) {
    this.timeline = timeline;
    this.root = timeline.root;
    this.canvas = this.root.querySelector("canvas");
    this.scroller = part(this.root, "scroller");
    this.sizer = part(this.root, "lanes");
    this.painter = new CanvasPainter(this.canvas.getContext("2d"));
    this.gutter = new Gutter(timeline);
    this.legend = new Legend(this.root);
    this.theme = readTheme(this.root);
    this.frame = 0;
    this.width = 0;
    this.#watch(timeline.signal);
  }

  /** Whether titles stand above the lanes. */
  get narrow() {
    return this.root.clientWidth < NARROW;
  }

  /** @returns {import("./layout.mjs").Layout} */
  get layout() {
    return this.layoutFor(this.narrow);
  }

  /** @param {boolean} narrow @returns {import("./layout.mjs").Layout} */
  layoutFor(narrow) {
    return arrange(this.timeline.arms, this.timeline.state, narrow);
  }

  /** What is drawn now. @returns {import("./draw.mjs").Scene} */
  scene() {
    const { arms, state, viewport, steps, selection, hover, cursor } = this.timeline;
    const view = { from: viewport.from, to: viewport.to };
    const scale = this.width / (view.to - view.from);
    return {
      width: this.width,
      height: this.canvas.clientHeight,
      scroll: this.scroller.scrollTop,
      view,
      blocks: this.layout.blocks,
      theme: this.theme,
      text: state.text,
      chosen: selection.chosen,
      hover,
      range: state.range,
      cursor,
      steps: new Map(arms.map((arm) => [arm.name, steps.inView(arm, view)])),
      x: (time) => (time - view.from) * scale,
      time: (x) => view.from + x / scale,
    };
  }

  redraw() {
    if (!this.frame && !this.timeline.closed) {
      this.frame = requestAnimationFrame(() => {
        this.frame = 0;
        this.#draw();
      });
    }
  }

  /** Brings a lane into view. @param {import("./arm.mjs").Arm} arm @param {number} lane */
  scrollTo(arm, lane) {
    const { blocks, axis } = this.layout;
    const block = blocks.find((one) => one.arm === arm);
    const box = block?.lanes.find((one) => one.lane.lane === lane);
    if (box) {
      const { scrollTop, clientHeight } = this.scroller;
      const top = box === block.lanes[0] ? block.y : box.y;
      const above = top - scrollTop - axis;
      const below = box.y + box.height - scrollTop - clientHeight;
      this.scroller.scrollTop += above < 0 ? above : Math.max(below, 0);
    }
  }

  close() {
    this.sizes.disconnect();
    cancelAnimationFrame(this.frame);
  }

  #watch(signal) {
    this.sizes = new ResizeObserver(() => this.redraw());
    [this.root, this.scroller].forEach((element) => this.sizes.observe(element));
    this.scroller.addEventListener("scroll", () => this.redraw(), { signal, passive: true });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.#recolour(), { signal });
  }

  #recolour() {
    this.theme = readTheme(this.root);
    this.redraw();
  }

  #draw() {
    const { layout, narrow } = this;
    this.root.classList.toggle("narrow", narrow);
    this.sizer.style.height = `${layout.height}px`;
    const width = this.canvas.parentElement.clientWidth;
    const height = Math.min(this.scroller.clientHeight, layout.height);
    this.width = width;
    if (width < 1 || height < 1) {
      return;
    }
    this.#sizeCanvas(width, height);
    this.gutter.show(layout.blocks, narrow);
    const scene = this.scene();
    drawTimeline(this.painter, scene);
    this.#showStatus();
    layout.blocks.forEach((block) => block.arm.show(scene.view, width, this.#wanted(block)));
    this.legend.show(this.timeline.arms, this.theme);
  }

  /** What keeps lanes from being shown; the canvas says it too, in place. */
  #showStatus() {
    const said = this.timeline.arms.filter(({ missing, status }) => missing || status);
    const text = said.map(({ title, missing, status }) => `${title}: ${missing || status}`).join(" · ");
    const host = part(this.root, "status");
    if (host.textContent !== text) {
      host.textContent = text;
    }
  }

  /** The lanes of an arm that are asked for: all, or those near the view if there are very many. */
  #wanted({ lanes }) {
    const { scrollTop, clientHeight } = this.scroller;
    const near = ({ y, height }) => y < scrollTop + 2 * clientHeight && y + height > scrollTop - clientHeight;
    const wanted = lanes.length > MANY_LANES ? lanes.filter(near) : lanes;
    return wanted.map(({ lane }) => lane.lane);
  }

  /** Setting the size clears a canvas, so it is set only when it changes. */
  #sizeCanvas(width, height) {
    const ratio = devicePixelRatio || 1;
    const size = [Math.round(width * ratio), Math.round(height * ratio)];
    if (this.canvas.width !== size[0] || this.canvas.height !== size[1]) {
      [this.canvas.width, this.canvas.height] = size;
      this.canvas.style.height = `${height}px`;
    }
    this.painter.context.setTransform(ratio, 0, 0, ratio, 0, 0);
  }
}
