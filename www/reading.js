// What both workers that read traces share: the file's bytes in order, names made readable, memory held.

const PROGRESS_EVERY_BYTES = 8 * 1024 * 1024;

const instances = new Set();

/** Starts a wasm package of `pkg/`: {default} is its start. */
export async function start({ default: init }, module) {
  instances.add(await init({ module_or_path: module }));
}

export function memoryBytes() {
  return [...instances].reduce((bytes, { memory }) => bytes + memory.buffer.byteLength, 0);
}

/** What can be asked of whoever holds a trace, beside its analysis: its overview strips and the windows to pick. */
export const looks = (holder) => ({
  strips: ({ options, width, known }) => holder().strips(options, width, known),
  window: ({ from, to }) => holder().window(from, to),
  marks: () => holder().marks(),
  slice: ({ options }) => holder().slice(options),
  kernel: ({ options, name, width }) => holder().kernel(options, name, width),
  cube: ({ options, axes }) => holder().cube(options, axes),
  ranksLog: () => holder().ranks_log(),
  ranksPart: ({ options }) => holder().ranks_part(options),
});

/** Feeds the whole file to the reader and resolves with what it is; null for a database, which is not read. */
export async function readWhole(reader, file, progress) {
  let read = 0;
  let reported = 0;
  for await (const bytes of chunks(file)) {
    reader.feed(bytes);
    if (reader.is_database()) {
      reader.free();
      return null;
    }
    read += bytes.length;
    if (read - reported < PROGRESS_EVERY_BYTES && read < file.size) continue;
    reported = read;
    progress({ read, ops: reader.gpu_ops(), doing: read < file.size ? 'reading' : 'ordering' });
  }
  return reader.finish();
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
