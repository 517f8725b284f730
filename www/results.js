// What the page shows of the reports: verdict, bars, tabs with their tables, one kernel in detail. It is fetched with the first file.

import { showChart, showLegend } from './chart.js';
import { asked, byId, latest, onDemand } from './dom.js';
import { showOverview } from './overview.js';
import { Tabs, showRunChoice } from './tabs.js';

export class Results {
  #page;
  #tabs;
  #kernelPanel;
  /** The width of the chart; asking the page for it anew would lay it out each time. */
  #width = 0;
  /** The key of the chart that is on screen. */
  #charted = '';

  /** `page` is what app.js lends its parts; it is given what the others ask of the results. */
  constructor(page) {
    this.#page = page;
    Object.assign(page, {
      /** What the renderer says of the reports; null without any. */
      overview: null,
      /** The place of the run that others are compared with. */
      baseline: () => Math.max(0, this.#place(page.view.base)),
      /** The place of the run that is chosen; null for all of them. */
      runIndex: () => (this.#place(page.view.run) < 0 ? null : this.#place(page.view.run)),
      openKernel: (kernel) => this.#openKernel(kernel),
      pickOnly: (category) => this.#pickOnly(category),
      windowsOfJob: (...picked) => this.#tabs.windowsOfJob(...picked),
    });
    this.#tabs = new Tabs(page);
    this.#kernelPanel = onDemand(async () => new (await import('./kernel.js')).KernelPanel((name, width) => this.#kernels(name, width), page.openKernel));
    this.#wireTable();
  }

  /** Shows the reports of the session as they are now. */
  refresh = latest(
    async () => {
      const { session, renderer, overview } = this.#page;
      if (session.reports.length === 0) return [null];
      const answer = renderer.set(session.reports);
      // Asked for behind the reports, so that the worker answers while the page shows the overview.
      const ahead = overview ? { chart: this.#charted !== this.#chartKey && this.#askChart(), tables: this.#tabs.askAhead() } : {};
      return [await answer, ahead];
    },
    async ([overview, ahead]) => {
      this.#page.overview = overview;
      if (!overview) {
        this.#width = 0;
        this.#charted = '';
        return;
      }
      showOverview(overview, this.#page.session.isPartial, (table) => this.#tabs.open(table));
      await this.#drawAll(ahead);
      this.#page.session.shown();
    },
  );

  /** Draws the same reports as the address says now. */
  draw() {
    const { overview, attempt } = this.#page;
    if (overview) attempt('The view could not be drawn', () => this.#drawAll());
  }

  /** How the runs stand to each other may have changed. */
  compare = () => this.#page.attempt('The runs could not be compared', () => this.#tabs.showComparison());

  filesChanged = () => this.#tabs.filesChanged();

  restoreRules = () => this.#tabs.restoreRules();

  /** `ahead` are the answers for the chart and the tables that were asked for already. */
  #drawAll(ahead = {}) {
    const { overview, view, look, attempt, runIndex, windows } = this.#page;
    attempt('The kernel could not be shown', () => this.#showDetail());
    showLegend(overview.categories, view.hide, (category) => this.#toggle(category), () => look({ hide: [] }));
    showRunChoice(overview.runs.map(({ label }) => label), runIndex());
    const filter = byId('filter');
    if (filter.value !== view.filter) filter.value = view.filter;
    this.compare();
    // The worker that holds a large trace is still at its sections: nothing else waits for its strips.
    attempt('The strips could not be drawn', windows.draw);
    return Promise.all([this.#drawChart(ahead.chart), this.#tabs.show(ahead.tables)]);
  }

  #drawChart = latest(
    async (ahead) => {
      this.#width ||= chartWidth();
      const key = this.#chartKey;
      return key !== this.#charted && [key, await (ahead?.key === key ? ahead : this.#askChart()).answer];
    },
    (drawn) => {
      if (!drawn) return;
      this.#charted = drawn[0];
      showChart(drawn[1], this.#page.pickOnly, this.#page.view.hide.length > 0);
    },
  );

  /** What the chart hangs on: an answer is of use, and a chart stands, as long as it is the same. */
  get #chartKey() {
    return JSON.stringify([this.#page.session.counted, this.#width, this.#page.view.hide]);
  }

  #askChart = () => asked(this.#chartKey, this.#page.renderer.chart(this.#width, this.#page.view.hide));

  /** The place of the run that the address names so; below zero where there is none. */
  #place = (named) => this.#page.overview?.runs.findIndex((_, index) => String(index) === named) ?? -1;

  /** The tables stay as they are beside one kernel in detail. */
  #openKernel(kernel) {
    this.#page.amend({ kernel }, { step: true });
    this.#page.attempt('The kernel could not be shown', () => this.#showDetail());
  }

  async #showDetail() {
    const { kernel } = this.#page.view;
    return (await (kernel ? this.#kernelPanel() : this.#kernelPanel.begun()))?.show(kernel);
  }

  /** One kernel in the run that is chosen, or in all of them. */
  async #kernels(name, width) {
    const { session, overview, runIndex } = this.#page;
    const at = runIndex();
    const found = await session.kernels(name, width, at);
    const labels = overview.runs.map(({ label }) => label);
    return found.map((kernel, place) => ({ label: labels[at ?? place], kernel }));
  }

  #toggle(category) {
    const { view: { hide }, look } = this.#page;
    look({ hide: hide.includes(category) ? hide.filter((name) => name !== category) : [...hide, category] });
  }

  /** A segment picks its category alone; picked again, all are back. */
  #pickOnly(category) {
    const { overview, view, look } = this.#page;
    const others = overview.categories.map(({ name }) => name).filter((name) => name !== category);
    const alone = others.length > 0 && others.every((name) => view.hide.includes(name));
    look({ hide: alone ? [] : others });
  }

  #wireTable() {
    const { look, attempt, windows } = this.#page;
    byId('filter').addEventListener('input', ({ target }) => look({ filter: target.value }, { step: false }));
    byId('run').addEventListener('change', ({ target }) => look({ run: target.value }));
    new ResizeObserver(() => {
      if (!this.#page.overview || chartWidth() === this.#width) return;
      this.#width = chartWidth();
      attempt('The chart could not be drawn', () => Promise.all([windows.draw(true), this.#drawChart()]));
    }).observe(byId('chart'));
  }
}

const chartWidth = () => Math.max(280, Math.floor(byId('chart').clientWidth));
