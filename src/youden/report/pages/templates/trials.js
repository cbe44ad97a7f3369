"use strict";
// Show the table of trials and one opened trial. The trials come from the sample in the page, or page by page from the viewer.
(() => {
  const filters = document.getElementById("trial-filters");
  if (!filters) return;
  const PAGE_SIZE = 10;
  const viewerAddress = filters.dataset.live; // undefined in a file, which contains a sample
  const hasOtherJudge = "against" in filters.dataset;
  const data = JSON.parse(document.getElementById("trial-data").textContent);
  const table = document.getElementById("trial-table");
  const dialog = document.getElementById("trial");
  document.getElementById("main").append(dialog);
  const state = { page: 0, sortColumn: "kind", isDescending: false, requestNumber: 0 };

  const makeElement = (tag, text, properties = {}) => Object.assign(document.createElement(tag), { textContent: text }, properties);
  const formatCount = (n) => n.toLocaleString("en");
  const formatAnswer = (answer) => answer === null ? "–" : answer.toFixed(2);
  const formatYesNo = (isYes) => isYes ? "yes" : "no";
  const getAgentName = (position) => data.agents[position];
  const getItemNames = (trial) =>
    trial.other_item === null ? data.items[trial.item] : `${data.items[trial.item]} / ${data.items[trial.other_item]}`;

  // The sample: objects with the columns of a trial, and `index`, its position in `data.first` and `data.second`.
  const toTrial = (values, index) => ({ ...Object.fromEntries(data.columns.map((name, k) => [name, values[k]])), index });
  const sample = data.lines.map(toTrial);
  const getSampleText = (position) => position < 0 ? null : data.texts[position];

  // Filtering of the sample. The viewer filters by itself.
  const readFilters = () => Object.fromEntries([...new FormData(filters)].filter(([, text]) => text !== ""));

  const lowerCaseTexts = new Map(); // cache: text → text in lower case
  const containsPhrase = (text, phrase) => {
    if (text === null) return false;
    if (!lowerCaseTexts.has(text)) lowerCaseTexts.set(text, text.toLowerCase());
    return lowerCaseTexts.get(text).includes(phrase);
  };

  const mentionsPhrase = (trial, phrase) => {
    const names = [getAgentName(trial.first), getAgentName(trial.second), getItemNames(trial)];
    const texts = [getSampleText(data.first[trial.index]), getSampleText(data.second[trial.index])];
    return [...names, ...texts].some((text) => containsPhrase(text, phrase));
  };

  // Return the positions of the name that equals the text, or else of all names that contain it; null if the text is empty.
  const findNames = (nameByPosition, text) => {
    const phrase = (text ?? "").trim().toLowerCase();
    if (!phrase) return null;
    const entries = Object.entries(nameByPosition).map(([position, name]) => [Number(position), name.toLowerCase()]);
    const equal = entries.filter(([, name]) => name === phrase);
    const matching = equal.length ? equal : entries.filter(([, name]) => name.includes(phrase));
    return new Set(matching.map(([position]) => position));
  };

  const hasAnswer = (trial, answer) =>
    answer === "missing" ? trial.hard_answer === null : trial.hard_answer === (answer === "yes");

  const selectFromSample = (criteria) => {
    const agents = findNames(data.agents, criteria.agent);
    const items = findNames(data.items, criteria.item);
    const phrase = criteria.text?.trim().toLowerCase();
    return sample.filter((trial) =>
      (!agents || agents.has(trial.first) || agents.has(trial.second)) &&
      (!items || items.has(trial.item) || items.has(trial.other_item)) &&
      (!criteria.trial_type || trial.trial_type === criteria.trial_type) &&
      (!criteria.kind || trial.kind === criteria.kind) &&
      (!criteria.text || mentionsPhrase(trial, phrase)) &&
      (!criteria.answer || hasAnswer(trial, criteria.answer)));
  };

  // Sorting of the sample. Kinds are in the order of the filter; missing values come last in both directions.
  const kinds = [...filters.elements.kind.options].map((option) => option.value);
  const sortKeys = {
    kind: (trial) => kinds.indexOf(trial.kind),
    item: getItemNames,
    first: (trial) => getAgentName(trial.first),
    second: (trial) => getAgentName(trial.second),
  };
  const compareTrials = (firstTrial, secondTrial) => {
    const getKey = sortKeys[state.sortColumn] ?? ((trial) => trial[state.sortColumn]);
    const a = getKey(firstTrial);
    const b = getKey(secondTrial);
    if (a === b) return 0;
    if (a === null) return 1;
    if (b === null) return -1;
    const order = a < b ? -1 : 1;
    return state.isDescending ? -order : order;
  };

  // The viewer sends the names of agents and items with each reply.
  const addNames = (reply) => {
    Object.assign(data.agents, reply.agents);
    Object.assign(data.items, reply.items);
    return reply;
  };
  const addParameters = (address, parameters) => {
    for (const [name, value] of Object.entries(parameters)) address.searchParams.set(name, value);
  };

  // Return `total`, the number of trials that pass the filters, and `lines`, those of the current page.
  const loadPage = async () => {
    const criteria = readFilters();
    if (!viewerAddress) {
      const trials = selectFromSample(criteria).sort(compareTrials);
      const start = state.page * PAGE_SIZE;
      return { total: trials.length, lines: trials.slice(start, start + PAGE_SIZE) };
    }
    const address = new URL(viewerAddress, location);
    addParameters(address, { ...criteria, page: state.page, by: state.sortColumn, descending: state.isDescending });
    const response = await fetch(address);
    if (!response.ok) throw new Error(await response.text());
    return addNames(await response.json());
  };

  // Fill the suggestions of the search field for agents or items (`kind`).
  const updateSuggestions = async (kind) => {
    const suggestions = document.getElementById(`known-${kind}`);
    const field = filters.elements.namedItem(kind); // not elements.item, which is a function
    const text = field.value;
    let names = Object.values(kind === "agent" ? data.agents : data.items);
    if (viewerAddress) {
      const address = new URL(viewerAddress.split("?")[0].replace(/trials$/, "names"), location);
      addParameters(address, { kind, like: text });
      const response = await fetch(address);
      const isOutdated = text !== field.value;
      if (!response.ok || isOutdated) return;
      names = await response.json();
    }
    suggestions.replaceChildren(...names.map((name) => makeElement("option", "", { value: name })));
  };

  // The table
  const columns = [
    ["kind", "Kind"], ["item", "Item"], ["first", "Read first"], ["second", "Read second"], ["trial_type", "Trial type"], ["answer", "Answer"],
  ];
  if (hasOtherJudge) columns.push(["against", "Other judge"]);

  const makeOpenButton = (trial) => {
    const button = makeElement("button", trial.kind, { type: "button" });
    button.setAttribute("aria-label", `Open trial ${trial.row}: ${trial.kind}`);
    button.addEventListener("click", () => {
      const base = location.hash.startsWith("#/agent/") ? location.hash : "#";
      location.hash = `${base}/trial/${trial.row}`;
    });
    return button;
  };

  const makeRow = (trial) => {
    const openCell = document.createElement("td");
    openCell.append(makeOpenButton(trial));

    const names = [getItemNames(trial), getAgentName(trial.first), getAgentName(trial.second)];
    const isMissing = trial.hard_answer === null;
    const answer = isMissing ? trial.missing_reason : `${formatYesNo(trial.hard_answer)} (${formatAnswer(trial.answer)})`;
    const texts = [trial.trial_type, answer];
    if (hasOtherJudge) texts.push(trial.against === null ? "–" : formatYesNo(trial.against));

    const row = document.createElement("tr");
    row.append(
      openCell,
      ...names.map((name) => makeElement("td", name, { className: "name" })),
      ...texts.map((text) => makeElement("td", text, { className: "" })),
    );
    return row;
  };

  const showPage = async () => {
    state.requestNumber += 1;
    const requestNumber = state.requestNumber;
    const status = document.getElementById("trials-where");
    let loaded;
    try {
      loaded = await loadPage();
    } catch (error) {
      status.textContent = `The trials could not be read: ${error.message}`;
      return;
    }
    const isOutdated = requestNumber !== state.requestNumber;
    if (isOutdated) return;

    table.tBodies[0].replaceChildren(...loaded.lines.map(makeRow));
    const start = state.page * PAGE_SIZE;
    const end = start + loaded.lines.length;
    status.textContent = loaded.total ? `${formatCount(start + 1)}–${formatCount(end)} of ${formatCount(loaded.total)}` : "No trial fits.";
    document.getElementById("trials-back").disabled = state.page === 0;
    document.getElementById("trials-on").disabled = start + PAGE_SIZE >= loaded.total;
    for (const heading of table.tHead.rows[0].cells) {
      if (heading.dataset.by === state.sortColumn) heading.setAttribute("aria-sort", state.isDescending ? "descending" : "ascending");
      else heading.removeAttribute("aria-sort");
    }
  };
  const showFirstPage = () => { state.page = 0; showPage(); };

  for (const [name, label] of columns) {
    const heading = makeElement("th", "", { scope: "col" });
    heading.dataset.by = name;
    const isSortable = name !== "against";
    if (isSortable) {
      const button = makeElement("button", label, { type: "button" });
      button.addEventListener("click", () => {
        state.isDescending = state.sortColumn === name && !state.isDescending;
        state.sortColumn = name;
        showFirstPage();
      });
      heading.append(button);
    } else {
      heading.textContent = label;
    }
    table.tHead.rows[0].append(heading);
  }

  // A search starts after a pause in typing, so that the viewer does not get a request per key.
  const TYPING_PAUSE = viewerAddress ? 250 : 60; // milliseconds
  let timer = 0;
  const runAfterPause = (action) => {
    clearTimeout(timer);
    timer = setTimeout(action, TYPING_PAUSE);
  };
  filters.addEventListener("change", (event) => { if (event.target.type !== "search") showFirstPage(); });
  filters.addEventListener("input", ({ target: { name, type } }) => {
    if (type !== "search") return;
    runAfterPause(() => {
      showFirstPage();
      if (viewerAddress && name !== "text") updateSuggestions(name);
    });
  });
  ["agent", "item"].forEach(updateSuggestions);
  filters.addEventListener("submit", (event) => event.preventDefault());
  document.getElementById("trials-back").addEventListener("click", () => { state.page -= 1; showPage(); });
  document.getElementById("trials-on").addEventListener("click", () => { state.page += 1; showPage(); });
  document.addEventListener("filter-by-agent", (event) => {
    filters.reset();
    filters.elements.agent.value = event.detail;
    showFirstPage();
  });

  // Words that both texts contain are marked. Latin words of up to three letters occur in every text and are not marked.
  const segmenter = new Intl.Segmenter(undefined, { granularity: "word" });
  const normalizeWord = (segment) => {
    const isShort = /^\p{Script=Latin}{1,3}$/u.test(segment.segment);
    return segment.isWordLike && !isShort ? segment.segment.normalize("NFKC").toLowerCase() : null;
  };
  const findWords = (text) => new Set([...segmenter.segment(text ?? "")].map(normalizeWord).filter(Boolean));
  const makeTextBox = (text, otherWords) => {
    const box = makeElement("div", "", { className: "text", tabIndex: 0, dir: "auto" });
    box.setAttribute("role", "group");
    if (text === null) {
      box.textContent = "(the text is not available)";
      return box;
    }
    let unmarkedText = "";
    for (const segment of segmenter.segment(text)) {
      if (otherWords.has(normalizeWord(segment))) {
        box.append(unmarkedText, makeElement("mark", segment.segment));
        unmarkedText = "";
      } else {
        unmarkedText += segment.segment;
      }
    }
    box.append(unmarkedText);
    return box;
  };

  // Return a trial as `line`, with its texts `first` and `second`, the judge's `raw` answer and the `prompt`; null if unknown.
  const loadTrial = async (row) => {
    if (viewerAddress) {
      const address = new URL(`${viewerAddress.split("?")[0]}/${row}`, location);
      address.search = new URL(viewerAddress, location).search;
      const response = await fetch(address);
      return response.ok ? addNames(await response.json()) : null;
    }
    const trial = sample.find((candidate) => candidate.row === row);
    if (!trial) return null;
    const first = getSampleText(data.first[trial.index]);
    const second = getSampleText(data.second[trial.index]);
    return { line: trial, first, second, raw: data.raw[trial.index], prompt: data.prompt };
  };

  const makeDialogHead = (title) => {
    const closeButton = makeElement("button", "Close", { type: "button" });
    closeButton.addEventListener("click", () => dialog.close());
    const head = makeElement("div", "", { className: "dialog-head" });
    head.append(makeElement("h3", title, { id: "trial-title" }), closeButton);
    return head;
  };

  const describeAnswers = (trial) => {
    const answer = trial.hard_answer === null
      ? `no answer: ${trial.missing_reason}`
      : `${formatYesNo(trial.hard_answer)}, ${formatAnswer(trial.answer)} for “same source”`;
    const otherAnswer = trial.against === null ? "" : `; the other judge answers ${formatYesNo(trial.against)}`;
    return `${trial.trial_type}; the judge answers ${answer}${otherAnswer}.`;
  };

  const makeTextPair = (loaded) => {
    const trial = loaded.line;
    const texts = [
      { side: "first", agent: trial.first, item: trial.item, repeat: trial.first_repeat, otherSide: "second" },
      { side: "second", agent: trial.second, item: trial.other_item ?? trial.item, repeat: trial.second_repeat, otherSide: "first" },
    ];
    const pair = makeElement("div", "", { className: "pair" });
    for (const { side, agent, item, repeat, otherSide } of texts) {
      const heading = `Read ${side}: ${getAgentName(agent)} on ${data.items[item]}${repeat ? `, repeat ${repeat}` : ""}`;
      const textBox = makeTextBox(loaded[side], findWords(loaded[otherSide]));
      textBox.setAttribute("aria-label", `Text read ${side}`);
      const column = document.createElement("div");
      column.append(makeElement("h4", heading, { className: "break" }), textBox);
      pair.append(column);
    }
    return pair;
  };

  const makeRawAnswer = (raw) => {
    const elements = [
      makeElement("h4", "The judge's raw answer"),
      makeElement("div", raw.text || "(empty)", { className: "text", dir: "auto" }),
    ];
    if (raw.refusal) elements.push(makeElement("p", `Refusal: ${raw.refusal}`));
    if (raw.top.length) {
      const tokens = raw.top.map(([token, probability]) => `${JSON.stringify(token)} ${(100 * probability).toFixed(1)}%`);
      elements.push(makeElement("p", `First token: ${tokens.join(", ")}`));
    }
    const usage = `${raw.tokens_in} tokens in, ${raw.tokens_out} out, ${raw.seconds.toFixed(2)} s`;
    elements.push(makeElement("p", `${raw.model}, ended by ${raw.finish_reason}, ${usage}`, { className: "note break" }));
    return elements;
  };

  const makePrompt = (prompt) => {
    const details = document.createElement("details");
    details.append(makeElement("summary", "The prompt"));
    if (prompt.system) details.append(makeElement("div", prompt.system, { className: "text" }));
    details.append(makeElement("div", prompt.template, { className: "text" }));
    return details;
  };

  const openTrial = async (row) => {
    const loaded = await loadTrial(row);
    if (loaded === null) {
      const reason = viewerAddress
        ? "There is no such trial."
        : "This file contains a sample of the trials, without this one. youden view shows all.";
      dialog.replaceChildren(makeDialogHead(`Trial ${row}`), makeElement("p", reason));
    } else {
      const trial = loaded.line;
      dialog.replaceChildren(
        makeDialogHead(`Trial ${trial.row}: ${trial.kind}`),
        makeElement("p", describeAnswers(trial)),
        makeTextPair(loaded),
        ...(loaded.raw ? makeRawAnswer(loaded.raw) : []),
        ...(loaded.prompt ? [makePrompt(loaded.prompt)] : []),
      );
    }
    if (!dialog.open) dialog.showModal();
  };

  // Opening a trial adds its address to the history, so that the Back button closes it. Closing the dialog goes back in the
  // history if the trial was opened from this page, and otherwise replaces the address.
  const TRIAL_SUFFIX = /\/trial\/(\d+)$/;
  let wasOpenedHere = false;
  const showCurrentAddress = () => {
    const match = TRIAL_SUFFIX.exec(location.hash);
    if (match) openTrial(Number(match[1]));
    else if (dialog.open) dialog.close();
  };
  dialog.addEventListener("close", () => {
    if (!TRIAL_SUFFIX.test(location.hash)) return;
    const hashWithoutTrial = location.hash.replace(TRIAL_SUFFIX, "");
    if (wasOpenedHere) history.back();
    else location.replace(hashWithoutTrial === "#" ? "#trials" : hashWithoutTrial);
    wasOpenedHere = false;
  });
  addEventListener("hashchange", (event) => {
    if (!TRIAL_SUFFIX.test(event.oldURL)) wasOpenedHere = true;
    showCurrentAddress();
  });
  showCurrentAddress();
  showPage();
})();
