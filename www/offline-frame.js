// The script of offline.html: registers the service worker and tells the page around it that this is over.

try {
  // Its own file is never taken from the browser's cache, or a new build would be found late.
  await navigator.serviceWorker.register('service-worker.js', { updateViaCache: 'none' });
} catch {
  // The page works all the same, with a network.
}
parent.postMessage('registered', location.origin);
