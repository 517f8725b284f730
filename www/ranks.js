// Ranks of one job: verdicts, a bar a rank and why files are not grouped, above the tab's tables; logs from the workers that
// hold the traces, and the worker that puts them side by side. It is fetched when a person first opens the tab.

import { drawing, saveMenu } from './chart.js';
import { byId, el, latest, severityMark } from './dom.js';
import { WorkerLink, compiledModule } from './worker-link.js';

export class Ranks {
  #session;
  #said = el('ul', { class: 'notices' });
  #chart = el('div');
  #legend = el('ul', { class: 'legend', 'aria-label': 'Parts of a bar' });
  #figure;
  #panel;
  #width = 0;
  /** The readers whose logs the worker holds or is to hold, and a promise of the worker that does. */
  #held = null;
  #holding = null;
  /** What it says of them in the windows that are picked: `{holding, key, answer}`, the last a promise of {link, said}. */
  #looking = {};
  /** Of each reader a promise of its log. */
  #logs = new WeakMap();
  /** The worker, and a promise of it once it has started. */
  #link = null;
  #starting = null;

  constructor(session) {
    this.#session = session;
    this.#figure = el('figure', {}, el('figcaption', {}, 'Where the time of each rank went'),
      saveMenu(() => this.#chart.firstChild, 'gpuprism-ranks'), this.#chart, this.#legend);
    this.#panel = el('section', { id: 'ranks', 'aria-label': 'Ranks', hidden: true }, this.#said, this.#figure);
    byId('blocks').before(this.#panel);
    new ResizeObserver(() => {
      if (this.#chart.firstChild && !this.#panel.hidden && this.#chart.clientWidth !== this.#width) this.show(true).catch(() => {});
    }).observe(this.#chart);
  }

  /** The tab came up or went. */
  show = latest(
    (isUp) => {
      this.#panel.hidden = !isUp;
      return isUp ? this.#together() : null;
    },
    (together) => together && this.#draw(together),
  );

  #draw = latest(
    async ({ link, said }) => {
      this.#say(said);
      const width = this.#chart.clientWidth;
      return { width, chart: said.has_jobs ? await link.request('chart', { width }) : null };
    },
    ({ width, chart }) => {
      this.#width = width;
      this.#chart.replaceChildren(...(chart ? [drawing(chart, () => {})] : []));
    },
  );

  /** Resolves with the verdict where all that is open is one job, else with null. */
  async ofOneJob() {
    const { said } = await this.#together();
    return said.is_one_job ? said.verdict : null;
  }

  /** Resolves with the traces of one job that are to show the moments of this window in one of them: `{entry, window}` each. */
  async windows(entry, window) {
    const entries = this.#session.rankTraces;
    const holding = this.#holder(entries);
    const link = await holding;
    if (this.#holding !== holding) return [];
    const found = await link.request('windows', { at: entries.indexOf(entry), window });
    return entries.map((other, at) => ({ entry: other, window: found[at] ?? null })).filter(({ entry: other, window: own }) => other !== entry && own !== null);
  }

  /** Resolves with a table as strings; null where it has no row. */
  table = async (request) => (await this.#together()).link.request('table', { request });
  /** Resolves with the text of a CSV of the same rows. */
  csv = async (request) => (await this.#together()).link.request('csv', { request });

  #say({ verdict, aside, has_jobs: hasJobs, parts }) {
    const item = (severity, text) => el('li', { class: 'notice' }, severityMark(severity), el('span', { class: 'notice-text' }, text));
    const none = !hasJobs && item('info', 'No two ranks of one job are open.');
    this.#said.replaceChildren(...verdict.map((text) => el('li', { class: 'compared' }, text)), ...[none].filter(Boolean), ...aside.map((text) => item('info', text)));
    this.#figure.hidden = !hasJobs;
    const swatch = ({ name, class: className }) => el('li', {}, el('span', { class: `swatch ${className}`, 'aria-hidden': 'true' }), name);
    this.#legend.replaceChildren(...parts.map(swatch));
  }

  /** The worker with what all traces that are open now say of their ranks, in the windows that their results are of. */
  #together() {
    const entries = this.#session.rankTraces;
    const holding = this.#holder(entries);
    const key = JSON.stringify(entries.map(({ shown }) => shown?.window ?? null));
    if (this.#looking.holding !== holding || this.#looking.key !== key) {
      const looking = { holding, key };
      this.#looking = looking;
      looking.answer = this.#look(looking, entries);
      looking.answer.catch(() => {
        if (this.#looking === looking) this.#looking = {};
      });
    }
    return this.#looking.answer;
  }

  async #look(looking, entries) {
    const { holding } = looking;
    const part = ({ reader, shown }) => (shown?.window ? reader.ranksPart(shown) : '');
    // Where other traces are open by now, or other windows picked, the worker is to tell of those alone.
    const isOld = () => this.#looking !== looking || this.#holding !== holding;
    try {
      const [link, ...parts] = await Promise.all([holding, ...entries.map(part)]);
      const said = isOld() ? null : await link.request('look', { parts });
      if (!isOld()) return { link, said };
    } catch (error) {
      if (!isOld()) throw error;
    }
    return this.#together();
  }

  /** A promise of the worker with the logs of these traces. */
  #holder(entries) {
    const readers = entries.map(({ reader }) => reader);
    if (!this.#held || !this.#link?.alive || readers.length !== this.#held.length || readers.some((reader, at) => reader !== this.#held[at])) {
      this.#held = readers;
      this.#holding = this.#fill(readers);
      this.#holding.catch(() => {
        if (this.#held === readers) this.#held = null;
      });
    }
    return this.#holding;
  }

  async #fill(readers) {
    const [link, ...logs] = await Promise.all([this.#started(), ...readers.map((reader) => this.#log(reader))]);
    if (this.#held === readers) await link.request('hold', { logs });
    return link;
  }

  /** A promise of a trace's log, which is made once. */
  #log(reader) {
    if (!this.#logs.has(reader)) {
      const log = reader.ranksLog();
      log.catch(() => this.#logs.delete(reader));
      this.#logs.set(reader, log);
    }
    return this.#logs.get(reader);
  }

  /** A promise of the one worker; of another where it could not start, or met a fault and has ended. */
  #started() {
    if (!this.#link?.alive) {
      this.#link = new WorkerLink('ranks-worker.js');
      this.#starting = this.#start(this.#link);
    }
    return this.#starting;
  }

  async #start(link) {
    try {
      await link.request('start', { module: await compiledModule('gpuprism_full') });
    } catch (error) {
      link.close();
      throw error;
    }
    return link;
  }
}
