// The tabs and their tables. Most tabs are tables of the report; the others have a part of the page of their own, which is
// fetched when one is first opened: dashboard, comparison, ranks, triage, pivot, rules.

import { asked, byId, el, latest, onDemand, save } from './dom.js';
import { PIECE_ROWS, showTables, showTabs } from './table.js';

/** How a tab looks that was just chosen. */
export const AS_IT_COMES = { of: '', sort: '', dir: 'desc', filter: '', kernel: '' };

const COMPARE = { id: 'compare', title: 'Compare', rows: '', tables: ['compare_summary', 'compare_categories', 'compare_kernels'] };
const DASHBOARD = { id: 'dashboard', title: 'Dashboard', rows: '', tables: [] };
const RANKS = { id: 'ranks', title: 'Ranks', rows: '', tables: ['ranks', 'rank_collectives', 'rank_waits', 'rank_files'] };
const RULES = { id: 'rules', title: 'Rules', rows: '', tables: ['rules_in_force', 'rules_misc'] };
const TRIAGE = { id: 'triage', title: 'Triage', rows: '', tables: [] };

/** The plain pivot is the report's own table; any other shape is made of cubes. */
const PIVOT = 'pivot';
const SHAPE_WORDS = 5;

export class Tabs {
  #page;
  #comparison;
  #dashboard;
  #ranks;
  #triage;
  #pivot;
  #rules;
  /** A table that was asked for by name: it is brought on screen once it is drawn. */
  #sought = '';
  /** The report's tabs when it was last complete. */
  #whole = [];

  /** `page` is what app.js lends its parts. */
  constructor(page) {
    this.#page = page;
    const { session, openDesk, look } = page;
    this.#comparison = onDemand(async () => new (await import('./compare.js')).Comparison(openDesk, {
      baseline: (base) => look({ base }),
      open: () => this.open(COMPARE.id),
      openRanks: () => this.open(RANKS.id),
      pick: page.pickOnly,
      markdown: () => page.exported('markdown', COMPARE.id),
    }));
    this.#dashboard = onDemand(async () => new (await import('./dashboard.js')).Dashboard(page, (table) => this.open(table)));
    this.#ranks = onDemand(async () => new (await import('./ranks.js')).Ranks(session));
    this.#triage = onDemand(async () => new (await import('./triage.js')).Triage(session, () => page.exported('markdown', TRIAGE.id), (name) => this.open('kernels', { filter: name })));
    this.#pivot = onDemand(async () => new (await import('./pivot.js')).Pivot(session, (pivot) => look({ pivot, of: '', sort: '' })));
    this.#rules = onDemand(async () => new (await import('./rules.js')).Rules(session, openDesk, () => page.overview && page.attempt('The rules could not be shown', this.draw)));
  }

  /** Brings up a tab, by its own name or by that of one of its tables, as it comes, but for `more`. */
  open(id, more = {}) {
    this.#sought = id;
    this.#page.look({ tab: id, ...AS_IT_COMES, ...more });
  }

  /** Of a report those of its tables; the triage has one for every torch trace, in the same place before its tables are made and after. */
  get #all() {
    const { overview: { runs }, session } = this.#page;
    const tabs = this.#ofReport;
    const triage = tabs.find(({ id }) => id === TRIAGE.id) ?? (session.traces.some(({ torch }) => torch) && TRIAGE);
    const more = [runs.length > 1 && COMPARE, session.hasRanks && RANKS, triage, DASHBOARD].filter(Boolean);
    return [...tabs.filter((tab) => tab !== triage).toSpliced(1, 0, ...more), RULES];
  }

  /** While sections are being computed their tabs stay, and say so. */
  get #ofReport() {
    const { overview: { tabs }, session } = this.#page;
    if (!session.isPartial) {
      this.#whole = tabs;
      return tabs;
    }
    const known = this.#whole.map((tab) => {
      const now = tabs.find(({ id }) => id === tab.id);
      return now ? { ...now, named: tab.tables } : { ...tab, rows: '', isAwaited: true };
    });
    return [...known, ...tabs.filter(({ id }) => !known.some((tab) => tab.id === id))];
  }

  /** The tab that the address names, by its own name or by that of one of its tables. */
  get #chosen() {
    const { tab } = this.#page.view;
    return this.#all.find(({ id, tables, named = tables }) => id === tab || named.includes(tab)) ?? this.#page.overview.tabs[0];
  }

  /** Draws the row of tabs, and the chosen one with its tables. */
  show(ahead) {
    const { id } = this.#chosen;
    showTabs(this.#all, id, (chosen) => this.open(chosen));
    return Promise.all([
      this.draw(ahead), this.#showPivot(id === PIVOT), this.#showDashboard(id === DASHBOARD.id), this.#showRanks(id === RANKS.id), this.#showRules(id === RULES.id),
    ]);
  }

  /** What the renderer says of the chosen tab's tables, of reports that it was just given. */
  askAhead() {
    const { tables, named = tables } = this.#chosen;
    return new Map(named.filter((id) => this.#isOfReport(id)).map((id) => {
      const request = this.#request(id);
      return [id, asked(JSON.stringify(request), this.#page.renderer.table(request))];
    }));
  }

  /** Draws the tables of the chosen tab, of which some may have been asked for already. A run that has no such section gives no table. */
  draw = latest(
    (ahead) => Promise.all(this.#chosen.tables.map((id) => {
      const request = this.#request(id);
      const known = ahead?.get(id);
      // What was sorted, filtered or closed meanwhile asks for another table.
      return known?.key === JSON.stringify(request) ? known.answer : this.#table(request);
    })),
    (tables) => {
      const sortBy = (of, sort, descending) => this.#page.look({ of, sort, dir: descending ? 'desc' : 'asc' });
      const key = JSON.stringify([this.#page.session.counted, this.#request('')]);
      showTables(key, tables.filter(Boolean), sortBy, (table) => this.#save(table), this.#moreRows(), this.#page.openKernel);
      this.#bringUp();
      const { isAwaited, tables: now, named = now } = this.#chosen;
      if (isAwaited || named.length > now.length) byId('blocks').append(el('p', { class: 'note' }, 'Being computed'));
      return this.#showTriage(this.#chosen);
    },
  );

  #bringUp() {
    const id = this.#sought;
    this.#sought = '';
    if (id) document.querySelector(`.block[data-table~="${CSS.escape(id)}"]`)?.scrollIntoView({ block: 'nearest' });
  }

  /** The files changed. */
  filesChanged() {
    this.#triage.begun()?.then((tab) => tab.forget(), () => {});
    this.#rules.begun()?.then((workbench) => workbench.check(), () => {});
  }

  /** Resolves with the other traces of a job, `{entry, window}` each, and where in them lies what this window is in one. */
  async windowsOfJob(entry, window) {
    const { session } = this.#page;
    return session.hasRanks && session.rankTraces.length > 1 ? (await this.#ranks()).windows(entry, window) : [];
  }

  /** Rules that were kept at an earlier visit. */
  restoreRules = async () => (await this.#rules()).restore();

  /** What changed is said once all that is open has been read; until then what was said stays. Of the ranks of one job what holds them up. */
  showComparison = latest(
    async () => {
      const others = this.#others;
      const isJob = others === 'read' && this.#page.session.isOneJob;
      return { others, job: isJob ? await (await this.#ranks()).ofOneJob().catch(() => null) : null };
    },
    async ({ others, job }) => {
      if (others === 'none') (await this.#comparison.begun())?.hide();
      if (others === 'read') await (await this.#comparison()).draw(this.#page.baseline(), this.#chosen === COMPARE, this.#page.view.hide, job);
    },
  );

  /** Runs to compare with: `none`, `awaited` while a file is still being read or analysed, or `read`. */
  get #others() {
    const { overview, session } = this.#page;
    if (session.reports.length === 0 || !(overview?.runs.length > 1)) return 'none';
    return session.entries.every(({ status }) => status === 'open' || status === 'failed') ? 'read' : 'awaited';
  }

  async #showTriage({ id, tables }) {
    const isUp = id === TRIAGE.id;
    (await (isUp ? this.#triage() : this.#triage.begun()))?.show(isUp, tables.length > 0);
  }

  async #showPivot(isUp) {
    const shaper = await (isUp ? this.#pivot() : this.#pivot.begun());
    shaper?.show(isUp, this.#isShaped(PIVOT) ? this.#page.view.pivot : shaper.plain);
  }

  async #showDashboard(isUp) {
    await (await (isUp ? this.#dashboard() : this.#dashboard.begun()))?.show(isUp);
  }

  async #showRanks(isUp) {
    await (await (isUp ? this.#ranks() : this.#ranks.begun()))?.show(isUp);
  }

  async #showRules(isUp) {
    (await (isUp ? this.#rules() : this.#rules.begun()))?.show(isUp);
  }

  #isShaped = (id) => id === PIVOT && this.#page.view.pivot.length === SHAPE_WORDS;

  #isOfReport = (id) => !this.#isShaped(id) && ![RULES, COMPARE, RANKS].some(({ tables }) => tables.includes(id));

  async #table(request) {
    const { view, renderer, openDesk, baseline } = this.#page;
    if (this.#isShaped(request.id)) return (await this.#pivot()).table(view.pivot, request);
    if (RANKS.tables.includes(request.id)) return (await this.#ranks()).table(request);
    if (RULES.tables.includes(request.id)) return (await this.#rules()).table(request);
    if (COMPARE.tables.includes(request.id)) return (await openDesk()).table(baseline(), request);
    return renderer.table(request);
  }

  async #csv(id) {
    if (this.#isShaped(id)) return (await this.#pivot()).csv(this.#page.view.pivot, this.#request(id));
    if (RANKS.tables.includes(id)) return (await this.#ranks()).csv(this.#request(id));
    if (RULES.tables.includes(id)) return (await this.#rules()).csv(this.#request(id));
    return this.#page.exported('csv', id);
  }

  #save(id) {
    this.#page.attempt('The export failed', async () => save(await this.#csv(id), 'text/csv', `gpuprism-${id.replace(/\W+/g, '-')}.csv`));
  }

  #request(id) {
    const { view, runIndex } = this.#page;
    const isSorted = id === (view.of || this.#chosen.tables[0]);
    return {
      id,
      run: runIndex(),
      sort: (isSorted && view.sort) || null,
      descending: view.dir === 'desc',
      filter: view.filter,
      hidden_categories: view.hide,
      from: 0,
      count: PIECE_ROWS,
    };
  }

  /** Further rows of the tables as they are arranged now, whatever is arranged later. */
  #moreRows() {
    const requests = new Map(this.#chosen.tables.map((id) => [id, this.#request(id)]));
    return async (id, from) => (await this.#table({ ...requests.get(id), from })).rows;
  }
}

/** Which run the tables are of, where there are several. */
export function showRunChoice(labels, at) {
  byId('run').replaceChildren(new Option('all runs', ''), ...labels.map((label, index) => new Option(label, String(index))));
  byId('run').value = at === null ? '' : String(at);
  byId('run-label').hidden = labels.length < 2;
}
