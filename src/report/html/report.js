// Sorts, filters and highlights the tables and charts of this file. All numbers and words are written by Rust.
"use strict";

const all = (selector, root = document) => [...root.querySelectorAll(selector)];
const hidden = new Set();

function sortBy(heading) {
  const table = heading.closest("table");
  const body = table.tBodies[0];
  const column = heading.cellIndex;
  const numeric = heading.classList.contains("number");
  const first = numeric ? "descending" : "ascending";
  const other = numeric ? "ascending" : "descending";
  const direction = heading.getAttribute("aria-sort") === first ? other : first;
  const sign = direction === "ascending" ? 1 : -1;
  const value = (row) => {
    const cell = row.cells[column];
    if (!numeric) return cell.textContent.toLowerCase();
    return cell.dataset.value === "" ? null : Number(cell.dataset.value);
  };
  const keyed = [...body.rows].map((row) => [value(row), row]);
  keyed.sort(([a], [b]) => {
    if (a === null || b === null) return (a === null) - (b === null);
    return a < b ? -sign : a > b ? sign : 0;
  });
  for (const [, row] of keyed) body.append(row);
  for (const cell of heading.parentNode.cells) cell.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", direction);
}

const grouped = new Intl.NumberFormat("en-US");

function showRows(section) {
  const table = section.querySelector("table");
  const words = section.querySelector("input")?.value.trim().toLowerCase() ?? "";
  const rows = [...table.tBodies[0].rows];
  for (const row of rows) {
    row.hidden = hidden.has(row.dataset.key) || (words !== "" && !row.textContent.toLowerCase().includes(words));
  }
  const shown = rows.filter((row) => !row.hidden).length;
  // The totals are sums over all rows.
  if (table.tFoot) table.tFoot.hidden = shown < rows.length;
  const count = section.querySelector("output");
  if (count) count.textContent = (shown === rows.length ? "" : `${grouped.format(shown)} of `) + `${grouped.format(rows.length)} rows`;
}

function restack(chart) {
  const rows = new Map();
  for (const mark of all("[data-row]", chart)) {
    if (!rows.has(mark.dataset.row)) rows.set(mark.dataset.row, []);
    rows.get(mark.dataset.row).push(mark);
  }
  for (const marks of rows.values()) {
    let left = 0;
    for (const mark of marks) {
      const off = hidden.has(mark.dataset.key);
      mark.classList.toggle("off", off);
      if (off) left -= Number(mark.dataset.span ?? 0);
      else if (left === 0) mark.removeAttribute("transform");
      else mark.setAttribute("transform", `translate(${left} 0)`);
    }
  }
}

function highlight(key) {
  for (const chart of all(".chart")) {
    chart.classList.toggle("picked", key !== null && !hidden.has(key));
    for (const mark of all("[data-key]", chart)) mark.classList.toggle("lit", mark.dataset.key === key);
  }
}

for (const button of all("th button")) {
  button.addEventListener("click", () => sortBy(button.closest("th")));
}
for (const input of all(".tools input")) {
  input.addEventListener("input", () => showRows(input.closest("section")));
}
for (const button of all(".legend button")) {
  const key = button.dataset.key;
  button.addEventListener("click", () => {
    if (!hidden.delete(key)) hidden.add(key);
    button.setAttribute("aria-pressed", String(!hidden.has(key)));
    all(".chart").forEach(restack);
    // As in the page, something that ran stays visible where it ran.
    for (const strip of all(".strip[data-key]")) strip.classList.toggle("faint", hidden.has(strip.dataset.key));
    all("section").filter((section) => section.querySelector("table")).forEach(showRows);
    highlight(hidden.has(key) ? null : key);
  });
  for (const event of ["pointerenter", "focus"]) button.addEventListener(event, () => highlight(key));
  for (const event of ["pointerleave", "blur"]) button.addEventListener(event, () => highlight(null));
}

// Browsers that cannot style the content of a closed list need it open to print its rows.
const opened = [];
window.addEventListener("beforeprint", () => {
  for (const rows of all(".rows:not([open])")) {
    rows.open = true;
    opened.push(rows);
  }
});
window.addEventListener("afterprint", () => {
  for (const rows of opened.splice(0)) rows.open = false;
});
