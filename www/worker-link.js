// The page's end of the connection to a worker. The only place that creates workers and compiles modules.

/** @import { Operations, Problem, Progress } from './types.js' */

/** A problem that a worker reported in place of a result. */
export class WorkerProblem extends Error {
  /** @param {Problem} problem */
  constructor({ kind, message, memory = 0 }) {
    super(message);
    this.kind = kind;
    this.memory = memory;
  }
}

/** Addresses of worker scripts that were created, by the script's name. @type {Map<string, string>} */
const addresses = new Map();

/** The address for a worker of this script. A worker inherits the page's content security policy only if its own
 * address is a blob: URL; a worker loaded from a file could fetch from anywhere. The blob's text imports the script,
 * which is same-origin, by import(), which script-src governs. A static import would fall under worker-src, which
 * allows only blob:, in Firefox even in imported modules. So scripts of workers have no static imports.
 * @param {string} script */
function blobAddress(script) {
  const known = addresses.get(script);
  if (known) return known;
  const text = `import(${JSON.stringify(new URL(script, import.meta.url).href)}).catch((error) => postMessage({ failed: error.message }));`;
  const address = URL.createObjectURL(new Blob([text], { type: 'text/javascript' }));
  addresses.set(script, address);
  return address;
}

/** @typedef {{ resolve: (value: any) => void, reject: (problem: WorkerProblem) => void, onProgress: (progress: Progress) => void }} Pending */
/** @typedef {{ ready?: true, failed?: string, id?: number, progress?: Progress, value?: unknown, error?: Problem }} Message */

/** One worker and its pending requests. @template {Operations} O */
export class WorkerLink {
  /** @type {Worker | null} */
  #worker;
  /** @type {Map<number, Pending>} */
  #pending = new Map();
  #nextId = 1;
  #closesWhenIdle = false;
  /** Messages that wait until the script listens; null afterwards. @type {unknown[] | null} */
  #unsent = [];

  /** @param {string} script */
  constructor(script) {
    const worker = new Worker(blobAddress(script), { type: 'module' });
    worker.onmessage = ({ data }) => this.#receive(data);
    worker.onerror = (event) => {
      event.preventDefault();
      this.#fail(event.message);
    };
    worker.onmessageerror = () => this.#fail('an unreadable answer');
    this.#worker = worker;
  }

  /** Resolves with the result of an operation. Rejects with a WorkerProblem.
   * @template {keyof O & string} K @param {K} op @param {Parameters<O[K]>[0]} args
   * @param {(progress: Progress) => void} [onProgress] @returns {Promise<ReturnType<O[K]>>} */
  request(op, args, onProgress = () => {}) {
    if (!this.#worker) return Promise.reject(new WorkerProblem({ kind: 'fault', message: 'the worker has ended' }));
    const id = this.#nextId++;
    return new Promise((resolve, reject) => {
      this.#pending.set(id, { resolve, reject, onProgress });
      this.#send({ id, op, args });
    });
  }

  get isAlive() {
    return this.#worker !== null;
  }

  /** Ends the worker, which frees its memory, and rejects its pending requests. @param {Problem} [reason] */
  close(reason = { kind: 'cancelled', message: 'cancelled' }) {
    this.#worker?.terminate();
    this.#worker = null;
    for (const { reject } of this.#pending.values()) reject(new WorkerProblem(reason));
    this.#pending.clear();
  }

  /** Ends the worker after it has answered its pending requests. */
  closeWhenIdle() {
    this.#closesWhenIdle = true;
    if (this.#pending.size === 0) this.close();
  }

  /** @param {unknown} message */
  #send(message) {
    if (this.#unsent) this.#unsent.push(message);
    else this.#worker?.postMessage(message);
  }

  /** @param {Message} message */
  #receive({ ready, failed, ...answer }) {
    if (failed) this.#fail(failed);
    else if (ready) {
      const unsent = this.#unsent ?? [];
      this.#unsent = null;
      unsent.forEach((message) => this.#send(message));
    } else this.#answer(answer);
  }

  /** @param {Message} message */
  #answer({ id = 0, progress, value, error }) {
    const pending = this.#pending.get(id);
    if (!pending) return;
    if (progress !== undefined) {
      pending.onProgress(progress);
      return;
    }
    this.#pending.delete(id);
    if (error) pending.reject(new WorkerProblem(error));
    else pending.resolve(value);
    // A wasm instance must not be used after a trap.
    if (error?.kind === 'fault') this.close(error);
    else if (this.#closesWhenIdle) this.closeWhenIdle();
  }

  /** @param {string} message */
  #fail(message) {
    this.close({ kind: 'fault', message: message || 'the worker could not be started' });
  }
}

/** @type {Map<string, Promise<WebAssembly.Module>>} */
const modules = new Map();
/** The modules that can be used without waiting. @type {Set<string>} */
const ready = new Set();

/** @param {string} stem */
export const isModuleReady = (stem) => ready.has(stem);

/** The compiled module pkg/STEM_bg.wasm. It is fetched and compiled once, and all workers instantiate it. After a
 * failure the next call tries again.
 * @param {string} stem */
export function compiledModule(stem) {
  const known = modules.get(stem);
  if (known) return known;
  const compiled = compile(new URL(`pkg/${stem}_bg.wasm`, import.meta.url));
  compiled.then(() => ready.add(stem), () => modules.delete(stem));
  modules.set(stem, compiled);
  return compiled;
}

/** @param {URL} address */
async function compile(address) {
  const response = await fetch(address).catch((error) => {
    throw new WorkerProblem({ kind: 'unloaded', message: `${address.pathname}: ${error.message}` });
  });
  if (!response.ok) {
    throw new WorkerProblem({ kind: 'unloaded', message: `${address.pathname}: the server answered ${response.status}` });
  }
  const isWasmType = (response.headers.get('content-type') ?? '').startsWith('application/wasm');
  return isWasmType ? WebAssembly.compileStreaming(response) : WebAssembly.compile(await response.arrayBuffer());
}
