// Reads files, each in a worker of its own, a few at a time.

import { WorkerLink, WorkerProblem, compiledModule, isModuleReady } from './worker-link.js';

/** @import { LeftOut, Options, Progress, SendRequest, SourceFile, TimelineView, TraceOperations } from './types.js' */

/** Gigabytes of memory, up to 8, in browsers that report it. */
const DEVICE_MEMORY = /** @type {Navigator & { deviceMemory?: number }} */ (navigator).deviceMemory ?? 8;

/** Reading takes one core, so the files of a job are read on as many cores as there are, at most eight: while a trace
 * is read, it takes up to twice the memory that it keeps. Devices with little memory read two at a time. */
const MAX_READERS = DEVICE_MEMORY < 8 ? 2 : Math.min(Math.max(navigator.hardwareConcurrency || 2, 2), 8);

/** From these sizes on, plain or compressed, the module that is built for speed is worth its download. */
const LARGE_BYTES = 128 * 1024 * 1024;
const LARGE_COMPRESSED_BYTES = 10 * 1024 * 1024;

/** As long as it takes until a browser has compiled the code well. */
const REHEARSAL_MS = 2_000;

/** What takes long waits for the timeline at most this long: it may not be on screen. */
const MAX_WAIT_FOR_TIMELINE_MS = 1_500;

/** @param {SourceFile} file */
const isLarge = ({ name, size }) => size >= (name.endsWith('.gz') ? LARGE_COMPRESSED_BYTES : LARGE_BYTES);

const cancelled = () => new WorkerProblem({ kind: 'cancelled', message: 'cancelled' });

/** What only the second module answers. @type {Set<keyof TraceOperations>} */
const OF_SECOND_MODULE = new Set(['htmlStrips', 'kernel', 'namedWindows', 'pivotCells', 'ranksLog', 'ranksPart', 'slice']);

/** The width of the page without its margins, and its maximum (`--side` in style.css). */
const [MARGINS_PX, MAX_WIDTH_PX] = [40, 1_680];
/** The titles of lanes and a scroll bar, about. */
const BESIDE_BARS_PX = 80;

/** How wide the bars of a timeline will be drawn, about. The worker computes the first tiles for it, before the page has room for a timeline.
 * The level of a tile is the same for widths that differ a little. */
const expectedPlotWidth = () => Math.min(document.documentElement.clientWidth - MARGINS_PX, MAX_WIDTH_PX) - BESIDE_BARS_PX;

/** The worker of one file. Closing it frees the memory of the trace. */
export class Reader {
  isClosed = false;
  /** True if its module, the second one, computes sections. */
  hasSections = false;
  /** Resolves with the reader of the second module that replaces this one. @type {(() => Promise<Reader>) | null} */
  successor = null;
  /** The subcommand of the command line that gives the same report. */
  command = 'report';
  /** Called when all bars of the timeline in view are drawn. @type {() => void} */
  timelineIsDrawn = () => {};
  #timelineDrawn = new Promise((resolve) => (this.timelineIsDrawn = () => resolve(null)));
  /** @type {Promise<unknown> | null} */
  #waiting = null;
  /** @type {{ key: string, answer: Promise<TimelineView | null> } | null} */
  #timeline = null;
  /** @type {WorkerLink<TraceOperations> | null} */
  #link = null;

  start() {
    if (this.isClosed) throw cancelled();
    this.#link = new WorkerLink('worker.js');
  }

  /** @type {SendRequest<TraceOperations>} */
  async request(op, args, onProgress) {
    if (!this.hasSections && this.successor && OF_SECOND_MODULE.has(op)) return (await this.successor()).request(op, args, onProgress);
    if (!this.#link) throw cancelled();
    return this.#link.request(op, args, onProgress);
  }

  /** The timeline under these options. It is asked for once, before the page has room for it. @param {Options} options */
  timeline(options) {
    const key = JSON.stringify(options);
    if (this.#timeline?.key === key) return this.#timeline.answer;
    const answer = this.request('timeline', { options, width: expectedPlotWidth() });
    const timeline = { key, answer };
    this.#timeline = timeline;
    answer.catch(() => {
      // The next call tries again.
      if (this.#timeline === timeline) this.#timeline = null;
    });
    return answer;
  }

  /** Resolves when the timeline is drawn for the first time, or a while after the first call. */
  whenTimelineIsDrawn() {
    this.#waiting ??= Promise.race([this.#timelineDrawn, new Promise((resolve) => setTimeout(resolve, MAX_WAIT_FOR_TIMELINE_MS))]);
    return this.#waiting;
  }

  close() {
    this.isClosed = true;
    this.#link?.close();
  }

  /** Closes the reader after it has answered its pending requests. */
  closeWhenIdle() {
    this.isClosed = true;
    this.#link?.closeWhenIdle();
  }
}

/** The second module if the first results of the file need not wait for it, or if the file is large; else null. @param {SourceFile} file */
async function quickFullModule(file) {
  if (!isLarge(file) && !isModuleReady('gpuprism_full')) return null;
  return compiledModule('gpuprism_full').catch(() => null);
}

export class ReaderPool {
  /** Resolve functions of readers that wait for a slot. @type {(() => void)[]} */
  #waiting = [];
  #running = 0;
  #hasOpened = false;
  #hasRehearsed = false;
  #endRehearsal = () => {};
  #onRehearsal;

  /** @param {(text: string) => void} onRehearsal takes a report */
  constructor(onRehearsal) {
    this.#onRehearsal = onRehearsal;
  }

  /** Fetches the second module, and runs its code on a made-up trace, while a person looks for the first file. */
  async prepare() {
    const module = await compiledModule('gpuprism_full');
    if (!this.#hasOpened) await this.#rehearse(module);
  }

  /** Runs the code of a worker on a made-up trace for a while, once.
   * @param {WebAssembly.Module} module */
  async #rehearse(module) {
    if (this.#hasRehearsed) return;
    this.#hasRehearsed = true;
    /** @type {WorkerLink<TraceOperations>} */
    const link = new WorkerLink('worker.js');
    this.#endRehearsal = () => link.close();
    const until = performance.now() + REHEARSAL_MS;
    try {
      this.#onRehearsal(await link.request('rehearse', { module }));
      while (performance.now() < until) await link.request('rehearse', { module });
    } catch {
      // It was ended, or the first answers will be slower.
    }
    link.close();
  }

  /** Resolves when the reader has read the file, without what is to be left out. Small files are read with the first module, unless the
   * second has been loaded already or is needed. Databases need the second module.
   * @param {Reader} reader @param {SourceFile} file @param {{ leftOut: LeftOut | null, needsSections?: boolean }} options
   * @param {(progress: Progress) => void} [onProgress] */
  async open(reader, file, { leftOut, needsSections = false }, onProgress) {
    if (this.#running >= MAX_READERS) await new Promise((resolve) => this.#waiting.push(() => resolve(null)));
    this.#running += 1;
    try {
      if (reader.isClosed) throw cancelled();
      const full = needsSections ? await compiledModule('gpuprism_full') : await quickFullModule(file);
      const module = full ?? await compiledModule('gpuprism');
      reader.start();
      reader.hasSections = full !== null;
      const reading = reader.request('open', { module, file, leftOut, isFull: full !== null, isLarge: isLarge(file) }, (progress) => {
        // A trace: the module with its timeline and sections is loaded while the file is read.
        if (!full && progress.ops) compiledModule('gpuprism_full').catch(() => {});
        onProgress?.(progress);
      });
      this.#hasOpened = true;
      if (!isLarge(file)) this.#endRehearsal();
      else {
        if (full) this.#rehearse(full);
        reading.then(this.#endRehearsal, this.#endRehearsal);
      }
      const opened = await reading;
      if (opened.kind !== 'database') return opened;
      reader.hasSections = true;
      return await reader.request('openWithFull', { module: await compiledModule('gpuprism_full'), file, leftOut }, onProgress);
    } finally {
      this.#running -= 1;
      this.#waiting.shift()?.();
    }
  }
}
