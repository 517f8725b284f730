// Another page can embed this one, or open it, and send it files by postMessage. The person is asked about unknown origins, refused
// windows stay refused, and the sender gets a reply about its file.

/* global other, heard */

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import * as h from './harness.mjs';

const { browser, server } = await h.lend();
const host = await serveHost();
after(() => host.close());

/** The sandbox of a Space's frame. */
const SPACE_SANDBOX = 'allow-downloads allow-forms allow-modals allow-pointer-lock allow-popups allow-popups-to-escape-sandbox allow-same-origin allow-scripts';

/** Serves pages of another origin; one of them frames an address, with a sandbox if given. */
async function serveHost() {
  const server = createServer(({ url }, response) => {
    const asked = new URL(url, 'http://host').searchParams;
    const sandbox = asked.has('sandbox') ? ` sandbox="${asked.get('sandbox')}"` : '';
    const frame = asked.has('frame') ? `<iframe id="page" width="1000" height="700" src="${asked.get('frame')}"${sandbox}></iframe>` : '';
    response.writeHead(200, { 'content-type': 'text/html; charset=utf-8' }).end(`<!doctype html><title>Host</title>${frame}`);
  });
  return h.listen(server);
}

/** Opens a host page with this page in a frame or a window; `send(message)` sends it a message as a host does. */
async function visit({ frame = `${server.origin}/?embed=1`, sandbox, opened = false } = {}) {
  const context = await browser.newContext({ serviceWorkers: 'block', viewport: { width: 1060, height: 760 } });
  context.setDefaultTimeout(15_000);
  const page = await context.newPage();
  const faults = [];
  context.on('weberror', (error) => faults.push(String(error.error())));
  const query = new URLSearchParams(opened ? {} : { frame, ...(sandbox !== undefined && { sandbox }) });
  await page.goto(`${host.origin}/?${query}`);
  await page.evaluate(() => {
    window.heard = [];
    addEventListener('message', ({ data }) => heard.push(data));
  });
  let inner;
  if (opened) {
    const popup = page.waitForEvent('popup');
    await page.evaluate((address) => void (window.other = window.open(address)), `${server.origin}/`);
    inner = await popup;
  } else {
    await page.evaluate(() => void (window.other = document.querySelector('#page').contentWindow));
    inner = page.frames()[1];
  }
  const heard = () => page.evaluate(() => heard);
  /** Pings until the page answers, because its script may still be loading. */
  const ready = () => page.evaluate(async () => {
    while (!heard.includes('PONG')) {
      other.postMessage('PING', '*');
      await new Promise((done) => setTimeout(done, 50));
    }
    heard.length = 0;
  });
  const send = (message) => page.evaluate((text) => other.postMessage(JSON.parse(text), '*'), JSON.stringify(message));
  const sendTrace = (title, as) => page.evaluate(([text, title, as]) => {
    const bytes = new TextEncoder().encode(text);
    other.postMessage({ gpuprism: { buffer: as === 'blob' ? new Blob([bytes]) : bytes.buffer, title } }, '*');
  }, [h.kineto('x', h.SERVER_OPS).body.toString(), title, as]);
  const reply = () => page.waitForFunction(() => heard.shift()).then((handle) => handle.jsonValue());
  await ready();
  return { page, inner, context, heard, send, sendTrace, reply, faults, close: () => context.close() };
}

const chips = (inner) => inner.locator('#chips .chip-name').allTextContents();
const button = (inner, label) => inner.locator('#cards button', { hasText: label });

test('the person is asked about a frame\'s host, and its trace is shown after agreement', async () => {
  const { inner, sendTrace, reply, heard, faults, close } = await visit();
  assert.equal(await inner.locator('#drop h2').isVisible(), false, 'no words for newcomers');
  assert.equal(await inner.locator('.whole').textContent(), 'Open in gpuprism');
  await sendTrace('<img src=x onerror=alert(1)> step 12', 'buffer');
  const card = inner.locator('#cards .card');
  await card.waitFor();
  const words = await card.innerText();
  assert.ok(words.includes(`${host.origin} wants to show you a file`), words);
  assert.ok(words.includes('<img src=x onerror=alert(1)> step 12'), words);
  assert.deepEqual(await heard(), [], 'nothing is answered before the person has');
  await button(inner, /^Show$/).click();
  assert.deepEqual(await reply(), { gpuprism: { status: 'loaded', message: '<img src=x onerror=alert(1)> step 12' } });
  await settledIn(inner);
  assert.deepEqual(await chips(inner), ['<img src=x onerror=alert(1)> step 12']);
  assert.equal(await inner.locator('img').count(), 0);
  await sendTrace('again', 'buffer');
  await button(inner, /^Show$/).waitFor();
  assert.deepEqual(faults, []);
  await close();
});

async function settledIn(inner) {
  await inner.waitForFunction(() => document.querySelector('#results:not([hidden])[aria-busy=false] .block:first-child table'));
}

test('"Always from there" is remembered for that origin only', async () => {
  const { page, inner, sendTrace, reply, faults, close } = await visit();
  await sendTrace('first', 'blob');
  await button(inner, 'Always from there').click();
  assert.equal((await reply()).gpuprism.status, 'loaded');
  await sendTrace('second', 'blob');
  assert.deepEqual((await reply()).gpuprism, { status: 'loaded', message: 'second' });
  const trusted = await page.frames()[1].evaluate(async (other) => {
    const { isTrusted } = await import('./trust.js');
    return [other, 'null', 'https://example.com', location.origin].map(isTrusted);
  }, host.origin);
  assert.deepEqual(trusted, [true, false, false, true]);
  assert.deepEqual(await chips(inner), ['first', 'second']);
  assert.deepEqual(faults, []);
  await close();
});

test('a refused window stays refused, and its files are not read', async () => {
  const { inner, sendTrace, reply, close } = await visit();
  await sendTrace('one');
  await sendTrace('two');
  await inner.locator('#cards h2', { hasText: '2 files' }).waitFor();
  assert.equal(await inner.locator('#cards .card').count(), 1, 'one question');
  await button(inner, 'No').click();
  assert.equal((await reply()).gpuprism.status, 'refused');
  assert.equal((await reply()).gpuprism.status, 'refused');
  await sendTrace('three');
  assert.equal((await reply()).gpuprism.status, 'refused');
  assert.equal(await inner.locator('#cards .card').count(), 0);
  assert.deepEqual(await chips(inner), []);
  await close();
});

test('a flood of files gives one question, and most files are refused', async () => {
  const { inner, page, close } = await visit();
  await page.evaluate(() => { for (let at = 0; at < 500; at += 1) other.postMessage({ gpuprism: { report: 'x', title: `f${at}` } }, '*'); });
  await page.waitForFunction(() => heard.length === 480);
  assert.ok(await page.evaluate(() => heard.every(({ gpuprism }) => gpuprism.status === 'refused')));
  assert.equal(await inner.locator('#cards .card').count(), 1);
  await close();
});

test('a frame without an origin is asked about every time and cannot be remembered', async () => {
  const inside = `data:text/html,<script>const f=document.createElement('iframe');f.src='${server.origin}/?embed=1';f.width=900;f.height=600;document.documentElement.append(f);setInterval(()=>f.contentWindow.postMessage('PING','*'),100);onmessage=({data})=>{if(data==='PONG'&&!window.sent){window.sent=1;for(const n of ['a','b'])f.contentWindow.postMessage({gpuprism:{report:'x',title:n}},'*')}}</script>`;
  const context = await browser.newContext({ serviceWorkers: 'block' });
  context.setDefaultTimeout(15_000);
  const page = await context.newPage();
  await page.goto(`${host.origin}/?${new URLSearchParams({ frame: inside })}`);
  const inner = page.frameLocator('#page').frameLocator('iframe');
  await inner.locator('#cards h2', { hasText: 'A page without an address of its own wants to show you 2 files' }).waitFor();
  assert.equal(await inner.locator('#cards button', { hasText: 'Always' }).count(), 0);
  await context.close();
});

test('reports are accepted as text and as objects; other messages get a description of the format', async () => {
  const { inner, send, reply, faults, close } = await visit();
  const report = JSON.parse(await h.jsonReport(h.kineto('run.json', h.SERVER_OPS)));
  await send({ gpuprism: { report, title: 'as an object' } });
  await button(inner, 'Always from there').click();
  assert.deepEqual((await reply()).gpuprism, { status: 'loaded', message: 'as an object' });
  await send({ gpuprism: { report: JSON.stringify(report), fileName: 'as text.json' } });
  assert.deepEqual((await reply()).gpuprism, { status: 'loaded', message: 'as text.json' });
  await send({ gpuprism: { report: 'no report', title: 'prose' } });
  const failed = (await reply()).gpuprism;
  assert.equal(failed.status, 'failed');
  assert.ok(failed.message.length > 20, failed.message);
  await send({ gpuprism: { buffer: 'text' } });
  assert.match((await reply()).gpuprism.message, /expected/);
  for (const noise of [null, 7, 'text', {}, { gpuprism: 'x' }, { gpuprism: null }, { gpuprism: { status: 'loaded' } }, { perfetto: {} }]) await send(noise);
  await send({ gpuprism: { title: 3 } });
  assert.match((await reply()).gpuprism.message, /expected/, 'the noise before it was not answered');
  assert.deepEqual(await chips(inner), ['as an object', 'as text.json']);
  assert.deepEqual(faults, []);
  await close();
});

test('an opened window accepts files too and is not compact', async () => {
  const { inner, sendTrace, reply, faults, close } = await visit({ opened: true });
  assert.equal(await inner.locator('#drop h2').isVisible(), true);
  await sendTrace('handed over', 'blob');
  await button(inner, /^Show$/).click();
  assert.deepEqual((await reply()).gpuprism, { status: 'loaded', message: 'handed over' });
  await h.settled(inner);
  assert.deepEqual(faults, []);
  await close();
});

test('"Open in gpuprism" shows the same files in a new window without a question', async () => {
  const { inner, context, sendTrace, reply, faults, close } = await visit();
  await sendTrace('mine', 'blob');
  await button(inner, /^Show$/).click();
  await reply();
  const coming = context.waitForEvent('page');
  await inner.locator('.whole').click();
  const whole = await coming;
  await h.settled(whole);
  assert.deepEqual(await chips(whole), ['mine']);
  assert.equal(await whole.evaluate(() => document.documentElement.dataset.embed), undefined);
  assert.deepEqual(faults, []);
  await close();
});

test('the example page of docs/embedding.md works unchanged', async () => {
  const text = await readFile(join(h.root, 'docs/embedding.md'), 'utf8');
  const example = /```html\n([\s\S]*?)```/.exec(text)[1].replaceAll('https://HOST', server.origin);
  const site = createServer(({ url }, response) => {
    const trace = url === '/traces/latest.json.gz';
    response.writeHead(200, { 'content-type': trace ? 'application/gzip' : 'text/html' }).end(trace ? gzipSync(h.kineto('x', h.SERVER_OPS).body) : example);
  });
  const { origin, close } = await h.listen(site);
  const context = await browser.newContext({ serviceWorkers: 'block' });
  context.setDefaultTimeout(15_000);
  const page = await context.newPage();
  await page.goto(origin);
  await page.locator('#show').click();
  await page.frameLocator('#gpuprism').getByRole('button', { name: 'Show', exact: true }).click();
  await page.locator('#state', { hasText: 'loaded: last night' }).waitFor();
  await context.close();
  await close();
});

test('a dropped file opens in the sandboxed frame of a Space, under a path', async () => {
  const space = await h.servePage({ under: '/spaces/me/gpuprism' });
  const { inner, faults, close } = await visit({ frame: `${space.origin}/spaces/me/gpuprism/index.html`, sandbox: SPACE_SANDBOX });
  await inner.locator('html[data-simd]').waitFor({ state: 'attached' });
  assert.equal(await inner.locator('#drop h2').isVisible(), true, 'a Space shows the whole page');
  await h.drop(inner, h.kineto('dropped.json', h.SERVER_OPS));
  await settledIn(inner);
  assert.deepEqual(await chips(inner), ['dropped.json']);
  for (const path of space.requests) assert.ok(path.startsWith('/spaces/me/gpuprism/'), path);
  assert.deepEqual(faults, []);
  await close();
  await space.close();
});
