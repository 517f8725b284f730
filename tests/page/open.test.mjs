// A link to a file on another host asks before any request, shows host and path, loads with progress, and opens the file in a page
// that cannot reach other hosts. Failures are shown with a remedy.

import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { after, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import * as h from './harness.mjs';

const { browser, server } = await h.lend();
const remote = await serveRemote();
after(() => remote.close());

/** A host of files with an answer for each path; `requests` has method, path and headers. */
async function serveRemote() {
  const requests = [];
  const open = { 'access-control-allow-origin': '*' };
  const trace = h.kineto('a', h.SERVER_OPS).body;
  const half = trace.subarray(0, trace.length / 2);
  const answers = {
    '/runs/a%20run.json.gz': (response) => response.writeHead(200, open).end(gzipSync(trace)),
    '/b.json': (response) => response.writeHead(200, { ...open, 'content-length': trace.length }).end(trace),
    '/closed.json': (response) => response.writeHead(200).end(trace),
    '/page': (response) => response.writeHead(200, { ...open, 'content-type': 'text/html' }).end('<p>a page'),
    '/private.json': (response) => response.writeHead(401, open).end(),
    '/cut.json': (response) => {
      response.writeHead(200, { ...open, 'content-length': trace.length });
      response.write(half);
      setTimeout(() => response.destroy(), 100);
    },
    '/slow.json': (response) => {
      response.writeHead(200, { ...open, 'content-length': trace.length });
      response.write(half);
      setTimeout(() => response.end(trace.subarray(half.length)), 1_500);
    },
  };
  const server = createServer(({ method, url, headers }, response) => {
    requests.push({ method, url, headers });
    const answer = answers[url.split('?')[0]] ?? ((missing) => missing.writeHead(404, open).end());
    answer(response);
  });
  return { ...(await h.listen(server)), requests };
}

/** open.html in its own browser context; `asked` lists all requests of the browser. */
async function visit(...addresses) {
  const context = await browser.newContext({ serviceWorkers: 'block' });
  context.setDefaultTimeout(15_000);
  const page = await context.newPage();
  const asked = [];
  context.on('request', (request) => asked.push(request.url()));
  const faults = [];
  page.on('pageerror', (error) => faults.push(String(error)));
  remote.requests.length = 0;
  await page.goto(`${server.origin}/open.html?${new URLSearchParams(addresses.map((address) => ['url', address]))}#tab=pivot`);
  await page.locator('.card').first().waitFor();
  return { page, asked, faults, close: () => context.close() };
}

const load = (page) => page.locator('button', { hasText: 'Load and open' }).click();

test('no request reaches another host before the person agrees, and then only the one for the file', async () => {
  const { page, asked, faults, close } = await visit(`${remote.origin}/runs/a%20run.json.gz`);
  const card = await page.locator('.card').innerText();
  assert.ok(card.includes(new URL(remote.origin).host), card);
  assert.ok(card.includes('/runs/a run.json.gz'), card);
  await h.quiet(page);
  assert.deepEqual(remote.requests, []);
  assert.deepEqual(asked.filter((url) => !url.startsWith(`${server.origin}/`)), []);
  await load(page);
  await h.settled(page);
  assert.deepEqual(remote.requests.map(({ method, url }) => `${method} ${url}`), ['GET /runs/a%20run.json.gz']);
  const { cookie, referer } = remote.requests[0].headers;
  assert.deepEqual([cookie, referer], [undefined, undefined], 'neither cookies nor referrer go along');
  assert.deepEqual(await page.locator('#chips .chip-name').allTextContents(), ['a run.json.gz']);
  assert.equal(await page.locator('#tab-kernels').getAttribute('aria-selected'), 'true', 'the view in the address holds');
  assert.deepEqual(faults, []);
  await close();
});

test('the page that analyses the file reaches no other host and has no window that could', async () => {
  const { page, close } = await visit(`${remote.origin}/b.json`);
  await load(page);
  await h.settled(page);
  remote.requests.length = 0;
  const reached = await page.evaluate(async (origin) => {
    const ways = { own: window, parent, opener: window.opener, top };
    const reached = [];
    for (const [way, from] of Object.entries(ways)) await from?.fetch(`${origin}/b.json`).then(() => reached.push(way), () => {});
    return reached;
  }, remote.origin);
  assert.deepEqual(reached, []);
  assert.deepEqual(remote.requests, []);
  const kept = await page.evaluate(async () => {
    const database = await new Promise((done) => {
      const opening = indexedDB.open('gpuprism-handover');
      opening.onsuccess = () => done(opening.result);
    });
    return new Promise((done) => {
      const count = database.transaction('files').objectStore('files').count();
      count.onsuccess = () => done(count.result);
    });
  });
  assert.equal(kept, 0, 'no copy is left');
  await close();
});

test('a reload asks again, and a link can name two files', async () => {
  const { page, faults, close } = await visit(`${remote.origin}/b.json`, `${remote.origin}/runs/a%20run.json.gz`);
  assert.match(await page.locator('.card h2').textContent(), /2 files/);
  await load(page);
  await h.settled(page);
  await page.waitForFunction(() => document.querySelectorAll('#runs > li:not(.to-come)').length === 2);
  await page.reload();
  await page.locator('button', { hasText: 'Load and open' }).waitFor();
  assert.match(page.url(), /\/open\.html\?url=.*#tab=pivot$/);
  await load(page);
  await h.settled(page);
  assert.deepEqual(faults, []);
  await close();
});

test('progress is shown, and Cancel returns to the question', async () => {
  const { page, faults, close } = await visit(`${remote.origin}/slow.json`);
  await load(page);
  await page.locator('.figures', { hasText: / of / }).waitFor();
  await page.locator('button', { hasText: 'Cancel' }).click();
  await page.locator('button', { hasText: 'Load and open' }).waitFor();
  await load(page);
  await h.settled(page);
  assert.deepEqual(faults, []);
  await close();
});

const FAILURES = [
  ['a host without CORS', '/closed.json', /answers, but does not let pages of other hosts read this file \(CORS\)/],
  ['a missing file', '/none.json', /no such file.*404/],
  ['a private file', '/private.json', /private.*401/],
  ['a web page', '/page', /This address is a web page/],
  ['a broken connection', '/cut.json', /ended after \d.* of .*connection broke/],
];
test('failures are shown with a remedy', async (t) => {
  for (const [what, path, words] of FAILURES) {
    await t.test(what, async () => {
      const { page, faults, close } = await visit(remote.origin + path);
      await load(page);
      await page.locator('.card.error').waitFor();
      assert.match(await page.locator('.card.error .message').textContent(), words);
      assert.equal(await page.locator('.card.error .command a').getAttribute('href'), remote.origin + path, 'it can be downloaded');
      assert.equal(await page.locator('.card.error a[href="./"]').count(), 1, 'and dropped on the page');
      assert.equal(await page.locator('button', { hasText: 'Try again' }).count(), 1);
      assert.deepEqual(faults, []);
      await close();
    });
  }
  await t.test('a host that is gone', async () => {
    const gone = await h.serveForeign();
    await gone.close();
    const { page, close } = await visit(`${gone.origin}/a.json`);
    await load(page);
    assert.match(await page.locator('.card.error .message').textContent(), /could not be reached/);
    await close();
  });
});

test('addresses that must not be loaded are refused at once', async (t) => {
  for (const [address, words] of [
    ['http://example.com/a.json', /Only https/],
    ['javascript:alert(1)', /Only https/],
    ['data:text/html,<script>alert(1)</script>', /Only https/],
    ['file:///etc/passwd', /Only https/],
    ['https://me:secret@example.com/a.json', /user name or a password/],
    ['https://', /not an address/],
  ]) {
    await t.test(address, async () => {
      const { page, asked, faults, close } = await visit(address);
      assert.match(await page.locator('.card.error .message').textContent(), words);
      assert.equal(await page.locator('button', { hasText: 'Load' }).count(), 0);
      assert.deepEqual(asked.filter((url) => !url.startsWith(`${server.origin}/`)), []);
      assert.deepEqual(faults, []);
      await close();
    });
  }
});

test('links to pages of Hugging Face and GitHub become addresses of the files', async () => {
  const { page, close } = await visit(`${remote.origin}/b.json`);
  const pairs = {
    'https://huggingface.co/datasets/o/n/blob/main/runs/a.json.gz': 'https://huggingface.co/datasets/o/n/resolve/main/runs/a.json.gz',
    'https://huggingface.co/o/n/blob/refs%2Fpr%2F1/blob/a.json': 'https://huggingface.co/o/n/resolve/refs%2Fpr%2F1/blob/a.json',
    'https://huggingface.co/datasets/o/n/resolve/main/a.json?download=true': 'https://huggingface.co/datasets/o/n/resolve/main/a.json?download=true',
    'https://github.com/o/r/blob/main/t/a.json': 'https://raw.githubusercontent.com/o/r/main/t/a.json',
    'https://github.com/o/r/raw/main/t/a.json': 'https://raw.githubusercontent.com/o/r/main/t/a.json',
    'https://example.com/o/r/blob/main/a.json': 'https://example.com/o/r/blob/main/a.json',
  };
  const turned = await page.evaluate(async (addresses) => {
    const { remoteFile } = await import('./remote.js');
    return addresses.map((address) => remoteFile(address).url.href);
  }, Object.keys(pairs));
  assert.deepEqual(turned, Object.values(pairs));
  await close();
});
