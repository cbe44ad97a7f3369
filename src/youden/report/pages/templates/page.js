"use strict";
// What every page has: the theme, sortable tables, figures that stand for one another.
(() => {
  const root = document.documentElement;
  const button = document.getElementById("theme");
  const kept = () => { try { return localStorage.getItem("youden-theme"); } catch { return null; } };
  const keep = (theme) => { try { localStorage.setItem("youden-theme", theme); } catch { /* a page from disk may not store */ } };
  const set = (theme) => {
    root.dataset.theme = theme;
    button.textContent = theme === "dark" ? "Light" : "Dark";
    button.setAttribute("aria-label", `Switch to the ${theme === "dark" ? "light" : "dark"} theme`);
    document.dispatchEvent(new CustomEvent("theme"));
  };
  set(kept() || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"));
  button.hidden = false;
  button.addEventListener("click", () => {
    const theme = root.dataset.theme === "dark" ? "light" : "dark";
    keep(theme);
    set(theme);
  });
  addEventListener("beforeprint", () => { if (root.dataset.theme === "dark") root.dataset.theme = "light"; });

  const value = (row, k) => {
    const cell = row.cells[k];
    const text = cell.dataset.value ?? cell.textContent.trim();
    const number = Number(text.replaceAll(",", ""));
    return text === "–" ? null : Number.isNaN(number) || text === "" ? text : number;
  };
  const compare = (a, b) => a === null ? 1 : b === null ? -1 : typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));
  const FOLD = 100;
  // The first rows of a long table, and a button for all of them; without scripts, and on paper, all stand there.
  const fold = (table) => {
    const rows = [...table.tBodies[0].rows];
    const open = "unfolded" in table.dataset;
    rows.forEach((row, k) => row.classList.toggle("folded", !open && k >= FOLD));
  };
  const foldable = (table) => {
    const n = table.tBodies[0].rows.length;
    if (n <= 2 * FOLD) return;
    const press = document.createElement("button");
    press.type = "button";
    press.className = "unfold";
    const say = () => { press.textContent = "unfolded" in table.dataset ? `Show the first ${FOLD}` : `Show all ${n.toLocaleString("en")}`; };
    press.addEventListener("click", () => {
      if ("unfolded" in table.dataset) delete table.dataset.unfolded;
      else table.dataset.unfolded = "";
      fold(table);
      say();
    });
    say();
    fold(table);
    table.parentElement.after(press);
  };
  for (const table of document.querySelectorAll("table.sortable")) {
    foldable(table);
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, k) => {
      if ("fixed" in head.dataset) return;
      const press = document.createElement("button");
      press.type = "button";
      press.textContent = head.textContent;
      head.replaceChildren(press);
      press.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === "ascending";
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const rows = [...table.tBodies[0].rows].map((row) => [value(row, k), row]);
        rows.sort(([a], [b]) => (down && a !== null && b !== null ? -compare(a, b) : compare(a, b)));
        table.tBodies[0].append(...rows.map(([, row]) => row));
        if (rows.length > 2 * FOLD) fold(table);
      });
    });
  }
  for (const press of document.querySelectorAll("[data-swap]")) {
    const [one, two] = press.dataset.swap.split(" ").map((slug) => document.getElementById(`figure-${slug}`));
    press.addEventListener("click", () => {
      one.hidden = !one.hidden;
      two.hidden = !one.hidden;
      press.setAttribute("aria-pressed", String(one.hidden));
      document.dispatchEvent(new CustomEvent("shown"));
    });
  }
})();
