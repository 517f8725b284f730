// Hands a part of a trace to Perfetto's page in a new tab, as its documentation of deep links says: PING until it answers
// PONG, then the file. It reads the file in the browser; nothing is sent to a server.

const PERFETTO = 'https://ui.perfetto.dev';
const ASK_EVERY_MS = 100;
const GIVE_UP_MS = 60_000;

/** `slice` is a promise of the file's bytes: the tab must be opened at once, while the click counts. */
export async function openInPerfetto(slice, title) {
  const tab = open(PERFETTO);
  if (!tab) throw new Error('the browser let no new tab open: allow pop-ups for this page, and try again');
  let bytes;
  try {
    [bytes] = await Promise.all([slice, answered(tab)]);
  } catch (problem) {
    tab.close();
    throw problem;
  }
  const { buffer } = bytes;
  tab.postMessage({ perfetto: { buffer, title, fileName: `${title}.json` } }, PERFETTO, [buffer]);
}

function answered(tab) {
  return new Promise((done, fail) => {
    const end = (settle, value) => {
      clearInterval(asking);
      clearTimeout(waiting);
      removeEventListener('message', hear);
      settle(value);
    };
    const hear = ({ origin, source, data }) => {
      if (origin === PERFETTO && source === tab && data === 'PONG') end(done);
    };
    const asking = setInterval(() => {
      if (tab.closed) end(fail, new Error('its tab was closed'));
      else tab.postMessage('PING', PERFETTO);
    }, ASK_EVERY_MS);
    const waiting = setTimeout(() => end(fail, new Error(`${PERFETTO} did not answer: is it reachable from here?`)), GIVE_UP_MS);
    addEventListener('message', hear);
  });
}
