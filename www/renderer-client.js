// The page's end of the render worker. After a fault it starts a new worker and gives it the reports again.

import { asProblem } from './problem.js';
import { WorkerLink } from './worker-link.js';

/** @import { RenderOperations, RuleFile, TableRequest } from './types.js' */

/** @typedef {WorkerLink<RenderOperations>} RenderLink */

export class Renderer {
  #module;
  /** @type {RenderLink | null} */
  #link = null;
  #restarted = Promise.resolve();
  /** @type {string[]} */
  #texts = [];

  /** @param {Promise<WebAssembly.Module>} module */
  constructor(module) {
    this.#module = module;
  }

  /** Starts the worker. Resolves with the style sheet of categories and charts, and with the build. */
  async start() {
    this.#link?.close();
    /** @type {RenderLink} */
    const link = new WorkerLink('render-worker.js');
    this.#link = link;
    return link.request('start', { module: await this.#module });
  }

  /** Replaces the reports and resolves with their overview. @param {string[]} texts */
  async set(texts) {
    const overview = await this.#retry((link) => link.request('set', { texts }));
    this.#texts = texts;
    return overview;
  }

  /** @param {number} width @param {string[]} hidden */
  chart = (width, hidden) => this.#retry((link) => link.request('chart', { width, hidden }));

  /** @param {TableRequest} request */
  table = (request) => this.#retry((link) => link.request('table', { request }));

  /** @param {RuleFile[]} rules */
  ruleSets = (rules) => this.#retry((link) => link.request('ruleSets', { rules }));

  /** After a fault, which another request may have caused, sends the request once more to a new worker.
   * @template Answer @param {(link: RenderLink) => Promise<Answer>} send @returns {Promise<Answer>} */
  async #retry(send, isRetry = false) {
    const link = this.#link;
    if (!link) throw new Error('the renderer has not started');
    try {
      return await send(link);
    } catch (problem) {
      if (asProblem(problem).kind !== 'fault') throw problem;
      // If one fault ended several requests, the first restarts the worker and the others wait.
      if (link === this.#link) this.#restarted = this.#restart();
      await this.#restarted;
      if (isRetry) throw problem;
      return this.#retry(send, true);
    }
  }

  async #restart() {
    await this.start();
    if (this.#texts.length > 0) await this.#link?.request('set', { texts: this.#texts });
  }
}
