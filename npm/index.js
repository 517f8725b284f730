// Opens traces and hands out their reports. All numbers come from the WebAssembly module; nothing is computed here.

import init, { TraceReader, build_info, read_database } from './gpuprism_full.js';

/** @type {Promise<unknown> | undefined} */
let loading;

/** Loads the WebAssembly module, once. Without an argument it lies beside this script. */
export function load(module = new URL('./gpuprism_full_bg.wasm', import.meta.url)) {
  loading ??= init({ module_or_path: module }).catch((error) => {
    loading = undefined;
    throw error;
  });
  return loading.then(() => build_info());
}

/** Reads a file, plain or gzipped. `onProgress` is called with the bytes read so far, or the rows of a database. */
export async function open(file, { name = file.name ?? 'trace', onProgress = () => {}, signal } = {}) {
  await load();
  const reader = new TraceReader(name);
  let read = 0;
  try {
    for (const stream = file.stream().getReader(); ;) {
      signal?.throwIfAborted();
      const { value, done } = await stream.read();
      if (done) break;
      reader.feed(value);
      if (reader.needs_another_reader()) {
        await stream.cancel();
        reader.free();
        return new Trace(database(file, name, onProgress));
      }
      read += value.length;
      onProgress(read);
    }
    return new Trace(reader.finish());
  } catch (error) {
    throw asError(error);
  }
}

function database(file, name, onProgress) {
  if (typeof FileReaderSync === 'undefined') {
    throw new Error(`${name}: a database, which is read only in a worker: call open() there`);
  }
  return read_database(file, name, false, onProgress);
}

/** The module throws sentences. */
function asError(error) {
  return typeof error === 'string' ? new Error(error) : error;
}

/** A file that was read. It takes memory until `free` is called. */
export class Trace {
  #imported;

  constructor(imported) {
    this.#imported = imported;
  }

  /** `trace`, `report`, or another kind of file. */
  get kind() {
    return this.#imported.kind();
  }

  /** The report under these choices, as JSON text without line breaks: the values that `gpuprism report --format json` writes. */
  json(choices = {}) {
    try {
      return this.#imported.analyze(JSON.stringify(choices));
    } catch (error) {
      throw asError(error);
    }
  }

  /** The report under these choices. */
  report(choices = {}) {
    return JSON.parse(this.json(choices));
  }

  /** Gives the memory back. The trace cannot be used afterwards. */
  free() {
    this.#imported.free();
  }

  [Symbol.dispose ?? Symbol.for('dispose')]() {
    this.free();
  }
}
