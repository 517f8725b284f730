// The windows of the traces: the overview strips that they are picked from, and their place in the address.

import { latest, onDemand } from './dom.js';

export class Windows {
  #page;
  #strips;
  /** Counts picks: the last one says what other ranks show. */
  #turn = 0;
  /** The traces that have the window that the address names for them. */
  #placed = [];

  /** `page` is what app.js lends its parts. */
  constructor(page) {
    this.#page = page;
    // What was refused is told again.
    const peek = (entry, window) => (entry.window !== window || entry.problem) && page.session.setWindow(entry, window);
    const pick = (entry, window) => {
      peek(entry, window);
      page.amend({ window: this.#inAddress }, { step: true });
      // The frame in the strips comes with the first results, everything else when they are there.
      page.attempt('The strips could not be drawn', this.draw);
      page.attempt('The other ranks do not show this window', () => this.#follow(entry, window, peek));
    };
    const handOver = (entry) => page.attempt('Perfetto could not be opened', async () => {
      const { openInPerfetto } = await import('./perfetto.js');
      await openInPerfetto(entry.reader.slice(page.session.options(entry)), entry.file.name);
    });
    const attempt = (step) => page.attempt('The window could not be picked', step);
    this.#strips = onDemand(async () => new (await import('./strips.js')).Strips({ pick, peek, handOver, attempt }));
  }

  /** Ranks of one job show the same moments. */
  async #follow(entry, window, peek) {
    const turn = ++this.#turn;
    const others = await this.#page.windowsOfJob(entry, window).catch((problem) => {
      // A text that is no window is told of at its trace.
      if (problem.kind !== 'refused') throw problem;
      return [];
    });
    if (turn !== this.#turn || entry.window !== window) return;
    others.forEach((other) => peek(other.entry, other.window));
    if (others.length > 0) this.#page.amend({ window: this.#inAddress });
  }

  /** Fetches what draws strips, while the first trace is read. */
  awaitTraces() {
    this.#strips().catch(() => {});
  }

  /** Draws the strips of all traces that are held. */
  draw = latest(
    async (isResized) => {
      const { session } = this.#page;
      const held = session.traces.filter(({ text, reader, status }) => text !== null && !reader.closed && status !== 'failed');
      const strips = await (held.length > 0 ? this.#strips() : this.#strips.begun());
      return strips?.show(held, (entry) => session.options(entry), isResized);
    },
    () => {},
  );

  /** Brings traces in line with the address: those that were just read, or, where it changed, all of them. */
  apply({ all }) {
    if (all) this.#turn++;
    const { session, view, amend } = this.#page;
    const { traces } = session;
    if (this.#placed.some((entry) => !traces.includes(entry))) amend({ window: this.#inAddress });
    const wanted = new Map(view.window.map((item) => [Number.parseInt(item, 10), item.slice(item.indexOf('@') + 1)]));
    traces.forEach((entry, at) => {
      const window = wanted.get(at) ?? '';
      if (entry.text !== null && entry.window !== window && (all || !this.#placed.includes(entry))) session.setWindow(entry, window);
    });
    this.#placed = traces.filter(({ text }) => text !== null);
  }

  /** Of each trace whose window was picked its place and the window. */
  get #inAddress() {
    return this.#page.session.traces.flatMap(({ window }, at) => (window ? [`${at}@${window}`] : []));
  }
}
