"use strict";
// Draw the figures one after another while the page is idle, and draw them again if the theme changes.
(() => {
  const dataElement = document.getElementById("figure-data");
  if (!dataElement || !window.vegaEmbed) return;
  // Vega stores marks by name in plain objects. Without this line, an agent called __proto__ would replace their prototype.
  delete Object.prototype.__proto__;
  let figures = JSON.parse(dataElement.textContent);

  // Convert a table from columns to rows. A column is an array of values, or `codes` into an array of `levels`.
  const toRows = (frame) => {
    const names = Object.keys(frame);
    const columns = names.map((name) => {
      const column = frame[name];
      return Array.isArray(column) ? column : column.codes.map((code) => column.levels[code]);
    });
    const nRows = columns.length ? columns[0].length : 0;
    const makeRow = (_, row) => Object.fromEntries(names.map((name, k) => [name, columns[k][row]]));
    return Array.from({ length: nRows }, makeRow);
  };

  // Return the Vega configuration for the current theme and width of the window.
  const makeConfig = () => {
    const style = getComputedStyle(document.documentElement);
    const getColor = (name) => style.getPropertyValue(name).trim();
    const isNarrow = innerWidth < 640;
    const text = {
      labelColor: getColor("--ink"), titleColor: getColor("--ink"), labelFontSize: 12, titleFontSize: 12, titleFontWeight: "normal",
    };
    return {
      background: null,
      font: "system-ui, sans-serif",
      view: { stroke: getColor("--line") },
      axis: { ...text, gridColor: getColor("--line"), domainColor: getColor("--soft"), tickColor: getColor("--soft") },
      axisQuantitative: { tickCount: 8 },
      legend: { ...text, orient: "bottom", columns: isNarrow ? 1 : 6, labelLimit: isNarrow ? 240 : 160, symbolLimit: 30, gradientLength: 180 },
      rule: { color: getColor("--ink") },
    };
  };

  const resultByElement = new Map(); // results of vegaEmbed, which own the listeners and timers of a figure
  const drawFigure = async (element) => {
    const slug = element.dataset.figure;
    const { spec, frame, canvas } = figures[slug];
    resultByElement.get(element)?.finalize();
    const fullSpec = { ...spec, datasets: { ...spec.datasets, frame: toRows(frame) } };

    // The label of the element describes the picture, so the picture itself is hidden from screen readers.
    const picture = document.createElement("div");
    picture.setAttribute("aria-hidden", "true");
    element.replaceChildren(picture);

    // Names on the left axis may take this part of the width; longer ones are truncated.
    const labelLimit = element.clientWidth * (element.clientWidth < 640 ? 0.42 : 0.33);
    const limitLabels = (vegaSpec) => {
      for (const axis of vegaSpec.axes ?? []) {
        if (axis.orient === "left" && axis.labels !== false) axis.labelLimit = labelLimit;
      }
      return vegaSpec;
    };

    const result = await vegaEmbed(picture, fullSpec, {
      patch: limitLabels,
      ast: true,
      actions: false,
      renderer: canvas ? "canvas" : "svg",
      defaultStyle: false,
      config: makeConfig(),
      tooltip: { disableDefaultStyle: true },
    });
    picture.removeAttribute("role");
    result.view.addEventListener("click", (_event, item) => {
      const agent = item?.datum?.agent ?? item?.datum?.value;
      if (slug === "ranking" && agent) document.dispatchEvent(new CustomEvent("agent-selected", { detail: agent }));
    });
    resultByElement.set(element, result);
    element.dataset.drawn = document.documentElement.dataset.theme;
  };

  const needsDrawing = (element) => {
    const isHidden = element.closest("[hidden], details:not([open])");
    const isCurrent = element.dataset.drawn === document.documentElement.dataset.theme;
    return !isHidden && !isCurrent && element.dataset.figure in figures;
  };

  const waitUntilIdle = () => new Promise((resolve) => {
    if (window.requestIdleCallback) requestIdleCallback(resolve, { timeout: 100 });
    else setTimeout(resolve);
  });

  const drawNeededFigures = async () => {
    for (const element of document.querySelectorAll("[data-figure]")) {
      if (!needsDrawing(element)) continue;
      await waitUntilIdle();
      try {
        await drawFigure(element);
      } catch (error) {
        element.textContent = `This chart could not be drawn: ${error.message}`;
      }
    }
    document.documentElement.dataset.figures = "done";
  };

  // Calls wait for each other, so that no figure is drawn twice at the same time.
  let lastDrawing = Promise.resolve();
  const scheduleDrawing = () => { lastDrawing = lastDrawing.then(drawNeededFigures); };

  document.addEventListener("theme-changed", scheduleDrawing);
  document.addEventListener("content-shown", scheduleDrawing);
  document.addEventListener("toggle", scheduleDrawing, true); // of a <details> element; it does not bubble
  document.addEventListener("figures-changed", (event) => {
    figures = event.detail;
    for (const element of document.querySelectorAll("[data-drawn]")) delete element.dataset.drawn;
    scheduleDrawing();
  });
  requestAnimationFrame(() => setTimeout(scheduleDrawing));
})();
