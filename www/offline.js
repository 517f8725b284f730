// Makes the page work offline after its first visit; loaded when the page is idle. The page itself must not register a service
// worker (see offline.html), so a hidden frame does it, and frames are forbidden again before any file is read.

import { areFramesForbidden, el, forbidFrames } from './dom.js';

const REGISTER_TIMEOUT_MS = 10_000;

/** Calls `onReady` once the page works offline. @param {() => void} onReady */
export async function prepareOffline(onReady) {
  const { serviceWorker } = navigator;
  // An embedded page has no lasting storage, and plain http has no service workers.
  if (serviceWorker && parent === window) {
    if (!serviceWorker.controller && !areFramesForbidden()) await register();
    serviceWorker.ready.then(onReady);
  }
  forbidFrames();
}

/** @returns {Promise<void>} */
function register() {
  const frame = el('iframe', { id: 'offline', src: new URL('offline.html', import.meta.url).href, hidden: true, title: 'Offline' });
  return new Promise((resolve) => {
    addEventListener('message', ({ source }) => source && source === frame.contentWindow && resolve());
    setTimeout(resolve, REGISTER_TIMEOUT_MS);
    document.body.append(frame);
  });
}
