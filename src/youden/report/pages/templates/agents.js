"use strict";
// Show the part of the page that the address selects: the report, or the page of an agent (`#/agent/NAME`).
// An address that ends with `/trial/ROW` also opens a trial, which trials.js shows.
(() => {
  const data = JSON.parse(document.getElementById("agent-data").textContent);
  const page = document.getElementById("agent-page");
  const report = document.getElementById("report");
  const reportTitle = document.title;
  const positionByName = new Map(data.names.map((name, position) => [name, position]));

  const toTrial = (values) => Object.fromEntries(data.columns.map((name, k) => [name, values[k]]));
  const trialByRow = new Map(data.trials.map((values) => [values[0], toTrial(values)]));

  const makeElement = (tag, text, properties = {}) => Object.assign(document.createElement(tag), { textContent: text }, properties);
  const formatDecimal = (number) => number === null ? "–" : number.toFixed(3);
  const formatSigned = (number) => `${number < 0 ? "−" : "+"}${Math.abs(number).toFixed(3)}`;
  const getAddress = (agent) => `#/agent/${encodeURIComponent(data.names[agent])}`;
  const makeAgentLink = (agent) => makeElement("a", data.names[agent], { href: getAddress(agent) });

  // Make an element from a text, in which the parts between backticks are code.
  const makeElementWithCode = (tag, text) => {
    const element = document.createElement(tag);
    text.split(/`([^`]*)`/).forEach((part, k) => {
      const isCode = k % 2 === 1;
      element.append(isCode ? makeElement("code", part) : part);
    });
    return element;
  };

  // Make a table with a caption. The first cell of each row names the row; the others are numbers.
  const makeTable = (caption, headings, rows) => {
    const table = document.createElement("table");
    const headRow = table.createTHead().insertRow();
    headings.forEach((heading, k) => headRow.append(makeElement("th", heading, { scope: "col", className: k ? "n" : "" })));

    const body = table.createTBody();
    for (const [name, ...numbers] of rows) {
      const row = body.insertRow();
      const nameCell = makeElement("th", "", { scope: "row" });
      nameCell.append(name);
      row.append(nameCell, ...numbers.map((number) => makeElement("td", number, { className: "n" })));
    }

    const box = document.createElement("div");
    box.append(makeElement("h4", caption), table);
    return box;
  };

  // Place tables side by side below a heading and a note. A table without rows is null and is left out.
  const makeTablePair = (heading, note, tablesOrNulls) => {
    const tables = tablesOrNulls.filter((table) => table !== null);
    if (!tables.length) return [];
    const pair = makeElement("div", "", { className: "pair" });
    pair.append(...tables);
    return [makeElement("h3", heading), makeElement("p", note, { className: "note" }), pair];
  };

  const makePartnerTable = (caption, partners) => {
    if (!partners.length) return null;
    const rows = partners.map(([partner, agreement]) => [makeAgentLink(partner), formatDecimal(agreement)]);
    return makeTable(caption, ["Partner", "TPR − FPR"], rows);
  };

  const makeItemTable = (caption, items) => {
    if (!items.length) return null;
    const rows = items.map(([item, score, residual]) => [data.items[item], formatDecimal(score), formatSigned(residual)]);
    return makeTable(caption, ["Item", "Score", "Residual"], rows);
  };

  // List the trials with the largest shortfall, and add a button that filters the table of trials by the agent.
  const makeTrialList = (agent) => {
    const rows = data.pages[agent].worst_trials;
    if (!rows.length) return [];

    const list = makeElement("ol", "", { className: "worst" });
    for (const row of rows) {
      const trial = trialByRow.get(row);
      const partner = trial.first === agent ? trial.second : trial.first;
      const items = [trial.item, trial.other_item].filter((item) => item !== null).map((item) => data.items[item]).join(" and ");
      const answer = `answer ${trial.hard_answer ? "yes" : "no"} (${trial.answer.toFixed(2)})`;
      const label = `${answer} to ${data.names[agent]} with ${data.names[partner]}, ${trial.trial_type}, on ${items}`;
      const entry = document.createElement("li");
      entry.append(makeElement("a", label, { href: `${getAddress(agent)}/trial/${row}` }));
      list.append(entry);
    }

    const allButton = makeElement("button", `All trials of ${data.names[agent]}`, { type: "button" });
    allButton.addEventListener("click", () => {
      document.dispatchEvent(new CustomEvent("filter-by-agent", { detail: data.names[agent] }));
      location.hash = "#trials";
    });
    const note = "Answers furthest below their prediction from both abilities and the item. Open a trial to read both texts.";
    return [makeElement("h3", "Trials with the largest shortfall"), makeElement("p", note, { className: "note" }), list, allButton];
  };

  // Link to the ranking and to the agents one rank above and below.
  const makeNavigation = (agent) => {
    const navigation = makeElement("p", "", { className: "agent-links" });
    navigation.append(makeElement("a", "Back to the ranking", { href: "#who" }));
    const index = data.order.indexOf(agent);
    const above = data.order[index - 1];
    const below = data.order[index + 1];
    if (above !== undefined) navigation.append(makeElement("a", `Above: ${data.names[above]}`, { href: getAddress(above) }));
    if (below !== undefined) navigation.append(makeElement("a", `Below: ${data.names[below]}`, { href: getAddress(below) }));
    return navigation;
  };

  const formatTied = (nTied) => {
    if (nTied === null) return "";
    if (nTied === 0) return "significantly different from all others";
    return `not significantly different from ${nTied} other${nTied > 1 ? "s" : ""}`;
  };

  const makeFacts = (details) => {
    const interval = details.low === null ? "without an interval" : `[${formatDecimal(details.low)}, ${formatDecimal(details.high)}]`;
    const ranks = data.order.length > 1 ? [`Ranks ${details.ranks}`, `simultaneous ${details.simultaneous_ranks}`] : [];
    const texts = [
      ...ranks,
      `ability ${formatDecimal(details.ability)} ${interval}`,
      details.group === null ? "" : `group ${details.group}`,
      ...details.extra_columns,
      formatTied(details.n_tied),
    ];
    const facts = makeElement("p", "", { className: "facts" });
    for (const text of texts) if (text) facts.append(makeElement("span", text), " ");
    return facts;
  };

  const makeFindings = (findings) => {
    if (!findings.length) return makeElement("p", "No finding names this agent.");
    const list = makeElement("ul", "");
    list.append(...findings.map((finding) => makeElementWithCode("li", finding)));
    return list;
  };

  const renderAgent = (agent) => {
    const details = data.pages[agent];
    const [highPartners, lowPartners] = details.partners;
    const [positiveItems, negativeItems] = details.items;
    page.replaceChildren(
      makeNavigation(agent),
      makeElement("h2", data.names[agent], { id: "agent-name", className: "break", tabIndex: -1 }),
      makeFacts(details),
      makeElement("h3", "Findings"),
      makeFindings(details.findings),
      ...makeTrialList(agent),
      ...makeTablePair(
        "Agreement with other agents",
        "Mean of both orders over the items on which the two were compared.",
        [makePartnerTable("Highest agreement", highPartners), makePartnerTable("Lowest agreement", lowPartners)],
      ),
      ...makeTablePair(
        "Items with the largest residuals",
        "Residual: score on the item minus its prediction, ability − difficulty. Single items are noisy.",
        [makeItemTable("Positive residuals", positiveItems), makeItemTable("Negative residuals", negativeItems)],
      ),
    );
  };

  // Return the position of the agent that the address names; undefined if it names none.
  const parseAgent = () => {
    const match = /^#\/agent\/([^/]+)(?:\/trial\/\d+)?$/.exec(location.hash);
    if (!match) return undefined;
    try {
      return positionByName.get(decodeURIComponent(match[1]));
    } catch {
      return undefined; // the address contains a malformed escape
    }
  };

  let currentAgent = null; // null while the report is visible
  let reportScroll = 0; // scroll position of the report before an agent was opened

  const showReport = () => {
    const wasOnAgentPage = currentAgent !== null;
    currentAgent = null;
    page.hidden = true;
    report.hidden = false;
    document.title = reportTitle;
    document.dispatchEvent(new CustomEvent("content-shown"));
    if (!wasOnAgentPage) return;
    const target = location.hash.length > 1 && document.getElementById(location.hash.slice(1));
    if (target) target.scrollIntoView();
    else scrollTo(0, reportScroll);
  };

  const showAgent = (agent) => {
    if (agent === currentAgent) return;
    if (currentAgent === null) reportScroll = scrollY;
    currentAgent = agent;
    renderAgent(agent);
    report.hidden = true;
    page.hidden = false;
    document.title = `${data.names[agent]} – ${reportTitle}`;
    scrollTo(0, 0);
    document.getElementById("agent-name").focus({ preventScroll: true });
  };

  const showCurrentAddress = () => {
    const agent = parseAgent();
    if (agent === undefined) showReport();
    else showAgent(agent);
  };

  addEventListener("hashchange", showCurrentAddress);
  document.addEventListener("agent-selected", (event) => {
    const agent = positionByName.get(event.detail);
    if (agent !== undefined) location.hash = getAddress(agent);
  });
  // A link to the section that is already in the address does not fire hashchange.
  for (const link of document.querySelectorAll("nav a")) {
    link.addEventListener("click", () => { if (currentAgent !== null && location.hash === link.hash) showCurrentAddress(); });
  }
  showCurrentAddress();
})();
