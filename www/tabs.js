// The tabs and their tables. Most tabs are tables of the report; model, dashboard, comparison, ranks, triage, pivot and rules have a
// script of their own, which is loaded when the tab is first opened.

import { byId, latest, onDemand, prefetched, present, runOptions, save } from './dom.js';
import { ROWS_PER_REQUEST, pendingNote, showTables, showTabs } from './table.js';

/** @import { OnDemand } from './dom.js' */
/** @import { Page, Tab, Table, TableRequest, TraceEntry, View } from './types.js' */

/** @typedef {Tab & { isPending?: boolean, allTables?: string[] }} AnyTab */
/** @typedef {Map<string, { key: string, answer: Promise<Table | null> }>} PrefetchedTables */

/** The part of the view that is reset when a tab is opened. */
const TAB_DEFAULTS = { of: '', sort: '', dir: 'desc', filter: '', kernel: '' };

const COMPARE = { id: 'compare', title: 'Compare', rows: '', tables: ['compare_summary', 'compare_categories', 'compare_kernels', 'compare_roles', 'compare_floor', 'compare_step_times'] };
const DASHBOARD = { id: 'dashboard', title: 'Dashboard', rows: '', tables: [] };
/** A tab of the report with charts above its tables. */
const MODEL = 'model';
const RANKS = { id: 'ranks', title: 'Ranks', rows: '', tables: ['ranks', 'rank_collectives', 'rank_waits', 'rank_files'] };
const RULES = { id: 'rules', title: 'Rules', rows: '', tables: ['rules_in_force', 'rules_misc'] };
const TRIAGE = { id: 'triage', title: 'Triage', rows: '', tables: [] };
/** The default pivot is a table of the report. A tools worker computes other layouts. */
const PIVOT = 'pivot';
/** A layout in the address: rows, columns, values, percentage, number of rows. */
const LAYOUT_LENGTH = 5;

export class Tabs {
  #page;
  #comparison;
  #dashboard;
  #model;
  #ranks;
  #triage;
  #pivot;
  #rules;
  /** The table that was opened by name: it is scrolled to once it is drawn. */
  #scrollTarget = '';
  /** The report's tabs when it was last complete. @type {Tab[]} */
  #completeTabs = [];

  /** @param {Page} page @param {(category: string) => void} pickCategory */
  constructor(page, pickCategory) {
    this.#page = page;
    const { store, session, requestTool, look } = page;
    this.#comparison = onDemand(async () => new (await import('./compare.js')).Comparison(requestTool, {
      baseline: (base) => look({ base }),
      open: () => this.open(COMPARE.id),
      openRanks: () => this.open(RANKS.id),
      pick: pickCategory,
      markdown: () => page.exported('markdown', COMPARE.id),
    }));
    this.#dashboard = onDemand(async () => new (await import('./dashboard.js')).Dashboard(page, (table) => this.open(table)));
    this.#model = onDemand(async () => new (await import('./model.js')).Model(page, (table) => this.open(table)));
    this.#ranks = onDemand(async () => new (await import('./ranks.js')).Ranks(session));
    this.#triage = onDemand(async () => {
      const { Triage } = await import('./triage.js');
      return new Triage(store, session, () => page.exported('markdown', TRIAGE.id), (name) => this.open('kernels', { filter: name }));
    });
    this.#pivot = onDemand(async () => new (await import('./pivot.js')).Pivot(page));
    this.#rules = onDemand(async () => {
      const { Rules } = await import('./rules.js');
      return new Rules(page, () => store.overview && page.attempt('The rules could not be shown', this.draw));
    });
  }

  /** Opens a tab, by its name or by that of one of its tables. @param {string} id @param {Partial<View>} [more] */
  open(id, more = {}) {
    this.#scrollTarget = id;
    const { store, look, attempt } = this.#page;
    const { view } = store;
    look({ tab: id, ...TAB_DEFAULTS, ...more });
    // The tab that is already open is drawn again, for example after a failure.
    if (store.view === view) attempt('The view could not be drawn', () => this.show());
  }

  /** Every torch trace has a triage tab, even before its tables are computed. @returns {AnyTab[]} */
  get #all() {
    const { store, session } = this.#page;
    const tabs = this.#reportTabs;
    const triage = tabs.find(({ id }) => id === TRIAGE.id) ?? (session.traces.some(({ torch }) => torch) && TRIAGE);
    const more = present([store.runs.length > 1 && COMPARE, session.hasRanks && RANKS, triage, DASHBOARD]);
    return [...tabs.filter((tab) => tab !== triage).toSpliced(1, 0, ...more), RULES];
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
      return now ? { ...now, allTables: tab.tables } : { ...tab, rows: '', isPending: true };
    });
    return [...known, ...tabs.filter(({ id }) => !known.some((tab) => tab.id === id))];
  }

  /** The tab that the address names, by its name or by that of one of its tables. @returns {AnyTab} */
  get #chosen() {
    const { tab } = this.#page.store.view;
    const all = this.#all;
    return all.find(({ id, tables, allTables = tables }) => id === tab || allTables.includes(tab)) ?? all[0];
  }

  /** Draws the row of tabs, and the chosen tab with its tables. @param {PrefetchedTables} [tables] */
  show(tables) {
    const { id } = this.#chosen;
    showTabs(this.#all, id, (chosen) => this.open(chosen));
    return Promise.all([
      this.draw(tables),
      this.#toggle(this.#pivot, id === PIVOT),
      this.#toggle(this.#dashboard, id === DASHBOARD.id),
      this.#toggle(this.#model, id === MODEL),
      this.#toggle(this.#ranks, id === RANKS.id),
      this.#toggle(this.#rules, id === RULES.id),
    ]);
  }

  /** Requests the tables from the renderer, which has just got the reports. @returns {PrefetchedTables} */
  prefetch() {
    const { tables, allTables = tables } = this.#chosen;
    return new Map(allTables.filter((id) => this.#isOfReport(id)).map((id) => {
      const request = this.#request(id);
      return [id, prefetched(JSON.stringify(request), this.#page.renderer.table(request))];
    }));
  }

  /** Draws the tables of the chosen tab, some of which may be prefetched. A run without the section gives no table. */
  draw = latest(
    (/** @type {PrefetchedTables | void} */ tables) => Promise.all(this.#chosen.tables.map((id) => {
      const request = this.#request(id);
      const table = tables?.get(id);
      // Sorting or filtering in the meantime changes the request.
      return table?.key === JSON.stringify(request) ? table.answer : this.#table(request);
    })),
    (tables) => {
      const { look, session } = this.#page;
      showTables(JSON.stringify([session.reportsKey, this.#request('')]), present(tables), {
        sort: (of, sort, isDescending) => look({ of, sort, dir: isDescending ? 'desc' : 'asc' }),
        save: (table) => this.#save(table),
        openKernel: (kernel) => look({ kernel }),
        showTime: (table, row, time) => this.#showTime(table, row, time),
        requestRows: this.#moreRows(),
      });
      this.#scrollToTarget();
      const { isPending, tables: now, allTables = now } = this.#chosen;
      if (isPending || allTables.length > now.length) byId('blocks').append(pendingNote());
      return this.#showTriage(this.#chosen);
    },
  );

  /** Shows a time in the timeline of the run of its row. @param {string} table @param {HTMLTableRowElement} row @param {number} time */
  #showTime(table, row, time) {
    const { session, store, windows } = this.#page;
    const named = store.runs.findIndex(({ label }) => row.cells[0]?.textContent === label);
    const trace = session.liveTraceOf(store.run ?? Math.max(named, 0));
    if (trace) windows.showTime(trace, table, time);
  }

  #scrollToTarget() {
    const id = this.#scrollTarget;
    this.#scrollTarget = '';
    if (id) document.querySelector(`.block[data-table~="${CSS.escape(id)}"]`)?.scrollIntoView({ block: 'nearest' });
  }

  /** Resolves with the windows that show the same time range in the other traces of a job.
   * @param {TraceEntry} entry @param {string} window */
  async jobWindows(entry, window) {
    const { session } = this.#page;
    return session.hasRanks && session.liveTraces.length > 1 ? (await this.#ranks()).windows(entry, window) : [];
  }

  /** Applies the rules of an earlier visit. */
  restoreRules = async () => (await this.#rules()).restore();

  /** Shows the comparison once all open files have been read. For one job, it compares the ranks. */
  showComparison = latest(
    async () => {
      const progress = this.#comparisonProgress;
      const isJob = progress === 'ready' && this.#page.session.isOneJob;
      return { progress, jobVerdict: isJob ? await (await this.#ranks()).jobVerdict().catch(() => null) : null };
    },
    async ({ progress, jobVerdict }) => {
      const { store } = this.#page;
      if (progress === 'none') (await this.#comparison.loaded())?.hide();
      if (progress === 'ready') await (await this.#comparison()).draw({ baseline: store.baseline, isOpen: this.#chosen === COMPARE, hidden: store.view.hide, jobVerdict });
    },
  );

  /** `none` without runs to compare, `waiting` while a file is being read or analyzed, else `ready`. */
  get #comparisonProgress() {
    const { store, session } = this.#page;
    if (session.reports.length === 0 || store.runs.length < 2) return 'none';
    return session.entries.every(({ status }) => status === 'open' || status === 'failed') ? 'ready' : 'waiting';
  }

  /** @param {AnyTab} tab */
  async #showTriage({ id, tables }) {
    const isOpen = id === TRIAGE.id;
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
  #isOfReport = (id) => !this.#hasLayout(id) && ![RULES, COMPARE, RANKS].some(({ tables }) => tables.includes(id));

  /** The part of the page that makes this table; null for a table of the report or of the comparison.
   * @param {string} id */
  #partOf(id) {
    if (this.#hasLayout(id)) return this.#pivot();
    if (RANKS.tables.includes(id)) return this.#ranks();
    return RULES.tables.includes(id) ? this.#rules() : null;
  }

  /** @param {TableRequest} request @returns {Promise<Table | null>} */
  async #table(request) {
    const { store, renderer, requestTool } = this.#page;
    const part = await this.#partOf(request.id);
    if (part) return part.table(request);
    if (COMPARE.tables.includes(request.id)) return requestTool('table', { baseline: store.baseline, request });
    return renderer.table(request);
  }

  /** @param {string} id */
  async #csv(id) {
    const part = await this.#partOf(id);
    return part ? part.csv(this.#request(id)) : this.#page.exported('csv', id);
  }

  /** @param {string} id */
  #save(id) {
    this.#page.attempt('The export failed', async () => save(await this.#csv(id), 'text/csv', `gpuprism-${id.replace(/\W+/g, '-')}.csv`));
  }

  /** @param {string} id @returns {TableRequest} */
  #request(id) {
    const { view, run } = this.#page.store;
    const isSorted = id === (view.of || this.#chosen.tables[0]);
    return {
      id,
      run,
      sort: (isSorted && view.sort) || null,
      descending: view.dir === 'desc',
      filter: view.filter,
      hidden_categories: view.hide,
      from: 0,
      count: ROWS_PER_REQUEST,
    };
  }

  /** Returns a function that requests further rows in the current order, even if the tables are sorted again later. */
  #moreRows() {
    const requests = new Map(this.#chosen.tables.map((id) => [id, this.#request(id)]));
    return async (/** @type {string} */ id, /** @type {number} */ from) => {
      const request = requests.get(id);
      return (request && await this.#table({ ...request, from }))?.rows ?? [];
    };
  }
}

/** Shows the choice of the run, if there are several. @param {string[]} labels @param {number | null} chosen */
export function showRunChoice(labels, chosen) {
  byId('run').replaceChildren(new Option('all runs', ''), ...runOptions(labels, chosen));
  byId('run-label').hidden = labels.length < 2;
}
