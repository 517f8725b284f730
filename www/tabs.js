// The tabs and their tables. The report says which tables are in which tab. Comparison, ranks, dashboard, model, triage, pivot and rules
// have a script of their own, which is loaded when it is first shown.

import { showPageProblem } from './cards.js';
import { button, byId, el, latest, onDemand, prefetched, present, runOptions, save } from './dom.js';
import { PHONE, ROWS_PER_REQUEST, pendingNote, showTables, showTabs } from './table.js';
import { WayBack } from './way-back.js';

/** @import { OnDemand } from './dom.js' */
/** @import { Page, RowValue, Tab, Table, TableRequest, TraceEntry, View } from './types.js' */

/** `isPending` is true for a tab that waits for all its tables; `allTables` are those that it has once they are computed.
 * @typedef {Tab & { isPending?: boolean, allTables?: string[] }} AnyTab */
/** @typedef {Map<string, { key: string, answer: Promise<Table | null> }>} PrefetchedTables */

/** The part of the view that is reset when a tab is opened. */
const TAB_DEFAULTS = { of: '', sort: '', dir: 'desc', filter: '', kernel: '' };

/** Tabs and groups that have more than tables of the report, by the names in patterns/sections.json. */
const TIMELINE = 'timeline';
const KERNELS = 'kernels';
const COMPARE = 'compare';
const RANKS = 'ranks';
const TRIAGE = 'triage';
const DASHBOARD = 'dashboard';
const RULES = 'rules';
/** The table that has a picture above it. */
const LATENCIES = 'launch_latency_histogram';
/** The default pivot is a table of the report. A tools worker computes other layouts. */
const PIVOT = 'pivot';
/** A layout in the address: rows, columns, values, percentage, number of rows. */
const LAYOUT_LENGTH = 5;
/** Rows of the short form of a table. */
const SHORT_ROWS = 10;
/** How many characters of a kernel's name have room in the tables of the triage, and in all on a phone: see `td.kernel` in style.css. */
const TRIAGE_NAME_CHARS = 40;
const PHONE_NAME_CHARS = 30;
/** The same in the table of kernels, where times and share are in sight next to the name. */
const PHONE_KERNEL_CHARS = 16;
/** The same in the short form with a column of runs. */
const NAME_CHARS_BESIDE_RUNS = 30;
const PHONE_NAME_CHARS_BESIDE_RUNS = 16;

const isCompared = (/** @type {string} */ table) => table.startsWith('compare_');
const isOfRanks = (/** @type {string} */ table) => table === RANKS || table.startsWith('rank_');
const isOfRules = (/** @type {string} */ table) => table.startsWith('rules_');

export class Tabs {
  #page;
  #comparison;
  #dashboard;
  #model;
  #latencies;
  #ranks;
  #triage;
  #pivot;
  #rules;
  /** The table that was opened by name: it is scrolled to once it is drawn. */
  #scrollTarget;
  /** The table that proves what the timeline shows: it comes first, below the timeline, in any tab. */
  #proof = '';
  /** The values of the row of that table that is shown once it is drawn. @type {RowValue[]} */
  #find = [];
  /** The room of a name in the short form, where names were cut. @type {number | null} */
  #measuredChars = null;
  /** The report's tabs when it was last complete. @type {Tab[]} */
  #completeTabs = [];

  #unfold = button('', () => this.open(this.#isUnfolded ? TIMELINE : this.#chosen.folded?.id ?? ''), { class: 'unfold' });
  #nothingToCompare = el('p', {}, 'Open another trace to see what changed. ', button('Add files', () => byId('choose').click()));
  /** @type {HTMLSelectElement} */
  #alternatives = el('select', { change: () => this.open(this.#alternatives.value) });
  #alternativesLabel = el('label', {}, 'Rows by ', this.#alternatives);

  /** @param {Page} page @param {(category: string) => void} pickCategory */
  constructor(page, pickCategory) {
    this.#page = page;
    this.#scrollTarget = page.store.view.tab;
    const { store, session, requestTool, look } = page;
    this.#comparison = onDemand(async () => new (await import('./compare.js')).Comparison(requestTool, {
      baseline: (base) => look({ base }),
      open: () => this.open(COMPARE),
      openRanks: () => this.open(RANKS),
      pick: pickCategory,
      markdown: () => page.exported('markdown', COMPARE),
    }));
    this.#dashboard = onDemand(async () => new (await import('./dashboard.js')).Dashboard(page, (table) => this.open(table)));
    this.#model = onDemand(async () => new (await import('./model.js')).Model(page, (table) => this.open(table)));
    this.#latencies = onDemand(async () => new (await import('./latency.js')).LatencyPicture(page, (table) => this.open(table)));
    this.#ranks = onDemand(async () => new (await import('./ranks.js')).Ranks(session));
    this.#triage = onDemand(async () => {
      const { Triage } = await import('./triage.js');
      return new Triage(page, () => page.exported('markdown', TRIAGE), (name) => this.open(KERNELS, { filter: name }));
    });
    PHONE.addEventListener('change', () => store.overview && page.attempt('The tables could not be drawn', () => this.show()));
    this.#pivot = onDemand(async () => new (await import('./pivot.js')).Pivot(page));
    this.#rules = onDemand(async () => {
      const { Rules } = await import('./rules.js');
      return new Rules(page, () => store.overview && page.attempt('The rules could not be shown', this.draw));
    });
  }

  /** Opens a tab, by its name or by that of one of its tables; as a proof, the table with the timeline above it.
   * @param {string} id @param {Partial<View>} [more] @param {{ isProof?: boolean, find?: RowValue[] }} [options] */
  open(id, more = {}, { isProof = false, find = [] } = {}) {
    this.#scrollTarget = isProof ? '' : id;
    this.#proof = isProof ? id : '';
    this.#find = find;
    const { store, look, attempt } = this.#page;
    const { view } = store;
    look({ tab: id, ...TAB_DEFAULTS, ...more });
    // The tab that is already open is drawn again, for example after a failure.
    if (store.view === view) attempt('The view could not be drawn', () => this.show());
  }

  /** Every torch trace has a triage, even before its tables are computed. @returns {AnyTab[]} */
  get #all() {
    const { store, session } = this.#page;
    const hasCode = session.traces.some(({ torch }) => torch);
    const isOffered = (/** @type {string} */ table) => (!isCompared(table) || store.runs.length > 1) && (!isOfRanks(table) || session.hasRanks);
    return this.#reportTabs.filter(({ id, tables }) => id !== TRIAGE || tables.length > 0 || hasCode)
      .map((tab) => ({ ...tab, tables: tab.tables.filter(isOffered), allTables: tab.allTables?.filter(isOffered) }));
  }

  /** While sections are being computed, their tabs stay and are marked as pending. @returns {AnyTab[]} */
  get #reportTabs() {
    const { store, session } = this.#page;
    const tabs = store.overview?.tabs ?? [];
    if (!session.isPartial) {
      this.#completeTabs = tabs;
      return tabs;
    }
    const known = this.#completeTabs.map((tab) => {
      const now = tabs.find(({ id }) => id === tab.id);
      return now ? { ...now, allTables: tab.tables, folded: tab.folded } : { ...tab, rows: '', isPending: true };
    });
    return [...known, ...tabs.filter(({ id }) => !known.some((tab) => tab.id === id))];
  }

  /** The tab that the address names, by its name or by that of a group or a table in it. @returns {AnyTab} */
  get #chosen() {
    const { tab } = this.#page.store.view;
    const all = this.#all;
    return all.find(({ id }) => id === tab)
      ?? all.find(({ names, tables, allTables = tables, folded }) => names.includes(tab) || allTables.includes(tab) || (folded && isIn(folded, tab)))
      ?? all[0];
  }

  /** Whether the address names the folded tables of the chosen tab, or one of them. */
  get #isUnfolded() {
    const { folded } = this.#chosen;
    return folded !== null && isIn(folded, this.#page.store.view.tab);
  }

  /** The tables that are shown now, in order. */
  get #shown() {
    return this.#tablesToShow(this.#chosen.tables);
  }

  /** Of tables that are alternatives, the one that the address names is shown, or else the first.
   * @param {string[]} tables those of the chosen tab */
  #tablesToShow(tables) {
    const { in_short: inShort, one_of: oneOf, folded } = this.#chosen;
    const { tab } = this.#page.store.view;
    const alternatives = oneOf.map(({ table }) => table);
    const [first] = alternatives;
    const chosen = alternatives.includes(tab) ? tab : first;
    const shown = tables.filter((id) => id === chosen || !alternatives.includes(id));
    return present([inShort, ...shown, ...(folded && this.#isUnfolded ? folded.tables : [])]);
  }

  /** Draws the row of tabs, and the chosen tab with its tables. */
  show() {
    this.showRow();
    return this.showTables();
  }

  /** Draws the row of tabs and shows the parts of the chosen one. The chart has a width only in a tab that is shown. */
  showRow() {
    const { id, one_of: oneOf } = this.#chosen;
    byId('panel').dataset.tab = id;
    byId('panel').classList.toggle('proof', this.#proof !== '');
    showTabs(this.#all, id, (chosen) => this.open(chosen));
    this.#showAlternatives(oneOf);
  }

  /** Draws the tables of the chosen tab. @param {PrefetchedTables} [tables] */
  showTables(tables) {
    const { id, names } = this.#chosen;
    return Promise.all([
      this.draw(tables),
      this.#toggle(this.#pivot, names.includes(PIVOT)),
      this.#toggle(this.#dashboard, id === DASHBOARD),
      this.#toggle(this.#model, this.#isUnfolded),
      this.#toggle(this.#ranks, names.includes(RANKS) && this.#page.session.hasRanks),
      this.#toggle(this.#rules, id === RULES),
    ]);
  }

  /** The choice between tables of which one is shown at a time. @param {Tab['one_of']} oneOf */
  #showAlternatives(oneOf) {
    const [shown] = this.#shown;
    this.#alternatives.replaceChildren(...oneOf.map(({ table, title }) => new Option(title, table, false, table === shown)));
    if (!this.#alternativesLabel.isConnected) byId('run-label').before(this.#alternativesLabel);
    this.#alternativesLabel.hidden = oneOf.length < 2;
  }

  /** Requests the tables from the renderer, which has just got the reports. @returns {PrefetchedTables} */
  prefetch() {
    const { tables, allTables = tables } = this.#chosen;
    return new Map(this.#tablesToShow(allTables).filter((id) => this.#isOfReport(id)).map((id) => {
      const request = this.#request(id);
      return [id, prefetched(JSON.stringify(request), this.#reportTable(request))];
    }));
  }

  /** Draws the tables of the chosen tab, some of which may be prefetched. A run without the section gives no table. */
  draw = latest(
    (/** @type {PrefetchedTables | void} */ tables) => Promise.all(this.#shown.map((id) => {
      const request = this.#request(id);
      const table = tables?.get(id);
      // Sorting or filtering in the meantime changes the request.
      return table?.key === JSON.stringify(request) ? table.answer : this.#table(request);
    })),
    async (tables) => {
      const { look, session } = this.#page;
      const panels = await this.#panels(present(tables));
      showTables(JSON.stringify([session.reportsKey, this.#request('')]), panels, {
        sort: (of, sort, isDescending) => look({ of, sort, dir: isDescending ? 'desc' : 'asc' }),
        save: (table) => this.save(table),
        openKernel: (kernel) => look({ kernel }),
        openTable: (table) => this.open(table),
        showCategories: () => look({ hide: [] }),
        showMoment: (table, row, link) => this.showMoment(table, row.cells[0]?.title ?? '', link),
        requestRows: this.#moreRows(),
      });
      this.#fitNames();
      this.#scrollToTarget();
      this.#showFoundRow(tables.find((table) => table?.id === this.#proof)?.found ?? null);
      const { isPending, tables: now, allTables = now } = this.#chosen;
      if (isPending || this.#tablesToShow(allTables).length > this.#tablesToShow(now).length) byId('blocks').append(pendingNote());
      return this.#showTriage(this.#chosen);
    },
  );

  /** The tables, with what is shown between them: the form of the pivot, the button that unfolds tables, and the charts above those.
   * @param {Table[]} tables @returns {Promise<(Table | HTMLElement)[]>} */
  async #panels(tables) {
    const { id: tab, folded, in_short: inShort } = this.#chosen;
    if (tab === COMPARE && this.#page.store.runs.length < 2) return [this.#nothingToCompare];
    /** @type {(Table | HTMLElement)[]} */
    const parts = tables.toSorted((a, b) => Number(b.id === this.#proof) - Number(a.id === this.#proof));
    const pivot = parts.findIndex(({ id }) => id === PIVOT);
    if (pivot >= 0) parts.splice(pivot, 0, (await this.#pivot()).node);
    const latencies = tables.some(({ id, row_count: rows }) => id === LATENCIES && rows > 0) ? (await this.#latencies()).show() : null;
    if (latencies) parts.splice(parts.findIndex(({ id }) => id === LATENCIES), 0, latencies);
    if (!folded) return parts;
    const isUnfolded = this.#isUnfolded;
    this.#unfold.textContent = folded.title;
    this.#unfold.setAttribute('aria-expanded', String(isUnfolded));
    const above = inShort ? 1 : 0;
    parts.splice(above, 0, this.#unfold, ...(isUnfolded ? [(await this.#model()).node] : []));
    return parts;
  }

  /** Opens the tab of the timeline, for a moment or a kernel to show there. */
  openTimeline() {
    if (this.#chosen.id !== TIMELINE) this.open(TIMELINE, { kernel: this.#page.store.view.kernel });
  }

  /** Shows what a pressed cell of a table is about, a case or a time: in the timeline of its rank, of its run in a comparison, of the chosen run, or else of
   * the run with this label. The other times of its row tell which bar the time belongs to.
   * @param {string} table @param {string} runLabel @param {HTMLElement} pressed */
  showMoment(table, runLabel, pressed) {
    const { session, store, windows } = this.#page;
    const named = store.runs.findIndex(({ label }) => label === runLabel);
    const { example, file: rankFile, run: comparedRun } = pressed.dataset;
    const isOfRank = (/** @type {TraceEntry} */ { file }) => file.name === rankFile;
    const run = comparedRun ? Number(comparedRun) : store.run ?? Math.max(named, 0);
    const trace = rankFile ? session.liveTraces.find(isOfRank) : session.liveTraceOf(run);
    if (!trace) {
      showPageProblem('There is no timeline of this run', 'It was opened as a report, without its trace. Open the trace to see moments of the run.', 'info');
      byId('cards').lastElementChild?.scrollIntoView({ block: 'nearest' });
      return;
    }
    const others = [...pressed.closest('tr')?.querySelectorAll('[data-time]') ?? []];
    const times = [pressed, ...others].map((time) => Number(time.getAttribute('data-time')));
    const wayBack = new WayBack(this.#page, pressed);
    this.openTimeline();
    if (example) windows.showExample(trace, example, { scrolls: true, wayBack });
    else windows.showTime(trace, { table, times, wayBack });
  }

  /** Scrolls to the table that was opened by name, once it is drawn. */
  #scrollToTarget() {
    const id = this.#scrollTarget;
    const block = id && document.querySelector(`.block[data-table~="${CSS.escape(id)}"]`);
    if (block instanceof HTMLDetailsElement) block.open = true;
    if (block) block.scrollIntoView({ block: 'nearest' });
    if (block || !this.#page.session.isPartial) this.#scrollTarget = '';
  }

  /** @param {number | null} index */
  #showFoundRow(index) {
    const block = document.querySelector(`.block[data-table="${CSS.escape(this.#proof)}"]`);
    if (index === null || !(block instanceof HTMLElement)) return;
    this.#find = [];
    this.#page.attempt('The row could not be shown', async () => (await import('./found-row.js')).showRow(block, index));
  }

  /** @type {Page['jobRanks']} */
  async jobRanks() {
    const { session } = this.#page;
    return session.hasRanks && session.liveTraces.length > 1 ? this.#ranks() : null;
  }

  /** The rules of the person. */
  get rules() {
    return this.#rules;
  }

  /** Applies the rules of an earlier visit. */
  restoreRules = async () => (await this.#rules()).restore();

  /** Shows the comparison once all open files have been read. For one job, it compares the ranks. */
  showComparison = latest(
    async () => {
      const progress = this.#comparisonProgress;
      return { progress, jobVerdict: progress === 'ready' ? await this.#jobVerdict() : null };
    },
    async ({ progress, jobVerdict }) => {
      const { store } = this.#page;
      if (progress === 'none') (await this.#comparison.loaded())?.hide();
      if (progress === 'ready') await (await this.#comparison()).draw({ baseline: store.baseline, isOpen: this.#chosen.id === COMPARE, hidden: store.view.hide, jobVerdict });
      if (jobVerdict) this.#page.attempt('The timelines of the late ranks could not be shown', () => this.#leadWithNamed());
    },
  );

  /** The verdict about the job whose ranks the open files are; null if they are not ranks of one job. */
  async #jobVerdict() {
    return this.#page.session.isOneJob ? (await this.#ranks()).jobVerdict().catch(() => null) : null;
  }

  /** Puts the timelines of the ranks that the verdict names first. */
  async #leadWithNamed() {
    await this.#page.windows.leadWith(await (await this.#ranks()).named());
  }

  /** `none` without runs to compare, `waiting` while a file is being read or analyzed, else `ready`. */
  get #comparisonProgress() {
    const { store, session } = this.#page;
    if (session.reports.length === 0 || store.runs.length < 2) return 'none';
    return session.entries.every(({ status }) => status === 'open' || status === 'failed') ? 'ready' : 'waiting';
  }

  /** @param {AnyTab} tab */
  async #showTriage({ id, tables }) {
    const isOpen = id === TRIAGE;
    (await (isOpen ? this.#triage() : this.#triage.loaded()))?.show(isOpen, tables.length > 0);
  }

  /** Shows or hides a part of the page; one that was never shown is not loaded.
   * @param {OnDemand<{ show(isOpen: boolean): unknown }>} part @param {boolean} isOpen */
  async #toggle(part, isOpen) {
    await (await (isOpen ? part() : part.loaded()))?.show(isOpen);
  }

  /** @param {string} id */
  #hasLayout = (id) => id === PIVOT && this.#page.store.view.pivot.length === LAYOUT_LENGTH;

  /** @param {string} id */
  #isOfReport = (id) => !this.#hasLayout(id) && !isOfRules(id) && !isCompared(id) && !isOfRanks(id);

  /** The part of the page that makes this table; null for a table of the report or of the comparison.
   * @param {string} id */
  #partOf(id) {
    if (this.#hasLayout(id)) return this.#pivot();
    if (isOfRanks(id)) return this.#ranks();
    return isOfRules(id) ? this.#rules() : null;
  }

  /** @param {TableRequest} request @returns {Promise<Table | null>} */
  async #table(request) {
    const { store, requestTool } = this.#page;
    const part = await this.#partOf(request.id);
    if (part) return part.table(request);
    if (isCompared(request.id)) return await this.#jobVerdict() ? null : requestTool('table', { baseline: store.baseline, request });
    return this.#reportTable(request);
  }

  /** A table of the report. Its cells lead to the timeline only if one of the runs has one. @param {TableRequest} request */
  async #reportTable(request) {
    const { renderer, session } = this.#page;
    const table = await renderer.table(request);
    return table && session.expectedTraces.length === 0 ? withoutMoments(table) : table;
  }

  /** @param {string} id */
  async #csv(id) {
    const part = await this.#partOf(id);
    return part ? part.csv(this.#request(id)) : this.#page.exported('csv', id);
  }

  /** Saves a table as CSV. @param {string} id */
  save(id) {
    this.#page.attempt('The export failed', async () => save(await this.#csv(id), 'text/csv', `gpuprism-${id.replace(/\W+/g, '-')}.csv`));
  }

  /** @param {string} id @returns {TableRequest} */
  #request(id) {
    const { view, run } = this.#page.store;
    const [first] = this.#shown;
    const isSorted = id === (view.of || first);
    const isShort = id !== '' && id === this.#chosen.in_short;
    return {
      id,
      run,
      sort: (isSorted && view.sort) || null,
      descending: view.dir === 'desc',
      filter: view.filter,
      hidden_categories: view.hide,
      from: 0,
      count: isShort ? SHORT_ROWS : ROWS_PER_REQUEST,
      short: isShort,
      name_chars: isShort ? this.#shortChars : nameChars(id),
      find: id === this.#proof ? this.#find : [],
    };
  }

  /** The room of a kernel's name in the short form, which has what the other columns leave: as measured, else as expected. */
  get #shortChars() {
    if (this.#measuredChars !== null) return this.#measuredChars;
    const hasRuns = this.#page.store.run === null && this.#page.store.runs.length > 1;
    if (hasRuns) return PHONE.matches ? PHONE_NAME_CHARS_BESIDE_RUNS : NAME_CHARS_BESIDE_RUNS;
    return nameChars('');
  }

  /** Draws the short form again if the style sheet would cut a name in it. */
  #fitNames() {
    /** @type {NodeListOf<HTMLElement>} */
    const names = document.querySelectorAll('.short button.kernel');
    const cut = [...names].filter(({ scrollWidth, clientWidth }) => scrollWidth > clientWidth);
    /** @param {HTMLElement} name */
    const room = ({ scrollWidth, clientWidth, textContent }) => Math.floor((clientWidth / scrollWidth) * (textContent ?? '').length) - 1;
    const chars = Math.min(...cut.map(room));
    if (cut.length === 0 || chars >= (this.#measuredChars ?? Infinity)) return;
    this.#measuredChars = chars;
    this.#page.attempt('The names could not be drawn', () => this.draw());
  }

  /** Measures the room of names again: the page has another width. */
  resize() {
    if (this.#measuredChars === null) return;
    this.#measuredChars = null;
    if (this.#chosen.in_short) this.#page.attempt('The names could not be drawn', () => this.draw());
  }

  /** Returns a function that requests further rows in the current order, even if the tables are sorted again later. */
  #moreRows() {
    const requests = new Map(this.#shown.map((id) => [id, this.#request(id)]));
    return async (/** @type {string} */ id, /** @type {number} */ from) => {
      const request = requests.get(id);
      return (request && await this.#table({ ...request, from }))?.rows ?? [];
    };
  }
}

/** @param {Table} table @returns {Table} */
function withoutMoments(table) {
  return { ...table, rows: table.rows.map((cells) => cells.map((cell) => ({ ...cell, example: undefined, since_first_op_ns: undefined }))) };
}

/** @param {string} table */
function nameChars(table) {
  if (PHONE.matches) return table === KERNELS ? PHONE_KERNEL_CHARS : PHONE_NAME_CHARS;
  return table.startsWith('triage_') ? TRIAGE_NAME_CHARS : null;
}

/** Whether a name is that of a group or of one of its tables. @param {{ id: string, tables: string[] }} group @param {string} name */
const isIn = ({ id, tables }, name) => id === name || tables.includes(name);

/** Shows the choice of the run, if there are several or will be. @param {string[]} labels @param {number | null} chosen @param {number} toCome */
export function showRunChoice(labels, chosen, toCome) {
  byId('run').replaceChildren(new Option('all runs', ''), ...runOptions(labels, chosen));
  byId('run-label').hidden = labels.length + toCome < 2;
}
