// The script of offline.html: registers the service worker and tells the page around it when it has finished.

async function register() {
  try {
    // The worker's own file never comes from the browser's cache, because a new build would be found late.
    await navigator.serviceWorker.register('service-worker.js', { updateViaCache: 'none' });
  } catch {
    // The page works without it, with a network.
  }
  parent.postMessage('registered', location.origin);
}

register();
