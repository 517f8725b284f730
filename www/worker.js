// The trace worker: reads one file through a wasm reader and keeps what it imported for every later analysis.

import init, { TraceReader } from './pkg/gpuprism.js';
import { serve } from './worker-serve.js';

const PROGRESS_EVERY_BYTES = 8 * 1024 * 1024;

const instances = [];
let imported;

serve({ open, openDatabase, demangle, analyze }, memoryBytes);

function memoryBytes() {
  return instances.reduce((bytes, { memory }) => bytes + memory.buffer.byteLength, 0);
}

/** Resolves with what the file is; a `database` is not read yet. */
async function open({ module, file }, progress) {
  instances.push(await init({ module_or_path: module }));
  const reader = new TraceReader(file.name);
  let read = 0;
  let reported = 0;
  for await (const bytes of chunks(file)) {
    reader.feed(bytes);
    if (reader.is_database()) {
      reader.free();
      return { kind: 'database' };
    }
    read += bytes.length;
    if (read - reported < PROGRESS_EVERY_BYTES && read < file.size) continue;
    reported = read;
    progress({ read, ops: reader.gpu_ops(), doing: read < file.size ? 'reading' : 'ordering' });
  }
  return opened(reader.finish());
}

/** Reads a file by offset, through the module that has SQLite; what it imports is used like any other. */
async function openDatabase({ module, file }, progress) {
  const { default: initDatabase, read_database } = await import('./pkg/gpuprism_sqlite.js');
  instances.push(await initDatabase({ module_or_path: module }));
  progress({ rows: 0, doing: 'reading' });
  return opened(read_database(file, file.name, (rows) => progress({ rows, doing: 'reading' })));
}

function opened(what) {
  imported = what;
  const kind = imported.kind();
  const mangled = imported.mangled().length > 0;
  return { kind, mangled, text: kind === 'trace' ? null : imported.text(), memory: memoryBytes() };
}

/** Makes mangled names readable, through the module that has a demangler. */
async function demangle({ module }) {
  const { default: initDemangler, demangle: readable } = await import('./pkg/gpuprism_demangle.js');
  instances.push(await initDemangler({ module_or_path: module }));
  imported.learn(readable(imported.mangled()));
}

function analyze({ options }) {
  return { text: imported.analyze(options), memory: memoryBytes() };
}

/**
 * The file's bytes in order. The browser fills a stream while this thread parses, a slice only while it waits. Where it
 * can, it fills one buffer again and again.
 */
async function* chunks(file) {
  const stream = file.stream();
  const read = intoOneBuffer(stream) ?? pieces(stream);
  for (let left = file.size; left > 0;) {
    const { value } = await read().catch(refuse);
    if (!value?.length) refuse();
    left -= value.length;
    yield value;
  }
}

const BUFFER_BYTES = 4 * 1024 * 1024;

function intoOneBuffer(stream) {
  let reader;
  try {
    reader = stream.getReader({ mode: 'byob' });
  } catch {
    return null;
  }
  let buffer = new ArrayBuffer(BUFFER_BYTES);
  return async () => {
    const result = await reader.read(new Uint8Array(buffer));
    buffer = result.value?.buffer;
    return result;
  };
}

function pieces(stream) {
  const reader = stream.getReader();
  return () => reader.read();
}

/** The stream's own error speaks of the network; a file cut meanwhile may end it without any. */
function refuse() {
  throw new DOMException('it is gone, has changed or may not be read', 'NotReadableError');
}
