// Manages the open files: their readers and reports, the rule files, and the options of the analyses. Uses no DOM.

import { Reader, ReaderPool } from './reader-pool.js';
import { asProblem, isOutOfMemory } from './problem.js';
import { WorkerProblem } from './worker-link.js';

/** @import { Analysis, Entry, FileKind, Kernel, LeftOut, Opened, Options, Problem, RuleFile, Settings, SourceFile, TraceEntry } from './types.js' */
/** @import { Renderer } from './renderer-client.js' */
/** @import { Store } from './store.js' */

/** The name of the rules that the person writes in the page. */
export const OWN_RULES = 'own rules.json';
/** Their key in the browser's storage. */
export const OWN_RULES_KEY = 'gpuprism:own-rules';

/** The parts of the view that every analysis depends on.
 * @type {(keyof Settings)[]} */
const SETTINGS = ['rules', 'attribution', 'devices', 'tp', 'ep', 'pp', 'dp'];

export class Session {
  #pool = new ReaderPool((text) => this.#renderer.rehearse(text).catch(() => {}));
  #store;
  #renderer;
  #translate;
  #nextId = 1;
  /** The request for the overview of the first results. @type {Promise<void> | null} */
  #firstOverview = null;

  /** `translate(name, text)` resolves with the report text of another tool's file.
   * @param {Store} store @param {Renderer} renderer @param {(name: string, text: string) => Promise<string>} translate */
  constructor(store, renderer, translate) {
    this.#store = store;
    this.#renderer = renderer;
    this.#translate = translate;
    store.subscribe(['view'], (next, previous) => {
      if (SETTINGS.some((name) => next.view[name] !== previous.view[name])) this.#analyzeAll();
    });
  }

  /** Prepares for the first file, so that its results come sooner. */
  prepare() {
    this.#pool.prepare().catch(() => {});
  }

  get entries() {
    return this.#store.state.entries;
  }

  /** @param {{ entries?: Entry[], hasNewReports?: boolean, hasNewRules?: boolean }} [change] */
  #publish({ entries = this.entries, hasNewReports = false, hasNewRules = false } = {}) {
    this.#store.update({
      entries: [...entries],
      ...(hasNewReports && { reports: reported(entries).map(({ text }) => text ?? '') }),
      ...(hasNewRules && { ruleFiles: rulesInUse(entries) }),
    });
  }

  get traces() {
    return this.entries.filter((entry) => entry.kind === 'trace');
  }

  /** Traces with a report whose worker runs. */
  get liveTraces() {
    return this.traces.filter((entry) => entry.text !== null).filter(isLive);
  }

  /** Traces that have results, and files that are being read and may be traces. */
  get expectedTraces() {
    return this.entries.filter((entry) => isToCome(entry) || (isLive(entry) && entry.text !== null)).filter(hasReader);
  }

  /** Whether a trace has been read before there are results, so that its timeline can be shown. */
  get hasFirstTimeline() {
    return this.reports.length === 0 && this.entries.some((entry) => isToCome(entry) && entry.kind === 'trace' && entry.reader?.hasSections);
  }

  /** The names of files whose first results are to come. */
  get beingRead() {
    return this.entries.filter(isToCome).map(({ file }) => file.name);
  }

  get ruleFiles() {
    return this.#store.state.ruleFiles;
  }

  /** The phase map that was opened last. */
  get #phaseMap() {
    const entry = this.entries.findLast(({ kind, status }) => kind === 'phases' && status === 'open');
    return entry ? asRuleFile(entry) : null;
  }

  /** The config of a model that was opened last. */
  get modelConfig() {
    const entry = this.entries.findLast(({ kind, status }) => kind === 'model' && status === 'open');
    return entry ? asRuleFile(entry) : null;
  }

  /** The server arguments in the trace's folder, else in the nearest folder above it. @param {{ file?: SourceFile }} entry */
  #serverArguments({ file }) {
    if (!file) return null;
    const folder = (/** @type {string} */ name) => name.slice(0, name.lastIndexOf('/') + 1);
    const depth = (/** @type {Entry} */ entry) => folder(entry.file.name).length;
    const candidates = this.entries.filter((entry) => entry.kind === 'server' && file.name.startsWith(folder(entry.file.name)));
    const nearest = Math.max(...candidates.map(depth));
    const found = candidates.findLast((entry) => depth(entry) === nearest);
    return found ? asRuleFile(found) : null;
  }

  /** The texts of all reports, in the order in which the files were opened. */
  get reports() {
    return this.#store.state.reports;
  }

  get #reported() {
    return reported(this.entries);
  }

  /** Identifies the analyses behind the reports. It stays the same if sections are added: bars and strips do not change then. */
  get reportsKey() {
    return this.#reported.map(({ id, shownAnalysisId }) => `${id}.${shownAnalysisId}`).join();
  }

  /** For each report the pivot cells of its trace; empty without a trace. @param {string[]} axes */
  pivotCells(axes) {
    const cells = (/** @type {TraceEntry} */ entry) => entry.reader.request('pivotCells', { options: this.options(entry), axes });
    return Promise.all(this.#reported.map((entry) => (axes.length > 0 && isLive(entry) ? cells(entry) : '')));
  }

  /** One kernel in each report, or in the one at this index; null for a report without a trace.
   * @param {string} name @param {number} width @param {number | null} index */
  kernels(name, width, index) {
    const chosen = this.#reported.filter((_, at) => index === null || at === index);
    const kernel = (/** @type {TraceEntry} */ entry) => entry.reader.request('kernel', { options: this.options(entry), name, width });
    return Promise.all(chosen.map((entry) => (isLive(entry) ? kernel(entry) : null)));
  }

  /** The trace of the report at this index, if its worker runs. @param {number} index */
  liveTraceOf(index) {
    return this.#reported.slice(index, index + 1).find(isLive);
  }

  /** True if files of several ranks are open: they contain ranks, or their names differ in numbers only. */
  get hasRanks() {
    const shown = this.traces.filter(({ text }) => text !== null);
    return shown.some(({ ranks }) => ranks > 1) || shown.filter(({ ranks }) => ranks > 0).length > 1 || nameStems(shown).size < shown.length;
  }

  /** True if all open files may be one job, each a rank of it. */
  get isOneJob() {
    const shown = this.#reported;
    if (shown.length === 0) return false;
    const areRanks = shown.every(({ ranks }) => ranks === 1);
    const mayBeRanks = shown.every(({ kind, ranks }) => kind === 'trace' && ranks < 2) && nameStems(shown).size === 1;
    return areRanks || mayBeRanks;
  }

  /** Resolves with the new entries when each has been read or has failed. `captures` are those of graphs in the same folder.
   * @param {SourceFile[]} files @param {File[]} [captures] */
  async open(files, captures = []) {
    // Next to results, a file gets room once it is known to be a trace.
    const isExpected = this.reports.length === 0;
    const opened = files.map((file) => ({ ...newEntry(this.#nextId++, file), isExpected, captures }));
    const read = opened.map((entry) => this.#read(entry));
    this.#publish({ entries: [...this.entries, ...opened] });
    await Promise.all(read);
    return opened;
  }

  get ownRules() {
    return this.entries.find(({ isOwnRules }) => isOwnRules);
  }

  /** Replaces the person's own rules. Rejects with the problem of an invalid text. @param {string} text */
  async setOwnRules(text) {
    const others = this.ruleFiles.filter(({ file }) => file !== OWN_RULES);
    await this.#renderer.ruleSets([...others, { file: OWN_RULES, text }]);
    const entry = this.ownRules ?? newEntry(this.#nextId++, new File([], OWN_RULES));
    Object.assign(entry, { kind: 'rules', status: 'open', isOwnRules: true, text });
    this.#publish({ entries: this.ownRules ? this.entries : [...this.entries, entry], hasNewRules: true });
    this.#analyzeAll();
  }

  /** Resolves when the file has been read again or has failed.
   * @param {Entry} entry @param {{ leftOut?: LeftOut | null }} [options] */
  retry(entry, { leftOut = entry.leftOut } = {}) {
    // With too little memory for the trace, there is none for captures.
    const captures = leftOut ? [] : entry.captures;
    Object.assign(entry, { leftOut, captures, saysLeftOut: leftOut !== null, problem: null, status: 'reading', kind: null });
    const read = this.#read(entry);
    this.#publish();
    return read;
  }

  /** Adds the time of each new import, whose results are now on screen, to the browser's performance timeline. */
  measureImports() {
    for (const entry of this.#reported) {
      if (entry.openedAt === null) continue;
      const detail = { wasm_memory_bytes: entry.memory };
      performance.measure('gpuprism:import', { start: entry.openedAt, end: performance.now(), detail });
      entry.openedAt = null;
    }
  }

  /** Closes a file; its worker ends and its memory is freed. Returns its place among the files. @param {Entry} entry */
  remove(entry) {
    const place = this.entries.indexOf(entry);
    // Its pending analysis is not shown.
    entry.analysisId += 1;
    closeReaders(entry);
    const isOpenAuxiliary = isAuxiliary(entry) && entry.status === 'open';
    this.#publish({
      entries: this.entries.filter((other) => other !== entry), hasNewReports: !isAuxiliary(entry) && entry.text !== null, hasNewRules: isOpenAuxiliary,
    });
    if (isOpenAuxiliary) this.#analyzeAll();
    return place;
  }

  /** Opens a closed file again at its place. A trace is read again. Resolves with the new entry. @param {Entry} closed @param {number} place */
  async reopen(closed, place) {
    const entry = { ...newEntry(this.#nextId++, closed.file), wall: closed.wall, leftOut: closed.leftOut, captures: closed.captures };
    const read = closed.kind === 'trace' ? this.#read(entry) : null;
    this.#publish({ entries: this.entries.toSpliced(place, 0, entry) });
    await (read ?? this.#openText(entry, closed.kind ?? 'report', closed.text ?? ''));
    return entry;
  }

  /** @param {Entry} entry */
  dismiss(entry) {
    entry.problem = null;
    entry.saysLeftOut = false;
    this.#publish();
  }

  /** Analyzes every open trace again, after a change of the settings or of an auxiliary file. */
  async #analyzeAll() {
    await Promise.all(this.traces.filter((entry) => entry.status !== 'failed').map((entry) => this.#analyze(entry)));
  }

  /** Analyzes a trace again after its reader has read other mapping traces. @param {Entry} entry */
  analyzeAgain(entry) {
    entry.wholeResult = null;
    return this.#analyze(entry);
  }

  /** @param {Entry} entry @param {string} seconds */
  setWall(entry, seconds) {
    entry.wall = seconds.trim();
    return this.#analyze(entry);
  }

  /** Analyzes a time range. Partial results come first. @param {Entry} entry @param {string} window */
  setWindow(entry, window) {
    entry.window = window;
    return this.#analyze(entry, { isPartialFirst: true });
  }

  /** @param {Entry} entry */
  async #read(entry) {
    entry.openedAt = performance.now();
    entry.progress = { read: 0, ops: 0, doing: 'waiting', since: null };
    closeReaders(entry);
    const reader = new Reader();
    reader.successor = () => this.#readerWithSections(entry, reader, entry.analysisId);
    entry.reader = reader;
    try {
      const { kind, torch, ranks, text, memory } = await this.#pool.open(reader, entry.file, entry, (progress) => {
        entry.progress = { ...progress, since: entry.progress?.since ?? performance.now() };
        this.#store.update({ progress: this.#store.state.progress + 1 });
      });
      Object.assign(entry, { memory, torch, ranks });
      if (kind === 'trace') {
        entry.kind = kind;
        await this.#analyze(entry);
        return;
      }
      reader.close();
      if (kind === 'foreign') await this.#openText(entry, 'report', await this.#translate(entry.file.name, text ?? ''));
      else if (kind !== 'database') await this.#openText(entry, kind, text ?? '');
    } catch (problem) {
      await this.#fail(entry, asProblem(problem));
    }
  }

  /** Opens a file other than a trace. @param {Entry} entry @param {FileKind} kind @param {string} text */
  async #openText(entry, kind, text) {
    if (kind === 'rules') await this.#renderer.ruleSets([...this.ruleFiles, { file: entry.file.name, text }]);
    Object.assign(entry, { kind, text, status: 'open', progress: null });
    this.#publish({ hasNewReports: !isAuxiliary(entry), hasNewRules: isAuxiliary(entry) });
    if (isAuxiliary(entry)) await this.#analyzeAll();
  }

  /** Replaces the reader by one that has read the trace with its code. @param {Entry} entry @param {Reader} reader */
  replaceReader(entry, reader) {
    closeReaders(entry);
    entry.reader = reader;
    return this.#analyze(entry);
  }

  /** @param {Entry} entry @param {{ isPartialFirst?: boolean }} [options] */
  async #analyze(entry, { isPartialFirst = false } = {}) {
    const { reader } = entry;
    if (!reader) return;
    const id = ++entry.analysisId;
    const options = this.options(entry);
    if (entry.wholeResult?.reader === reader && entry.wholeResult.inputs === this.#inputs(entry, options)) {
      await this.#show(entry, id, options, entry.wholeResult.analysis);
      return;
    }
    entry.status = 'analyzing';
    // Before the analysis, on which it does not depend: the page draws the first bars while the worker analyzes.
    if (reader.hasSections) reader.timeline(options).catch(() => {});
    // The sections of many ops take long, and those of a small file need the second module, so a partial report is shown first.
    const first = this.#report(entry, reader, options, isPartialFirst || entry.text === null);
    const complete = first.then((analysis) => (analysis.isPartial && id === entry.analysisId ? this.#completeReport(entry, id, options) : analysis));
    complete.catch(() => {});
    this.#publish();
    try {
      const analysis = await first;
      if (analysis.isPartial) await this.#show(entry, id, options, analysis);
      await this.#show(entry, id, options, await complete);
    } catch (thrown) {
      if (id !== entry.analysisId) return;
      const problem = asProblem(thrown);
      const staysOpen = await this.#fail(entry, problem);
      const canComplete = staysOpen && problem.kind === 'refused';
      if (canComplete && entry.shownOptions && entry.isPartial) await this.#complete(entry, id, entry.shownOptions, problem);
    }
  }

  /** The report with its sections. @param {Entry} entry @param {number} id @param {Options} options */
  async #completeReport(entry, id, options) {
    const first = /** @type {Reader} */ (entry.reader);
    const reader = await this.#readerWithSections(entry, first, id);
    // The sections of many ops take the worker seconds, and the bars of the timeline would come after them.
    await reader.whenTimelineIsDrawn();
    if (id !== entry.analysisId) throw new WorkerProblem({ kind: 'cancelled', message: 'a newer analysis has started' });
    return this.#report(entry, reader, options);
  }

  /** Resolves with a reader that computes sections, for the analysis with this id. If the first module has read the file, the second
   * reads it again; its reader replaces the first one.
   * @param {Entry} entry @param {Reader} first @param {number} id */
  async #readerWithSections(entry, first, id) {
    // Another request has replaced it.
    if (entry.reader && entry.reader !== first) return entry.reader;
    if (first.hasSections) return first;
    entry.second ??= this.#readAgain(entry);
    const { reader, opened } = entry.second;
    const { memory } = await opened;
    // A newer analysis still waits for an answer of the first reader.
    if (id === entry.analysisId && entry.reader === first) {
      Object.assign(entry, { reader, memory, second: null });
      first.closeWhenIdle();
      this.#store.update({ readers: this.#store.state.readers + 1 });
    }
    return reader;
  }

  /** @param {Entry} entry */
  #readAgain(entry) {
    const reader = new Reader();
    const opened = this.#pool.open(reader, entry.file, { leftOut: entry.leftOut, needsSections: true });
    opened.catch(() => {
      reader.close();
      // The next analysis tries again.
      if (entry.second?.reader === reader) entry.second = null;
    });
    return { reader, opened: /** @type {Promise<Opened>} */ (opened) };
  }

  /** All that the result of a reader depends on, as text. @param {Entry} entry @param {Options} options */
  #inputs(entry, options) {
    return JSON.stringify([options, this.#serverArguments(entry)?.text]);
  }

  /** @param {Entry} entry @param {Reader} reader @param {Options} options */
  #report(entry, reader, options, isPartialFirst = false) {
    const { captures } = entry;
    return reader.request('analyze', { options, isPartialFirst, server: this.#serverArguments(entry)?.text ?? null, captures });
  }

  /** After a refused analysis: completes the partial results of the previous one, which are on screen.
   * @param {Entry} entry @param {number} id @param {Options} options @param {Problem} problem */
  async #complete(entry, id, options, problem) {
    entry.status = 'analyzing';
    this.#publish();
    try {
      const analysis = await this.#completeReport(entry, id, options);
      const isDismissed = entry.problem !== problem;
      await this.#show(entry, id, options, analysis);
      if (id !== entry.analysisId || isDismissed) return;
      entry.problem = problem;
      this.#publish();
    } catch (other) {
      if (id === entry.analysisId) await this.#fail(entry, asProblem(other));
    }
  }

  /** Resolves when the renderer has the overview of this report alone, or has failed. @param {string} text */
  async #overviewOf(text) {
    await this.#renderer.set([text]).catch(() => {});
    this.#firstOverview = null;
  }

  /** Stores the result of an analysis, unless a newer one was started.
   * @param {Entry} entry @param {number} id @param {Options} options @param {Analysis} analysis */
  async #show(entry, id, options, analysis) {
    const { text, memory, isPartial } = analysis;
    // The first results are drawn together with their overview, in one frame.
    if (this.reports.length === 0) await (this.#firstOverview ??= this.#overviewOf(text));
    if (id !== entry.analysisId) return;
    // Cached for the return from a window to the whole trace.
    if (!isPartial && !options.window) entry.wholeResult = { reader: entry.reader, inputs: this.#inputs(entry, options), analysis };
    Object.assign(entry, {
      text, memory, isPartial, shownAnalysisId: id, shownOptions: options, status: isPartial ? 'analyzing' : 'open', progress: null, problem: null,
    });
    this.#publish({ hasNewReports: true });
  }

  /** Resolves when no results are partial: saved, shared and compared reports must be complete. Rejects if sections failed. */
  async whenComplete() {
    await this.#store.when(() => !this.isPartial);
    const failed = this.entries.find(({ isPartial }) => isPartial);
    if (failed) throw new Error(`the sections of ${failed.file.name} are missing`);
  }

  /** True while the sections of shown results are being computed. */
  get isPartial() {
    return this.entries.some(({ isPartial, status }) => isPartial && status === 'analyzing');
  }

  /** The options of a file's analysis. @param {{ wall: string, window: string, file?: SourceFile }} entry @returns {Options} */
  options({ wall, window, file }) {
    const { rules, attribution, devices, tp, ep, pp, dp } = this.#store.view;
    const config = this.modelConfig;
    const cut = rules.indexOf('/');
    return {
      attribution,
      merge_devices: devices === 'merged',
      engine: rules ? rules.slice(0, cut) : null,
      model: rules ? rules.slice(cut + 1) : null,
      wall_seconds: wall || null,
      window: window || null,
      rules: this.ruleFiles,
      phase_map: this.#phaseMap,
      model_config: {
        config, server: this.#serverArguments({ file }), ...(config && { tp: count(tp), ep: count(ep), pp: count(pp), dp: count(dp) }),
      },
    };
  }

  /** Records a problem. A trace whose options were refused, or that could not be read again for its sections, stays open with its
   * last report; then resolves with true. If memory ran out, the file is read again with less of it.
   * @param {Entry} entry @param {Problem} problem */
  async #fail(entry, problem) {
    if (problem.kind === 'cancelled') return false;
    const leftOut = isOutOfMemory(problem) ? nextToLeaveOut(entry) : null;
    if (leftOut) {
      await this.retry(entry, { leftOut });
      return false;
    }
    entry.problem = problem;
    entry.progress = null;
    const hasFirstResults = entry.isPartial && entry.reader?.hasSections === false;
    const staysOpen = entry.kind === 'trace' && (problem.kind === 'refused' || hasFirstResults);
    entry.status = staysOpen ? 'open' : 'failed';
    if (!staysOpen) closeReaders(entry);
    // Draws the first results again, without marks that sections are being computed.
    this.#publish({ hasNewReports: hasFirstResults });
    return staysOpen;
  }
}

/** @param {number} id @param {SourceFile} file @returns {Entry} */
function newEntry(id, file) {
  return {
    id, file, kind: null, status: 'reading', progress: null, problem: null, text: null, torch: false, ranks: 0, isOwnRules: false,
    wall: '', window: '', reader: null, second: null, analysisId: 0, shownAnalysisId: 0, shownOptions: null, isPartial: false, wholeResult: null,
    openedAt: null, memory: 0, leftOut: null, saysLeftOut: false, isExpected: false, captures: [],
  };
}

/** What to leave out of a file to save more memory; null if all of it is. Only torch traces have code.
 * @param {Entry} entry @returns {LeftOut | null} */
function nextToLeaveOut({ leftOut, kind, torch, progress }) {
  if (leftOut === 'host') return null;
  const hasNoCode = progress?.rows !== undefined || (kind === 'trace' && !torch);
  return leftOut === 'code' || hasNoCode ? 'host' : 'code';
}

/** A count in the address; an invalid one is refused by the analysis. @param {string} text */
const count = (text) => (/^\d+$/.test(text) ? Number(text) : text || null);

/** Frees the memory of a trace. @param {Entry} entry */
function closeReaders(entry) {
  entry.reader?.close();
  entry.second?.reader.close();
  entry.second = null;
}

/** @param {Entry} entry @returns {entry is TraceEntry} */
const hasReader = (entry) => entry.reader !== null;

/** Whether the first results of a file are to come, which may be a trace. @param {Entry} entry */
const isToCome = ({ text, status, kind, isExpected }) => text === null && (status === 'reading' || status === 'analyzing') && (kind === 'trace' || (kind === null && isExpected));

/** @param {Entry} entry @returns {entry is TraceEntry} */
export const isLive = (entry) => entry.kind === 'trace' && entry.reader !== null && !entry.reader.isClosed;

/** @param {Entry} entry @returns {RuleFile} */
const asRuleFile = ({ file, text }) => ({ file: file.name, text: text ?? '' });

/** The files with a report. @param {Entry[]} entries */
const reported = (entries) => entries.filter((entry) => !isAuxiliary(entry) && entry.text !== null);

/** The rule files in use. The person's own come last, because the last file has priority. @param {Entry[]} entries */
const rulesInUse = (entries) => entries
  .filter((entry) => entry.kind === 'rules' && entry.status === 'open')
  .toSorted((a, b) => Number(a.isOwnRules) - Number(b.isOwnRules))
  .map(asRuleFile);

/** The names of these files with their numbers replaced. @param {Entry[]} entries */
const nameStems = (entries) => new Set(entries.map(({ file }) => file.name.replace(/\d+/g, '#')));

/** @type {Set<FileKind | null>} */
const AUXILIARY = new Set(['rules', 'phases', 'model', 'server']);

/** True if a file changes how traces are analyzed and has no results of its own. @param {Entry} entry */
export const isAuxiliary = ({ kind }) => AUXILIARY.has(kind);
