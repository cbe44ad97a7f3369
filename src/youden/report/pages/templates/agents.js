"use strict";
// Shows the page of an address: the report, the page of an agent (`#/agent/NAME`), or a trial opened over it (`…/trial/ROW`).
(() => {
  const data = JSON.parse(document.getElementById("agent-data").textContent);
  const page = document.getElementById("agent-page");
  const report = document.getElementById("report");
  const title = document.title;
  const place = new Map(data.names.map((name, k) => [name, k]));
  const make = (tag, text, props = {}) => Object.assign(document.createElement(tag), { textContent: text }, props);
  const fixed = (value) => value === null ? "–" : value.toFixed(3);
  const signed = (value) => `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(3)}`;
  const address = (k) => `#/agent/${encodeURIComponent(data.names[k])}`;
  const link = (k) => make("a", data.names[k], { href: address(k) });
  const lines = new Map(data.trials.map((line) => [line[0], Object.fromEntries(data.columns.map((name, c) => [name, line[c]]))]));

  // Text between backticks is code.
  const makeElement = (tag, text) => {
    const box = document.createElement(tag);
    text.split(/`([^`]*)`/).forEach((part, k) => box.append(k % 2 ? make("code", part) : part));
    return box;
  };
  const table = (label, heads, rows) => {
    const made = document.createElement("table");
    const head = made.createTHead().insertRow();
    heads.forEach((text, k) => head.append(make("th", text, { scope: "col", className: k ? "n" : "" })));
    const body = made.createTBody();
    for (const [first, ...rest] of rows) {
      const row = body.insertRow();
      const name = make("th", "", { scope: "row" });
      name.append(first);
      row.append(name, ...rest.map((text) => make("td", text, { className: "n" })));
    }
    const box = document.createElement("div");
    box.append(make("h4", label), made);
    return box;
  };
  const pair = (title, note, tables) => {
    const shown = tables.filter((one) => one !== null);
    if (!shown.length) return [];
    const box = make("div", "", { className: "pair" });
    box.append(...shown);
    return [make("h3", title), make("p", note, { className: "note" }), box];
  };
  const trials = (k) => {
    const rows = data.pages[k].worst;
    if (!rows.length) return [];
    const list = make("ol", "", { className: "worst" });
    for (const row of rows) {
      const line = lines.get(row);
      const other = line.first === k ? line.second : line.first;
      const what = line.other_item === null ? data.items[line.item] : `${data.items[line.item]} and ${data.items[line.other_item]}`;
      const item = document.createElement("li");
      const answer = `answer ${line.hard_answer ? "yes" : "no"} (${line.answer.toFixed(2)})`;
      item.append(make("a", `${answer} to ${data.names[k]} with ${data.names[other]}, ${line.trial_type}, on ${what}`, { href: `${address(k)}/trial/${row}` }));
      list.append(item);
    }
    const all = make("button", `All trials of ${data.names[k]}`, { type: "button" });
    all.addEventListener("click", () => {
      document.dispatchEvent(new CustomEvent("trials-of", { detail: data.names[k] }));
      location.hash = "#trials";
    });
    return [make("h3", "Trials with the largest shortfall"), make("p", "Answers furthest below their prediction from both abilities and the item. Open a trial to read both texts.", { className: "note" }), list, all];
  };
  const draw = (k) => {
    const one = data.pages[k];
    const at = data.order.indexOf(k);
    const ways = make("p", "", { className: "ways" });
    ways.append(make("a", "Back to the ranking", { href: "#who" }));
    if (at > 0) ways.append(make("a", `Above: ${data.names[data.order[at - 1]]}`, { href: address(data.order[at - 1]) }));
    if (at + 1 < data.order.length) ways.append(make("a", `Below: ${data.names[data.order[at + 1]]}`, { href: address(data.order[at + 1]) }));
    const interval = one.low === null ? "without an interval" : `[${fixed(one.low)}, ${fixed(one.high)}]`;
    const facts = make("p", "", { className: "facts" });
    for (const text of [
      `Ranks ${one.places}`, `simultaneous ${one.at_once}`, `ability ${fixed(one.ability)} ${interval}`, one.group === null ? "" : `group ${one.group}`,
      ...one.shown, one.tied === null ? "" : one.tied ? `not significantly different from ${one.tied} other${one.tied > 1 ? "s" : ""}` : "significantly different from all others",
    ]) if (text) facts.append(make("span", text), " ");
    const found = make("ul", "");
    found.append(...one.found.map((text) => makeElement("li", text)));
    const [high, low] = one.partners.map((end, k) => end.length ? table(k ? "Lowest agreement" : "Highest agreement", ["Partner", "TPR − FPR"], end.map(([who, value]) => [link(who), fixed(value)])) : null);
    const [gains, loses] = one.items.map((end, k) => end.length ? table(k ? "Negative residuals" : "Positive residuals", ["Item", "Score", "Residual"], end.map(([what, value, beyond]) => [data.items[what], fixed(value), signed(beyond)])) : null);
    page.replaceChildren(
      ways, make("h2", data.names[k], { id: "agent-name", className: "break", tabIndex: -1 }), facts,
      make("h3", "Findings"), one.found.length ? found : make("p", "No finding names this agent."),
      ...trials(k),
      ...pair("Agreement with other agents", "Mean of both orders over the items on which the two were compared.", [high, low]),
      ...pair("Items with the largest residuals", "Residual: score on the item minus its prediction, ability − difficulty. Single items are noisy.", [gains, loses]),
    );
  };
  let shown = null;
  let top = 0;
  const read = () => {
    const named = /^#\/agent\/([^/]+)(?:\/trial\/\d+)?$/.exec(location.hash);
    let k;
    try { k = named ? place.get(decodeURIComponent(named[1])) : undefined; } catch { k = undefined; }
    if (k === undefined) {
      const was = shown;
      shown = null;
      page.hidden = true;
      report.hidden = false;
      document.title = title;
      document.dispatchEvent(new CustomEvent("shown"));
      const anchor = location.hash.length > 1 && document.getElementById(location.hash.slice(1));
      if (was !== null && anchor) anchor.scrollIntoView();
      else if (was !== null) scrollTo(0, top);
      return;
    }
    if (k === shown) return;
    if (shown === null) top = scrollY;
    shown = k;
    draw(k);
    report.hidden = true;
    page.hidden = false;
    document.title = `${data.names[k]} – ${title}`;
    scrollTo(0, 0);
    document.getElementById("agent-name").focus({ preventScroll: true });
  };
  addEventListener("hashchange", read);
  document.addEventListener("pressed", (event) => { if (place.has(event.detail)) location.hash = address(place.get(event.detail)); });
  for (const entry of document.querySelectorAll("nav a")) entry.addEventListener("click", () => { if (shown !== null && location.hash === entry.hash) read(); });
  read();
})();
