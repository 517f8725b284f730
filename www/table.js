// Draws the row of tabs and the tables below it. Each table has its figures, notes and gaps above it. Headings sort; kernel names
// open a kernel in detail. For a long table only the rows on screen are in the document (virtual.js).

import { arrange, button, byId, commandLine, el, figureItem, note, present, swatch, words } from './dom.js';

/** @import { Cell, Column, ColumnKind, Gap, Tab, Table } from './types.js' */
/** @import { VirtualRows } from './virtual.js' */

/** Sorts by a column. @typedef {(key: string, isDescending: boolean) => void} OnSort */
/** The cells of further rows. @typedef {(from: number) => Promise<Cell[][]>} RequestRows */
/** Actions on the table with an id. `save` saves it as CSV.
 * @typedef {{
 *   sort(table: string, key: string, isDescending: boolean): void,
 *   save(table: string): void,
 *   openKernel(name: string): void,
 *   showTime(table: string, row: HTMLTableRowElement, time: number): void,
 *   requestRows(table: string, from: number): Promise<Cell[][]>,
 * }} TableActions */
/** @typedef {Tab & { isPending?: boolean }} ShownTab */

/** Rows that are added at once. Tables of more rows are virtual. */
const ROWS_AT_ONCE = 200;
/** Rows of one request. Printing cannot wait for a second one. */
export const ROWS_PER_REQUEST = 500;
/** Tables whose cells can have several lines. Their rows differ in height, so they cannot be virtual. */
const TALL_TABLES = /^(triage_.*|notices|findings|trust)$/;
/** @type {Set<ColumnKind>} */
const NUMERIC = new Set(['count', 'time', 'share']);

/** Shows these tables, one below the other. The nodes of a table stay if `key` and the table are as before.
 * @param {string} key @param {Table[]} tables @param {TableActions} actions */
export function showTables(key, tables, actions) {
  const parent = byId('blocks');
  const restoreFocus = rememberFocus(parent);
  const merged = mergeEmptyTables(tables);
  arrange(parent, merged.map((table) => key + JSON.stringify(table)), (_, index) => tableBlock(merged[index], actions));
  printable = printable.filter(({ body }) => body.isConnected);
  parent.onclick = ({ target }) => {
    const kernel = target instanceof Element ? target.closest('button.kernel')?.parentElement?.title : '';
    if (kernel) actions.openKernel(kernel);
    const time = target instanceof Element ? target.closest('button.moment-link') : null;
    const [row, block] = [time?.closest('tr'), time && blockOf(time)];
    if (time instanceof HTMLElement && row && block) actions.showTime(block.dataset.table ?? '', row, Number(time.dataset.time));
  };
  restoreFocus();
}

/** Returns a function that restores the focus if the focused node was replaced: to the same heading or kernel, or to
 * the rows, which scroll by keys.
 * @param {HTMLElement} parent */
function rememberFocus(parent) {
  /** @type {HTMLElement | null} */
  const focused = parent.querySelector(':focus');
  const table = focused && blockOf(focused)?.dataset.table;
  if (!table) return () => {};
  const column = focused.closest('thead') && focused.dataset.key;
  const kernel = focused.closest('td.kernel')?.getAttribute('title');
  return () => {
    if (focused.isConnected) return;
    const block = [...parent.querySelectorAll('.block')].find((node) => node instanceof HTMLElement && node.dataset.table === table);
    /** @type {(selector: string, matches: (node: HTMLElement) => boolean) => HTMLElement | undefined} */
    const find = (selector, matches) => [.../** @type {NodeListOf<HTMLElement>} */ (block?.querySelectorAll(selector) ?? [])].find(matches);
    const same = (column && find('thead button', ({ dataset }) => dataset.key === column))
      || (kernel && find('button.kernel', ({ parentElement }) => parentElement?.title === kernel))
      || find('.scroll', () => true);
    same?.focus({ preventScroll: true });
  };
}

/** The block of the table that a node is in. @param {Element} node @returns {HTMLElement | null} */
export const blockOf = (node) => node.closest('.block');

/** Merges neighbouring tables without rows whose notes and gaps are the same. @param {Table[]} tables */
function mergeEmptyTables(tables) {
  /** @param {Table} table */
  const message = ({ grid, note: text, figures, gaps }) => !grid && JSON.stringify([text, figures, gaps]);
  /** @type {Table[]} */
  const merged = [];
  for (const table of tables) {
    const last = merged.at(-1);
    if (last && message(table) && message(table) === message(last)) {
      merged.splice(-1, 1, { ...last, id: `${last.id} ${table.id}`, title: `${last.title} · ${table.title}` });
    } else merged.push(table);
  }
  return merged;
}

/** A table with its title, notes, figures and gaps. Without actions it must have all its rows.
 * @param {Table} table @param {TableActions} [actions] */
export function tableBlock(table, actions) {
  const { id, title, shown, figures, gaps, grid: hasGrid } = table;
  const titleId = `title-${id.split(' ')[0]}`;
  return el('section', { class: 'block', 'data-table': id, 'aria-labelledby': titleId },
    el('header', {}, el('h2', { id: titleId }, title), hasGrid && el('span', { class: 'note shown', role: 'status' }, shown),
      actions && hasGrid && button('CSV', () => actions.save(id), { class: 'small quiet', 'data-format': 'csv', 'aria-label': `Save ${title} as CSV` })),
    table.note && el('p', { class: 'note' }, ...words(table.note)), ...figures.map(figureList), ...gaps.map(gapLine),
    ...(hasGrid ? grid(table, actions) : []));
}

/** @param {Table['figures'][number]} figures */
function figureList({ run, figures }) {
  return el('dl', { class: 'figures', 'aria-label': run || null }, run && el('div', {}, el('dt', {}, 'Run'), el('dd', {}, run)), ...figures.filter(({ text }) => text).map(figureItem));
}

/** States what is missing, and the command that captures it. @param {Gap} gap */
function gapLine({ run, why, recapture }) {
  return el('div', { class: 'gap' }, el('p', {}, run && el('span', { class: 'run-label' }, `${run}: `), ...words(why)), recapture && commandLine(recapture));
}

/** @param {Table} table @param {TableActions} [actions] */
function grid(table, actions) {
  const { id, title, columns, row_count: count, totals, shown } = table;
  /** @type {OnSort | undefined} */
  const onSort = actions && ((key, isDescending) => actions.sort(id, key, isDescending));
  /** @type {RequestRows} */
  const requestRows = async (from) => actions?.requestRows(id, from) ?? [];
  const isLong = count > ROWS_AT_ONCE && !TALL_TABLES.test(id);
  const body = el('tbody');
  const node = el('table', { class: `table-${id}`, 'aria-rowcount': isLong && String(count + (totals ? 2 : 1)) },
    el('caption', { class: 'visually-hidden' }, title), head(columns, onSort, isLong), body, totals && foot(totals, columns));
  const frame = el('div', { class: isLong ? 'scroll long' : 'scroll', role: 'region', tabindex: '0', 'aria-label': title }, node);
  const printNote = count > ROWS_PER_REQUEST && el('p', { class: 'note on-paper' }, `${shown}; the first ${ROWS_PER_REQUEST} are printed. The CSV has all rows.`);
  const controls = isLong ? longBody(table, frame, body, requestRows) : shortBody(table, body, requestRows);
  return present([frame, ...controls, printNote]);
}

/** What tables do before and after printing. @type {{ body: HTMLElement, expand: () => void, collapse?: () => void }[]} */
let printable = [];
addEventListener('beforeprint', () => printable.forEach((table) => table.expand()));
addEventListener('afterprint', () => printable.forEach((table) => table.collapse?.()));

/** @param {Table} table @param {HTMLElement} body @param {RequestRows} requestRows @returns {HTMLElement[]} */
function shortBody({ columns, rows, row_count: count }, body, requestRows) {
  const more = button('Show more rows', drawMore, { class: 'more' });
  let drawn = 0;
  async function drawMore() {
    const to = Math.min(drawn + ROWS_AT_ONCE, count);
    if (rows.length < to) rows.push(...await requestRows(rows.length).catch(() => []));
    body.append(...rows.slice(drawn, to).map((cells) => tableRow(cells, columns)));
    drawn = Math.min(to, rows.length);
    more.hidden = drawn >= count;
  }
  drawMore();
  printable.push({ body, expand: () => {
    while (drawn < Math.min(rows.length, ROWS_PER_REQUEST)) drawMore();
  } });
  return [more];
}

/** Adds virtual rows and a note that the browser's own search misses the rows that are not on screen.
 * @param {Table} table @param {HTMLElement} frame @param {HTMLElement} body @param {RequestRows} requestRows
 * @returns {HTMLElement[]} */
function longBody(table, frame, body, requestRows) {
  const { columns, rows, row_count: count } = table;
  /** @type {HTMLElement[]} */
  const headings = [...frame.querySelectorAll('thead th')].filter((th) => th instanceof HTMLElement && !th.matches('.kernel')).map((th) => /** @type {HTMLElement} */ (th));
  import('./virtual.js').then((virtual) => {
    const virtualRows = new virtual.VirtualRows({
      frame, body, count, first: rows, request: requestRows, draw: (cells, index) => longRow(cells, index, columns), onDrawn: () => keepWidths(headings),
    });
    printable.push({ body, expand: () => virtualRows.expandForPrint(), collapse: () => virtualRows.collapse() });
  }, () => shortBody(table, body, requestRows).forEach((more) => frame.after(more)));
  let width = 0;
  new ResizeObserver(() => {
    if (frame.clientWidth === width) return;
    width = frame.clientWidth;
    for (const th of headings) th.style.minWidth = '';
    keepWidths(headings);
  }).observe(frame);
  return [el('p', { class: 'note on-screen' }, 'The browser’s own search finds only the rows on screen. The filter above searches all rows, and the CSV has them.')];
}

/** Columns grow with the rows that scroll by; shrinking would make them jump. @param {HTMLElement[]} headings */
function keepWidths(headings) {
  const widths = headings.map((th) => th.offsetWidth);
  headings.forEach((th, index) => void (th.style.minWidth = `${widths[index]}px`));
}

/** @param {Cell[] | null} cells @param {number} index @param {Column[]} columns */
function longRow(cells, index, columns) {
  const row = cells ? tableRow(cells, columns) : el('tr', { 'aria-busy': 'true' }, el('td', { colspan: columns.length }, '…'));
  row.setAttribute('aria-rowindex', String(index + 2));
  return row;
}

/** @param {Column[]} columns @param {OnSort | undefined} onSort @param {boolean} isLong */
function head(columns, onSort, isLong) {
  return el('thead', {}, el('tr', { 'aria-rowindex': isLong && '1' }, ...columns.map((column) => heading(column, onSort))));
}

const SORT_ARROWS = { none: '', ascending: '↑', descending: '↓' };

/** A heading that sorts, numbers from the largest. Pressed again, it reverses the order.
 * @param {Column} column @param {OnSort | undefined} onSort */
function heading({ key, title, kind, sort }, onSort) {
  if (kind === 'action') return el('th', { scope: 'col' }, el('span', { class: 'visually-hidden' }, title));
  if (!onSort) return el('th', { scope: 'col', class: kind }, title);
  const isDescending = sort === 'none' ? NUMERIC.has(kind) : sort === 'ascending';
  const arrow = SORT_ARROWS[sort];
  return el('th', { scope: 'col', class: kind, 'aria-sort': sort },
    el('button', { type: 'button', 'data-key': key, click: () => onSort(key, isDescending) }, title,
      arrow && el('span', { class: 'arrow', 'aria-hidden': 'true' }, arrow)));
}

/** @param {Cell[]} totals @param {Column[]} columns */
function foot(totals, columns) {
  return el('tfoot', {}, el('tr', {}, ...totals.map((cell, index) => plainCell({ ...cell, class: '' }, columns[index].kind))));
}

/** @param {Cell[]} cells @param {Column[]} columns */
const tableRow = (cells, columns) => el('tr', {}, ...cells.map((cell, index) => tableCell(cell, columns[index].kind)));

/** @param {Cell} cell @param {ColumnKind} kind */
function tableCell(cell, kind) {
  if (kind === 'place') return sourceLines(cell);
  if (kind === 'action') return el('td', { class: kind }, el('button', { type: 'button', class: 'small', 'data-rule': cell.title, 'data-of': cell.class }, cell.text));
  if (cell.since_first_op_ns !== undefined) return timeCell(cell, kind);
  if (kind !== 'kernel') return plainCell(cell, kind);
  return el('td', { class: kind, title: cell.title || cell.text },
    el('button', { type: 'button', class: 'kernel' }, ...kernelName(cell.text)));
}

/** A point in time, which leads to the timeline. @param {Cell} cell @param {ColumnKind} kind */
function timeCell({ text, title, since_first_op_ns: time }, kind) {
  return el('td', { class: kind, title },
    el('button', { type: 'button', class: 'moment-link', 'data-time': time, title: `${title}: show it in the timeline` }, text));
}

/** @param {Cell} cell @param {ColumnKind} kind */
function plainCell({ text, title, class: className }, kind) {
  return el('td', { class: kind, title: title || (kind === 'text' && text) }, kind === 'category' && className && swatch(className), text);
}

/** Lines of source code, each a button that copies it. @param {Cell} cell */
function sourceLines({ text }) {
  const lines = text.split('\n').filter(Boolean);
  return el('td', { class: 'place' }, ...lines.map((line) => el('button', { type: 'button', class: 'place', title: `Copy ${line}` }, line)));
}

/** A kernel's name with its namespaces and template arguments dimmed. @param {string} name */
function kernelName(name) {
  const cut = name.search(/[<(]/);
  const qualified = cut > 0 ? name.slice(0, cut) : name;
  const start = qualified.lastIndexOf('::') + 1;
  const own = start > 0 ? start + 1 : 0;
  /** @param {string} text */
  const dim = (text) => text && el('span', { class: 'dim' }, text);
  return [dim(name.slice(0, own)), el('span', {}, qualified.slice(own)), dim(name.slice(qualified.length))];
}

/** A note in place of sections that are being computed. */
export const pendingNote = () => note('Being computed');

/** Shows the row of tabs by the ARIA pattern: it is one tab stop, and arrow keys choose a tab.
 * @param {ShownTab[]} tabs @param {string} chosen @param {(tab: string) => void} onChoose */
export function showTabs(tabs, chosen, onChoose) {
  const strip = byId('tabs');
  const hadFocus = strip.contains(document.activeElement);
  const isNew = document.getElementById(`tab-${chosen}`)?.ariaSelected !== 'true';
  const buttons = tabs.map(({ id, title, rows }) => el('button', {
    type: 'button', role: 'tab', id: `tab-${id}`, 'aria-controls': 'panel', 'aria-selected': String(id === chosen), tabindex: id === chosen ? '0' : '-1',
    click: () => onChoose(id), keydown: (/** @type {KeyboardEvent} */ event) => moveByKey(event, tabs, id, onChoose),
  }, title, rows && el('span', { class: 'tab-rows' }, rows)));
  strip.replaceChildren(...buttons);
  byId('panel').setAttribute('aria-labelledby', `tab-${chosen}`);
  const chosenTab = document.getElementById(`tab-${chosen}`);
  if (isNew && chosenTab) scrollSideways(strip, chosenTab);
  if (hadFocus) chosenTab?.focus();
}

/** Scrolls only the strip, unlike `scrollIntoView`. @param {HTMLElement} strip @param {HTMLElement} tab */
function scrollSideways(strip, tab) {
  const [frame, part] = [strip, tab].map((node) => node.getBoundingClientRect());
  strip.scrollLeft += Math.min(0, part.left - frame.left) + Math.max(0, part.right - frame.right);
}

/** @param {KeyboardEvent} event @param {ShownTab[]} tabs @param {string} id @param {(tab: string) => void} onChoose */
function moveByKey(event, tabs, id, onChoose) {
  const index = tabs.findIndex((tab) => tab.id === id);
  /** @type {Record<string, number>} */
  const targets = { Home: 0, End: tabs.length - 1, ArrowRight: index + 1, ArrowLeft: index - 1 };
  if (!(event.key in targets)) return;
  event.preventDefault();
  onChoose(tabs[(targets[event.key] + tabs.length) % tabs.length].id);
}
