// The state that parts of the page share: the view in the address, and the overview of the reports.

/** @import { Overview, View } from './types.js' */

export class Store {
  /** @type {View} */
  view;
  /**
   * The overview of the reports that are on screen; null without reports.
   * @type {Overview | null}
   */
  overview = null;

  /** @param {View} view */
  constructor(view) {
    this.view = view;
  }

  get runs() {
    return this.overview?.runs ?? [];
  }

  /** Index of the run that others are compared with. */
  get baseline() {
    return this.#runIndex(this.view.base) ?? 0;
  }

  /** Index of the chosen run; null for all of them. */
  get run() {
    return this.#runIndex(this.view.run);
  }

  /** @param {string} text */
  #runIndex(text) {
    const index = this.runs.findIndex((_, run) => String(run) === text);
    return index < 0 ? null : index;
  }
}
