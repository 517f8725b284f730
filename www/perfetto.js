// Opens a window of a trace in Perfetto's page in a new tab, by the protocol of its documentation of deep links: PING until it
// answers PONG, then the file. Perfetto reads the file in the browser; nothing is sent to a server.

import { waitForPong } from './ping.js';

const PERFETTO = 'https://ui.perfetto.dev';
const PING_TIMEOUT_MS = 60_000;

/** `slice` is a promise, because browsers allow a new tab only during the click: the tab is opened first.
 * @param {Promise<Uint8Array<ArrayBuffer>>} slice @param {string} title */
export async function openInPerfetto(slice, title) {
  const tab = open(PERFETTO);
  if (!tab) throw new Error('the browser did not allow a new tab: allow pop-ups for this page, and try again');
  try {
    const [{ buffer }] = await Promise.all([slice, waitForPong(tab, PERFETTO, PING_TIMEOUT_MS)]);
    tab.postMessage({ perfetto: { buffer, title, fileName: `${title}.json` } }, PERFETTO, [buffer]);
  } catch (problem) {
    tab.close();
    throw problem;
  }
}
