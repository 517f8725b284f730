// Opens files in disposable workers, one worker a file, a few files at a time; the others wait their turn.

import { TraceHolder, WorkerLink, WorkerProblem, compiledModule } from './worker-link.js';

/**
 * Reading is work for one core, so that the ranks of a job are read on as many cores as there are. Of eight workers no more
 * are at it at once: while a trace is read it takes up to twice the memory that it keeps, and a device that says it has
 * little of it (browsers say so in gigabytes up to 8) reads two at a time.
 */
const READERS_AT_ONCE = navigator.deviceMemory < 8 ? 2 : Math.min(Math.max(navigator.hardwareConcurrency || 2, 2), 8);

/** Bytes of a file, plain or packed, from which on the module that is built for speed is worth its download. */
const LARGE = 128 * 1024 * 1024;
const LARGE_PACKED = 10 * 1024 * 1024;
const isLarge = ({ name, size }) => size >= (name.endsWith('.gz') ? LARGE_PACKED : LARGE);

export class ReaderPool {
  #waiting = [];
  #running = 0;

  /** A reader of the file, or of its GPU events alone. Its `opened` promise resolves with {kind, text, memory} when the whole file is read. */
  open(file, gpuOnly, onProgress) {
    const reader = new Reader();
    reader.opened = this.#turn(reader).then(() => this.#read(reader, file, gpuOnly, onProgress));
    return reader;
  }

  async #turn(reader) {
    if (this.#running >= READERS_AT_ONCE) await new Promise((resolve) => this.#waiting.push(resolve));
    this.#running += 1;
    if (reader.closed) this.#leave();
  }

  async #read(reader, file, gpuOnly, onProgress) {
    if (reader.closed) throw new WorkerProblem({ kind: 'cancelled', message: 'cancelled' });
    try {
      const fast = isLarge(file) ? await compiledModule('gpuprism_full').catch(() => null) : null;
      return await reader.start().open({ module: fast ?? await compiledModule('gpuprism'), file, gpuOnly, isFast: fast !== null }, onProgress);
    } finally {
      this.#leave();
    }
  }

  #leave() {
    this.#running -= 1;
    this.#waiting.shift()?.();
  }
}

/** One file's worker. */
class Reader extends TraceHolder {
  opened = null;
  /** The command that does the same in a terminal. */
  command = 'report';

  start() {
    this.link = new WorkerLink('worker.js');
    if (this.closed) this.link.close();
    return this;
  }

  /** Databases are read by the full module. */
  async open(request, onProgress) {
    const { file, gpuOnly } = request;
    const opened = await this.link.request('open', request, onProgress);
    if (opened.kind === 'database') {
      return this.link.request('openDatabase', { module: await compiledModule('gpuprism_full'), file, gpuOnly }, onProgress);
    }
    return opened;
  }

  /**
   * The report's JSON text under these options, and what memory the worker holds: {text, isPartial, memory}. Where it is wanted
   * `soon`, that of many ops is partial.
   */
  analyze(options, soon = false) {
    return this.link.request('analyze', { options: JSON.stringify(options), soon });
  }
}
