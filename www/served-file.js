// A file on the server of the page (`gpuprism view`), read in parts like a local one, so that it can be larger than the memory.
// For workers: a database is read by offset, synchronously, as from a local file.

/** @import { ServedFile } from './types.js' */

const PART_BYTES = 4 * 1024 * 1024;
/** Bytes that are requested before they are needed. */
const AHEAD_BYTES = 4 * PART_BYTES;

export class RemoteBlob {
  #url;

  /** @param {ServedFile} file */
  constructor({ name, size, url }) {
    this.name = name;
    this.size = size;
    this.#url = url;
  }

  /** The bytes in order. @returns {ReadableStream<Uint8Array<ArrayBuffer>>} */
  stream() {
    let from = 0;
    return new ReadableStream({
      pull: async (/** @type {ReadableStreamDefaultController<Uint8Array<ArrayBuffer>>} */ controller) => {
        const part = await this.#fetch(from, Math.min(from + PART_BYTES, this.size));
        from += part.length;
        controller.enqueue(part);
        if (from >= this.size) controller.close();
      },
    }, new ByteLengthQueuingStrategy({ highWaterMark: AHEAD_BYTES }));
  }

  /** A part of the file, which is loaded at once: the caller reads it synchronously. @param {number} from @param {number} to */
  slice(from, to) {
    const request = new XMLHttpRequest();
    request.open('GET', this.#url, false);
    request.responseType = 'arraybuffer';
    request.setRequestHeader('range', range(from, to));
    request.send();
    return new Blob([checked(request.status, request.response, to - from)]);
  }

  /** @param {number} from @param {number} to */
  async #fetch(from, to) {
    const response = await fetch(this.#url, { headers: { range: range(from, to) } });
    return new Uint8Array(checked(response.status, await response.arrayBuffer(), to - from));
  }
}

/** The end of an HTTP range is its last byte. @param {number} from @param {number} to */
const range = (from, to) => `bytes=${from}-${to - 1}`;

/** The same error as for a local file that changed. @param {number} status @param {ArrayBuffer} bytes @param {number} wanted */
function checked(status, bytes, wanted) {
  if (status !== 206 || bytes.byteLength !== wanted) throw new DOMException('it was deleted or changed, or gpuprism view has ended', 'NotReadableError');
  return bytes;
}
