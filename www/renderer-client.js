// Sends requests of the page to the render worker. If a fault (a wasm trap or a script error) ends the worker, a new worker
// starts and gets the reports again.

import { asProblem } from './problem.js';
import { WorkerLink } from './worker-link.js';

/** @import { Overview, RenderOperations, RuleFile, TableRequest } from './types.js' */

/** @typedef {WorkerLink<RenderOperations>} RenderLink */

export class Renderer {
  #module;
  /** @type {RenderLink | null} */
  #link = null;
  #restarted = Promise.resolve();
  /** The current reports as JSON texts. @type {string[]} */
  #reports = [];
  /** The last reports that were sent, and the answer. @type {{ texts: string[], overview: Promise<Overview> } | null} */
  #sent = null;

  /** @param {Promise<WebAssembly.Module>} module */
  constructor(module) {
    this.#module = module;
  }

  /** Starts a new worker. Resolves with the style sheet of categories and charts, and with the version of the wasm module. */
  async start() {
    this.#link?.close();
    /** @type {RenderLink} */
    const link = new WorkerLink('render-worker.js');
    this.#link = link;
    return link.request('start', { module: await this.#module });
  }

  /** Replaces the reports and resolves with their overview. The same reports are sent once. @param {string[]} texts */
  set(texts) {
    const { length } = texts;
    if (this.#sent?.texts.length === length && this.#sent.texts.every((text, index) => text === texts[index])) return this.#sent.overview;
    const sent = { texts, overview: this.#retry((link) => link.request('set', { texts })) };
    this.#sent = sent;
    sent.overview.then(() => {
      this.#reports = texts;
    }, () => {
      // The next call tries again.
      if (this.#sent === sent) this.#sent = null;
    });
    return sent.overview;
  }

  /** Runs the code of the worker on a report that is not shown. @param {string} text */
  rehearse = (text) => this.#retry((link) => link.request('rehearse', { text }));

  /** @param {number} width @param {string[]} hidden */
  chart = (width, hidden) => this.#retry((link) => link.request('chart', { width, hidden }));

  /** @param {TableRequest} request */
  table = (request) => this.#retry((link) => link.request('table', { request }));

  /** @param {RuleFile[]} rules */
  ruleSets = (rules) => this.#retry((link) => link.request('ruleSets', { rules }));

  /** Sends a request, and once more to a new worker if a fault ended the first: another request may have caused the fault.
   * @template Answer @param {(link: RenderLink) => Promise<Answer>} send @returns {Promise<Answer>} */
  async #retry(send, isRetry = false) {
    const link = this.#link;
    if (!link) throw new Error('the renderer has not started');
    try {
      return await send(link);
    } catch (problem) {
      if (asProblem(problem).kind !== 'fault') throw problem;
      // A fault rejects all pending requests: the first of them restarts the worker, and the others wait.
      if (link === this.#link) this.#restarted = this.#restart();
      await this.#restarted;
      if (isRetry) throw problem;
      return this.#retry(send, true);
    }
  }

  async #restart() {
    await this.start();
    if (this.#reports.length > 0) await this.#link?.request('set', { texts: this.#reports });
  }
}
