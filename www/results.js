// The results: verdict, bars, tabs with their tables, one kernel in detail, exports. Loaded with the first file.

import { showChart, showLegend } from './chart.js';
import { byId, latest, onDemand, prefetched } from './dom.js';
import { wireExports } from './exports.js';
import { Headline } from './headline.js';
import { showAdvice, showRuns, showVerdict } from './overview.js';
import { Tabs, showRunChoice } from './tabs.js';

/** @import { PrefetchedTables } from './tabs.js' */
/** @import { Chart, Page, View } from './types.js' */

/** @typedef {{ chart?: { key: string, answer: Promise<Chart> } | null, tables?: PrefetchedTables }} Prefetched */

const MIN_CHART_WIDTH = 280;
/** The longest time that the first frame waits for the first bars of the timeline. */
const HEAD_START_MS = 60;
/** A page that is not on screen has no frames. */
const LONGEST_FRAME_MS = 100;

/** On a narrow page the number of lines in the head depends on the results. */
const HEAD_HAS_ONE_HEIGHT = matchMedia('(min-width: 1280px)');

/** The parts of the view that change the drawn results. Windows and settings change the reports instead.
 * @type {(keyof View)[]} */
const VIEW_OF_RESULTS = ['tab', 'of', 'sort', 'dir', 'filter', 'run', 'base', 'hide', 'pivot', 'gpu', 'above', 'comm'];

export class Results {
  #page;
  #tabs;
  #headline;
  #kernelPanel;
  /** The width of the chart, cached because reading it forces a layout. Zero if it must be read again. */
  #width = 0;
  /** The files that have a line for their results. */
  #beingRead = '';
  /** The reports that are on screen. @type {string[]} */
  #shownReports = [];
  /** The key of the chart that is on screen. */
  #shownChartKey = '';

  /** @param {Page} page */
  constructor(page) {
    this.#page = page;
    this.#tabs = new Tabs(page, this.#pickCategory);
    this.#headline = new Headline(page, this.#examples);
    this.#kernelPanel = onDemand(async () => (await import('./kernel.js')).KernelPanel.make(page, {
      request: this.#kernels,
      open: (kernel) => page.look({ kernel }),
      showInTimeline: this.#showInTimeline,
      showLaunch: (label, pressed) => this.#tabs.showMoment('kernel_launches', label, pressed),
      rules: this.#tabs.rules,
      openRules: () => this.#tabs.open('rules'),
    }));
    wireExports(page);
    this.#subscribe();
    this.#listen();
  }

  #subscribe() {
    const { store, attempt } = this.#page;
    const refresh = () => attempt('The results could not be shown', this.#refresh);
    store.subscribe(['reports'], refresh);
    store.subscribe(['entries'], () => this.#showFirstTimeline());
    store.subscribe(['entries'], (next, previous) => {
      // New reports are compared once they are drawn.
      if (next.reports !== previous.reports) return;
      this.#compare();
      const { session, store: { overview } } = this.#page;
      // A file that was just read is in neither list until its results are drawn.
      if (!overview || next.reports !== this.#shownReports || this.#beingRead === session.beingRead.join()) return;
      this.#beingRead = session.beingRead.join();
      showRuns(overview.runs, session.beingRead, session.isOneJob);
    });
    store.subscribe(['view'], (next, previous) => this.#onView(next.view, previous.view));
    this.#showFirstTimeline();
    if (store.state.reports.length > 0) refresh();
  }

  /** @param {View} view @param {View} previous */
  #onView(view, previous) {
    const { store, attempt } = this.#page;
    const isDrawn = VIEW_OF_RESULTS.some((key) => JSON.stringify(view[key]) !== JSON.stringify(previous[key]));
    if (!store.overview) return;
    if (isDrawn) attempt('The view could not be drawn', () => this.#drawAll());
    else if (view.kernel !== previous.kernel) this.#showKernel();
  }

  /** Shows the current reports of the session. */
  #refresh = latest(
    async () => {
      const { session, renderer, store } = this.#page;
      const { reports } = session;
      if (reports.length === 0) return { overview: null, ahead: {}, reports };
      const answer = renderer.set(reports);
      // Requested directly after the reports, so that the worker answers while the page draws the overview.
      /** @type {Prefetched} */
      const ahead = store.overview ? { chart: this.#width > 0 && this.#shownChartKey !== this.#chartKey ? this.#requestChart() : null, tables: this.#tabs.prefetch() } : {};
      return { overview: await answer, ahead, reports };
    },
    async ({ overview, ahead, reports }) => {
      const { store, session } = this.#page;
      this.#shownReports = reports;
      store.update({ overview });
      if (!overview) {
        this.#width = 0;
        this.#shownChartKey = '';
        return;
      }
      this.#beingRead = session.beingRead.join();
      this.#page.windows.keepRoom();
      const { isPartial } = session;
      const isLast = () => store.overview === overview;
      byId('panel').classList.toggle('without-work', !overview.has_work);
      showVerdict(overview, session, this.#examples);
      this.#headline.show();
      try {
        const timelines = this.#drawUpperPart();
        if (byId('results').dataset.shown !== 'all') await this.#showUpperPart(timelines);
        if (!isLast()) return;
        showAdvice(overview, isPartial, (table) => this.#tabs.open(table), this.#examples);
        await this.#drawLowerPart(ahead);
      } finally {
        // Shown only once it is drawn, so that nothing moves.
        if (isLast()) byId('results').dataset.shown = 'all';
      }
      session.measureImports();
    },
  );

  /** Shows the timeline of the first trace while it is analyzed, in its place below a head that is still empty. */
  #showFirstTimeline() {
    const { session, store, windows } = this.#page;
    if (session.reports.length > 0) return;
    const results = byId('results');
    const isShown = session.hasFirstTimeline && ['', 'timeline'].includes(store.view.tab) && HEAD_HAS_ONE_HEIGHT.matches;
    results.dataset.shown = isShown ? 'timeline' : 'nothing';
    results.hidden = !isShown;
    if (!isShown) return;
    byId('panel').dataset.tab = 'timeline';
    byId('verdict').textContent = 'Analyzing';
    byId('headline').hidden = session.beingRead.length > 1;
    showRuns([], session.beingRead, false);
    windows.keepRoom();
  }

  /** Shows the head and the timeline in a frame of their own, because the tables would delay the first bars.
   * @param {Promise<void>} timelines */
  async #showUpperPart(timelines) {
    await Promise.race([timelines, wait(HEAD_START_MS)]);
    byId('results').dataset.shown = 'head';
    await Promise.race([new Promise((resolve) => requestAnimationFrame(resolve)).then(() => wait(0)), wait(LONGEST_FRAME_MS)]);
  }

  /** @type {import('./overview.js').Examples} */
  #examples = {
    canShow: (run) => Boolean(this.#page.session.liveTraceOf(run)),
    show: (run, { of }) => {
      const trace = this.#page.session.liveTraceOf(run);
      if (trace) this.#page.windows.showExample(trace, of, { scrolls: true });
    },
    prove: (table, run, example) => {
      const trace = example && this.#page.session.liveTraceOf(run);
      this.#tabs.open(table, {}, { isProof: Boolean(trace) });
      // On a phone the timeline is not in sight.
      if (trace) this.#page.windows.showExample(trace, example.of, { scrolls: matchMedia('(max-width: 560px)').matches });
    },
  };

  /** Updates the comparison of the runs. */
  #compare = () => this.#page.attempt('The runs could not be compared', () => this.#tabs.showComparison());

  restoreRules = () => this.#tabs.restoreRules();

  /** Opens a table with the timeline above it, and shows one of its rows. @type {Page['prove']} */
  prove = async (table, find) => this.#tabs.open(table, {}, { isProof: true, find });

  /** @type {Page['jobRanks']} */
  jobRanks = () => this.#tabs.jobRanks();

  #drawAll() {
    this.#drawUpperPart();
    return this.#drawLowerPart();
  }

  /** The kernel, the row of tabs and the timelines. Resolves when these have their first bars. */
  #drawUpperPart() {
    const { store, session, windows } = this.#page;
    this.#showKernel();
    showRunChoice(store.runs.map(({ label }) => label), store.run, session.beingRead.length);
    const filter = byId('filter');
    if (filter.value !== store.view.filter) filter.value = store.view.filter;
    const timelines = windows.openTimelines();
    this.#tabs.showRow();
    return timelines;
  }

  /** The strips, the chart and the tables. @param {Prefetched} [ahead] */
  #drawLowerPart({ chart, tables } = {}) {
    const { store, look, attempt, windows } = this.#page;
    // Not awaited: the worker of a large trace still computes its sections.
    attempt('The strips could not be drawn', windows.drawStrips);
    showLegend(store.overview?.categories ?? [], store.view.hide, this.#toggleCategory, () => look({ hide: [] }));
    this.#compare();
    return Promise.all([this.#tabs.showTables(tables), this.#drawChart(chart)]);
  }

  #drawChart = latest(
    async (/** @type {Prefetched['chart'] | void} */ chart) => {
      this.#width ||= chartWidth();
      const key = this.#chartKey;
      return key === this.#shownChartKey ? null : { key, chart: await (chart?.key === key ? chart : this.#requestChart()).answer };
    },
    (drawn) => {
      if (!drawn) return;
      this.#shownChartKey = drawn.key;
      showChart(drawn.chart, this.#barActions, this.#page.store.view.hide.length > 0);
    },
  );

  /** @type {import('./chart.js').BarActions} */
  #barActions = {
    pick: (category) => this.#pickCategory(category),
    labels: () => this.#page.store.runs.map(({ label }) => label),
    saveData: () => this.#tabs.save('categories'),
  };

  /** Everything that the chart depends on. */
  get #chartKey() {
    const { session, store } = this.#page;
    return JSON.stringify([session.reportsKey, this.#width, store.view.hide]);
  }

  #requestChart() {
    const { renderer, store } = this.#page;
    return prefetched(this.#chartKey, renderer.chart(this.#width, store.view.hide));
  }

  /** Shows the kernel in the view, or closes its panel. The tables stay as they are. */
  #showKernel() {
    this.#page.attempt('The kernel could not be shown', async () => {
      const { kernel } = this.#page.store.view;
      return (await (kernel ? this.#kernelPanel() : this.#kernelPanel.loaded()))?.show(kernel);
    });
  }

  /** @param {string} kernel */
  #showInTimeline = (kernel) => {
    this.#tabs.openTimeline();
    this.#page.windows.showKernel(kernel);
  };

  /** One kernel in the chosen run, or in all of them. @param {string} name @param {number} width */
  #kernels = async (name, width) => {
    const { session, store } = this.#page;
    const { run, runs } = store;
    const kernels = await session.kernels(name, width, run);
    return kernels.map((kernel, index) => ({ label: runs[run ?? index]?.label ?? '', kernel }));
  };

  /** @param {string} category */
  #toggleCategory = (category) => {
    const { store: { view: { hide } }, look } = this.#page;
    look({ hide: hide.includes(category) ? hide.filter((name) => name !== category) : [...hide, category] });
  };

  /** Shows only this category; if it is shown alone already, shows all. @param {string} category */
  #pickCategory = (category) => {
    const { store: { overview, view }, look } = this.#page;
    const others = (overview?.categories ?? []).map(({ name }) => name).filter((name) => name !== category);
    const isAlone = others.length > 0 && others.every((name) => view.hide.includes(name));
    look({ hide: isAlone ? [] : others });
  };

  #listen() {
    const { store, look, attempt, windows } = this.#page;
    const [filter, run] = [byId('filter'), byId('run')];
    filter.addEventListener('input', () => look({ filter: filter.value }, { isStep: false }));
    filter.addEventListener('keydown', (event) => {
      if (event.key !== 'Enter') return;
      event.preventDefault();
      windows.showHit();
    });
    run.addEventListener('change', () => look({ run: run.value }));
    new ResizeObserver(() => {
      // Without a width it is in a tab that is not shown.
      if (!store.overview || byId('chart').clientWidth === 0 || chartWidth() === this.#width) return;
      this.#width = chartWidth();
      this.#tabs.resize();
      attempt('The chart could not be drawn', () => Promise.all([windows.draw(true), this.#drawChart()]));
    }).observe(byId('chart'));
  }
}

const chartWidth = () => Math.max(MIN_CHART_WIDTH, Math.floor(byId('chart').clientWidth));

/** @param {number} ms */
const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
