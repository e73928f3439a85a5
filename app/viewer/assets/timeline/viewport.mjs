// The stretch of time in view, relative to the start of the aligned step of each arm.

const LEAST_NS = 50; // narrower than this there is nothing to see: clocks tick in about 30 ns
const GLIDE_MS = 130;
const SEEN = 0.002; // of the span: what is shorter is no more than a line

/** @typedef {import("./address.mjs").Span} Span */

export class Viewport {
  /** @param {() => void} changed called whenever the picture must follow */
  constructor(changed) {
    this.changed = changed;
    this.from = 0;
    this.to = 1e6;
    /** Where a glide will end; what the address line says. @type {Span} */
    this.target = { from: 0, to: 1e6 };
    /** @type {Span} */
    this.limits = { from: 0, to: 1e6 };
    /** Whether the view is the whole step, and follows it. */
    this.whole = true;
    this.still = matchMedia("(prefers-reduced-motion: reduce)");
    this.frame = 0;
  }

  /** @returns {number} */
  get span() {
    return this.target.to - this.target.from;
  }

  /**
   * @param {Span} wanted
   * @param {{glide?: boolean, whole?: boolean}} [how]
   */
  show(wanted, { glide = true, whole = false } = {}) {
    this.target = this.#within(wanted);
    this.whole = whole;
    cancelAnimationFrame(this.frame);
    if (glide && !this.still.matches) {
      this.#glide({ from: this.from, to: this.to }, performance.now());
    } else {
      this.#place(this.target);
    }
  }

  /**
   * @param {number} factor of the span; below 1 is closer
   * @param {number} at the time that stays where it is, ns
   * @param {boolean} [glide]
   */
  zoom(factor, at, glide = true) {
    const { from, to } = this.target;
    const room = Math.max(LEAST_NS, (to - from) * factor) / (to - from);
    const place = Math.min(Math.max(at, from), to);
    this.show({ from: place - (place - from) * room, to: place + (to - place) * room }, { glide });
  }

  /**
   * @param {number} part of the span; to the right if positive
   * @param {boolean} [glide]
   */
  pan(part, glide = true) {
    const by = part * this.span;
    this.show({ from: this.target.from + by, to: this.target.to + by }, { glide });
  }

  /**
   * Brings a stretch into view.
   * @param {number} start ns
   * @param {number} duration ns
   * @param {boolean} [closer] whether to zoom in on it if it would be no more than a line
   */
  reveal(start, duration, closer = false) {
    const small = closer && duration / this.span < SEEN;
    const inside = start >= this.target.from && start + duration <= this.target.to;
    if (inside && !small) {
      return;
    }
    const span = small ? Math.max(duration * 20, 2e3) : Math.max(duration * 1.1, this.span);
    const middle = start + duration / 2;
    this.show({ from: middle - span / 2, to: middle + span / 2 });
  }

  /** Ends a glide. */
  stop() {
    cancelAnimationFrame(this.frame);
  }

  /** @param {Span} wanted @returns {Span} */
  #within({ from, to }) {
    const { limits } = this;
    const span = Math.min(Math.max(to - from, LEAST_NS), limits.to - limits.from);
    const middle = (from + to) / 2;
    const start = Math.min(Math.max(middle - span / 2, limits.from), limits.to - span);
    return { from: start, to: start + span };
  }

  /** @param {Span} begin @param {number} since */
  #glide(begin, since) {
    this.frame = requestAnimationFrame((now) => {
      const part = Math.min(1, Math.max(0, (now - since) / GLIDE_MS));
      const eased = 1 - (1 - part) ** 3;
      const mix = (from, to) => from + (to - from) * eased;
      this.#place({ from: mix(begin.from, this.target.from), to: mix(begin.to, this.target.to) });
      if (part < 1) {
        this.#glide(begin, since);
      }
    });
  }

  /** @param {Span} span */
  #place({ from, to }) {
    this.from = from;
    this.to = to;
    this.changed();
  }
}
