"use strict";
// Show the progress of a run: poll the viewer, update the page, and open the report when the run is finished.
(() => {
  const section = document.getElementById("live");
  const setText = (id, text) => { document.getElementById(id).textContent = text; };
  const formatCount = (n) => n.toLocaleString("en");
  const formatDecimal = (number) => number === null ? "–" : number.toFixed(3);
  const wait = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

  const makeCell = (tag, text, className) => Object.assign(document.createElement(tag), { textContent: text, className });

  const makeHeading = (heading) => Object.assign(makeCell("th", heading, "n wide extra"), { scope: "col" });

  const makeAgentRow = (agent) => {
    const name = Object.assign(makeCell("th", agent.agent, ""), { scope: "row" });
    const row = document.createElement("tr");
    row.append(
      makeCell("td", agent.ranks, ""),
      name,
      makeCell("td", agent.group ?? "–", "wide"),
      makeCell("td", formatDecimal(agent.ability), "n"),
      makeCell("td", formatDecimal(agent.low), "n"),
      makeCell("td", formatDecimal(agent.high), "n"),
      ...agent.extra_columns.map((text) => makeCell("td", text, "n wide")),
    );
    return row;
  };

  const showProgress = (state) => {
    const nDone = state.n_answered + state.n_missing;
    const percentDone = state.n_trials ? (100 * nDone) / state.n_trials : 0;
    const bar = section.querySelector(".progress");
    bar.setAttribute("aria-valuenow", percentDone.toFixed(0));
    bar.firstElementChild.style.width = `${percentDone}%`;
    setText("live-status", `${formatCount(nDone)} of ${formatCount(state.n_trials)} trials (${percentDone.toFixed(1)}%)`);
    setText("live-state", state.in_progress
      ? "This run is in progress. The page is updated while it runs, and shows the report when it is complete."
      : `No process is judging this run. To resume it, run: ${state.command}`);

    const percentYes = (100 * state.n_yes) / state.n_answered;
    setText("live-answered", formatCount(state.n_answered));
    setText("live-missing", formatCount(state.n_missing));
    setText("live-yes", state.n_answered ? `${formatCount(state.n_yes)} (${percentYes.toFixed(1)}%)` : "0");
    setText("live-usd", state.usd === null ? "unknown" : `$${state.usd.toFixed(4)}`);
  };

  const showRanking = (state) => {
    const table = document.getElementById("live-ranking");
    table.tHead.querySelectorAll(".extra").forEach((cell) => cell.remove());
    table.tHead.rows[0].append(...state.headings.map(makeHeading));
    table.tBodies[0].replaceChildren(...state.ranking.map(makeAgentRow));
    setText("live-source", state.why_no_ranking ?? `Source: ${state.figures.ranking?.source ?? "the store"}`);
    if (state.figures.ranking) document.dispatchEvent(new CustomEvent("figures-changed", { detail: state.figures }));
  };

  const poll = async () => {
    let previousState = "";
    for (;;) {
      const start = performance.now();
      try {
        const response = await fetch(`${section.dataset.address}/live`);
        if (!response.ok) throw new Error(await response.text());
        const state = await response.json();
        if (state.done) { location.reload(); return; }
        showProgress(state);

        // The ranking is drawn again only if something changed.
        const currentState = JSON.stringify(state);
        if (currentState !== previousState) {
          previousState = currentState;
          showRanking(state);
        }
      } catch (error) {
        setText("live-status", `The run cannot be followed: ${error.message}`);
      }
      // A request takes at most a fifth of the time, so that a large run does not occupy the viewer.
      await wait(Math.max(1000, 4 * (performance.now() - start)));
    }
  };
  poll();
})();
