// The page's hold on the render worker: restarts it after a fault and gives it the reports again.

import { WorkerLink } from './worker-link.js';

export class Renderer {
  #module;
  #link;
  #restarted;
  #texts = [];

  /** `module` is a promise of the compiled WebAssembly.Module. */
  constructor(module) {
    this.#module = module;
  }

  /** Starts the worker: {palette, build}. */
  async start() {
    this.#link?.close();
    this.#link = new WorkerLink('render-worker.js');
    return this.#link.request('start', { module: await this.#module });
  }

  /** Replaces the reports and says what there is to show. */
  async set(texts) {
    const overview = await this.#ask('set', { texts });
    this.#texts = texts;
    return overview;
  }

  chart = (width, hidden) => this.#ask('chart', { width, hidden });
  table = (request) => this.#ask('table', { request });
  ruleSets = (rules) => this.#ask('ruleSets', { rules });

  /** A request that met a fault is asked once more of a fresh worker: the fault may have been another request's. */
  async #ask(op, args, again = true) {
    const link = this.#link;
    try {
      return await link.request(op, args);
    } catch (problem) {
      if (problem.kind !== 'fault') throw problem;
      // Of several requests that one fault ended, the first restarts the worker and the others wait for it.
      if (link === this.#link) this.#restarted = this.#restart();
      await this.#restarted;
      if (!again) throw problem;
      return this.#ask(op, args, false);
    }
  }

  async #restart() {
    await this.start();
    if (this.#texts.length > 0) await this.#link.request('set', { texts: this.#texts });
  }
}
