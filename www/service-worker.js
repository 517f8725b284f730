// Keeps the files of one build, so that the page opens without a network. It answers GETs for those files and nothing
// else; whatever is not in the list goes its way as if this worker were not there.

// `cargo xtask build` writes the list here: path -> integrity. Without it nothing is kept and nothing answered.
const BUILD = { version: '', first: {}, later: {} };

const HOME = new URL('./', self.location);
const INTEGRITY = { ...BUILD.first, ...BUILD.later };

/** Caches belong to the whole origin, which may hold other pages, and other copies of this one. */
const OWN_CACHES = `gpuprism ${HOME.pathname} `;
const CACHE = OWN_CACHES + BUILD.version;

self.addEventListener('install', (event) => event.waitUntil(install()));
self.addEventListener('activate', (event) => event.waitUntil(activate()));
self.addEventListener('fetch', (event) => {
  const name = listed(event.request);
  if (name !== null) event.respondWith(answer(name, event.request));
});

/** All scripts and what a first visit needs; a module that few visits need is kept when it is first asked for. */
async function install() {
  const cache = await caches.open(CACHE);
  await Promise.all(Object.keys(BUILD.first).map((name) => keep(cache, name)));
}

/** Only now is no page of the build before open any more: its files can go. */
async function activate() {
  const old = (await caches.keys()).filter((name) => name.startsWith(OWN_CACHES) && name !== CACHE);
  await Promise.all(old.map((name) => caches.delete(name)));
  await self.clients.claim();
}

/** The listed file that a request is for; null for any other request. */
function listed({ method, url, mode, headers }) {
  const { origin, pathname, search } = new URL(url);
  if (method !== 'GET' || origin !== HOME.origin || !pathname.startsWith(HOME.pathname) || headers.has('range')) return null;
  // The query of a page is for the page's script.
  if (search !== '' && mode !== 'navigate') return null;
  const name = decodeURI(pathname.slice(HOME.pathname.length)) || 'index.html';
  return Object.hasOwn(INTEGRITY, name) ? name : null;
}

async function answer(name, request) {
  const cache = await caches.open(CACHE);
  const kept = await cache.match(address(name));
  // Where the server has another build by now, its file is better than none.
  return kept ?? keep(cache, name).catch(() => fetch(request));
}

/** Fetches a file of this very build and keeps it; resolves with it. */
async function keep(cache, name) {
  const integrity = INTEGRITY[name];
  // The browser's own cache may still hold the file of the build before.
  const response = await fetch(address(name), { integrity }).catch(() => fetch(address(name), { integrity, cache: 'reload' }));
  if (!response.ok) throw new Error(`${name}: the server answered ${response.status}`);
  // A response that was redirected may not answer a navigation, so a plain one is made of it.
  const headers = { 'content-type': response.headers.get('content-type') ?? '' };
  const plain = new Response(await response.arrayBuffer(), { headers });
  await cache.put(address(name), plain.clone());
  return plain;
}

/** Some hosts redirect index.html to its folder. */
function address(name) {
  return new URL(name === 'index.html' ? './' : name, HOME);
}
