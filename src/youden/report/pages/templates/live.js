"use strict";
// Show the progress of a run: poll the viewer, update the page, and open the report when the run is finished.
(() => {
  const live = document.getElementById("live");
  const put = (id, text) => { document.getElementById(id).textContent = text; };
  const count = (n) => n.toLocaleString("en");
  const fixed = (value) => value === null ? "–" : value.toFixed(3);
  const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
  let before = "";
  const show = (state) => {
    const done = state.n_answered + state.n_missing;
    const percent = state.n_trials ? (100 * done) / state.n_trials : 0;
    const bar = live.querySelector(".progress");
    bar.setAttribute("aria-valuenow", percent.toFixed(0));
    bar.firstElementChild.style.width = `${percent}%`;
    put("live-status", `${count(done)} of ${count(state.n_trials)} trials (${percent.toFixed(1)} %)`);
    put("live-state", state.in_progress
      ? "This run is in progress. The page is updated while it runs, and shows the report when it is complete."
      : `No process is judging this run. To resume it, run: ${state.command}`);
    put("live-answered", count(state.n_answered));
    put("live-missing", count(state.n_missing));
    put("live-yes", state.n_answered ? `${count(state.n_yes)} (${((100 * state.n_yes) / state.n_answered).toFixed(1)} %)` : "0");
    put("live-usd", state.usd === null ? "unknown" : `$${state.usd.toFixed(4)}`);
    const text = JSON.stringify(state);
    if (text === before) return;
    before = text;
    const table = document.getElementById("live-ranking"), body = table.tBodies[0];
    table.tHead.querySelectorAll(".more").forEach((cell) => cell.remove());
    table.tHead.rows[0].append(...state.headings.map((heading) => {
      const cell = document.createElement("th");
      cell.scope = "col";
      cell.className = "n wide more";
      cell.textContent = heading;
      return cell;
    }));
    body.replaceChildren(...state.ranking.map((agent) => {
      const row = document.createElement("tr");
      [agent.places, agent.agent, agent.group ?? "–", fixed(agent.ability), fixed(agent.low), fixed(agent.high), ...agent.shown].forEach((value, k) => {
        const cell = document.createElement(k === 1 ? "th" : "td");
        if (k === 1) cell.scope = "row";
        cell.className = ["", "", "wide", "n", "n", "n"][k] ?? "n wide";
        cell.textContent = value;
        row.append(cell);
      });
      return row;
    }));
    put("live-source", state.why_no_ranking ?? `Source: ${state.figures.ranking?.source ?? "the store"}`);
    if (state.figures.ranking) document.dispatchEvent(new CustomEvent("figures", { detail: state.figures }));
  };
  const follow = async () => {
    for (;;) {
      const began = performance.now();
      try {
        const answer = await fetch(`${live.dataset.address}/live`);
        if (!answer.ok) throw new Error(await answer.text());
        const state = await answer.json();
        if (state.done) { location.reload(); return; }
        show(state);
      } catch (error) {
        put("live-status", `The run cannot be followed: ${error.message}`);
      }
      await wait(Math.max(1000, 4 * (performance.now() - began)));
    }
  };
  follow();
})();
