// Sends requests to tools workers. An HTML report gets its strips from the workers of the traces. Loaded with the first request.

import { WorkerLink, compiledModule } from './worker-link.js';

/** @import { Session } from './session.js' */
/** @import { SendRequest, ToolsOperations } from './types.js' */

/** @typedef {WorkerLink<ToolsOperations>} ToolsLink */
/** @typedef {'set' | 'setPivotCells' | 'setRankLogs'} LoadOperation */

/** A tools worker and its data. It is started with the first request, and again after a fault. */
export class ToolsWorker {
  /** @type {ToolsLink | null} */
  #link = null;
  /** @type {Promise<ToolsLink> | null} */
  #started = null;
  /** The last data that were sent. @type {{ started: unknown, key: unknown[], link: Promise<ToolsLink> } | null} */
  #loaded = null;

  /** Resolves with the worker. */
  start() {
    if (this.#started && this.#link?.isAlive) return this.#started;
    this.#link = new WorkerLink('tools-worker.js');
    this.#started = startWorker(this.#link);
    return this.#started;
  }

  /** Resolves with the worker once it has the data of `key`. Unless it has them already, sends `op` with `data()`.
   * @template {LoadOperation} Op @param {unknown[]} key @param {Op} op
   * @param {() => Promise<Parameters<ToolsOperations[Op]>[0]>} data */
  load(key, op, data) {
    const started = this.start();
    const last = this.#loaded;
    const isSame = last?.started === started && key.length === last.key.length && key.every((item, index) => item === last.key[index]);
    if (last && isSame) return last.link;
    const loaded = { started, key, link: this.#give(started, last?.link, op, data()) };
    this.#loaded = loaded;
    loaded.link.catch(() => {
      if (this.#loaded === loaded) this.#loaded = null;
    });
    return loaded.link;
  }

  /** Sends data to the worker, after the data that are being sent.
   * @template {LoadOperation} Op @param {Promise<ToolsLink>} started @param {Promise<ToolsLink> | undefined} before @param {Op} op
   * @param {Promise<Parameters<ToolsOperations[Op]>[0]>} data */
  async #give(started, before, op, data) {
    const [link, args] = await Promise.all([started, data, before?.catch(() => null)]);
    await link.request(op, args);
    return link;
  }
}

/** @param {ToolsLink} link */
async function startWorker(link) {
  try {
    await link.request('start', { module: await compiledModule('gpuprism_full') });
  } catch (problem) {
    link.close();
    throw problem;
  }
  return link;
}

/** Operations that need no reports. @type {Set<keyof ToolsOperations>} */
const WITHOUT_REPORTS = new Set(['translate', 'dashboardCss', 'openLink', 'chooseFiles', 'rulesJson', 'checkRules', 'ruleToEdit']);

/** True if the answer is an HTML report, or describes one. @param {object} args */
function isOfHtml(args) {
  const { format, request } = /** @type {{ format?: string, request?: { format?: string } }} */ (args);
  return format === 'html' || request?.format === 'html';
}

/** The tools worker that has the reports of the session. */
export class Tools {
  #worker = new ToolsWorker();
  #session;
  /** The strips of the traces behind these reports. @type {{ texts: string[], answer: Promise<string[]> } | null} */
  #strips = null;

  /** @param {Session} session */
  constructor(session) {
    this.#session = session;
  }

  /** @type {SendRequest<ToolsOperations>} */
  async request(op, args) {
    if (WITHOUT_REPORTS.has(op)) return (await this.#worker.start()).request(op, args);
    await this.#session.whenComplete();
    // Both of the same reports, which may change while this waits.
    const [link, strips] = await Promise.all([this.#withReports(), isOfHtml(args) ? this.#stripsOfTraces() : null]);
    return link.request(op, strips ? { ...args, strips } : args);
  }

  #withReports() {
    const texts = this.#session.reports;
    return this.#worker.load(texts, 'set', async () => ({ texts }));
  }

  /** For each report the strips of its trace, with the window of the report; empty without a trace. They are requested once. */
  #stripsOfTraces() {
    const texts = this.#session.reports;
    if (this.#strips?.texts === texts) return this.#strips.answer;
    const traces = texts.map((_, index) => this.#session.liveTraceOf(index));
    const answer = Promise.all(traces.map((trace) => (trace?.shownOptions ? trace.reader.request('htmlStrips', { options: trace.shownOptions }) : '')));
    const strips = { texts, answer };
    this.#strips = strips;
    answer.catch(() => {
      // The next call tries again.
      if (this.#strips === strips) this.#strips = null;
    });
    return answer;
  }
}
