// The worker's end of the connection to the page: answers {id, op, args} with {id, value} or {id, error}.

/** @import { Handlers, Operations, Problem, Progress } from './types.js' */

/** Runs `handlers[op](args, progress)` for each request. The wasm package throws a string if it refuses an input.
 * Everything else (a trap, a failed read) is a fault: the worker must not be used afterwards.
 * @template {Operations} O @param {Handlers<O>} handlers @param {() => number} memoryBytes */
export function serve(handlers, memoryBytes) {
  recordPanics();
  self.onmessage = async ({ data: { id, op, args } }) => {
    const progress = (/** @type {Progress} */ value) => self.postMessage({ id, progress: value });
    try {
      const handler = /** @type {(args: unknown, progress: (progress: Progress) => void) => unknown} */ (handlers[op]);
      const value = await handler(args, progress);
      self.postMessage({ id, value }, { transfer: arraysIn(value) });
    } catch (thrown) {
      self.postMessage({ id, error: describe(thrown, memoryBytes()) });
    }
  };
  self.postMessage({ ready: true });
}

/** The memory of the typed arrays in a result. It moves to the page without a copy. @param {unknown} value */
function arraysIn(value) {
  const members = value && typeof value === 'object' ? Object.values(value) : [];
  return members.filter((member) => ArrayBuffer.isView(member)).map(({ buffer }) => buffer);
}

let lastPanic = '';

/** A panic of the wasm module prints its message on the console; the trap that follows only says `unreachable`. */
function recordPanics() {
  const print = console.error;
  console.error = (text) => {
    lastPanic = String(text);
    print(text);
  };
}

/** @param {unknown} thrown @param {number} memory @returns {Problem} */
function describe(thrown, memory) {
  if (typeof thrown === 'string') return { kind: 'refused', message: thrown };
  const message = thrown instanceof Error || thrown instanceof DOMException ? thrown.message : String(thrown);
  if (thrown instanceof DOMException) return { kind: 'unreadable', message, memory };
  return { kind: 'fault', message: lastPanic || message, memory };
}
