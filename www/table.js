// Draws the row of tabs and the tables below it. Each table has its figures, notes and gaps above it. Headings sort; kernel names
// open a kernel in detail. For a long table only the rows on screen are in the document (virtual.js).

import { arrange, button, byId, commandLine, el, figureItem, note, present, swatch, words } from './dom.js';
import { readStored, store } from './storage.js';

/** @import { Cell, Column, ColumnKind, Gap, Tab, Table } from './types.js' */
/** @import { VirtualRows } from './virtual.js' */

/** Sorts by a column. @typedef {(key: string, isDescending: boolean) => void} OnSort */
/** The cells of further rows. @typedef {(from: number) => Promise<Cell[][]>} RequestRows */
/** Actions on the table with an id. `save` saves it as CSV.
 * @typedef {{
 *   sort(table: string, key: string, isDescending: boolean): void,
 *   save(table: string): void,
 *   openKernel(name: string): void,
 *   openTable(table: string): void,
 *   showCategories(): void,
 *   showMoment(table: string, row: HTMLTableRowElement, pressed: HTMLElement): void,
 *   requestRows(table: string, from: number): Promise<Cell[][]>,
 * }} TableActions */
/** @typedef {Tab & { isPending?: boolean }} ShownTab */
/** A column as the page draws it. `hasBars`: its percentages are parts of a whole. `isHidden`: the person has hidden it.
 * @typedef {Column & { hasBars: boolean, isHidden: boolean }} DrawnColumn */

export const PHONE = matchMedia('(max-width: 560px)');

/** Rows that are added at once. Tables of more rows are virtual. */
const ROWS_AT_ONCE = 200;
/** Rows of one request. Printing cannot wait for a second one. */
export const ROWS_PER_REQUEST = 500;
/** Tables whose cells can have several lines. Their rows differ in height, so they cannot be virtual. */
const TALL_TABLES = /^(triage_.*|notices|findings|trust)$/;
/** @type {Set<ColumnKind>} */
const NUMERIC = new Set(['count', 'time', 'share']);

/** Shows these tables and other nodes, one below the other. The nodes of a table stay if `key` and the table are as before. What tables
 * lack is listed at the end.
 * @param {string} key @param {(Table | HTMLElement)[]} parts @param {TableActions} actions */
export function showTables(key, parts, actions) {
  const parent = byId('blocks');
  const restoreFocus = rememberFocus(parent);
  /** @type {Table[]} */
  const missing = [];
  /** @type {Map<unknown, () => HTMLElement>} */
  const nodes = new Map();
  for (const part of parts) {
    if (part instanceof HTMLElement) nodes.set(part, () => part);
    else if (isMissing(part)) missing.push(part);
    else nodes.set(key + JSON.stringify(part), () => tableBlock(part, actions));
  }
  if (missing.length > 0) nodes.set(JSON.stringify(missing), () => missingBlock(missing, missing.length === parts.length));
  arrange(parent, [...nodes.keys()], (node) => /** @type {() => HTMLElement} */ (nodes.get(node))());
  printable = printable.filter(({ body }) => body.isConnected);
  parent.onclick = ({ target }) => {
    const kernel = target instanceof Element ? target.closest('button.kernel')?.parentElement?.title : '';
    if (kernel) actions.openKernel(kernel);
    const link = target instanceof Element ? target.closest('button.moment-link') : null;
    const [row, block] = [link?.closest('tr'), link && blockOf(link)];
    if (link instanceof HTMLElement && row && block) actions.showMoment(block.dataset.table ?? '', row, link);
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

/** Whether there is nothing to show of a table but what it lacks. @param {Table} table */
const isMissing = ({ grid, figures, gaps }) => !grid && gaps.length > 0 && figures.every((run) => run.figures.length === 0);

/** One line that names the tables that the trace has nothing for, with the reasons and commands behind it, or below if nothing else is shown.
 * @param {Table[]} tables @param {boolean} isOpen */
function missingBlock(tables, isOpen) {
  const titles = (/** @type {Table[]} */ list) => list.map(({ title }) => title).join(', ');
  /** @type {Map<string, Table[]>} */
  const reasons = new Map();
  for (const table of tables) {
    const key = JSON.stringify(table.gaps);
    reasons.set(key, [...reasons.get(key) ?? [], table]);
  }
  return el('details', { class: 'block missing', open: isOpen || reasons.size === 1, 'data-table': tables.map(({ id }) => id).join(' ') },
    el('summary', {}, el('span', {}, 'Not in this trace: '), titles(tables)),
    ...[...reasons.values()].flatMap((same) => [reasons.size > 1 && el('h3', {}, titles(same)), ...same[0].gaps.map(gapLine)]));
}

/** What is explained, by id: an explanation stays open when its table is drawn again. @type {Set<string>} */
const explained = new Set();

/** A button that shows an explanation, and the explanation. @param {string} id @param {string} title @param {string} text */
export function explanation(id, title, text) {
  const body = el('p', { class: 'note explanation', id: `about-${id}`, hidden: !explained.has(id) }, ...words(text));
  const mark = button('?', () => {
    body.hidden = !body.hidden;
    mark.setAttribute('aria-expanded', String(!body.hidden));
    explained[body.hidden ? 'delete' : 'add'](id);
  }, { class: 'explain', 'aria-expanded': String(!body.hidden), 'aria-controls': body.id, 'aria-label': `About ${title}`, title: 'What this shows' });
  return [mark, body];
}

/** A table with its title, notes, figures and gaps. Without actions it must have all its rows.
 * @param {Table} table @param {TableActions} [actions] */
export function tableBlock(table, actions) {
  const { id, title, shown, hidden, figures, gaps, grid: hasGrid, is_short: isShort } = table;
  const titleId = `title-${id}`;
  const [mark, body] = table.note ? explanation(id, title, table.note) : [];
  const { frame, below, menu, columnsNote } = hasGrid ? grid(table, actions) : { below: [] };
  return el('section', { class: isShort ? 'block short' : 'block', 'data-table': id, 'aria-labelledby': titleId },
    el('header', {}, el('h2', { id: titleId }, title), mark, hasGrid && el('span', { class: 'note shown', role: 'status' }, shown, hidden && ` · ${hidden}`),
      hidden && actions && button('Show all', actions.showCategories, { class: 'small', title: 'Show the hidden categories' }), columnsNote,
      actions && isShort && button(`All ${title.toLowerCase()}`, () => actions.openTable(id), { class: 'small' }),
      actions && hasGrid && el('span', { class: 'table-tools' }, menu,
        button('CSV', () => actions.save(id), { class: 'small quiet', 'data-format': 'csv', 'aria-label': `Save ${title} as CSV` }))),
    body, ...figures.map(figureList), ...gaps.map(gapLine),
    frame, ...below);
}

/** @param {Table['figures'][number]} figures */
export function figureList({ run, figures }) {
  return el('dl', { class: 'figures', 'aria-label': run || null }, run && el('div', {}, el('dt', {}, 'Run'), el('dd', {}, run)), ...figures.filter(({ text }) => text).map(figureItem));
}

/** States what is missing, and the command that captures it. @param {Gap} gap */
function gapLine({ run, why, recapture }) {
  return el('div', { class: 'gap' }, el('p', {}, run && el('span', { class: 'run-label' }, `${run}: `), ...words(why)), recapture && commandLine(recapture));
}

/** The frame with the rows, what is below it, and for the heading the menu of the columns and their note, unless the table is short.
 * @param {Table} table @param {TableActions} [actions] */
function grid(table, actions) {
  const { id, title, row_count: count, totals, shown, is_short: isShort } = table;
  const hasMenu = Boolean(actions) && !isShort;
  const columns = drawnColumns(table, hasMenu);
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
  const controls = isLong ? longBody(table, columns, frame, body, requestRows) : shortBody(table, columns, body, requestRows);
  return { frame, below: present([...controls, printNote]), ...(isShort ? {} : columnParts(id, title, frame, columns, hasMenu)) };
}

/** The menu that hides columns, and the note of those that are hidden or out of sight.
 * @param {string} id @param {string} title @param {HTMLElement} frame @param {DrawnColumn[]} columns @param {boolean} hasMenu */
function columnParts(id, title, frame, columns, hasMenu) {
  const columnsNote = el('span', { class: 'note columns-note' });
  const menu = hasMenu && el('details', { class: 'menu column-menu' },
    el('summary', { class: 'button', 'aria-label': `Columns of ${title}`, title: 'Hide columns of this table. Exports have all columns.' }, 'Columns'),
    el('div', { class: 'menu-items', role: 'group', 'aria-label': `Columns of ${title}` }));
  // Without the script the table has all it needs.
  import('./columns.js').then(({ ColumnsOfTable }) => new ColumnsOfTable({ id, frame, columns, note: columnsNote, menu }), () => {});
  return { columnsNote, menu };
}

/** The columns of this table are values of the trace, names of files among them, which the browser must not keep. */
const PIVOT = 'pivot';

/** The keys of the columns that the person chose to hide, one a line, by table. @type {Map<string, string>} */
const hiddenColumns = new Map();

/** @param {string} table */
const hiddenColumnsKey = (table) => `gpuprism:hidden-columns:${table}`;

/** Without a choice, a phone shows name, times and share of a kernel. @param {string} table */
const usuallyHidden = (table) => (table === 'kernels' && PHONE.matches ? 'category\ncount' : '');

/** The keys of the hidden columns of a table. @param {string} table */
export function hiddenColumnsOf(table) {
  const keys = hiddenColumns.get(table) ?? readStored(hiddenColumnsKey(table)) ?? usuallyHidden(table);
  return new Set(keys.split('\n').filter(Boolean));
}

/** Keeps the choice of the person, unless it is the usual one. @param {string} table @param {Set<string>} hidden */
export function keepHiddenColumns(table, hidden) {
  const keys = [...hidden].sort().join('\n');
  const isUsual = keys === usuallyHidden(table);
  hiddenColumns[isUsual ? 'delete' : 'set'](table, keys);
  // An empty text would be removed, and the usual columns hidden again.
  if (table !== PIVOT) store(hiddenColumnsKey(table), isUsual ? '' : `${keys}\n`);
}

/** What tables do before and after printing. @type {{ body: HTMLElement, expand: () => void, collapse?: () => void }[]} */
let printable = [];
addEventListener('beforeprint', () => printable.forEach((table) => table.expand()));
addEventListener('afterprint', () => printable.forEach((table) => table.collapse?.()));

/** @param {Table} table @param {DrawnColumn[]} columns @param {HTMLElement} body @param {RequestRows} requestRows @returns {HTMLElement[]} */
function shortBody({ rows, row_count: count }, columns, body, requestRows) {
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
 * @param {Table} table @param {DrawnColumn[]} columns @param {HTMLElement} frame @param {HTMLElement} body @param {RequestRows} requestRows
 * @returns {HTMLElement[]} */
function longBody(table, columns, frame, body, requestRows) {
  const { rows, row_count: count } = table;
  /** @type {HTMLElement[]} */
  const headings = [...frame.querySelectorAll('thead th')].filter((th) => th instanceof HTMLElement && !th.matches('.kernel')).map((th) => /** @type {HTMLElement} */ (th));
  import('./virtual.js').then((virtual) => {
    const virtualRows = new virtual.VirtualRows({
      frame, body, count, first: rows, request: requestRows, draw: (cells, index) => longRow(cells, index, columns), onDrawn: () => keepWidths(headings),
    });
    printable.push({ body, expand: () => virtualRows.expandForPrint(), collapse: () => virtualRows.collapse() });
  }, () => shortBody(table, columns, body, requestRows).forEach((more) => frame.after(more)));
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

/** @param {Cell[] | null} cells @param {number} index @param {DrawnColumn[]} columns */
function longRow(cells, index, columns) {
  const row = cells ? tableRow(cells, columns) : el('tr', { 'aria-busy': 'true' }, el('td', { colspan: columns.length }, '…'));
  row.setAttribute('aria-rowindex', String(index + 2));
  return row;
}

/** @param {DrawnColumn[]} columns @param {OnSort | undefined} onSort @param {boolean} isLong */
function head(columns, onSort, isLong) {
  return el('thead', {}, el('tr', { 'aria-rowindex': isLong && '1' }, ...columns.map((column) => hiddenIf(column, heading(column, onSort)))));
}

/** @param {DrawnColumn} column @param {HTMLElement} cell */
function hiddenIf({ isHidden }, cell) {
  cell.hidden = isHidden;
  return cell;
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

/** @param {Cell[]} totals @param {DrawnColumn[]} columns */
function foot(totals, columns) {
  return el('tfoot', {}, el('tr', {}, ...totals.map((cell, index) => hiddenIf(columns[index], plainCell({ ...cell, class: '' }, columns[index].kind)))));
}

/** A share with its unit in the heading. Changes have a sign. */
const PERCENTAGE = /^\d+(\.\d+)?$/;

/** @param {string} text */
const isPart = (text) => PERCENTAGE.test(text) && Number(text) <= 100;

/** @param {Table} table @param {boolean} canHide @returns {DrawnColumn[]} */
function drawnColumns({ id, columns, rows }, canHide) {
  const hidden = hiddenColumnsOf(id);
  // A table without columns would look broken.
  const areSomeLeft = columns.some(({ key }) => !hidden.has(key));
  return columns.map((column, index) => ({
    ...column,
    hasBars: column.kind === 'share' && rows.every((cells) => !cells[index].text || isPart(cells[index].text)),
    isHidden: canHide && areSomeLeft && hidden.has(column.key),
  }));
}

/** @param {Cell[]} cells @param {DrawnColumn[]} columns */
const tableRow = (cells, columns) => el('tr', {}, ...cells.map((cell, index) => {
  const { kind, hasBars } = columns[index];
  const node = hiddenIf(columns[index], tableCell(cell, kind));
  // The length of the bar behind a percentage: see td.share in style.css.
  if (hasBars && isPart(cell.text)) node.style.setProperty('--percent', cell.text);
  return node;
}));

/** @param {Cell} cell @param {ColumnKind} kind */
function tableCell(cell, kind) {
  if (kind === 'place') return sourceLines(cell);
  if (kind === 'action') return el('td', { class: kind }, el('button', { type: 'button', class: 'small', 'data-rule': cell.title, 'data-of': cell.class }, cell.text));
  if (cell.since_first_op_ns !== undefined || cell.example) return momentCell(cell, kind);
  if (kind !== 'kernel') return plainCell(cell, kind);
  return el('td', { class: kind, title: cell.title || cell.text },
    el('button', { type: 'button', class: 'kernel' }, ...kernelName(cell.text)));
}

/** A point in time, or a value with a case of it: both lead to the timeline. @param {Cell} cell @param {ColumnKind} kind */
function momentCell({ text, title, since_first_op_ns: time, example }, kind) {
  const action = example ? example.text : 'show it in the timeline';
  return el('td', { class: kind, title },
    el('button', { type: 'button', class: 'moment-link', 'data-time': time ?? null, 'data-example': example ? example.of : null, 'data-file': example?.file ?? null, 'data-run': example?.run ?? null, title: `${title || text}: ${action}` }, text));
}

/** @param {Cell} cell @param {ColumnKind} kind */
function plainCell({ text, title, class: className }, kind) {
  return el('td', { class: kind, title: title || (kind === 'text' && text) }, kind === 'category' && className && swatch(className), text);
}

/** Lines of source code, each a button that copies it, with a link to the code of an engine. @param {Cell} cell */
function sourceLines({ text, sources = [] }) {
  return el('td', { class: 'place' }, ...text.split('\n').map((line, at) => line && el('div', { class: 'source-line' },
    el('button', { type: 'button', class: 'place', title: `Copy ${line}` }, line), sourceLink(sources[at]))));
}

/** @param {{ url: string, title: string } | null | undefined} source */
const sourceLink = (source) => source && el('a', { class: 'source-link', href: source.url, title: source.title, 'aria-label': source.title, target: '_blank', rel: 'noopener noreferrer' }, '↗');

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

/** Shows the row of tabs by the ARIA pattern: it is one tab stop, and arrow keys choose a tab. The tabs of the menu "More" are in it; of
 * these only the chosen one is in the row.
 * @param {ShownTab[]} tabs @param {string} chosen @param {(tab: string) => void} onChoose */
export function showTabs(tabs, chosen, onChoose) {
  const strip = byId('tabs');
  const hadFocus = strip.contains(document.activeElement);
  const isNew = document.getElementById(`tab-${chosen}`)?.ariaSelected !== 'true';
  const inRow = tabs.filter(({ id, is_more: isMore }) => !isMore || id === chosen);
  const rowCount = (/** @type {ShownTab} */ { rows }) => rows && el('span', { class: 'tab-rows' }, rows);
  const buttons = inRow.map((tab) => el('button', {
    type: 'button', role: 'tab', id: `tab-${tab.id}`, 'aria-controls': 'panel', 'aria-selected': String(tab.id === chosen), tabindex: tab.id === chosen ? '0' : '-1',
    click: () => onChoose(tab.id), keydown: (/** @type {KeyboardEvent} */ event) => moveByKey(event, inRow, tab.id, onChoose),
  }, tab.title, rowCount(tab)));
  strip.replaceChildren(...buttons);
  showMore(tabs.filter(({ is_more: isMore }) => isMore), chosen, onChoose, rowCount);
  byId('panel').setAttribute('aria-labelledby', `tab-${chosen}`);
  const chosenTab = document.getElementById(`tab-${chosen}`);
  if (isNew && chosenTab) scrollSideways(strip, chosenTab);
  if (hadFocus) chosenTab?.focus();
}

/** The menu of the tabs that are not in the row. The keys are those of the items, so an open menu keeps the focus.
 * @param {ShownTab[]} tabs @param {string} chosen @param {(tab: string) => void} onChoose @param {(tab: ShownTab) => HTMLElement | ''} rowCount */
function showMore(tabs, chosen, onChoose, rowCount) {
  const menu = byId('more');
  const keys = tabs.map(({ id, title, rows }) => JSON.stringify([id, title, rows, id === chosen]));
  arrange(/** @type {Element} */ (menu.lastElementChild), keys, (_, index) => el('button', {
    type: 'button', id: `more-${tabs[index].id}`, 'aria-current': tabs[index].id === chosen && 'true', click: () => {
      menu.removeAttribute('open');
      onChoose(tabs[index].id);
    },
  }, tabs[index].title, rowCount(tabs[index])));
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
