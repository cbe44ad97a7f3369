"use strict";
// Draws the figures, one after the other while the page is idle, and again when the theme changes.
(() => {
  const place = document.getElementById("figure-data");
  if (!place || !window.vegaEmbed) return;
  // Vega finds marks by name in plain objects, where an agent called __proto__ is a name as any other without this.
  delete Object.prototype.__proto__;
  let data = JSON.parse(place.textContent);

  const rows = (frame) => {
    const names = Object.keys(frame);
    const columns = names.map((name) => Array.isArray(frame[name]) ? frame[name] : frame[name].codes.map((code) => frame[name].levels[code]));
    return (columns[0] || []).map((_, k) => Object.fromEntries(names.map((name, c) => [name, columns[c][k]])));
  };
  const config = () => {
    const ink = getComputedStyle(document.documentElement);
    const colour = (name) => ink.getPropertyValue(name).trim();
    const text = { labelColor: colour("--ink"), titleColor: colour("--ink"), labelFontSize: 12, titleFontSize: 12, titleFontWeight: "normal" };
    return {
      background: null, font: "system-ui, sans-serif", view: { stroke: colour("--line") },
      axis: { ...text, gridColor: colour("--line"), domainColor: colour("--soft"), tickColor: colour("--soft") },
      axisQuantitative: { tickCount: 8 },
      legend: { ...text, orient: "bottom", columns: innerWidth < 640 ? 1 : 6, labelLimit: innerWidth < 640 ? 240 : 160, symbolLimit: 30, gradientLength: 180 },
      rule: { color: colour("--ink") },
    };
  };
  const drawn = new Map();
  const draw = async (element) => {
    const { spec, frame, canvas } = data[element.dataset.figure];
    drawn.get(element)?.finalize();
    const whole = { ...spec, datasets: { ...spec.datasets, frame: rows(frame) } };
    // The text of the element describes the picture, so the picture itself is hidden from screen readers.
    const picture = document.createElement("div");
    picture.setAttribute("aria-hidden", "true");
    element.replaceChildren(picture);
    // Names may take a large part of the width, so that they are cut only if there is no space for them.
    const labelLimit = element.clientWidth * (element.clientWidth < 640 ? 0.42 : 0.33);
    const patch = (vega) => {
      for (const axis of vega.axes ?? []) if (axis.orient === "left" && axis.labels !== false) axis.labelLimit = labelLimit;
      return vega;
    };
    const view = await vegaEmbed(picture, whole, {
      patch, ast: true, actions: false, renderer: canvas ? "canvas" : "svg", defaultStyle: false, config: config(),
      tooltip: { disableDefaultStyle: true },
    });
    picture.removeAttribute("role");
    view.view.addEventListener("click", (_event, item) => {
      const pressed = item?.datum?.agent ?? item?.datum?.value;
      if (element.dataset.figure === "ranking" && pressed) document.dispatchEvent(new CustomEvent("pressed", { detail: pressed }));
    });
    drawn.set(element, view);
    element.dataset.drawn = document.documentElement.dataset.theme;
  };
  let running = Promise.resolve();
  const idle = () => new Promise((resolve) => window.requestIdleCallback ? requestIdleCallback(resolve, { timeout: 100 }) : setTimeout(resolve));
  const all = () => {
    running = running.then(async () => {
      for (const element of document.querySelectorAll("[data-figure]")) {
        if (element.closest("[hidden], details:not([open])") || !(element.dataset.figure in data)) continue;
        if (element.dataset.drawn === document.documentElement.dataset.theme) continue;
        await idle();
        try { await draw(element); } catch (error) { element.textContent = `This chart could not be drawn: ${error.message}`; }
      }
      document.documentElement.dataset.figures = "done";
    });
    return running;
  };
  document.addEventListener("theme", all);
  document.addEventListener("shown", all);
  document.addEventListener("toggle", all, true);
  document.addEventListener("figures", (event) => {
    data = event.detail;
    for (const element of document.querySelectorAll("[data-drawn]")) delete element.dataset.drawn;
    all();
  });
  requestAnimationFrame(() => setTimeout(all));
})();
