// Reads files in workers that end with their file, one worker for each file, a few files at a time.

import { TraceHolder, WorkerLink, WorkerProblem, compiledModule } from './worker-link.js';

/** @import { OpenRequest, Opened, Options, Progress, ReaderOperations } from './types.js' */

/** @typedef {(progress: Progress) => void} OnProgress */

/** Gigabytes of memory, up to 8, in browsers that report it. */
const DEVICE_MEMORY = /** @type {Navigator & { deviceMemory?: number }} */ (navigator).deviceMemory ?? 8;

/**
 * Reading takes one core, so the files of a job are read on as many cores as there are, at most eight: while a trace is read, it
 * takes up to twice the memory that it keeps. Devices with little memory read two at a time.
 */
const MAX_READERS = DEVICE_MEMORY < 8 ? 2 : Math.min(Math.max(navigator.hardwareConcurrency || 2, 2), 8);

/** From these sizes on, plain or compressed, the module that is built for speed is worth its download. */
const LARGE_BYTES = 128 * 1024 * 1024;
const LARGE_COMPRESSED_BYTES = 10 * 1024 * 1024;

/** @param {File} file */
const isLarge = ({ name, size }) => size >= (name.endsWith('.gz') ? LARGE_COMPRESSED_BYTES : LARGE_BYTES);

const cancelled = () => new WorkerProblem({ kind: 'cancelled', message: 'cancelled' });

export class ReaderPool {
  /** Resolve functions of readers that wait for a slot. @type {(() => void)[]} */
  #waiting = [];
  #running = 0;

  /**
   * A reader of the file, or of its GPU events alone. Its promise `opened` resolves when the whole file has been read.
   * @param {File} file @param {boolean} gpuOnly @param {OnProgress} onProgress
   */
  open(file, gpuOnly, onProgress) {
    return new TraceReader((reader) => this.#read(reader, file, gpuOnly, onProgress));
  }

  /** @param {TraceReader} reader @param {File} file @param {boolean} gpuOnly @param {OnProgress} onProgress */
  async #read(reader, file, gpuOnly, onProgress) {
    if (this.#running >= MAX_READERS) await new Promise((resolve) => this.#waiting.push(() => resolve(null)));
    this.#running += 1;
    try {
      if (reader.isClosed) throw cancelled();
      const fast = isLarge(file) ? await compiledModule('gpuprism_full').catch(() => null) : null;
      const module = fast ?? await compiledModule('gpuprism');
      return await reader.read({ module, file, gpuOnly, isFast: fast !== null }, onProgress);
    } finally {
      this.#running -= 1;
      this.#waiting.shift()?.();
    }
  }
}

/** The worker of one file. */
class TraceReader extends TraceHolder {
  /** The subcommand of the command line that does the same. */
  command = 'report';
  /** @type {Promise<Opened>} */
  opened;
  /** @type {WorkerLink<ReaderOperations> | null} */
  #reader = null;

  /** @param {(reader: TraceReader) => Promise<Opened>} read */
  constructor(read) {
    super();
    this.opened = read(this);
  }

  /**
   * Starts the worker and reads the file. Databases need the full module.
   * @param {OpenRequest} request @param {OnProgress} onProgress
   */
  async read(request, onProgress) {
    if (this.isClosed) throw cancelled();
    /** @type {WorkerLink<ReaderOperations>} */
    const link = new WorkerLink('worker.js');
    this.link = this.#reader = link;
    const { file, gpuOnly } = request;
    const opened = await link.request('open', request, onProgress);
    if (opened.kind === 'database') {
      return link.request('openDatabase', { module: await compiledModule('gpuprism_full'), file, gpuOnly }, onProgress);
    }
    return opened;
  }

  /**
   * The report under these options. If `isPartialFirst`, the report of a trace with many ops is partial.
   * @param {Options} options @param {boolean} [isPartialFirst]
   */
  async analyze(options, isPartialFirst = false) {
    if (!this.#reader) throw cancelled();
    return this.#reader.request('analyze', { options: JSON.stringify(options), soon: isPartialFirst });
  }
}
