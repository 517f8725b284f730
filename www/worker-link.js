// The page's end of the line to a worker, and the one place that makes workers and compiles modules.

/** What a worker reported instead of a value. `kind`: refused | unreadable | unloaded | fault | cancelled. */
export class WorkerProblem extends Error {
  constructor({ kind, message, memory = 0 }) {
    super(message);
    this.kind = kind;
    this.memory = memory;
  }
}

const addresses = new Map();

/**
 * A worker inherits the page's content security policy only when its own address is a blob: URL; one loaded from a file
 * could fetch from anywhere. The blob's text imports the script, which is same-origin. It does so by import(), which
 * script-src governs; a static import would fall under worker-src, which allows blob: alone, in Firefox that of any module
 * of the worker: no script of a worker has one.
 */
function blobAddress(script) {
  if (!addresses.has(script)) {
    const text = `import(${JSON.stringify(new URL(script, import.meta.url).href)}).catch((error) => postMessage({ failed: error.message }));`;
    addresses.set(script, URL.createObjectURL(new Blob([text], { type: 'text/javascript' })));
  }
  return addresses.get(script);
}

/** One worker and the requests under way in it. */
export class WorkerLink {
  #worker;
  #pending = new Map();
  #nextId = 1;
  #unsent = [];

  constructor(script) {
    this.#worker = new Worker(blobAddress(script), { type: 'module' });
    this.#worker.onmessage = ({ data }) => this.#receive(data);
    this.#worker.onerror = (event) => {
      event.preventDefault();
      this.#fail(event.message);
    };
    this.#worker.onmessageerror = () => this.#fail('an unreadable answer');
  }

  /** Resolves with the handler's value; rejects with a WorkerProblem. */
  request(op, args, onProgress = () => {}) {
    if (!this.#worker) return Promise.reject(new WorkerProblem({ kind: 'fault', message: 'the worker has ended' }));
    const id = this.#nextId++;
    return new Promise((resolve, reject) => {
      this.#pending.set(id, { resolve, reject, onProgress });
      this.#send({ id, op, args });
    });
  }

  get alive() {
    return this.#worker !== null;
  }

  /** Ends the worker, which frees its memory; what was under way is rejected with the reason. */
  close(reason = { kind: 'cancelled', message: 'cancelled' }) {
    this.#worker?.terminate();
    this.#worker = null;
    for (const { reject } of this.#pending.values()) reject(new WorkerProblem(reason));
    this.#pending.clear();
  }

  /** Requests wait until the script listens. */
  #send(message) {
    if (this.#unsent) this.#unsent.push(message);
    else this.#worker.postMessage(message);
  }

  #receive({ ready, failed, ...answer }) {
    if (failed) return this.#fail(failed);
    if (!ready) return this.#answer(answer);
    const waiting = this.#unsent;
    this.#unsent = null;
    waiting.forEach((message) => this.#send(message));
  }

  #answer({ id, progress, value, error }) {
    const waiting = this.#pending.get(id);
    if (!waiting) return;
    if (progress !== undefined) {
      waiting.onProgress(progress);
      return;
    }
    this.#pending.delete(id);
    if (!error) {
      waiting.resolve(value);
      return;
    }
    waiting.reject(new WorkerProblem(error));
    // After a trap a wasm instance must not be used again.
    if (error.kind === 'fault') this.close(error);
  }

  #fail(message) {
    this.close({ kind: 'fault', message: message || 'the worker could not be started' });
  }
}

/** Whoever's worker holds a trace: what can be asked of it beside its analysis. Closing it frees all that the file took. */
export class TraceHolder {
  closed = false;
  link = null;

  /** The overview strips: {turn, chart, frame}, chart null where `known` is their turn; null where there is nothing to draw. */
  strips(options, width, known) {
    return this.link.request('strips', { options: JSON.stringify(options), width, known });
  }

  /** The text of the window between two places in the strips, of which 0 is the beginning and 1 the end. */
  window(from, to) {
    return this.link.request('window', { from, to });
  }

  /** Steps, stages and ranges that can be picked: {title, marks: {title, window}[], more}[]. */
  marks() {
    return this.link.request('marks', {});
  }

  /** What the trace tells on these axes of a pivot, as JSON text. */
  cube(options, axes) {
    return this.link.request('cube', { options: JSON.stringify(options), axes: JSON.stringify(axes) });
  }

  /** What the trace tells of the ranks in it, as JSON text. */
  ranksLog() {
    return this.link.request('ranksLog', {});
  }

  /** What its ranks did in the chosen window, as JSON text. */
  ranksPart(options) {
    return this.link.request('ranksPart', { options: JSON.stringify(options) });
  }

  /** One kernel in detail: {name, found, charts, tables}. */
  kernel(options, name, width) {
    return this.link.request('kernel', { options: JSON.stringify(options), name, width });
  }

  /** The chosen window as the bytes of a file that Perfetto opens. */
  slice(options) {
    return this.link.request('slice', { options: JSON.stringify(options) });
  }

  close() {
    this.closed = true;
    this.link?.close();
  }
}

const modules = new Map();

/**
 * The compiled module of pkg/STEM_bg.wasm. It is compiled once; every worker instantiates it without fetching or
 * compiling it again. A module that could not be had is asked for again.
 */
export function compiledModule(stem) {
  if (!modules.has(stem)) {
    const compiled = compile(new URL(`pkg/${stem}_bg.wasm`, import.meta.url));
    compiled.catch(() => modules.delete(stem));
    modules.set(stem, compiled);
  }
  return modules.get(stem);
}

async function compile(address) {
  const response = await fetch(address).catch((error) => {
    throw new WorkerProblem({ kind: 'unloaded', message: `${address.pathname}: ${error.message}` });
  });
  if (!response.ok) {
    throw new WorkerProblem({ kind: 'unloaded', message: `${address.pathname}: the server answered ${response.status}` });
  }
  const typed = (response.headers.get('content-type') ?? '').startsWith('application/wasm');
  return typed ? WebAssembly.compileStreaming(response) : WebAssembly.compile(await response.arrayBuffer());
}
