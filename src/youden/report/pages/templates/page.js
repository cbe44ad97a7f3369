"use strict";
// Add what every page has: the theme button, sortable tables, and buttons that switch between two figures.
(() => {
  const root = document.documentElement;

  // Theme. A page that is opened from disk may have no storage, so errors of the storage are ignored.
  const themeButton = document.getElementById("theme");
  const loadTheme = () => { try { return localStorage.getItem("youden-theme"); } catch { return null; } };
  const saveTheme = (theme) => { try { localStorage.setItem("youden-theme", theme); } catch { /* see above */ } };
  const setTheme = (theme) => {
    root.dataset.theme = theme;
    themeButton.textContent = theme === "dark" ? "Light" : "Dark";
    themeButton.setAttribute("aria-label", `Switch to the ${theme === "dark" ? "light" : "dark"} theme`);
    document.dispatchEvent(new CustomEvent("theme-changed"));
  };
  const systemTheme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  setTheme(loadTheme() || systemTheme);
  themeButton.hidden = false;
  themeButton.addEventListener("click", () => {
    const theme = root.dataset.theme === "dark" ? "light" : "dark";
    saveTheme(theme);
    setTheme(theme);
  });
  addEventListener("beforeprint", () => { if (root.dataset.theme === "dark") root.dataset.theme = "light"; });

  // Return what a cell is sorted by: its `data-value` or text, as a number if it is one; null if the cell has no value.
  const parseCell = (cell) => {
    const text = cell.dataset.value ?? cell.textContent.trim();
    if (text === "–") return null;
    const number = Number(text.replaceAll(",", ""));
    return Number.isNaN(number) || text === "" ? text : number;
  };

  // Compare two values for sorting. Null comes last in both directions.
  const compareValues = (a, b, isDescending) => {
    if (a === null) return 1;
    if (b === null) return -1;
    const areNumbers = typeof a === "number" && typeof b === "number";
    const order = areNumbers ? a - b : String(a).localeCompare(String(b));
    return isDescending ? -order : order;
  };

  // Long tables show their first rows, and a button that shows all. Without scripts and on paper, all rows are visible.
  const N_VISIBLE = 100;
  const isLong = (table) => table.tBodies[0].rows.length > 2 * N_VISIBLE;
  const hideRows = (table) => {
    const showsAll = "unfolded" in table.dataset;
    [...table.tBodies[0].rows].forEach((row, k) => row.classList.toggle("folded", !showsAll && k >= N_VISIBLE));
  };
  const addShowAllButton = (table) => {
    const nRows = table.tBodies[0].rows.length;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "unfold";
    const update = () => {
      const showsAll = "unfolded" in table.dataset;
      button.textContent = showsAll ? `Show the first ${N_VISIBLE}` : `Show all ${nRows.toLocaleString("en")}`;
      hideRows(table);
    };
    button.addEventListener("click", () => {
      if ("unfolded" in table.dataset) delete table.dataset.unfolded;
      else table.dataset.unfolded = "";
      update();
    });
    update();
    table.parentElement.after(button);
  };

  const sortTable = (table, column, isDescending) => {
    const body = table.tBodies[0];
    const valuesAndRows = [...body.rows].map((row) => [parseCell(row.cells[column]), row]);
    valuesAndRows.sort(([a], [b]) => compareValues(a, b, isDescending));
    body.append(...valuesAndRows.map(([, row]) => row));
    if (isLong(table)) hideRows(table);
  };

  const makeSortable = (table) => {
    const headings = [...table.tHead.rows[0].cells];
    headings.forEach((heading, column) => {
      if ("fixed" in heading.dataset) return;
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = heading.textContent;
      heading.replaceChildren(button);
      button.addEventListener("click", () => {
        const isDescending = heading.getAttribute("aria-sort") === "ascending";
        headings.forEach((cell) => cell.removeAttribute("aria-sort"));
        heading.setAttribute("aria-sort", isDescending ? "descending" : "ascending");
        sortTable(table, column, isDescending);
      });
    });
  };

  for (const table of document.querySelectorAll("table.sortable")) {
    if (isLong(table)) addShowAllButton(table);
    makeSortable(table);
  }

  // A button with `data-swap="FIRST SECOND"` switches between these two figures.
  for (const button of document.querySelectorAll("[data-swap]")) {
    const [firstFigure, secondFigure] = button.dataset.swap.split(" ").map((slug) => document.getElementById(`figure-${slug}`));
    button.addEventListener("click", () => {
      firstFigure.hidden = !firstFigure.hidden;
      secondFigure.hidden = !firstFigure.hidden;
      button.setAttribute("aria-pressed", String(firstFigure.hidden));
      document.dispatchEvent(new CustomEvent("content-shown"));
    });
  }
})();
