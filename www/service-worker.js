// Keeps the files of one build, so that the page opens without a network. It answers GET requests for those files; it ignores all
// other requests.

// `cargo xtask build` writes the list here: path -> integrity. Without it nothing is cached and no request is answered.
const BUILD = { version: '', first: {}, later: {} };

/** @typedef {Event & { waitUntil(promise: Promise<unknown>): void }} ExtendableEvent */
/** @typedef {ExtendableEvent & { request: Request, respondWith(response: Promise<Response>): void }} FetchEvent */

/** The scope of a service worker, which the type checker's library for pages does not have. */
const scope = /** @type {typeof self & { clients: { claim(): Promise<void> } }} */ (self);

const HOME = new URL('./', scope.location.href);
/** @type {Record<string, string>} */
const INTEGRITY = { ...BUILD.first, ...BUILD.later };

/** The prefix of this page's caches: the origin may have other pages, and other copies of this one. */
const OWN_CACHES = `gpuprism ${HOME.pathname} `;
const CACHE = OWN_CACHES + BUILD.version;

scope.addEventListener('install', (event) => /** @type {ExtendableEvent} */ (event).waitUntil(install()));
scope.addEventListener('activate', (event) => /** @type {ExtendableEvent} */ (event).waitUntil(activate()));
scope.addEventListener('fetch', (event) => {
  const { request, respondWith } = /** @type {FetchEvent} */ (event);
  const name = cachedName(request);
  if (name !== null) respondWith.call(event, answer(name, request));
});

/** Caches all scripts and the files of a first visit; other modules are cached when they are first requested. */
async function install() {
  const cache = await caches.open(CACHE);
  await Promise.all(Object.keys(BUILD.first).map((name) => fetchAndCache(cache, name)));
}

/** Deletes the caches of earlier builds. No page of them is open any more. */
async function activate() {
  const old = (await caches.keys()).filter((name) => name.startsWith(OWN_CACHES) && name !== CACHE);
  await Promise.all(old.map((name) => caches.delete(name)));
  await scope.clients.claim();
}

/** The name of the file that a request is for, if it is in the list; else null. @param {Request} request */
function cachedName({ method, url, mode, headers }) {
  const { origin, pathname, search } = new URL(url);
  if (method !== 'GET' || origin !== HOME.origin || !pathname.startsWith(HOME.pathname) || headers.has('range')) return null;
  // Only a page may have a query, which its script reads.
  if (search !== '' && mode !== 'navigate') return null;
  const name = decodeURI(pathname.slice(HOME.pathname.length)) || 'index.html';
  return Object.hasOwn(INTEGRITY, name) ? name : null;
}

/** @param {string} name @param {Request} request */
async function answer(name, request) {
  const cache = await caches.open(CACHE);
  const cached = await cache.match(address(name));
  // If the server has another build by now, its file is better than none.
  return cached ?? fetchAndCache(cache, name).catch(() => fetch(request));
}

/** Fetches a file of this build and caches it. @param {Cache} cache @param {string} name */
async function fetchAndCache(cache, name) {
  const integrity = INTEGRITY[name];
  // If the browser's own cache has the file of an earlier build, the second request bypasses it.
  const response = await fetch(address(name), { integrity }).catch(() => fetch(address(name), { integrity, cache: 'reload' }));
  if (!response.ok) throw new Error(`${name}: the server answered ${response.status}`);
  // A redirected response must not answer a navigation, so a plain copy is cached.
  const headers = { 'content-type': response.headers.get('content-type') ?? '' };
  const plain = new Response(await response.arrayBuffer(), { headers });
  await cache.put(address(name), plain.clone());
  return plain;
}

/** The address of a file. Some hosts redirect index.html to its folder. @param {string} name */
function address(name) {
  return new URL(name === 'index.html' ? './' : name, HOME);
}
