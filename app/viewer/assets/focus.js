// Keeps the place of who works with the keyboard: what has the focus and is drawn anew has it again.
(function () {
  "use strict";

  /** @type {Element | null} what had the focus last; null after a press of the mouse */
  let last = null;

  document.addEventListener("focusin", (event) => (last = event.target));
  document.addEventListener("pointerdown", () => (last = null), { capture: true });

  function restore() {
    if (last?.id && !last.isConnected && document.activeElement === document.body) {
      document.getElementById(last.id)?.focus({ preventScroll: true });
    }
  }

  new MutationObserver(restore).observe(document.documentElement, { childList: true, subtree: true });
})();
