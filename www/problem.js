// Converts thrown values to problems that the page can show.

/** @import { Problem } from './types.js' */

/** @param {unknown} thrown @returns {Problem} */
export const asProblem = (thrown) => (thrown instanceof Error ? thrown : { message: String(thrown) });
