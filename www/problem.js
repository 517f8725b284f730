// Converts thrown values to problems that the page can show, and tells which mean that memory ran out.

/** @import { Problem } from './types.js' */

/** @param {unknown} thrown @returns {Problem} */
export const asProblem = (thrown) => (thrown instanceof Error ? thrown : { message: String(thrown) });

/** A worker with more memory that fails has probably reached the limit of 4 GB. */
const NEARLY_FULL_BYTES = 2 ** 31;
/** A worker with less memory that fails has another problem. */
const SMALL_BYTES = 2 ** 28;

/** True if memory ran out. The module then traps without a message (`unreachable`); other defects have a panic message.
 * @param {Problem} problem */
export function isOutOfMemory({ kind, message, memory = 0 }) {
  if (kind !== 'fault') return false;
  return memory > NEARLY_FULL_BYTES || (message === 'unreachable' && memory > SMALL_BYTES) || /allocation failed|could not allocate|out of memory/i.test(message);
}
