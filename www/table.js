// The tabs and the tables of ready strings below them: sortable headings, kernel names that unfold, the first rows now
// and more on demand; above each its single figures, its limits and what is missing.

import { byId, copyButton, el } from './dom.js';

const ROWS_AT_ONCE = 200;
const NUMERIC = new Set(['count', 'time', 'share']);

/**
 * Replaces the tables, one below the other. `onSort(table id, column key, descending)` is called when a heading is
 * pressed, `onSave(table id)` when one is wanted as CSV.
 */
export function showTables(views, onSort, onSave) {
  const focused = byId('blocks').querySelector('thead :focus');
  const [table, key] = [focused?.closest('.block').dataset.table, focused?.dataset.key];
  byId('blocks').replaceChildren(...views.map((view) => block(view, onSort, onSave)));
  if (!focused) return;
  const heads = [...byId('blocks').querySelectorAll('thead button')];
  heads.find((button) => button.dataset.key === key && button.closest('.block').dataset.table === table)?.focus();
}

function block(view, onSort, onSave) {
  const { id, title, note, shown, figures, gaps } = view;
  return el('section', { class: 'block', 'data-table': id, 'aria-labelledby': `title-${id}` },
    el('header', {}, el('h2', { id: `title-${id}` }, title), view.grid && el('span', { class: 'note shown', role: 'status' }, shown),
      el('button', { type: 'button', class: 'small quiet', 'data-format': 'csv', 'aria-label': `Save ${title} as CSV`, click: () => onSave(id) }, 'CSV')),
    note && el('p', { class: 'note' }, note), ...figures.map(figureList), ...gaps.map(gapLine),
    ...(view.grid ? grid(view, (...by) => onSort(id, ...by)) : []));
}

function figureList({ run, figures }) {
  const item = ({ title, text, exact }) => el('div', {}, el('dt', {}, title), el('dd', { title: exact }, text));
  return el('dl', { class: 'figures', 'aria-label': run || null }, run && el('div', {}, el('dt', {}, 'Run'), el('dd', {}, run)), ...figures.filter(({ text }) => text).map(item));
}

/** What is missing, and the command that captures it. */
function gapLine({ run, why, recapture }) {
  return el('div', { class: 'gap' }, el('p', {}, run && el('span', { class: 'run-label' }, `${run}: `), why),
    recapture && el('p', { class: 'command' }, el('code', {}, recapture), copyButton(recapture)));
}

function grid({ id, title, columns, rows, totals }, onSort) {
  const body = el('tbody');
  const table = el('table', { class: `of-${id}` }, el('caption', { class: 'unseen' }, title), head(columns, onSort), body, foot({ totals, columns }));
  const more = el('button', { type: 'button', class: 'more', click: drawMore }, 'Show more rows');
  let drawn = 0;
  function drawMore() {
    body.append(...rows.slice(drawn, drawn + ROWS_AT_ONCE).map((cells) => row(cells, columns)));
    drawn += ROWS_AT_ONCE;
    more.hidden = drawn >= rows.length;
  }
  drawMore();
  return [el('div', { class: 'scroll', role: 'region', tabindex: '0', 'aria-label': title }, table), more];
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
  if (kind === 'place') return placeCell(value);
  if (kind !== 'kernel') return plainCell(value, kind);
  const name = value.title || value.text;
  return el('td', { class: kind, title: name },
    el('button', { type: 'button', class: 'kernel', 'aria-expanded': 'false' }, ...nameParts(value.text)));
}

function plainCell({ text, title, class: className }, kind) {
  const swatch = kind === 'category' && className && el('span', { class: `swatch ${className}`, 'aria-hidden': 'true' });
  return el('td', { class: kind, title: title || (kind === 'text' && text) }, swatch, text);
}

/** Places in the code, one a line. */
function placeCell({ text }) {
  const places = text.split('\n').filter(Boolean);
  return el('td', { class: 'place' }, ...places.map((place) => el('button', { type: 'button', class: 'place', title: `Copy ${place}` }, place)));
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

/** One tab a group of tables, after the ARIA pattern: one tab stop, arrows move. */
export function showTabs(tabs, chosen, onChoose) {
  const hadFocus = byId('tabs').contains(document.activeElement);
  const buttons = tabs.map(({ id, title, rows }) => el('button', {
    type: 'button', role: 'tab', id: `tab-${id}`, 'aria-controls': 'panel', 'aria-selected': String(id === chosen),
    tabindex: id === chosen ? '0' : '-1', click: () => onChoose(id), keydown: (event) => move(event, tabs, id, onChoose),
  }, title, rows && el('span', { class: 'tab-rows' }, rows)));
  byId('tabs').replaceChildren(...buttons);
  byId('panel').setAttribute('aria-labelledby', `tab-${chosen}`);
  if (hadFocus) byId(`tab-${chosen}`)?.focus();
}

function move(event, tabs, id, onChoose) {
  const at = tabs.findIndex((tab) => tab.id === id);
  const to = { Home: 0, End: tabs.length - 1 }[event.key] ?? at + STEPS[event.key];
  const target = tabs[(to + tabs.length) % tabs.length];
  if (!target) return;
  event.preventDefault();
  onChoose(target.id);
}
