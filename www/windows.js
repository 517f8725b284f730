// The windows of the traces: connects the overview strips, in which windows are picked, to the session and the address.

import { CallCounter, byId, latest, onDemand } from './dom.js';
import { asProblem } from './problem.js';

/** @import { Entry, Page, TraceEntry } from './types.js' */

/** Each timeline takes room, so those of further traces are made when they are asked for. Also for timeline.js, which is loaded later. */
export const TIMELINES_AT_ONCE = 4;

export class Windows {
  #page;
  #strips;
  #timelines;
  /** Counts picks: the last one sets the windows of the other ranks. */
  #picks = new CallCounter();
  /** The last opening of the timelines. @type {Promise<void>} */
  #opened = Promise.resolve();
  /** The traces that have a timeline or are expected to get one, and whether each has been read. */
  #expectedKey = '';
  /** The traces that have the window that the address names for them. @type {Entry[]} */
  #placed = [];

  /** @param {Page} page */
  constructor(page) {
    this.#page = page;
    page.store.subscribe(['reports'], () => this.#apply({ all: false }));
    // The timelines of files that are being read are made meanwhile, and drawn while they are analyzed.
    page.store.subscribe(['entries'], () => this.#openNew());
    // Only a reader with sections has a timeline.
    page.store.subscribe(['readers'], () => page.attempt('The strips could not be drawn', this.draw));
    const pickStages = onDemand(async () => (await import('./stage-window.js')).pickStages(page));
    const showStage = (/** @type {string} */ stage) => stage && page.attempt('The stage could not be picked', pickStages);
    showStage(page.store.view.stage);
    page.store.subscribe(['view'], (next, previous) => {
      showStage(next.view.stage);
      if (next.view.window.join() !== previous.view.window.join()) this.#apply({ all: true });
      if (next.view.hide.join() !== previous.view.hide.join()) this.#showHidden();
      if (next.view.lanes.join() !== previous.view.lanes.join()) attempt(async () => (await this.#timelines.loaded())?.readLanes());
      if (next.view.filter !== previous.view.filter) attempt(async () => (await this.#timelines.loaded())?.search());
    });
    const attempt = (/** @type {() => unknown} */ step) => page.attempt('The window could not be picked', step);
    const hidden = () => page.store.view.hide;
    const actions = { pick: this.pick, panTo: this.#panTo, preview: this.#preview, openInPerfetto: this.#openInPerfetto, hidden, attempt };
    this.#strips = onDemand(async () => new (await import('./strips.js')).Strips(actions));
    const openKernel = (/** @type {string} */ kernel) => page.look({ kernel });
    const attemptStep = (/** @type {() => unknown} */ step) => page.attempt('The timeline could not answer', step);
    const lanes = { read: () => page.store.view.lanes, write: (/** @type {string[]} */ chosen) => page.look({ lanes: chosen }) };
    this.#timelines = onDemand(async () => new (await import('./timeline.js')).Timelines({
      pick: this.pick, goBack: this.#goBack, onView: this.#showView, openKernel, hidden, lanes, filter: () => page.store.view.filter, attempt: attemptStep, job: this.#job, proofs: this.#proofs,
    }));
  }

  /** The findings of a trace about a bar, and the row of a table that has the numbers of such bars. @type {import('./timeline.js').Actions['proofs']} */
  #proofs = (entry, { findings, numbers }) => {
    const { store, session, attempt, prove } = this.#page;
    if (!store.overview) return [];
    const run = store.runs.findIndex((_, index) => session.liveTraceOf(index) === entry);
    const inRun = [{ key: 'run', value: store.runs[run]?.label ?? '' }];
    /** @type {(table: string, find: import('./types.js').RowValue[]) => () => void} */
    const open = (table, find) => () => attempt('The table could not be shown', () => prove(table, find));
    const known = store.overview.findings.filter(({ run_index: of, id, table }) => of === run && table && findings.includes(id));
    return [
      ...known.map(({ title, table }) => ({ kind: 'Finding: ', title, table, open: open(table, []) })),
      ...(numbers ? [{ kind: 'Table: ', title: numbers.title, table: numbers.table, open: open(numbers.table, [...numbers.find, ...inRun]) }] : []),
    ];
  };

  /** @type {import('./timeline-align.js').Job} */
  #job = {
    hasJob: () => this.#page.session.hasRanks && this.#page.session.liveTraces.length > 1,
    moments: async (entry, time) => (await this.#page.jobRanks())?.moments(entry, time) ?? new Map(),
    waits: async () => (await this.#page.jobRanks())?.waits() ?? new Map(),
  };

  /** Shows a window. A refused one is tried again, to show the problem again.
   * @param {Entry} entry @param {string} window */
  #preview = (entry, window) => {
    if (entry.window !== window || entry.problem) this.#page.session.setWindow(entry, window);
  };

  /** @param {TraceEntry} entry @param {string} window */
  pick = (entry, window) => {
    const { look, attempt } = this.#page;
    this.#preview(entry, window);
    look({ window: this.#addressWindows, stage: '' });
    // The frame in the strips comes with the partial results, everything else with the complete ones.
    attempt('The strips could not be drawn', this.draw);
    attempt('The other ranks do not show this window', () => this.#follow(entry, window));
  };

  /** Picks the window before the one on screen. @param {TraceEntry} entry */
  #goBack = async (entry) => this.pick(entry, (await this.#strips.loaded())?.windowBefore(entry) ?? '');

  /** Frames in the strips what the timeline shows. @param {TraceEntry} entry @param {number} from @param {number} to */
  #showView = async (entry, from, to) => (await this.#strips.loaded())?.showView(entry, from, to);

  /** Draws the categories that the reader has just hidden or shown. */
  #showHidden() {
    this.#page.attempt('The hidden categories could not be drawn', async () => {
      (await this.#timelines.loaded())?.readColours();
      (await this.#strips.loaded())?.fadeHidden();
    });
  }

  /** @param {TraceEntry} entry @param {number} share */
  #panTo = async (entry, share) => (await this.#timelines.loaded())?.panTo(entry, share);

  /** @param {TraceEntry} entry */
  #openInPerfetto = (entry) => this.#page.attempt('Perfetto could not be opened', async () => {
    const { openInPerfetto } = await import('./perfetto.js');
    await openInPerfetto(entry.reader.request('slice', { options: this.#page.session.options(entry) }), entry.file.name);
  });

  /** Sets the same time range in the other ranks of the job. @param {TraceEntry} entry @param {string} window */
  async #follow(entry, window) {
    const isLast = this.#picks.start();
    const windows = (await this.#page.jobRanks())?.windows(entry, window) ?? Promise.resolve([]);
    const others = await windows.catch((thrown) => {
      // A text that is no window is reported at its own trace.
      if (asProblem(thrown).kind !== 'refused') throw thrown;
      return [];
    });
    if (!isLast() || entry.window !== window) return;
    others.forEach((other) => this.#preview(other.entry, other.window));
    if (others.length > 0) this.#page.look({ window: this.#addressWindows }, { isStep: false });
  }

  /** Shows a launch of a kernel in the timeline. @param {string} name */
  showKernel(name) {
    this.#page.attempt('The kernel could not be shown in the timeline', async () => (await this.#timelines.loaded())?.showKernel(name));
  }

  /** Goes to the next op that the filter finds, if a timeline is on screen. */
  showHit() {
    if (byId('timelines').clientHeight === 0) return;
    this.#page.attempt('The ops could not be searched', async () => (await this.#timelines.loaded())?.showHit());
  }

  /** Shows a time of a row of a table in the timeline of a trace. @param {TraceEntry} entry @param {import('./timeline.js').RowTime} time */
  showTime(entry, time) {
    this.#page.attempt('The time could not be shown in the timeline', async () => (await this.#timelines.loaded())?.showTime(entry, time));
  }

  /** Shows a case of a clause, a finding or a row of a table in the timeline of a trace.
   * @param {TraceEntry} entry @param {string} example @param {import('./timeline.js').ExampleOptions} options */
  showExample(entry, example, options) {
    this.#page.attempt('The case could not be shown in the timeline', async () => (await this.#timelines.loaded())?.showExample(entry, example, options));
  }

  /** Loads the scripts of strips and timelines while the first trace is read. */
  preload() {
    for (const script of [this.#strips, this.#timelines]) script().catch(() => {});
  }

  /** Keeps the room of strips and timelines, also of those that come later. */
  keepRoom() {
    const traces = this.#page.session.expectedTraces.length;
    for (const part of [byId('strips'), byId('timelines')]) {
      if (part.hidden) part.hidden = traces === 0;
      part.dataset.several = String(traces > 1);
      // One more stands for the line with the others.
      part.dataset.count = String(Math.min(traces, TIMELINES_AT_ONCE + 1));
    }
  }

  /** Draws the timelines and strips of all traces whose workers run. */
  draw = async (/** @type {boolean | void} */ isResized) => {
    await Promise.all([this.openTimelines(), this.drawStrips(isResized)]);
  };

  /** Resolves when the timelines have their first bars, or after their problem is shown. */
  openTimelines = () => {
    this.#opened = this.#page.attempt('The timeline could not be drawn', this.#openTimelines);
    return this.#opened;
  };

  #openTimelines = latest(
    async () => {
      const traces = this.#page.session.expectedTraces;
      this.#expectedKey = keyOf(traces);
      this.keepRoom();
      await (await this.#whenNeeded(this.#timelines))?.show(traces, this.#options);
    },
    () => {},
  );

  /** Shows the timelines of these traces first. @param {TraceEntry[]} traces */
  leadWith = async (traces) => {
    await this.#opened;
    await (await this.#timelines.loaded())?.leadWith(traces);
  };

  /** Makes the timelines of new files, and draws those of files that have just been read. */
  #openNew() {
    if (keyOf(this.#page.session.expectedTraces) !== this.#expectedKey) this.openTimelines();
  }

  drawStrips = latest(
    async (/** @type {boolean | void} */ isResized) => {
      // The bars are more than the strips, so the worker is asked for them first.
      await this.#opened;
      await (await this.#whenNeeded(this.#strips))?.show(this.#page.session.expectedTraces, this.#options, Boolean(isResized));
    },
    () => {},
  );

  /** A script, or null if there is no trace and it has not been loaded. @template Part @param {import('./dom.js').OnDemand<Part>} script */
  #whenNeeded(script) {
    return this.#page.session.liveTraces.length > 0 ? script() : script.loaded();
  }

  /** @param {Entry} entry */
  #options = (entry) => this.#page.session.options(entry);

  /** Applies the windows in the address to new traces, or to all traces. @param {{ all: boolean }} options */
  #apply({ all }) {
    if (all) this.#picks.start();
    const { session, store, look } = this.#page;
    const { traces } = session;
    if (this.#placed.some((entry) => !traces.includes(entry))) look({ window: this.#addressWindows }, { isStep: false });
    const [ofOne, ofAll] = [true, false].map((isOfOne) => store.view.window.filter((item) => item.includes('@') === isOfOne));
    const wanted = new Map(ofOne.map((item) => [Number.parseInt(item, 10), item.slice(item.indexOf('@') + 1)]));
    traces.forEach((entry, index) => {
      const window = wanted.get(index) ?? ofAll.at(-1) ?? '';
      if (entry.text !== null && entry.window !== window && (all || !this.#placed.includes(entry))) session.setWindow(entry, window);
    });
    this.#placed = traces.filter(({ text }) => text !== null);
  }

  /** Index and window of each trace with a window. */
  get #addressWindows() {
    return this.#page.session.traces.flatMap(({ window }, index) => (window ? [`${index}@${window}`] : []));
  }
}

/** Which traces these are, and whether each has been read. @param {TraceEntry[]} traces */
const keyOf = (traces) => traces.map(({ id, kind }) => `${id} ${kind}`).join();
