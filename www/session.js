// What is open: the files, their readers and reports, the rule files, and how to count. It knows nothing of the page.

import { ReaderPool } from './reader-pool.js';

/** What the person's own rules are called, which the page keeps from visit to visit. */
export const OWN_RULES = 'own rules.json';
/** Where the browser keeps them. */
export const KEPT_RULES = 'gpuprism:own-rules';

/**
 * An entry is one file: {id, file, kind, torch, ranks, status, progress, problem, text, wall, window, reader, picked, memory,
 * gpuOnly}.
 * kind: null until known, then trace | report | rules | phases | server. torch: a trace that can be triaged.
 * ranks: ranks of a job that the file says it holds.
 * status: reading | analysing | open | failed.
 * window: the part of the trace to look at, from-to in seconds; '' for all of it.
 * partial: what is shown was quickly known, the rest is still being computed.
 * ofWhole: the last results of all of it, {key, answer}, the key telling how it was counted.
 * shown: the options of the results that are shown. counted: the turn in which they were asked for.
 * picked: when it was handed over, until its results are shown. memory: bytes of WebAssembly memory in its worker.
 * own: the rules that the page keeps.
 * gpuOnly: its calls and ranges are to be left out, because memory is short.
 */
export class Session {
  entries = [];
  /** The rule set ("engine/model", '' for the default), who owns overlaps, and whether devices count as one. */
  settings = { rules: '', attribution: 'first_come', devices: 'each' };

  #pool;
  #renderer;
  #changed;
  #translate;
  #nextId = 1;
  /** Those who wait for a change. */
  #waiting = [];

  /**
   * `changed(what)` is called after each change: 'progress', 'entries', 'reports' or 'rules'. `translate(name, text)` resolves
   * with the report text of another tool's file.
   */
  constructor(renderer, changed, translate) {
    this.#pool = new ReaderPool();
    this.#renderer = renderer;
    this.#changed = (what) => {
      changed(what);
      this.#waiting.splice(0).forEach((go) => go());
    };
    this.#translate = translate;
  }

  get traces() {
    return this.entries.filter((entry) => entry.kind === 'trace');
  }

  get ruleFiles() {
    return this.entries
      .filter((entry) => entry.kind === 'rules' && entry.status === 'open')
      // The person's own stand before all others, which is at the end.
      .toSorted((a, b) => Number(a.own) - Number(b.own))
      .map((entry) => ({ file: entry.file.name, text: entry.text }));
  }

  /** The phase map given last; null where there is none. */
  get #phaseMap() {
    const entry = this.entries.findLast(({ kind, status }) => kind === 'phases' && status === 'open');
    return entry ? { file: entry.file.name, text: entry.text } : null;
  }

  /** The arguments of the server that wrote a trace, as text: those in its folder, or in the nearest one above. */
  server({ file }) {
    const folder = (name) => name.slice(0, name.lastIndexOf('/') + 1);
    const above = this.entries.filter((entry) => entry.kind === 'server' && file.name.startsWith(folder(entry.file.name)));
    return above.findLast((entry) => above.every((other) => folder(other.file.name).length <= folder(entry.file.name).length))?.text ?? null;
  }

  /** The reports at hand, in the order in which the files were given. */
  get reports() {
    return this.#reported.map((entry) => entry.text);
  }

  get #reported() {
    return this.entries.filter((entry) => !isAid(entry) && entry.text !== null);
  }

  /** Stays the same where sections are added to first results: what bars and strips are made of does not change then. */
  get counted() {
    return this.#reported.map(({ id, counted }) => `${id}.${counted}`).join();
  }

  /** Beside each of the reports what its trace tells on these axes of a pivot, as text; empty where no trace is held. */
  cubes(axes) {
    const held = (entry) => axes.length > 0 && entry.kind === 'trace' && !entry.reader.closed;
    return Promise.all(this.#reported.map((entry) => (held(entry) ? entry.reader.cube(this.options(entry), axes) : '')));
  }

  /** Of each report, or of the one at this place, one kernel in detail; null where no trace is held. */
  kernels(name, width, place) {
    const held = (entry) => entry.kind === 'trace' && !entry.reader.closed;
    const chosen = this.#reported.filter((_, at) => place === null || at === place);
    return Promise.all(chosen.map((entry) => (held(entry) ? entry.reader.kernel(this.options(entry), name, width) : null)));
  }

  /** Traces that are held, whose ranks may be of one job. */
  get rankTraces() {
    return this.traces.filter(({ reader, text }) => text !== null && !reader.closed);
  }

  /** Files of several ranks are open: they say so, or their names differ in numbers alone. */
  get hasRanks() {
    const shown = this.traces.filter(({ text }) => text !== null);
    return shown.some(({ ranks }) => ranks > 1) || shown.filter(({ ranks }) => ranks > 0).length > 1 || names(shown).size < shown.length;
  }

  /** All that is open may be one job, a file a rank. */
  get isOneJob() {
    const shown = this.#reported;
    return shown.length > 0 && (shown.every(({ ranks }) => ranks === 1) || (names(shown).size === 1 && shown.every(({ kind, ranks }) => kind === 'trace' && ranks < 2)));
  }

  /** Resolves with the new entries when each has been read, or not. */
  async open(files) {
    const opened = files.map((file) => this.#entry(file));
    this.entries.push(...opened);
    const read = opened.map((entry) => this.#read(entry));
    this.#changed('entries');
    await Promise.all(read);
    return opened;
  }

  #entry(file) {
    return {
      id: this.#nextId++, file, kind: null, torch: false, ranks: 0, status: 'reading', progress: null, problem: null, own: false,
      text: null, wall: '', window: '', reader: null, turn: 0, counted: 0, partial: false, ofWhole: null, shown: null, picked: null, memory: 0, gpuOnly: false,
    };
  }

  get ownRules() {
    return this.entries.find(({ own }) => own);
  }

  /** Takes the person's own rules, in place of those before, and begins to count anew. Rejects with what is wrong. */
  async keepRules(text) {
    const others = this.ruleFiles.filter(({ file }) => file !== OWN_RULES);
    await this.#renderer.ruleSets([...others, { file: OWN_RULES, text }]);
    if (!this.ownRules) this.entries.push({ ...this.#entry(new File([text], OWN_RULES)), kind: 'rules', status: 'open', own: true });
    this.ownRules.text = text;
    this.#changed('entries');
    this.#aidChanged();
  }

  retry(entry, { gpuOnly = entry.gpuOnly } = {}) {
    Object.assign(entry, { gpuOnly, problem: null, status: 'reading', kind: null, ofWhole: null });
    this.#read(entry);
    this.#changed('entries');
  }

  /** The results are on screen: tells the browser's own performance timeline how long each import took. */
  shown() {
    for (const entry of this.#reported.filter(({ picked }) => picked !== null)) {
      const detail = { wasm_memory_bytes: entry.memory };
      performance.measure('gpuprism:import', { start: entry.picked, end: performance.now(), detail });
      entry.picked = null;
    }
  }

  /** Takes the file off the page; its worker ends and its memory is freed. */
  remove(entry) {
    entry.reader?.close();
    this.entries = this.entries.filter((other) => other !== entry);
    this.#changed('entries');
    if (isAid(entry) && entry.status === 'open') this.#aidChanged();
    else if (entry.text !== null) this.#changed('reports');
  }

  dismiss(entry) {
    entry.problem = null;
    this.#changed('entries');
  }

  /** Changes how to count; every open trace is analysed anew. */
  async count(settings) {
    Object.assign(this.settings, settings);
    await Promise.all(this.traces.filter((entry) => entry.status !== 'failed').map((entry) => this.analyse(entry)));
  }

  setWall(entry, seconds) {
    entry.wall = seconds.trim();
    return this.analyse(entry);
  }

  /** Looks at a part of the trace; what is quickly known of it is shown first. */
  setWindow(entry, window) {
    entry.window = window;
    return this.analyse(entry, { anew: true });
  }

  async #read(entry) {
    entry.picked = performance.now();
    entry.progress = { read: 0, ops: 0, doing: 'waiting', since: null };
    entry.reader = this.#pool.open(entry.file, entry.gpuOnly, (progress) => {
      entry.progress = { ...progress, since: entry.progress.since ?? performance.now() };
      this.#changed('progress');
    });
    try {
      const { kind, torch, ranks, text, memory } = await entry.reader.opened;
      Object.assign(entry, { memory, torch, ranks });
      await this.#take(entry, kind, text);
    } catch (problem) {
      this.#fail(entry, problem);
    }
  }

  async #take(entry, kind, text) {
    if (kind === 'trace') {
      entry.kind = kind;
      return this.analyse(entry);
    }
    entry.reader.close();
    if (kind === 'foreign') return this.#take(entry, 'report', await this.#translate(entry.file.name, text));
    if (kind === 'rules') await this.#renderer.ruleSets([...this.ruleFiles, { file: entry.file.name, text }]);
    Object.assign(entry, { kind, text, status: 'open', progress: null });
    this.#changed('entries');
    if (isAid(entry)) this.#aidChanged();
    else this.#changed('reports');
  }

  #aidChanged() {
    this.#changed('rules');
    return this.count({});
  }

  /** Another reader answers for the trace from now on; the one before it ends. */
  hand(entry, reader) {
    entry.reader.close();
    Object.assign(entry, { reader, ofWhole: null });
    return this.analyse(entry);
  }

  async analyse(entry, { anew = false } = {}) {
    const turn = ++entry.turn;
    const options = this.options(entry);
    if (entry.ofWhole?.key === JSON.stringify(options)) return this.#show(entry, turn, options, entry.ofWhole.answer);
    entry.status = 'analysing';
    // The sections of many ops take a while: what is known before them is shown before them, while the worker goes on.
    const first = entry.reader.analyze(options, anew || entry.text === null);
    const whole = first.then((answer) => (answer.isPartial && turn === entry.turn ? entry.reader.analyze(options) : answer));
    whole.catch(() => {});
    this.#changed('entries');
    try {
      const soon = await first;
      if (soon.isPartial) this.#show(entry, turn, options, soon);
      this.#show(entry, turn, options, await whole);
    } catch (problem) {
      if (turn !== entry.turn) return;
      this.#fail(entry, problem);
      if (entry.status === 'open' && entry.partial) await this.#complete(entry, turn, problem);
    }
  }

  /** What was refused leaves the first results of before on screen: they get their sections all the same. */
  async #complete(entry, turn, problem) {
    entry.status = 'analysing';
    this.#changed('entries');
    const options = entry.shown;
    try {
      const answer = await entry.reader.analyze(options);
      // Unless it was dismissed meanwhile.
      const stands = entry.problem === problem ? problem : null;
      this.#show(entry, turn, options, answer);
      if (turn !== entry.turn) return;
      entry.problem = stands;
      this.#changed('entries');
    } catch (other) {
      if (turn === entry.turn) this.#fail(entry, other);
    }
  }

  /** Unless it is not wanted any more. */
  #show(entry, turn, options, { isPartial: partial, ...answer }) {
    if (turn !== entry.turn) return;
    // Whoever looked at a part comes back to all of it.
    if (!partial && !options.window) entry.ofWhole = { key: JSON.stringify(options), answer };
    Object.assign(entry, { ...answer, counted: turn, shown: options, partial, status: partial ? 'analysing' : 'open', progress: null, problem: null });
    this.#changed('reports');
  }

  /** Resolves when all results are there: what is saved, shared or compared is whole. */
  async whole() {
    while (this.isPartial) await new Promise((done) => this.#waiting.push(done));
  }

  /** Are there first results of which the others are still being computed? */
  get isPartial() {
    return this.entries.some(({ partial, status }) => partial && status === 'analysing');
  }

  /** What is chosen about a file's analysis. */
  options(entry) {
    const [engine, model] = this.settings.rules ? splitOnce(this.settings.rules) : [null, null];
    return {
      attribution: this.settings.attribution,
      merge_devices: this.settings.devices === 'merged',
      engine,
      model,
      wall_seconds: entry.wall || null,
      window: entry.window || null,
      rules: this.ruleFiles,
      phase_map: this.#phaseMap,
    };
  }

  /** An entry whose last report still stands stays open; the problem is shown beside it. */
  #fail(entry, problem) {
    if (problem.kind === 'cancelled') return;
    entry.problem = problem;
    entry.progress = null;
    const lives = problem.kind === 'refused' && entry.kind === 'trace';
    entry.status = lives ? 'open' : 'failed';
    if (!lives) entry.reader.close();
    this.#changed('entries');
  }
}

/** The names of these files, with one sign for all numbers. */
const names = (entries) => new Set(entries.map(({ file }) => file.name.replace(/\d+/g, '#')));

/** A file that tells how to count and holds nothing to count. */
export function isAid({ kind }) {
  return ['rules', 'phases', 'server'].includes(kind);
}

function splitOnce(pair) {
  const cut = pair.indexOf('/');
  return [pair.slice(0, cut), pair.slice(cut + 1)];
}
