// Saves a chart of Plotly as PNG or SVG, on a white ground: files are read outside of the page's colours.
(function () {
  "use strict";

  const SCALE = 2; // of PNG: sharp on dense screens

  async function save(button) {
    const kind = button.dataset.export;
    const host = document.getElementById(button.dataset.graph);
    const chart = host && host.querySelector(".js-plotly-plot");
    if (!chart || !window.Plotly) {
      return;
    }
    const { width, height } = chart.getBoundingClientRect();
    const layout = { ...chart.layout, paper_bgcolor: "#ffffff", width: undefined, height: undefined };
    const picture = { data: chart.data, layout, config: {} };
    const scale = kind === "png" ? SCALE : 1;
    await window.Plotly.downloadImage(picture, {
      format: kind,
      filename: button.dataset.graph,
      width: Math.round(width),
      height: Math.round(height),
      scale,
    });
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest && event.target.closest("button[data-export][data-graph]");
    if (button) {
      save(button);
    }
  });
})();
