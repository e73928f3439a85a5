// Mouse, pen and fingers on the canvas.

const CLICK = 4; // pixels that a click may slip
const WHEEL_ZOOM = 0.0022; // of the logarithm of the span, for a pixel of the wheel
const LINE = 16; // pixels of a line, where a wheel counts lines

export class Pointer {
  /** @param {import("./timeline.mjs").Timeline} timeline */
  constructor(timeline) {
    this.timeline = timeline;
    /** Fingers or buttons that are down. @type {Map<number, {x: number, y: number}>} */
    this.down = new Map();
    /** @type {{x: number, y: number, range: number | null, moved: boolean, scroll: number} | null} */
    this.drag = null;
    /** Whether dragging makes a range box without the shift key. */
    this.ranging = false;
    const { canvas, signal } = timeline;
    const on = (name, handler, options = {}) => canvas.addEventListener(name, handler.bind(this), { signal, ...options });
    on("pointerdown", this.#press);
    on("pointermove", this.#move);
    on("pointerup", this.#release);
    on("pointercancel", this.#cancel);
    on("pointerleave", this.#leave);
    on("wheel", this.#wheel, { passive: false });
  }

  /** @param {PointerEvent} event */
  #press(event) {
    if (event.button !== 0) {
      return;
    }
    const place = this.#place(event);
    this.timeline.canvas.setPointerCapture(event.pointerId);
    this.down.set(event.pointerId, place);
    if (this.down.size === 1) {
      const range = event.shiftKey || this.ranging ? this.timeline.time(place.x) : null;
      this.drag = { ...place, range, moved: false, scroll: this.timeline.screen.scroller.scrollTop };
    }
  }

  /** @param {PointerEvent} event */
  #move(event) {
    const place = this.#place(event);
    const last = this.down.get(event.pointerId);
    if (!last || !this.drag) {
      this.timeline.point(place);
      return;
    }
    this.down.set(event.pointerId, place);
    if (this.down.size === 2) {
      this.#pinch(event.pointerId, last, place);
    } else if (this.drag.moved || Math.hypot(place.x - this.drag.x, place.y - this.drag.y) > CLICK) {
      this.#dragTo(place, last);
    }
  }

  #dragTo(place, last) {
    const { timeline, drag } = this;
    drag.moved = true;
    timeline.point(null);
    if (drag.range !== null) {
      const times = [drag.range, timeline.time(place.x)];
      timeline.setRange({ from: Math.min(...times), to: Math.max(...times) });
      return;
    }
    timeline.canvas.classList.add("dragged");
    timeline.screen.scroller.scrollTop = drag.scroll - (place.y - drag.y);
    timeline.viewport.pan((last.x - place.x) / timeline.screen.width, false);
  }

  /** Two fingers: what was between them stays between them. */
  #pinch(id, last, place) {
    const { timeline } = this;
    this.drag.moved = true;
    const [other] = [...this.down].filter(([key]) => key !== id).map(([, value]) => value);
    const before = Math.max(Math.abs(last.x - other.x), 10);
    const after = Math.max(Math.abs(place.x - other.x), 10);
    const middle = timeline.time((last.x + other.x) / 2);
    timeline.viewport.zoom(before / after, middle, false);
    timeline.viewport.pan((last.x - place.x) / 2 / timeline.screen.width, false);
  }

  /** @param {PointerEvent} event */
  #release(event) {
    const { timeline, drag } = this;
    const alone = this.down.size === 1;
    this.down.delete(event.pointerId);
    timeline.canvas.classList.remove("dragged");
    if (drag && alone && !drag.moved) {
      timeline.select(drag);
    }
    if (!this.down.size) {
      this.drag = null;
    }
  }

  /** The browser took over, to scroll the page. @param {PointerEvent} event */
  #cancel(event) {
    this.down.delete(event.pointerId);
    this.drag = null;
    this.timeline.canvas.classList.remove("dragged");
  }

  #leave() {
    this.timeline.point(null);
  }

  /** @param {WheelEvent} event */
  #wheel(event) {
    const { timeline } = this;
    const unit = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? LINE : 1;
    const [right, down] = [event.deltaX * unit, event.deltaY * unit];
    const { scroller } = timeline.screen;
    const overflows = scroller.scrollHeight > scroller.clientHeight + 1;
    if (event.ctrlKey || event.metaKey) {
      this.#zoomBy(down, event);
    } else if (event.shiftKey || Math.abs(right) > Math.abs(down)) {
      timeline.viewport.pan((right || down) / timeline.screen.width, false);
    } else if (overflows) {
      return; // the browser scrolls the lanes
    } else {
      this.#zoomBy(down, event);
    }
    event.preventDefault();
  }

  #zoomBy(pixels, event) {
    const { x } = this.#place(event);
    this.timeline.viewport.zoom(Math.exp(pixels * WHEEL_ZOOM), this.timeline.time(x), false);
  }

  /** @param {MouseEvent} event @returns {{x: number, y: number}} pixels of the canvas */
  #place(event) {
    const box = this.timeline.canvas.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  }
}
