// Makes the page work offline from its first visit on; an idle page fetches this. The page itself may not register a
// service worker (see offline.html), so a hidden frame does it, and frames are shut again before any file is read.

import { byId, el, framesAreShut, shutFrames } from './dom.js';

/** `tell()` is called once the page would open without a network. */
export async function stayForOffline(tell) {
  const { serviceWorker } = navigator;
  // In somebody else's frame storage is lent at best, and over plain http there are no service workers.
  if (serviceWorker && parent === window) {
    if (!serviceWorker.controller && !framesAreShut()) await register();
    serviceWorker.ready.then(tell);
  }
  shutFrames();
}

const LONGEST_MS = 10_000;

function register() {
  const frame = el('iframe', { id: 'offline', src: new URL('offline.html', import.meta.url), hidden: true, title: 'Offline' });
  return new Promise((done) => {
    addEventListener('message', ({ source }) => source && source === frame.contentWindow && done());
    setTimeout(done, LONGEST_MS);
    document.body.append(frame);
  });
}
