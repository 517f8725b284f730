// The PING/PONG protocol by which a page finds out that a window is ready for files.

const PING_EVERY_MS = 100;

/** Sends PING until the window, which shows a page of this origin, answers PONG.
 * @param {Window} target @param {string} origin @param {number} timeoutMs */
export async function waitForPong(target, origin, timeoutMs) {
  const finished = new AbortController();
  try {
    await new Promise((resolve, reject) => {
      const fail = (/** @type {string} */ message) => reject(new Error(message));
      addEventListener('message', (event) => {
        if (event.origin === origin && event.source === target && event.data === 'PONG') resolve(null);
      }, { signal: finished.signal });
      const ping = setInterval(() => {
        if (target.closed) fail('its tab was closed');
        else target.postMessage('PING', origin);
      }, PING_EVERY_MS);
      const timeout = setTimeout(() => fail(`${origin} did not answer: check that it can be reached from here`), timeoutMs);
      finished.signal.addEventListener('abort', () => {
        clearInterval(ping);
        clearTimeout(timeout);
      });
    });
  } finally {
    finished.abort();
  }
}
