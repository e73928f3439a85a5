// The filter of the page "Environment": hides rows, and areas without any. The address says what is shown.
(function () {
  "use strict";

  /** Hides what the address leaves out; returns whether anything is left. */
  function filter(search) {
    const asked = new URLSearchParams(search ?? "");
    const words = (asked.get("filter") ?? "").toLowerCase().split(/\s+/).filter(Boolean);
    const only = asked.get("only") === "differences";
    const fits = (row) => {
      const text = `${row.dataset.field} ${row.textContent}`.toLowerCase();
      return (!only || row.classList.contains("differs")) && words.every((word) => text.includes(word));
    };
    const page = document.getElementById("environment-fields");
    page.querySelectorAll("tr[data-field]").forEach((row) => (row.hidden = !fits(row)));
    page.querySelectorAll("tr.group").forEach((group) => showGroup(group, only || words.length > 0));
    page.querySelectorAll(".fields").forEach(showArea);
    const others = document.getElementById("environment-others");
    others.hidden = isEmpty(others);
    return !isEmpty(page);
  }

  function isEmpty(part) {
    return part.querySelector("tr[data-field]:not([hidden])") === null;
  }

  /** A group of entries opens while a filter is on, so that what fits is in view. */
  function showGroup(group, filtered) {
    const details = group.querySelector("details");
    details.dataset.usual ??= String(details.open);
    details.open = filtered || details.dataset.usual === "true";
    group.hidden = isEmpty(group);
  }

  function showArea(area) {
    area.hidden = isEmpty(area);
    document.querySelector(`a[href="#${area.querySelector("h3").id}"]`).hidden = area.hidden;
  }

  window.dash_clientside = window.dash_clientside || {};
  window.dash_clientside.environment = { filter };
})();
