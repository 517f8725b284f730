// The tab of the ranks of a job: verdicts, a bar for each rank, and why files are not in a job. The workers of the traces give
// logs, which the ranks worker compares. Loaded when the tab is first opened.

import { chartSvg, saveMenu } from './chart.js';
import { byId, el, latest, noticeItem, swatch, words } from './dom.js';
import { ToolsWorker } from './tools.js';

/** @import { Reader } from './reader-pool.js' */
/** @import { Session } from './session.js' */
/** @import { ToolsLink } from './tools.js' */
/** @import { RanksSummary, TableRequest, TraceEntry } from './types.js' */

/** @typedef {{ link: ToolsLink, summary: RanksSummary }} Compared */

export class Ranks {
  #session;
  #notices = el('ul', { class: 'notices' });
  #chart = el('div');
  #legend = el('ul', { class: 'legend', 'aria-label': 'Parts of a bar' });
  #figure;
  #panel;
  #width = 0;
  #worker = new ToolsWorker();
  /** Resolves when the worker has the logs that were last requested. @type {Promise<ToolsLink> | null} */
  #loading = null;
  /** The last comparison, of the loaded logs and the windows that are shown.
   * @type {{ loading: Promise<ToolsLink>, windows: string, answer: Promise<Compared> } | null} */
  #comparison = null;
  /** @type {WeakMap<Reader, Promise<string>>} */
  #logs = new WeakMap();

  /** @param {Session} session */
  constructor(session) {
    this.#session = session;
    this.#figure = el('figure', {}, el('figcaption', {}, 'Where the time of each rank went'),
      saveMenu(() => this.#chart.querySelector('svg'), 'gpuprism-ranks'), this.#chart, this.#legend);
    // Shown below the verdict, which pushes it down.
    this.#figure.hidden = true;
    this.#panel = el('section', { id: 'ranks', 'aria-label': 'Ranks', hidden: true }, this.#notices, this.#figure);
    byId('blocks').before(this.#panel);
    new ResizeObserver(() => {
      if (this.#chart.firstChild && !this.#panel.hidden && this.#chart.clientWidth !== this.#width) this.show(true).catch(() => {});
    }).observe(this.#chart);
  }

  /** Called when the tab was opened or left, and when the results changed. */
  show = latest(
    (/** @type {boolean} */ isOpen) => {
      this.#panel.hidden = !isOpen;
      return isOpen ? this.#compare() : null;
    },
    (compared) => compared && this.#draw(compared),
  );

  #draw = latest(
    async (/** @type {Compared} */ { link, summary }) => {
      this.#showSummary(summary);
      const width = this.#chart.clientWidth;
      return { width, chart: summary.has_jobs ? await link.request('rankChart', { width }) : null };
    },
    ({ width, chart }) => {
      this.#width = width;
      this.#chart.replaceChildren(...(chart ? [chartSvg(chart)] : []));
    },
  );

  /** Resolves with the verdict if the open files are one job, else with null. */
  async jobVerdict() {
    const { summary } = await this.#compare();
    return summary.is_one_job ? summary.verdict : null;
  }

  /** The traces of the ranks that the verdict names, in its order. */
  async named() {
    const entries = this.#session.liveTraces;
    const { summary } = await this.#compare();
    return summary.named.flatMap((index) => entries[index] ?? []);
  }

  /** The windows that show the same time range in other traces. @param {TraceEntry} entry @param {string} window */
  async windows(entry, window) {
    const entries = this.#session.liveTraces;
    const loading = this.#load(entries);
    const link = await loading;
    if (this.#loading !== loading) return [];
    const windows = await link.request('rankWindows', { index: entries.indexOf(entry), window });
    return entries.flatMap((other, index) => {
      const otherWindow = windows[index] ?? null;
      return other === entry || otherWindow === null ? [] : [{ entry: other, window: otherWindow }];
    });
  }

  /** The same moment as `time` of a trace in all traces that have one. @param {TraceEntry} entry @param {number} time */
  async moments(entry, time) {
    const entries = this.#session.liveTraces;
    const moments = await (await this.#load(entries)).request('rankMoments', { index: entries.indexOf(entry), time });
    return new Map(entries.flatMap((other, index) => (moments[index] === null ? [] : [[other, moments[index]]])));
  }

  /** When the rank of each trace waited for another one. */
  async waits() {
    const entries = this.#session.liveTraces;
    const waits = await (await this.#load(entries)).request('rankWaits', {});
    return new Map(entries.map((entry, index) => [entry, waits[index]]));
  }

  /** A table as strings; null if it has no rows. @param {TableRequest} request */
  table = async (request) => (await this.#compare()).link.request('rankTable', { request });

  /** The same table as CSV. @param {TableRequest} request */
  csv = async (request) => (await this.#compare()).link.request('rankCsv', { request });

  /** @param {RanksSummary} summary */
  #showSummary({ verdict, aside, has_jobs: hasJobs, parts }) {
    const verdicts = verdict.map((text) => el('li', { class: 'compared' }, ...words(text)));
    const notes = hasJobs ? aside : ['No two ranks of one job are open.', ...aside];
    this.#notices.replaceChildren(...verdicts, ...notes.map((text) => noticeItem('info', text)));
    this.#figure.hidden = !hasJobs;
    this.#legend.replaceChildren(...parts.map(({ name, class: className }) => el('li', {}, swatch(className), name)));
  }

  /** The comparison of all open traces in the windows of their results. */
  #compare() {
    const entries = this.#session.liveTraces;
    const loading = this.#load(entries);
    const windows = JSON.stringify(entries.map(({ shownOptions }) => shownOptions?.window ?? null));
    if (this.#comparison?.loading === loading && this.#comparison.windows === windows) return this.#comparison.answer;
    const isCurrent = () => this.#comparison === comparison && this.#loading === loading;
    const answer = this.#requestSummary(loading, entries, isCurrent);
    const comparison = { loading, windows, answer };
    this.#comparison = comparison;
    answer.catch(() => {
      if (this.#comparison === comparison) this.#comparison = null;
    });
    return answer;
  }

  /** Requests a comparison. If the traces or their windows have changed meanwhile, resolves with the new comparison.
   * @param {Promise<ToolsLink>} loading @param {TraceEntry[]} entries @param {() => boolean} isCurrent
   * @returns {Promise<Compared>} */
  async #requestSummary(loading, entries, isCurrent) {
    try {
      const parts = entries.map(({ reader, shownOptions }) => (shownOptions?.window ? reader.request('ranksPart', { options: shownOptions }) : ''));
      const [link, ...loadedParts] = await Promise.all([loading, ...parts]);
      if (isCurrent()) {
        const summary = await link.request('setRankWindows', { parts: loadedParts });
        if (isCurrent()) return { link, summary };
      }
    } catch (problem) {
      if (isCurrent()) throw problem;
    }
    return this.#compare();
  }

  /** The worker with the logs of these traces. @param {TraceEntry[]} entries */
  #load(entries) {
    const readers = entries.map(({ reader }) => reader);
    this.#loading = this.#worker.load(readers, 'setRankLogs', async () => ({ logs: await Promise.all(readers.map((reader) => this.#log(reader))) }));
    return this.#loading;
  }

  /** The log of a trace, requested once. @param {Reader} reader */
  #log(reader) {
    const known = this.#logs.get(reader);
    if (known) return known;
    const log = reader.request('ranksLog', {});
    log.catch(() => this.#logs.delete(reader));
    this.#logs.set(reader, log);
    return log;
  }
}
