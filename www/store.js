// The state of the page. It flows in one direction: an event calls an action (session.js, or `look` of app.js), the action updates
// the store, and the store calls its subscribers, which render. Parts of the page read the store and never wait for each other.

/** @import { State } from './types.js' */

/** @typedef {(next: State, previous: State) => void} Subscriber */

export class Store {
  #state;
  /** @type {{ keys: (keyof State)[], subscriber: Subscriber }[]} */
  #subscriptions = [];
  /** Updates that subscribers have not seen yet. A subscriber may update the store.
   * @type {{ next: State, previous: State }[]} */
  #queue = [];
  #isNotifying = false;

  /** @param {State} state */
  constructor(state) {
    this.#state = state;
  }

  get state() {
    return this.#state;
  }

  /** Replaces parts of the state, then calls the subscribers of those that differ. @param {Partial<State>} change */
  update(change) {
    const previous = this.#state;
    this.#state = { ...previous, ...change };
    this.#queue.push({ next: this.#state, previous });
    if (this.#isNotifying) return;
    this.#isNotifying = true;
    try {
      for (let update = this.#queue.shift(); update; update = this.#queue.shift()) this.#notify(update);
    } finally {
      this.#isNotifying = false;
    }
  }

  /** Calls the subscriber when one of these parts has changed.
   * @param {(keyof State)[]} keys @param {Subscriber} subscriber */
  subscribe(keys, subscriber) {
    this.#subscriptions.push({ keys, subscriber });
  }

  /** Resolves once the condition is true. @param {() => boolean} condition @returns {Promise<void>} */
  when(condition) {
    if (condition()) return Promise.resolve();
    return new Promise((resolve) => {
      /** @type {{ keys: (keyof State)[], subscriber: Subscriber }} */
      const subscription = { keys: ['entries'], subscriber: () => {
        if (!condition()) return;
        this.#subscriptions = this.#subscriptions.filter((other) => other !== subscription);
        resolve();
      } };
      this.#subscriptions.push(subscription);
    });
  }

  /** @param {{ next: State, previous: State }} update */
  #notify({ next, previous }) {
    for (const { keys, subscriber } of [...this.#subscriptions]) {
      if (keys.some((key) => next[key] !== previous[key])) subscriber(next, previous);
    }
  }

  get view() {
    return this.#state.view;
  }

  get overview() {
    return this.#state.overview;
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
