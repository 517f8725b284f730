// The trace worker: reads one file through the wasm reader and keeps what it imported for every later analysis.

import init, { TraceReader } from './pkg/gpuprism.js';
import { serve } from './worker-serve.js';

const PROGRESS_EVERY_BYTES = 8 * 1024 * 1024;

let wasm;
let imported;

serve({ open, analyze }, memoryBytes);

function memoryBytes() {
  return wasm?.memory.buffer.byteLength ?? 0;
}

async function open({ module, file }, progress) {
  wasm = await init({ module_or_path: module });
  const reader = new TraceReader(file.name);
  let read = 0;
  let reported = 0;
  for await (const bytes of chunks(file)) {
    reader.feed(bytes);
    read += bytes.length;
    if (read - reported < PROGRESS_EVERY_BYTES && read < file.size) continue;
    reported = read;
    progress({ read, ops: reader.gpu_ops(), doing: read < file.size ? 'reading' : 'ordering' });
  }
  imported = reader.finish();
  const kind = imported.kind();
  return { kind, text: kind === 'trace' ? null : imported.text(), memory: memoryBytes() };
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
