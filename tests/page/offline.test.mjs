// After one visit the page opens and reads traces without its server. Its service worker answers only for files of the build, caches
// what is used and replaces an old build. The page also works without service workers.

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { cp, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import * as h from './harness.mjs';

const browser = await h.lendBrowser();
const folder = await mkdtemp(join(tmpdir(), 'gpuprism-offline-'));
const ends = [];
after(async () => {
  await Promise.all(ends.map((end) => end()));
  await rm(folder, { recursive: true });
});

/** Serves the page until it is closed or the tests end. */
async function serve(options) {
  const server = await h.servePage(options);
  ends.push(server.close);
  return server;
}

/** A browser profile with service workers, and the pages opened in it. */
async function visitor(from = browser) {
  const context = await from.newContext();
  context.setDefaultTimeout(15_000);
  const visit = async (address) => {
    const page = await context.newPage();
    await page.goto(address);
    await page.locator('html[data-simd]').waitFor({ state: 'attached' });
    return page;
  };
  return { context, visit, close: () => context.close() };
}

const keptForOffline = (page) => page.locator('#build', { hasText: 'works offline' }).waitFor({ state: 'attached' });

const cachedFiles = (page) => page.evaluate(async () => {
  const kept = [];
  for (const name of await caches.keys()) for (const { url } of await (await caches.open(name)).keys()) kept.push(new URL(url).pathname);
  return kept.sort();
});

const listOf = async (from) => JSON.parse(/const BUILD = (\{[^;]*\});/.exec(await readFile(join(from, 'service-worker.js'), 'utf8'))[1]);

test('after one visit the page opens, reads and exports without its server, also under a path', async () => {
  for (const under of ['', '/tools/gpuprism']) {
    const server = await serve({ under });
    const { visit, close } = await visitor();
    const first = await visit(`${server.origin}${under}/`);
    await keptForOffline(first);
    await first.close();
    await server.close();
    await assert.rejects(fetch(server.origin), 'the server is gone');
    for (const address of ['/', '/index.html', '/?embed#tab=pivot']) {
      const page = await visit(server.origin + under + address);
      await keptForOffline(page);
      await h.drop(page, h.kineto('offline.json', h.SERVER_OPS));
      await h.settled(page);
      await page.locator('#strips svg').first().waitFor();
      assert.equal(await page.locator('#cards').innerText(), '', 'nothing is missing');
      await page.close();
    }
    await close();
  }
});

test('everything but the example is cached at once, so that all results are there without a server', async () => {
  const server = await serve();
  const { visit, close } = await visitor();
  const page = await visit(`${server.origin}/`);
  await keptForOffline(page);
  const { first } = await listOf(h.dist);
  const atOnce = Object.keys(first).map((name) => (name === 'index.html' ? '/' : `/${name}`)).sort();
  assert.deepEqual(await cachedFiles(page), atOnce);
  assert.ok(!atOnce.some((path) => /example/.test(path)), atOnce.join());
  // The scripts for opening a first file without a network.
  for (const script of ['/results.js', '/strips.js', '/table.js', '/ranks.js', '/pkg/gpuprism_full_bg.wasm']) assert.ok(atOnce.includes(script), script);
  await page.close();
  await server.close();
  const offline = await visit(`${server.origin}/`);
  await h.drop(offline, h.kineto('b.json', h.SERVER_OPS));
  await h.settled(offline);
  await h.openTab(offline, 'triage');
  await offline.waitForFunction(() => document.querySelector('[class^="table-triage_"]'));
  await close();
});

test('the service worker answers only GET requests for files in its list', async () => {
  const server = await serve();
  const foreign = await h.serveForeign();
  const { visit, close } = await visitor();
  const page = await visit(`${server.origin}/`);
  await keptForOffline(page);
  server.sent.length = 0;
  const asked = await page.evaluate(async () => {
    const ask = (address, options) => fetch(address, options).then(({ status }) => status, () => 'refused');
    return {
      listed: await ask('app.js'),
      query: await ask('app.js?trace=secret'),
      post: await ask('app.js', { method: 'POST', body: 'x' }),
      part: await ask('app.js', { headers: { range: 'bytes=0-1' } }),
      unlisted: await ask('nothing.txt'),
      above: await ask('../elsewhere/app.js'),
    };
  });
  assert.deepEqual(asked, { listed: 200, query: 200, post: 200, part: 200, unlisted: 404, above: 404 });
  assert.deepEqual(server.sent.map(({ method, path, search }) => `${method} ${path}${search}`), [
    'GET /app.js?trace=secret', 'POST /app.js', 'GET /app.js', 'GET /nothing.txt', 'GET /elsewhere/app.js',
  ], 'all but the first went to the server');
  const before = await cachedFiles(page);
  await page.evaluate((origin) => fetch(`${origin}/app.js`).catch(() => {}), foreign.origin);
  assert.deepEqual(await cachedFiles(page), before, 'and nothing of it was kept');
  assert.deepEqual(foreign.requests, []);
  await close();
  await server.close();
  await foreign.close();
});

/** A copy of the page with another style sheet, which its service worker has in its list or not. */
async function otherBuild(name, { listed }) {
  const copy = join(folder, name);
  await cp(h.dist, copy, { recursive: true });
  const style = `${await readFile(join(copy, 'style.css'), 'utf8')}\n#build { --build: ${name}; }\n`;
  await writeFile(join(copy, 'style.css'), style);
  if (!listed) return copy;
  const build = await listOf(copy);
  build.first['style.css'] = `sha256-${createHash('sha256').update(style).digest('base64')}`;
  build.version = name;
  const script = await readFile(join(copy, 'service-worker.js'), 'utf8');
  await writeFile(join(copy, 'service-worker.js'), script.replace(/const BUILD = \{[^;]*\};/, `const BUILD = ${JSON.stringify(build)};`));
  return copy;
}

const buildOf = (page) => page.evaluate(() => getComputedStyle(document.querySelector('#build')).getPropertyValue('--build'));

/** `isActive` resolves when the service worker that waits now has taken over. */
async function newWorkerActive(context) {
  const session = await context.newCDPSession(await context.newPage());
  const waiting = new Set();
  const isActive = new Promise((done) => {
    session.on('ServiceWorker.workerVersionUpdated', ({ versions }) => {
      for (const { versionId, status } of versions) {
        if (status === 'installed') waiting.add(versionId);
        if (status === 'activated' && waiting.has(versionId)) done();
      }
    });
  });
  await session.send('ServiceWorker.enable');
  return { isActive };
}

test('the next visit takes a new build as a whole and deletes the old one', async () => {
  let server = await serve();
  const { port } = new URL(server.origin);
  const { context, visit, close } = await visitor();
  const first = await visit(`${server.origin}/`);
  await keptForOffline(first);
  await server.close();
  server = await serve({ folder: await otherBuild('newer', { listed: true }), port });
  const second = await visit(`${server.origin}/`);
  assert.equal(await buildOf(second), '', 'a build is never mixed with another');
  const waits = await second.evaluate(async () => {
    const registration = await navigator.serviceWorker.getRegistration();
    for (let turn = 0; turn < 200 && !registration.waiting; turn += 1) await new Promise((done) => setTimeout(done, 50));
    return registration.waiting !== null;
  });
  assert.ok(waits, 'the new build is there, and waits while a page of the old one is open');
  const { isActive } = await newWorkerActive(context);
  await first.close();
  await second.close();
  await isActive;
  const third = await visit(`${server.origin}/`);
  assert.equal(await buildOf(third), 'newer');
  await keptForOffline(third);
  const caches = await third.evaluate(() => caches.keys());
  assert.deepEqual(caches, ['gpuprism / newer']);
  await close();
  await server.close();
});

test('an incomplete build is not cached, and the page works without a service worker', async () => {
  const server = await serve({ folder: await otherBuild('half', { listed: false }) });
  const { visit, close } = await visitor();
  const page = await visit(`${server.origin}/`);
  await page.locator('meta[content="frame-src \'none\'"]').waitFor({ state: 'attached' });
  await h.drop(page, h.kineto('a.json', h.SERVER_OPS));
  await h.settled(page);
  // The installation has failed.
  await page.waitForFunction(async () => !(await navigator.serviceWorker.getRegistration())?.installing);
  assert.doesNotMatch(await page.locator('#build').textContent(), /offline/);
  assert.equal(await page.evaluate(async () => (await navigator.serviceWorker.getRegistration())?.active ?? null), null);
  await close();
  await server.close();
});

test('without TLS there is no service worker, and the page works', async () => {
  const server = await serve();
  const other = await h.launch('--host-resolver-rules=MAP gpuprism.test 127.0.0.1');
  const { visit, close } = await visitor(other);
  const page = await visit(server.origin.replace('127.0.0.1', 'gpuprism.test'));
  assert.equal(await page.evaluate(() => isSecureContext), false);
  await h.drop(page, h.kineto('a.json', h.SERVER_OPS));
  await h.settled(page);
  assert.equal(await page.locator('.card').count(), 0);
  assert.ok(!server.requests.includes('/offline.html'));
  await close();
  await other.close();
  await server.close();
});

test('the page itself cannot register a service worker, and its hidden frame is removed before a file is read', async () => {
  const server = await serve();
  const { visit, close } = await visitor();
  const page = await visit(`${server.origin}/`);
  const own = await page.evaluate(() => navigator.serviceWorker.register('service-worker.js', { scope: './pkg/' }).then(() => 'registered', ({ name }) => name));
  assert.equal(own, 'SecurityError');
  await h.drop(page, h.kineto('a.json', h.SERVER_OPS));
  assert.equal(await page.locator('iframe').count(), 0);
  await h.settled(page);
  await close();
  await server.close();
});
