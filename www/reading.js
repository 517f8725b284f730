// Feeds the bytes of a file to a wasm reader.

/** @import { Progress } from './types.js' */

const PROGRESS_EVERY_BYTES = 8 * 1024 * 1024;

/** Feeds the whole file to the reader. Resolves with its result; null if another reader has to read it.
 * @template Imported
 * @param {{ feed(chunk: Uint8Array): void, needs_another_reader(): boolean, free(): void, gpu_ops(): number, finish(): Imported }} reader
 * @param {File} file @param {(progress: Progress) => void} onProgress */
export async function readWhole(reader, file, onProgress) {
  let read = 0;
  let reported = 0;
  for await (const bytes of chunks(file)) {
    reader.feed(bytes);
    if (reader.needs_another_reader()) {
      reader.free();
      return null;
    }
    read += bytes.length;
    if (read - reported < PROGRESS_EVERY_BYTES && read < file.size) continue;
    reported = read;
    onProgress({ read, ops: reader.gpu_ops(), doing: read < file.size ? 'reading' : 'ordering' });
  }
  return reader.finish();
}

/** The file's bytes in order. They come from a stream, which the browser fills while this thread parses; it would fill
 * a slice only while this thread waits. If the browser can, it fills one buffer again and again.
 * @param {File} file */
async function* chunks(file) {
  const stream = file.stream();
  const read = readIntoOneBuffer(stream) ?? readNewBuffers(stream);
  for (let left = file.size; left > 0;) {
    const { value } = await read().catch(() => ({ value: undefined }));
    // The stream's own error mentions a network. A file that was truncated meanwhile may end without an error.
    if (!value?.length) throw new DOMException('it was deleted or changed, or access was denied', 'NotReadableError');
    left -= value.length;
    yield value;
  }
}

/** @typedef {() => Promise<{ value?: Uint8Array | undefined }>} Read */

const BUFFER_BYTES = 4 * 1024 * 1024;

/** @param {ReadableStream<Uint8Array<ArrayBuffer>>} stream @returns {Read | null} */
function readIntoOneBuffer(stream) {
  /** @type {ReadableStreamBYOBReader} */
  let reader;
  try {
    reader = stream.getReader({ mode: 'byob' });
  } catch {
    return null;
  }
  let buffer = new ArrayBuffer(BUFFER_BYTES);
  return async () => {
    const result = await reader.read(new Uint8Array(buffer));
    if (result.value) buffer = result.value.buffer;
    return result;
  };
}

/** @param {ReadableStream<Uint8Array<ArrayBuffer>>} stream @returns {Read} */
function readNewBuffers(stream) {
  const reader = stream.getReader();
  return () => reader.read();
}
