// The script of offline.html: registers the service worker, then sends a message to the main page.

async function register() {
  try {
    // The browser must not cache the script, because then the page would notice a new build too late.
    await navigator.serviceWorker.register('service-worker.js', { updateViaCache: 'none' });
  } catch {
    // Without a service worker the page still works online.
  }
  parent.postMessage('registered', location.origin);
}

register();
