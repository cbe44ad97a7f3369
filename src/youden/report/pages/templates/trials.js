"use strict";
// The table of trials, from the page's own sample or page by page from the viewer, and one trial opened.
(() => {
  const filters = document.getElementById("trial-filters");
  if (!filters) return;
  const SIZE = 10;
  const live = filters.dataset.live;
  const data = JSON.parse(document.getElementById("trial-data").textContent);
  const table = document.getElementById("trial-table");
  const dialog = document.getElementById("trial");
  document.getElementById("main").append(dialog);
  const state = { page: 0, by: "kind", down: false, serial: 0 };
  const make = (tag, text, props = {}) => Object.assign(document.createElement(tag), { textContent: text }, props);
  const agent = (k) => data.agents[k];
  const item = (line) => line.other_item === null ? data.items[line.item] : `${data.items[line.item]} / ${data.items[line.other_item]}`;
  const percent = (value) => value === null ? "–" : value.toFixed(2);

  const local = data.lines.map((line, k) => ({ ...Object.fromEntries(data.columns.map((name, c) => [name, line[c]])), k }));
  const kinds = [...filters.elements.kind.options].map((option) => option.value);
  const columns = [["kind", "Kind"], ["item", "Item"], ["first", "Read first"], ["second", "Read second"], ["trial_type", "Trial type"], ["answer", "Answer"]];
  if ("against" in filters.dataset) columns.push(["against", "Other judge"]);

  const sortable = {
    kind: (line) => kinds.indexOf(line.kind), item, first: (line) => agent(line.first), second: (line) => agent(line.second),
  };
  const wanted = () => Object.fromEntries([...new FormData(filters)].filter(([, text]) => text !== ""));
  const lower = new Map();
  const holds = (text, words) => {
    if (text === null) return false;
    if (!lower.has(text)) lower.set(text, text.toLowerCase());
    return lower.get(text).includes(words);
  };
  const textAt = (k) => k < 0 ? null : data.texts[k];
  const speaksOf = (line, words) => [agent(line.first), agent(line.second), item(line), textAt(data.first[line.k]), textAt(data.second[line.k])]
    .some((text) => holds(text, words));
  // The name equal to the text, or else all names that contain it; null selects all.
  const named = (names, text) => {
    const words = (text ?? "").trim().toLowerCase();
    if (!words) return null;
    const shown = Object.entries(names).map(([k, name]) => [+k, name.toLowerCase()]);
    const exact = shown.filter(([, name]) => name === words);
    return new Set((exact.length ? exact : shown.filter(([, name]) => name.includes(words))).map(([k]) => k));
  };
  const fits = (line, want) =>
    (!want.agents || want.agents.has(line.first) || want.agents.has(line.second)) &&
    (!want.items || want.items.has(line.item) || want.items.has(line.other_item)) &&
    (!want.trial_type || line.trial_type === want.trial_type) && (!want.kind || line.kind === want.kind) &&
    (!want.text || speaksOf(line, want.text.trim().toLowerCase())) &&
    (!want.answer || (want.answer === "missing" ? line.hard_answer === null : line.hard_answer === (want.answer === "yes")));
  const order = (a, b) => {
    const [one, two] = [a, b].map(sortable[state.by] ?? ((line) => line[state.by]));
    if (one === two) return 0;
    if (one === null) return 1;
    if (two === null) return -1;
    return (one < two ? -1 : 1) * (state.down ? -1 : 1);
  };
  const ask = async () => {
    const want = wanted();
    if (!live) {
      Object.assign(want, { agents: named(data.agents, want.agent), items: named(data.items, want.item) });
      const lines = local.filter((line) => fits(line, want)).sort(order);
      return { total: lines.length, lines: lines.slice(state.page * SIZE, (state.page + 1) * SIZE) };
    }
    const address = new URL(live, location);
    for (const [name, text] of Object.entries({ ...want, page: state.page, by: state.by, descending: state.down })) address.searchParams.set(name, text);
    const answer = await fetch(address);
    if (!answer.ok) throw new Error(await answer.text());
    return addNames(await answer.json());
  };
  // The viewer sends the names of the agents and items in its reply.
  const addNames = (reply) => {
    Object.assign(data.agents, reply.agents);
    Object.assign(data.items, reply.items);
    return reply;
  };
  const offer = async (kind) => {
    const list = document.getElementById(`known-${kind}`);
    const field = filters.elements.namedItem(kind); // elements.item is a function
    const like = field.value;
    let names = Object.values(kind === "agent" ? data.agents : data.items);
    if (live) {
      const address = new URL(live.split("?")[0].replace(/trials$/, "names"), location);
      for (const [name, text] of Object.entries({ kind, like })) address.searchParams.set(name, text);
      const answer = await fetch(address);
      if (!answer.ok || like !== field.value) return;
      names = await answer.json();
    }
    list.replaceChildren(...names.map((name) => make("option", "", { value: name })));
  };
  const row = (line) => {
    const tr = document.createElement("tr");
    const answer = line.hard_answer === null ? line.missing_reason : `${line.hard_answer ? "yes" : "no"} (${percent(line.answer)})`;
    const texts = [null, item(line), agent(line.first), agent(line.second), line.trial_type, answer];
    if (columns.length > 6) texts.push(line.against === null ? "–" : line.against ? "yes" : "no");
    texts.forEach((text, c) => {
      if (c > 0) return tr.append(make("td", text, { className: c < 4 ? "name" : "" }));
      const open = make("button", line.kind, { type: "button" });
      open.setAttribute("aria-label", `Open trial ${line.row}: ${line.kind}`);
      open.addEventListener("click", () => {
        location.hash = `${location.hash.startsWith("#/agent/") ? location.hash : "#"}/trial/${line.row}`;
      });
      const cell = document.createElement("td");
      cell.append(open);
      return tr.append(cell);
    });
    return tr;
  };
  const draw = async () => {
    const serial = ++state.serial;
    const where = document.getElementById("trials-where");
    let found;
    try { found = await ask(); } catch (error) { where.textContent = `The trials could not be read: ${error.message}`; return; }
    if (serial !== state.serial) return;
    table.tBodies[0].replaceChildren(...found.lines.map(row));
    const first = state.page * SIZE;
    where.textContent = found.total ? `${(first + 1).toLocaleString("en")}–${(first + found.lines.length).toLocaleString("en")} of ${found.total.toLocaleString("en")}` : "No trial fits.";
    document.getElementById("trials-back").disabled = state.page === 0;
    document.getElementById("trials-on").disabled = first + SIZE >= found.total;
    for (const head of table.tHead.rows[0].cells) {
      if (head.dataset.by === state.by) head.setAttribute("aria-sort", state.down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    }
  };
  for (const [name, label] of columns) {
    const head = make("th", "", { scope: "col" });
    head.dataset.by = name;
    const press = make("button", label, { type: "button" });
    if (name === "against") head.textContent = label;
    else head.append(press);
    press.addEventListener("click", () => {
      state.down = state.by === name && !state.down;
      Object.assign(state, { by: name, page: 0 });
      draw();
    });
    table.tHead.rows[0].append(head);
  }
  const drawFirstPage = () => { state.page = 0; draw(); };
  let waiting = 0;
  const soon = (act) => { clearTimeout(waiting); waiting = setTimeout(act, live ? 250 : 60); };
  filters.addEventListener("change", (event) => { if (event.target.type !== "search") drawFirstPage(); });
  filters.addEventListener("input", ({ target: { name, type } }) => {
    if (type === "search") soon(() => { drawFirstPage(); if (live && name !== "text") offer(name); });
  });
  ["agent", "item"].forEach(offer);
  filters.addEventListener("submit", (event) => event.preventDefault());
  document.getElementById("trials-back").addEventListener("click", () => { state.page -= 1; draw(); });
  document.getElementById("trials-on").addEventListener("click", () => { state.page += 1; draw(); });
  document.addEventListener("trials-of", (event) => {
    filters.reset();
    filters.elements.agent.value = event.detail;
    drawFirstPage();
  });

  // Words as the browser's own segmenter cuts them; short Latin words stand in every text and are not marked.
  const cutter = new Intl.Segmenter(undefined, { granularity: "word" });
  const key = (part) => part.isWordLike && !/^\p{Script=Latin}{1,3}$/u.test(part.segment) ? part.segment.normalize("NFKC").toLowerCase() : null;
  const marked = (text, others) => {
    const box = make("div", "", { className: "text", tabIndex: 0, dir: "auto" });
    box.setAttribute("role", "group");
    if (text === null) { box.textContent = "(the text is not available)"; return box; }
    let plain = "";
    for (const part of cutter.segment(text)) {
      if (!others.has(key(part))) { plain += part.segment; continue; }
      box.append(plain, make("mark", part.segment));
      plain = "";
    }
    box.append(plain);
    return box;
  };
  const words = (text) => new Set([...cutter.segment(text ?? "")].map(key).filter(Boolean));
  const detail = async (row) => {
    if (live) {
      const address = new URL(`${live.split("?")[0]}/${row}`, location);
      address.search = new URL(live, location).search;
      const answer = await fetch(address);
      return answer.ok ? addNames(await answer.json()) : null;
    }
    const line = local.find((one) => one.row === row);
    return line ? { line, first: textAt(data.first[line.k]), second: textAt(data.second[line.k]), raw: data.raw[line.k], prompt: data.prompt } : null;
  };
  const shut = (head) => {
    const close = make("button", "Close", { type: "button" });
    close.addEventListener("click", () => dialog.close());
    head.append(close);
  };
  const show = async (row) => {
    const opened = await detail(row);
    if (opened === null) {
      const head = make("div", "", { className: "dialog-head" });
      head.append(make("h3", `Trial ${row}`, { id: "trial-title" }));
      shut(head);
      dialog.replaceChildren(head, make("p", live ? "There is no such trial." : "This file contains a sample of the trials, without this one. youden view shows all."));
      if (!dialog.open) dialog.showModal();
      return;
    }
    const { line } = opened;
    const head = make("div", "", { className: "dialog-head" });
    head.append(make("h3", `Trial ${line.row}: ${line.kind}`, { id: "trial-title" }));
    shut(head);
    const answer = line.hard_answer === null ? `no answer: ${line.missing_reason}` : `${line.hard_answer ? "yes" : "no"}, ${percent(line.answer)} for “same source”`;
    const parts = [head, make("p", `${line.trial_type}; the judge answers ${answer}${line.against === null ? "" : `; the other judge answers ${line.against ? "yes" : "no"}`}.`)];
    const pair = make("div", "", { className: "pair" });
    const sides = [["first", line.first, line.item, line.first_repeat], ["second", line.second, line.other_item ?? line.item, line.second_repeat]];
    sides.forEach(([side, who, what, repeat]) => {
      const column = document.createElement("div");
      const text = marked(opened[side], words(opened[side === "first" ? "second" : "first"]));
      text.setAttribute("aria-label", `Text read ${side}`);
      column.append(make("h4", `Read ${side}: ${agent(who)} on ${data.items[what]}${repeat ? `, repeat ${repeat}` : ""}`, { className: "break" }), text);
      pair.append(column);
    });
    parts.push(pair);
    if (opened.raw) {
      const { text, refusal, top, model, finish_reason: reason, tokens_in: into, tokens_out: out, seconds } = opened.raw;
      parts.push(make("h4", "The judge's raw answer"), make("div", text || "(empty)", { className: "text", dir: "auto" }));
      if (refusal) parts.push(make("p", `Refusal: ${refusal}`));
      if (top.length) parts.push(make("p", `First token: ${top.map(([token, p]) => `${JSON.stringify(token)} ${(100 * p).toFixed(1)} %`).join(", ")}`));
      parts.push(make("p", `${model}, ended by ${reason}, ${into} tokens in, ${out} out, ${seconds.toFixed(2)} s`, { className: "note break" }));
    }
    if (opened.prompt) {
      const more = document.createElement("details");
      more.append(make("summary", "The prompt"));
      if (opened.prompt.system) more.append(make("div", opened.prompt.system, { className: "text" }));
      more.append(make("div", opened.prompt.template, { className: "text" }));
      parts.push(more);
    }
    dialog.replaceChildren(...parts);
    if (!dialog.open) dialog.showModal();
  };
  // The address of a trial is added to the history, so that the Back button closes it.
  let entered = false;
  const OPENED = /\/trial\/(\d+)$/;
  const read = () => {
    const named = OPENED.exec(location.hash);
    if (named) show(Number(named[1]));
    else if (dialog.open) dialog.close();
  };
  dialog.addEventListener("close", () => {
    if (!OPENED.test(location.hash)) return;
    if (entered) history.back();
    else location.replace(location.hash.replace(OPENED, "") === "#" ? "#trials" : location.hash.replace(OPENED, ""));
    entered = false;
  });
  addEventListener("hashchange", (event) => { entered ||= !OPENED.test(event.oldURL); read(); });
  read();
  draw();
})();
