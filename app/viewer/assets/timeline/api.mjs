// Questions to the server. Each one says all it needs; the server remembers nothing of us.

import { harmless } from "./format.mjs";

const RETRY_MS = 150; // while the server still reads the file

/** What the server refused, in a line that can be shown. */
export class Refused extends Error {
  /** @param {string} why */
  constructor(why) {
    super(harmless(why));
  }
}

/**
 * Asks until there is an answer.
 * @param {string} url with its parameters
 * @param {AbortSignal} signal
 * @param {(text: string) => void} [waiting] told what the server is busy with
 * @returns {Promise<any>} throws Refused, or AbortError
 */
export async function ask(url, signal, waiting) {
  for (;;) {
    const { status, answer } = await once(url, signal);
    if (status === 202) {
      waiting?.(harmless(String(answer.pending)));
      await pause(RETRY_MS, signal);
    } else if (status === 200) {
      return answer;
    } else {
      throw new Refused(String(answer.error ?? `the viewer answered with status ${status}`));
    }
  }
}

/** @param {string} url @param {AbortSignal} signal */
async function once(url, signal) {
  let response;
  try {
    response = await fetch(url, { signal });
    return { status: response.status, answer: await response.json() };
  } catch (error) {
    if (signal.aborted) {
      throw error;
    }
    throw new Refused(
      response ? `the viewer answered with status ${response.status}` : "the viewer does not answer; does it still run?",
    );
  }
}

/** @param {number} ms @param {AbortSignal} signal @returns {Promise<void>} */
function pause(ms, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(signal.reason);
    });
  });
}

/** @param {unknown} error @returns {boolean} */
export function isAbort(error) {
  return error instanceof DOMException && error.name === "AbortError";
}

/**
 * Does one thing at a time: while it is busy, only the newest wish is kept.
 * @template W
 */
export class Latest {
  /** @param {(wish: W, signal: AbortSignal) => Promise<void>} work never throws */
  constructor(work) {
    this.work = work;
    /** @type {W | null} */
    this.next = null;
    /** @type {AbortController | null} */
    this.busy = null;
  }

  /** @param {W} wish @param {boolean} [useless] whether what is under way is not worth waiting for */
  want(wish, useless = false) {
    this.next = wish;
    if (useless) {
      this.busy?.abort();
    }
    if (!this.busy) {
      void this.#run();
    }
  }

  /** Forgets what was wanted. */
  stop() {
    this.next = null;
    this.busy?.abort();
  }

  async #run() {
    while (this.next !== null) {
      const wish = this.next;
      this.next = null;
      this.busy = new AbortController();
      await this.work(wish, this.busy.signal);
    }
    this.busy = null;
  }
}
