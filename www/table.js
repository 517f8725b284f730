// The tabs and the tables of ready strings below them: sortable headings, kernel names that lead to the kernel in detail,
// long tables of which only the rows on screen are drawn; above each its single figures, its limits and what is missing.

import { arrange, byId, copyButton, el, figureItem, words } from './dom.js';

const ROWS_AT_ONCE = 200;
/** Rows that are asked for at once; printing cannot wait for more. */
export const PIECE_ROWS = 500;
/** Tables with cells of several lines, whose rows have no height in common. */
const TALL = /^(triage_.*|notices|findings|critical_path)$/;
const NUMERIC = new Set(['count', 'time', 'share']);

/**
 * Replaces the tables, one below the other; one that was made under the same key of the same view stays.
 * `onSort(table id, column key, descending)` is called when a heading is pressed, `onSave(table id)` when one is wanted as CSV; `moreRows(table id, from)` resolves with the cells of further rows;
 * `onKernel(name)` is called when a kernel's name is pressed.
 */
export function showTables(key, views, onSort, onSave, moreRows, onKernel) {
  const place = byId('blocks');
  const giveFocusBack = keptFocus(place);
  const blocks = joined(views);
  arrange(place, blocks.map((view) => key + JSON.stringify(view)), (_, at) => block(blocks[at], onSort, onSave, moreRows));
  unrolling = unrolling.filter(({ body }) => body.isConnected);
  place.onclick = ({ target }) => {
    const name = target.closest('button.kernel')?.parentElement.title;
    if (name) onKernel(name);
  };
  giveFocusBack();
}

/** Gives the focus back to what has it, if that is made anew: to the same heading or kernel, or to the rows, which scroll by keys. */
function keptFocus(place) {
  const focused = place.querySelector(':focus');
  const table = focused?.closest('.block')?.dataset.table;
  if (!table) return () => {};
  const column = focused.closest('thead') && focused.dataset.key;
  const kernel = focused.closest('td.kernel')?.title;
  return () => {
    if (focused.isConnected) return;
    const block = [...place.children].find((node) => node.dataset.table === table);
    const among = (selector, is) => [...(block?.querySelectorAll(selector) ?? [])].find(is);
    const same = (column && among('thead button', ({ dataset }) => dataset.key === column))
      || (kernel && among('button.kernel', ({ parentElement }) => parentElement.title === kernel));
    (same || block?.querySelector('.scroll'))?.focus({ preventScroll: true });
  };
}

/** Of neighbours that lack the same it is said once, under the titles of all. */
function joined(views) {
  const said = ({ grid, note, figures, gaps }) => !grid && JSON.stringify([note, figures, gaps]);
  return views.reduce((blocks, view) => {
    const last = blocks.at(-1);
    const isSame = last && said(view) && said(view) === said(last);
    return isSame ? blocks.with(-1, { ...last, id: `${last.id} ${view.id}`, title: `${last.title} · ${view.title}` }) : [...blocks, view];
  }, []);
}

/** A table with all that stands around it; one without `onSort` and `onSave` is short and stays as it comes. */
export function block(view, onSort, onSave, moreRows) {
  const { id, title, note, shown, figures, gaps } = view;
  const [name] = id.split(' ');
  return el('section', { class: 'block', 'data-table': id, 'aria-labelledby': `title-${name}` },
    el('header', {}, el('h2', { id: `title-${name}` }, title), view.grid && el('span', { class: 'note shown', role: 'status' }, shown),
      onSave && view.grid && el('button', { type: 'button', class: 'small quiet', 'data-format': 'csv', 'aria-label': `Save ${title} as CSV`, click: () => onSave(id) }, 'CSV')),
    note && el('p', { class: 'note' }, ...words(note)), ...figures.map(figureList), ...gaps.map(gapLine),
    ...(view.grid ? grid(view, onSort && ((...by) => onSort(id, ...by)), (from) => moreRows(id, from)) : []));
}

function figureList({ run, figures }) {
  return el('dl', { class: 'figures', 'aria-label': run || null }, run && el('div', {}, el('dt', {}, 'Run'), el('dd', {}, run)), ...figures.filter(({ text }) => text).map(figureItem));
}

/** What is missing, and the command that captures it. */
function gapLine({ run, why, recapture }) {
  return el('div', { class: 'gap' }, el('p', {}, run && el('span', { class: 'run-label' }, `${run}: `), ...words(why)),
    recapture && el('p', { class: 'command' }, el('code', {}, recapture), copyButton(recapture)));
}

function grid(view, onSort, moreRows) {
  const { id, title, columns, row_count: count, totals, shown } = view;
  const isLong = count > ROWS_AT_ONCE && !TALL.test(id);
  const body = el('tbody');
  const table = el('table', { class: `of-${id}`, 'aria-rowcount': isLong && String(count + (totals ? 2 : 1)) },
    el('caption', { class: 'unseen' }, title), head(columns, onSort, isLong), body, foot({ totals, columns }));
  const frame = el('div', { class: isLong ? 'scroll long' : 'scroll', role: 'region', tabindex: '0', 'aria-label': title }, table);
  const rest = count > PIECE_ROWS && el('p', { class: 'note on-paper' }, `Of these ${shown} the first ${PIECE_ROWS} are printed; the CSV holds all.`);
  return [frame, ...(isLong ? longBody(view, frame, body, moreRows) : shortBody(view, body, moreRows)), rest].filter(Boolean);
}

/** What to do before printing and after it, for each table that is there. */
let unrolling = [];
addEventListener('beforeprint', () => unrolling.forEach((table) => table.unroll()));
addEventListener('afterprint', () => unrolling.forEach((table) => table.roll?.()));

/** The first rows, and a button for more. */
function shortBody({ columns, rows, row_count: count }, body, moreRows) {
  const more = el('button', { type: 'button', class: 'more', click: drawMore }, 'Show more rows');
  let drawn = 0;
  async function drawMore() {
    const to = Math.min(drawn + ROWS_AT_ONCE, count);
    if (rows.length < to) rows.push(...await moreRows(rows.length).catch(() => []));
    body.append(...rows.slice(drawn, to).map((cells) => row(cells, columns)));
    drawn = Math.min(to, rows.length);
    more.hidden = drawn >= count;
  }
  drawMore();
  unrolling.push({ body, unroll: () => {
    while (drawn < Math.min(rows.length, PIECE_ROWS)) drawMore();
  } });
  return [more];
}

/** The rows on screen, and what a browser cannot find by itself then. */
function longBody(view, frame, body, moreRows) {
  const { columns, rows, row_count: count } = view;
  const heads = [...frame.querySelectorAll('thead th:not(.kernel)')];
  let virtual = null;
  import('./virtual.js').then(({ VirtualRows }) => {
    virtual = new VirtualRows({
      frame, body, count, first: rows, ask: moreRows, draw: (cells, index) => longRow(cells, index, columns), onDrawn: () => keepWidths(heads),
    });
    unrolling.push({ body, unroll: () => virtual.unroll(), roll: () => virtual.roll() });
  }, () => shortBody(view, body, moreRows).forEach((button) => frame.after(button)));
  let width = 0;
  new ResizeObserver(() => {
    if (frame.clientWidth === width) return;
    width = frame.clientWidth;
    for (const th of heads) th.style.minWidth = '';
    keepWidths(heads);
  }).observe(frame);
  return [el('p', { class: 'note on-screen' }, 'The browser’s own search sees the rows on screen alone; the filter above searches all rows, and the CSV holds them.')];
}

/** Columns grow with the rows that come by and never shrink, or they would jump. */
function keepWidths(heads) {
  const widths = heads.map((th) => th.offsetWidth);
  heads.forEach((th, at) => void (th.style.minWidth = `${widths[at]}px`));
}

function longRow(cells, index, columns) {
  const line = cells ? row(cells, columns) : el('tr', { 'aria-busy': 'true' }, el('td', { colspan: columns.length }, '…'));
  line.setAttribute('aria-rowindex', String(index + 2));
  return line;
}

function head(columns, onSort, isLong) {
  return el('thead', {}, el('tr', { 'aria-rowindex': isLong && '1' }, ...columns.map((column) => heading(column, onSort))));
}

/** Pressing a heading sorts by it, numbers from the largest; pressing again turns the order round. */
function heading({ key, title, kind, sort }, onSort) {
  if (kind === 'action') return el('th', { scope: 'col' }, el('span', { class: 'unseen' }, title));
  const descending = sort === 'none' ? NUMERIC.has(kind) : sort === 'ascending';
  const arrow = { ascending: '↑', descending: '↓' }[sort];
  if (!onSort) return el('th', { scope: 'col', class: kind }, title);
  return el('th', { scope: 'col', class: kind, 'aria-sort': sort },
    el('button', { type: 'button', 'data-key': key, click: () => onSort(key, descending) }, title,
      arrow && el('span', { class: 'arrow', 'aria-hidden': 'true' }, arrow)));
}

function foot({ totals, columns }) {
  return totals && el('tfoot', {}, el('tr', {}, ...totals.map((value, i) => plainCell({ ...value, class: '' }, columns[i].kind))));
}

function row(cells, columns) {
  return el('tr', {}, ...cells.map((value, i) => cell(value, columns[i].kind)));
}

function cell(value, kind) {
  if (kind === 'place') return placeCell(value);
  if (kind === 'action') return el('td', { class: kind }, el('button', { type: 'button', class: 'small', 'data-rule': value.title, 'data-of': value.class }, value.text));
  if (kind !== 'kernel') return plainCell(value, kind);
  const name = value.title || value.text;
  return el('td', { class: kind, title: name },
    el('button', { type: 'button', class: 'kernel' }, ...nameParts(value.text)));
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

const STEPS = { ArrowRight: 1, ArrowLeft: -1 };

/** One tab a group of tables, after the ARIA pattern: one tab stop, arrows move. */
export function showTabs(tabs, chosen, onChoose) {
  const strip = byId('tabs');
  const hadFocus = strip.contains(document.activeElement);
  const isNew = byId(`tab-${chosen}`)?.ariaSelected !== 'true';
  const buttons = tabs.map(({ id, title, rows }) => el('button', {
    type: 'button', role: 'tab', id: `tab-${id}`, 'aria-controls': 'panel', 'aria-selected': String(id === chosen),
    tabindex: id === chosen ? '0' : '-1', click: () => onChoose(id), keydown: (event) => move(event, tabs, id, onChoose),
  }, title, rows && el('span', { class: 'tab-rows' }, rows)));
  strip.replaceChildren(...buttons);
  byId('panel').setAttribute('aria-labelledby', `tab-${chosen}`);
  if (isNew) bringAlong(strip, byId(`tab-${chosen}`));
  if (hadFocus) byId(`tab-${chosen}`)?.focus();
}

/** Sideways alone: the page stays where it is. */
function bringAlong(strip, tab) {
  const [frame, part] = [strip, tab].map((node) => node.getBoundingClientRect());
  strip.scrollLeft += Math.min(0, part.left - frame.left) + Math.max(0, part.right - frame.right);
}

function move(event, tabs, id, onChoose) {
  const at = tabs.findIndex((tab) => tab.id === id);
  const to = { Home: 0, End: tabs.length - 1 }[event.key] ?? at + STEPS[event.key];
  const target = tabs[(to + tabs.length) % tabs.length];
  if (!target) return;
  event.preventDefault();
  onChoose(target.id);
}
