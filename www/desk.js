// The page's hold on the desk worker, which does what a person wants after the first results. It is fetched, and the
// worker started, when something first asks for it; after a fault the next request starts a worker anew.

import { WorkerLink, compiledModule } from './worker-link.js';

export class Desk {
  #reports;
  #whole;
  /** A promise of the worker, once it was asked for. */
  #link = null;
  /** The texts that the worker holds, or was given last. */
  #texts = [];
  /** A promise that it has taken them. */
  #inStep = Promise.resolve();

  /** `reports()` gives the session's report texts of now; `whole()` resolves when none of them lacks its sections. */
  constructor(reports, whole) {
    this.#reports = reports;
    this.#whole = whole;
  }

  /** The text of a file to save; `baseline` is the place of the run that tables of a comparison are against. */
  export = (format, table, baseline = 0) => this.#askOfRuns('export', { format, table, baseline });
  /** How the runs stand to a baseline: {baseline, runs}. */
  compare = (baseline) => this.#askOfRuns('compare', { baseline });
  /** What changed, as a chart. */
  chart = (baseline, width, hidden) => this.#askOfRuns('chart', { baseline, width, hidden });
  /** A table of the comparison. */
  table = (baseline, request) => this.#askOfRuns('table', { baseline, request });
  /** The panels of the dashboard, and the style sheet of their charts. */
  dashboard = (wish) => this.#askOfRuns('dashboard', { wish });
  dashboardCss = () => this.#ask((link) => link.request('dashboardCss', {}));
  /** What a person shares, by `preview`, `file`, `link` or `redactions`, under a wish {format, redact, slim}. */
  share = (what, wish) => this.#askOfRuns('share', { what, wish });
  /** A table of the rule workbench under these choices, or all of it as CSV. */
  workbench = (choices, request) => this.#askOfRuns('workbench', { choices, request });
  workbenchCsv = (choices, request) => this.#askOfRuns('workbenchCsv', { choices, request });
  /** The rules in force as a file: {name, text}. */
  rulesJson = (choices) => this.#ask((link) => link.request('rulesJson', { choices }));
  /** What is wrong with the text of a rule file; '' where nothing is. */
  checkRules = (file, text) => this.#ask((link) => link.request('checkRules', { file, text }));
  /** The text with a rule for a kernel in it, or with one that is in force, and the regex as it stands there. */
  ruleForKernel = (choices, file, text, kernel) => this.#askOfRuns('ruleForKernel', { choices, file, text, kernel });
  ruleToEdit = (choices, file, text, regex) => this.#ask((link) => link.request('ruleToEdit', { choices, file, text, regex }));
  /** The report text that a link carries. */
  openLink = (text) => this.#ask((link) => link.request('openLink', { text }));
  /** The report text of a file of another tool. */
  translate = (label, text) => this.#ask((link) => link.request('translate', { label, text }));

  async #askOfRuns(op, args) {
    await this.#whole();
    return this.#ask(async (link) => {
      await this.#keepInStep(link);
      return link.request(op, args);
    });
  }

  async #ask(question) {
    const link = await (this.#link ??= this.#start());
    try {
      return await question(link);
    } catch (problem) {
      if (problem.kind === 'fault') this.#link = null;
      throw problem;
    }
  }

  async #start() {
    this.#texts = [];
    try {
      const module = await compiledModule('gpuprism_full');
      const link = new WorkerLink('desk-worker.js');
      await link.request('start', { module });
      return link;
    } catch (problem) {
      this.#link = null;
      throw problem;
    }
  }

  /** Whoever asks meanwhile waits for the same texts, and is answered from them. */
  #keepInStep(link) {
    const texts = this.#reports();
    const known = this.#texts;
    if (texts.length === known.length && texts.every((text, at) => text === known[at])) return this.#inStep;
    this.#texts = texts;
    this.#inStep = link.request('set', { texts });
    this.#inStep.catch(() => {
      if (this.#texts === texts) this.#texts = [];
    });
    return this.#inStep;
  }
}
