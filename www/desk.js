// The page's hold on the desk worker, which does what a person wants after the first results. It is fetched, and the
// worker started, when something first asks for it; after a fault the next request starts a worker anew.

import { WorkerLink, compiledModule } from './worker-link.js';

export class Desk {
  #reports;
  /** A promise of the worker, once it was asked for. */
  #link = null;
  /** The texts that the worker holds. */
  #texts = [];

  /** `reports()` gives the session's report texts of now. */
  constructor(reports) {
    this.#reports = reports;
  }

  /** The text of a file to save. */
  export = (format, table) => this.#ask((link) => this.#keepInStep(link).then(() => link.request('export', { format, table })));
  /** What a person shares, by `preview`, `file`, `link` or `redactions`, under a wish {format, redact, slim}. */
  share = (what, wish) => this.#ask((link) => this.#keepInStep(link).then(() => link.request('share', { what, wish })));
  /** The report text that a link carries. */
  openLink = (text) => this.#ask((link) => link.request('openLink', { text }));
  /** The report text of a file of another tool. */
  translate = (label, text) => this.#ask((link) => link.request('translate', { label, text }));

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
      const module = await compiledModule('gpuprism_desk');
      const link = new WorkerLink('desk-worker.js');
      await link.request('start', { module });
      return link;
    } catch (problem) {
      this.#link = null;
      throw problem;
    }
  }

  /** The worker takes requests in their order, so whoever asks meanwhile is answered from the new texts. */
  async #keepInStep(link) {
    const texts = this.#reports();
    const known = this.#texts;
    if (texts.length === known.length && texts.every((text, at) => text === known[at])) return;
    await link.request('set', { texts });
    this.#texts = texts;
  }
}
