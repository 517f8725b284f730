// The page's end of the tools worker, which does everything after the first results: comparison, export, dashboard, sharing, rules.
// Loaded, and the worker started, with the first request; after a fault the next request starts a new worker.

import { asProblem } from './problem.js';
import { WorkerLink, compiledModule } from './worker-link.js';

/** @import { DashboardRequest, ToolsOperations, Options, ShareRequest, TableRequest } from './types.js' */

/** @typedef {WorkerLink<ToolsOperations>} ToolsLink */

export class Tools {
  #reports;
  #whenComplete;
  /** @type {Promise<ToolsLink> | null} */
  #link = null;
  /** The texts that the worker has, or is being given. @type {string[]} */
  #texts = [];
  /** Resolves when the worker has them. */
  #hasTexts = Promise.resolve();

  /**
   * `reports()` returns the session's current report texts; `whenComplete()` resolves when none of them is partial.
   * @param {() => string[]} reports @param {() => Promise<void>} whenComplete
   */
  constructor(reports, whenComplete) {
    this.#reports = reports;
    this.#whenComplete = whenComplete;
  }

  /**
   * The text of a file to save; `baseline` is the index of the run for tables of a comparison.
   * @param {string} format @param {string} table @param {number} [baseline]
   */
  export = (format, table, baseline = 0) => this.#withReports((link) => link.request('export', { format, table, baseline }));

  /** The comparison of the runs with a baseline. @param {number} baseline */
  compare = (baseline) => this.#withReports((link) => link.request('compare', { baseline }));

  /** The changes as a chart. @param {number} baseline @param {number} width @param {string[]} hidden */
  chart = (baseline, width, hidden) => this.#withReports((link) => link.request('chart', { baseline, width, hidden }));

  /** A table of the comparison. @param {number} baseline @param {TableRequest} request */
  table = (baseline, request) => this.#withReports((link) => link.request('table', { baseline, request }));

  /** @param {DashboardRequest} request */
  dashboard = (request) => this.#withReports((link) => link.request('dashboard', { request }));

  dashboardCss = () => this.#withWorker((link) => link.request('dashboardCss', {}));

  /** @param {ShareRequest} request */
  sharePreview = (request) => this.#withReports((link) => link.request('sharePreview', { request }));

  /** The ids of everything that can be replaced in what is shared. */
  shareRedactions = () => this.#withReports((link) => link.request('shareRedactions', {}));

  /** @param {ShareRequest} request */
  shareFile = (request) => this.#withReports((link) => link.request('shareFile', { request }));

  /** @param {ShareRequest} request */
  shareLink = (request) => this.#withReports((link) => link.request('shareLink', { request }));

  /** The report in a link, as text. @param {string} text */
  openLink = (text) => this.#withWorker((link) => link.request('openLink', { text }));

  /** A table of the rule workbench under these options. @param {Options} options @param {TableRequest} request */
  workbench = (options, request) => this.#withReports((link) => link.request('workbench', { options, request }));

  /** The same table as CSV, with all rows. @param {Options} options @param {TableRequest} request */
  workbenchCsv = (options, request) => this.#withReports((link) => link.request('workbenchCsv', { options, request }));

  /** The rules in force as a file. @param {Options} options */
  rulesJson = (options) => this.#withWorker((link) => link.request('rulesJson', { options }));

  /** What is wrong with the text of a rule file; empty if it is valid. @param {string} file @param {string} text */
  checkRules = (file, text) => this.#withWorker((link) => link.request('checkRules', { file, text }));

  /**
   * The text with a new rule for a kernel, and the rule's regex as JSON.
   * @param {Options} options @param {string} file @param {string} text @param {string} kernel
   */
  ruleForKernel = (options, file, text, kernel) => this.#withReports((link) => link.request('ruleForKernel', { options, file, text, kernel }));

  /**
   * The text with a rule that is in force, and the rule's regex as JSON.
   * @param {Options} options @param {string} file @param {string} text @param {string} regex
   */
  ruleToEdit = (options, file, text, regex) => this.#withWorker((link) => link.request('ruleToEdit', { options, file, text, regex }));

  /** The file of another tool as a report text. @param {string} label @param {string} text */
  translate = (label, text) => this.#withWorker((link) => link.request('translate', { label, text }));

  /**
   * Sends a request to a worker that has the complete reports.
   * @template Answer @param {(link: ToolsLink) => Promise<Answer>} send
   */
  async #withReports(send) {
    await this.#whenComplete();
    return this.#withWorker(async (link) => {
      await this.#updateReports(link);
      return send(link);
    });
  }

  /** @template Answer @param {(link: ToolsLink) => Promise<Answer>} send */
  async #withWorker(send) {
    const link = await (this.#link ??= this.#start());
    try {
      return await send(link);
    } catch (problem) {
      if (asProblem(problem).kind === 'fault') this.#link = null;
      throw problem;
    }
  }

  async #start() {
    this.#texts = [];
    try {
      const module = await compiledModule('gpuprism_full');
      /** @type {ToolsLink} */
      const link = new WorkerLink('tools-worker.js');
      await link.request('start', { module });
      return link;
    } catch (problem) {
      this.#link = null;
      throw problem;
    }
  }

  /** Gives the worker the current reports, once for all requests that need the same ones. @param {ToolsLink} link */
  #updateReports(link) {
    const texts = this.#reports();
    if (texts.length === this.#texts.length && texts.every((text, index) => text === this.#texts[index])) return this.#hasTexts;
    this.#texts = texts;
    this.#hasTexts = link.request('set', { texts });
    this.#hasTexts.catch(() => {
      if (this.#texts === texts) this.#texts = [];
    });
    return this.#hasTexts;
  }
}
