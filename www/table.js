// The tabs and the one table of ready strings below them: sortable headings, kernel names that unfold, the first rows
// now and more on demand.

import { byId, copyButton, el } from './dom.js';

const ROWS_AT_ONCE = 200;
const NUMERIC = new Set(['count', 'time', 'share']);

let drawn = 0;
let current = null;

/** Replaces the table; `onSort(column key, descending)` is called when a heading is pressed. */
export function showTable(view, onSort) {
  const focusedKey = byId('scroll').querySelector('thead :focus')?.dataset.key;
  current = { ...view, body: el('tbody') };
  drawn = 0;
  const table = el('table', { class: `of-${view.id}` }, el('caption', { class: 'unseen' }, view.title), head(view.columns, onSort), current.body, foot(view));
  byId('scroll').replaceChildren(table);
  byId('shown').textContent = view.shown;
  byId('table-note').textContent = view.note;
  showMoreRows();
  if (focusedKey) [...table.querySelectorAll('thead button')].find((button) => button.dataset.key === focusedKey)?.focus();
}

/** Draws the next rows of the table at hand. */
export function showMoreRows() {
  const rows = current.rows.slice(drawn, drawn + ROWS_AT_ONCE);
  current.body.append(...rows.map((cells) => row(cells, current.columns)));
  drawn += rows.length;
  byId('more').hidden = drawn >= current.rows.length;
}

function head(columns, onSort) {
  return el('thead', {}, el('tr', {}, ...columns.map((column) => heading(column, onSort))));
}

/** Pressing a heading sorts by it, numbers from the largest; pressing again turns the order round. */
function heading({ key, title, kind, sort }, onSort) {
  const descending = sort === 'none' ? NUMERIC.has(kind) : sort === 'ascending';
  const arrow = { ascending: '↑', descending: '↓' }[sort];
  return el('th', { scope: 'col', class: kind, 'aria-sort': sort },
    el('button', { type: 'button', 'data-key': key, click: () => onSort(key, descending) }, title,
      arrow && el('span', { class: 'arrow', 'aria-hidden': 'true' }, arrow)));
}

function foot({ totals, columns }) {
  return totals && el('tfoot', {}, el('tr', {}, ...totals.map((value, i) => plainCell({ ...value, class: '' }, columns[i].kind))));
}

function row(cells, columns) {
  const line = el('tr', {}, ...cells.map((value, i) => cell(value, columns[i].kind)));
  const opener = line.querySelector('button.kernel');
  opener?.addEventListener('click', () => toggleFullName(line, opener, columns.length));
  return line;
}

function cell(value, kind) {
  if (kind !== 'kernel') return plainCell(value, kind);
  const name = value.title || value.text;
  return el('td', { class: kind, title: name },
    el('button', { type: 'button', class: 'kernel', 'aria-expanded': 'false' }, ...nameParts(value.text)));
}

function plainCell({ text, title, class: className }, kind) {
  const swatch = kind === 'category' && className && el('span', { class: `swatch ${className}`, 'aria-hidden': 'true' });
  return el('td', { class: kind, title: title || (kind === 'text' && text) }, swatch, text);
}

/** The kernel's own name between its namespaces and its template arguments, which are dimmed. */
function nameParts(name) {
  const cut = name.search(/[<(]/);
  const head = cut > 0 ? name.slice(0, cut) : name;
  const start = head.lastIndexOf('::') + 1;
  const family = start > 0 ? start + 1 : 0;
  const dim = (text) => text && el('span', { class: 'dim' }, text);
  return [dim(name.slice(0, family)), el('span', {}, head.slice(family)), dim(name.slice(head.length))];
}

function toggleFullName(line, opener, columns) {
  const open = opener.getAttribute('aria-expanded') === 'true';
  opener.setAttribute('aria-expanded', String(!open));
  if (open) return void line.nextElementSibling.remove();
  const name = opener.parentElement.title;
  line.after(el('tr', { class: 'full' }, el('td', { colspan: columns },
    el('div', { class: 'full-name' }, el('code', {}, name), copyButton(name)))));
}

const STEPS = { ArrowRight: 1, ArrowLeft: -1 };

/** One tab a table, after the ARIA pattern: one tab stop, arrows move. */
export function showTabs(tables, chosen, onChoose) {
  const hadFocus = byId('tabs').contains(document.activeElement);
  const tabs = tables.map(({ id, title, rows }) => el('button', {
    type: 'button', role: 'tab', id: `tab-${id}`, 'aria-controls': 'panel', 'aria-selected': String(id === chosen),
    tabindex: id === chosen ? '0' : '-1', click: () => onChoose(id), keydown: (event) => move(event, tables, id, onChoose),
  }, title, rows && el('span', { class: 'tab-rows' }, rows)));
  byId('tabs').replaceChildren(...tabs);
  byId('panel').setAttribute('aria-labelledby', `tab-${chosen}`);
  if (hadFocus) byId(`tab-${chosen}`)?.focus();
}

function move(event, tables, id, onChoose) {
  const at = tables.findIndex((table) => table.id === id);
  const to = { Home: 0, End: tables.length - 1 }[event.key] ?? at + STEPS[event.key];
  const target = tables[(to + tables.length) % tables.length];
  if (!target) return;
  event.preventDefault();
  onChoose(target.id);
}
