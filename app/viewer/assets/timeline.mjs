// Starts the timeline when its page appears, and ends it when the page goes. Dash loads this file on every
// page; the rest is loaded when it is needed.

const ID = "timeline";

/** @type {{root: Element, arms: string, timeline: {close: () => void} | null} | null} */
let shown = null;

function look() {
  const root = document.getElementById(ID);
  if (root === (shown?.root ?? null) && root?.dataset.arms === shown?.arms) {
    return;
  }
  shown?.timeline?.close();
  shown = root && { root, arms: root.dataset.arms, timeline: null };
  if (shown) {
    void start(shown);
  }
}

async function start(mine) {
  const { Timeline } = await import("./timeline/timeline.mjs");
  if (mine === shown) {
    mine.timeline = new Timeline(mine.root);
  }
}

new MutationObserver(look).observe(document.documentElement, { childList: true, subtree: true });
look();
