// Keeps the address line true to what is shown.

import { written } from "./address.mjs";

const WAIT_MS = 250; // browsers refuse to have it written too often

export class History {
  /** @param {import("./timeline.mjs").Timeline} timeline */
  constructor(timeline) {
    this.timeline = timeline;
    this.path = location.pathname;
    this.timer = 0;
    const again = () => this.#arrived();
    // The second is how Dash tells that a link of the page was followed.
    for (const name of ["popstate", "_dashprivate_pushstate"]) {
      window.addEventListener(name, again, { signal: timeline.signal });
    }
  }

  /**
   * @param {{push?: boolean}} [how] push: the state so far stays behind, for the browser's "back"
   */
  note({ push = false } = {}) {
    clearTimeout(this.timer);
    if (push) {
      this.#write(true);
    } else {
      this.timer = setTimeout(() => this.#write(false), WAIT_MS);
    }
  }

  /** Writes at once what is still to be written: before the state changes to one that is pushed. */
  flush() {
    clearTimeout(this.timer);
    this.#write(false);
  }

  close() {
    clearTimeout(this.timer);
  }

  #write(push) {
    const search = written(location.search, this.timeline.state);
    if (search === location.search || location.pathname !== this.path || this.timeline.closed) {
      return;
    }
    const address = this.path + search;
    if (push) {
      history.pushState(null, "", address);
    } else {
      history.replaceState(history.state, "", address);
    }
    // Dash must know too: it builds addresses for links on what it knows.
    const { dash_clientside: dash } = /** @type {any} */ (window);
    dash?.set_props?.("address", { search, href: location.href });
  }

  #arrived() {
    clearTimeout(this.timer);
    if (location.pathname === this.path) {
      this.timeline.restore();
    }
  }
}
