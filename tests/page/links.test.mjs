// Links and senders that were made for Perfetto's page work with the host exchanged: a relay's messages, `#!/?url=` and `?url=`. A link
// to the view opens the same view, and says whether it opens the file.

/* global other */

import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { after, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import * as h from './harness.mjs';

const { browser, server } = await h.lend();
const host = await serveHost();
after(() => host.close());

/** Another origin with an empty page and a packed trace; `requests` lists the paths that were asked for. */
async function serveHost() {
  const requests = [];
  const trace = gzipSync(h.kineto('x', h.SERVER_OPS).body);
  const server = createServer(({ url }, response) => {
    requests.push(url);
    const [type, body] = url.endsWith('.gz') ? ['application/gzip', trace] : ['text/html; charset=utf-8', '<!doctype html><title>Host</title>'];
    response.writeHead(200, { 'content-type': type, 'access-control-allow-origin': '*' }).end(body);
  });
  return { ...(await h.listen(server)), requests };
}

/** A page of a browser that has stored nothing. */
async function visit(address) {
  const context = await browser.newContext({ serviceWorkers: 'block' });
  context.setDefaultTimeout(15_000);
  const page = await context.newPage();
  const faults = [];
  context.on('weberror', (error) => faults.push(String(error.error())));
  await page.goto(address);
  return { page, context, faults, close: () => context.close() };
}

const chips = (page) => page.locator('#chips .chip-name').allTextContents();
const button = (page, label) => page.locator('#cards button', { hasText: label });

/** In a host page: opens a window of this page as a relay opens Perfetto's, waits for its PONG, and sends the trace. All answers are in `heard`. */
async function relay({ ui, trace, more }) {
  const other = window.open(ui);
  Object.assign(window, { other, heard: [] });
  addEventListener('message', ({ source, data }) => source === other && window.heard.push(data));
  const ping = setInterval(() => other.postMessage('PING', ui), 50);
  while (!window.heard.includes('PONG')) await new Promise((done) => setTimeout(done, 20));
  clearInterval(ping);
  const buffer = await (await fetch(trace)).arrayBuffer();
  const title = trace.split('/').pop();
  other.postMessage({ perfetto: { buffer, title, fileName: title, ...more } }, ui, [buffer]);
}

/** Opens the page from another one, which sends a trace by Perfetto's protocol. */
async function relayed(more) {
  const { page: sender, faults, close } = await visit(`${host.origin}/relay`);
  const opening = sender.waitForEvent('popup');
  await sender.evaluate(relay, { ui: server.origin, trace: `${host.origin}/traces/TP-0-DECODE.trace.json.gz`, more });
  const page = await opening;
  const send = (message) => sender.evaluate(([message, ui]) => {
    const buffer = new TextEncoder().encode(message.text).buffer;
    other.postMessage({ perfetto: { ...message, ...('text' in message && { buffer }) } }, ui);
  }, [message, server.origin]);
  return { sender, page, send, faults, close };
}

test('a page that relays a trace to Perfetto opens it here, after the person has agreed', async () => {
  const { sender, page, faults, close } = await relayed({ keepApiOpen: true });
  const card = page.locator('#cards .card');
  await card.waitFor();
  const words = await card.innerText();
  assert.ok(words.includes(`${host.origin} wants to show you a file`), words);
  assert.ok(words.includes('TP-0-DECODE.trace.json.gz'), words);
  assert.deepEqual(await chips(page), [], 'nothing is read before');
  await button(page, /^Show$/).click();
  await h.settled(page);
  assert.deepEqual(await chips(page), ['TP-0-DECODE.trace.json.gz']);
  assert.deepEqual(await sender.evaluate(() => [...new Set(window.heard)]), ['PONG'], 'a sender to Perfetto expects no other answer');
  assert.deepEqual(faults, []);
  await close();
});

test('a relayed trace is opened once, unless its sender keeps the protocol open; messages without a trace are ignored', async () => {
  const once = await relayed({});
  await once.send({ title: 'Failed to load trace: 404' });
  await once.send({ text: 'again', title: 'again' });
  await button(once.page, /^Show$/).click();
  await h.settled(once.page);
  await h.quiet(once.page);
  assert.deepEqual(await chips(once.page), ['TP-0-DECODE.trace.json.gz']);
  assert.equal(await once.page.locator('.card').count(), 0);
  await once.close();
  const open = await relayed({ keepApiOpen: true });
  await open.send({ text: h.kineto('x', h.SERVER_OPS).body.toString(), title: 'second.json', keepApiOpen: true });
  await open.page.locator('#cards h2', { hasText: '2 files' }).waitFor();
  assert.deepEqual([once.faults, open.faults], [[], []]);
  await open.close();
});

test('windows that neither opened nor embed the page get no answer', async () => {
  const { page, close } = await visit(`${host.origin}/frames`);
  const heard = await page.evaluate(async (address) => {
    const frame = (src) => Object.assign(document.createElement('iframe'), { src });
    const [sibling, ours] = [frame('/sibling'), frame(`${address}/?embed=1`)];
    document.body.append(sibling, ours);
    await new Promise((done) => sibling.addEventListener('load', done));
    const heard = { host: [], sibling: [] };
    addEventListener('message', ({ data }) => heard.host.push(data));
    sibling.contentWindow.addEventListener('message', ({ data }) => heard.sibling.push(data));
    const ask = sibling.contentWindow.eval('(target, message) => target.postMessage(message, "*")');
    while (heard.host.length < 3) {
      ask(ours.contentWindow, 'PING');
      ask(ours.contentWindow, { gpuprism: { report: 'x' } });
      ours.contentWindow.postMessage('PING', '*');
      await new Promise((done) => setTimeout(done, 50));
    }
    return heard;
  }, server.origin);
  assert.deepEqual(heard.sibling, []);
  assert.equal(await page.frames().at(-1).locator('.card').count(), 0);
  await close();
});

test('links that were made for Perfetto open the file with the host exchanged, after a question', async (t) => {
  const trace = `${host.origin}/traces/TP-0-DECODE.trace.json.gz`;
  const links = {
    'as they are written by hand': `#!/?url=${trace}`,
    'with the address encoded, and a view of Perfetto': `#!/?url=${encodeURIComponent(trace)}&visStart=1&visEnd=2`,
    'of its viewer': `#!/viewer?url=${encodeURIComponent(trace)}`,
    'as a query': `?url=${encodeURIComponent(trace)}`,
  };
  for (const [what, link] of Object.entries(links)) {
    await t.test(what, async () => {
      host.requests.length = 0;
      const { page, faults, close } = await visit(`${server.origin}/${link}`);
      await page.locator('.card h2', { hasText: `This link opens a file from ${new URL(host.origin).host}` }).waitFor();
      assert.deepEqual(host.requests, [], 'nothing is requested before the person agrees');
      await button(page, 'Load and open').click();
      await h.settled(page);
      assert.deepEqual(await chips(page), ['TP-0-DECODE.trace.json.gz']);
      assert.deepEqual(host.requests, ['/traces/TP-0-DECODE.trace.json.gz']);
      assert.deepEqual(faults, []);
      await close();
    });
  }
});

test('a link names files and view together, also when it is pasted into an open page', async () => {
  const trace = encodeURIComponent(`${host.origin}/a.json.gz`);
  const { page, faults, close } = await visit(`${server.origin}/?url=${trace}#tab=pivot`);
  await page.locator('html[data-simd], .card').first().waitFor({ state: 'attached' });
  await page.waitForURL(/open\.html\?url=[^#]*#tab=pivot$/);
  await page.goto(`${server.origin}/#tab=kernels`);
  await page.locator('html[data-simd]').waitFor({ state: 'attached' });
  await page.evaluate((link) => void (location.hash = link), `!/?url=${trace}&url=${trace}&tab=kernels`);
  await page.locator('.card h2', { hasText: 'This link opens 2 files' }).waitFor();
  assert.equal(new URL(page.url()).hash, '#tab=kernels');
  assert.deepEqual(faults, []);
  await close();
});

/** A trace of SGLang steps, each with one kernel of 40 us: two prefill, three decode, one prefill. */
function served(name) {
  const stages = ['EXTEND', 'EXTEND', 'DECODE', 'DECODE', 'DECODE', 'EXTEND'];
  const events = stages.flatMap((stage, step) => {
    const at = 1000 + 100 * step;
    const host = { ph: 'X', pid: 9, tid: 9 };
    return [
      { ...host, cat: 'user_annotation', name: `step[${stage} bs=4]`, ts: at, dur: 80, args: {} },
      { ...host, cat: 'cuda_runtime', name: 'cudaLaunchKernel', ts: at + 10, dur: 5, args: { correlation: step + 1 } },
      { ph: 'X', cat: 'kernel', name: 'nvjet_tst_64x8', pid: 0, tid: 7, ts: at + 20, dur: 40, args: { device: 0, stream: 7, correlation: step + 1 } },
    ];
  });
  return { name, body: Buffer.from(JSON.stringify({ traceEvents: events })) };
}

const windowOf = (page, name) => page.getByLabel(`Window of ${name}`);
const hasWindow = (page, name, window) => h.until(async () => await windowOf(page, name).inputValue() === window, `window ${window} of ${name}`);

test('stage=decode shows the decode steps of every trace, until the person picks a window', async () => {
  const { page, faults, close } = await h.openPage(browser, server.origin, '#stage=decode');
  await h.drop(page, served('a.json'), served('b.json'));
  await h.settled(page);
  await hasWindow(page, 'a.json', '0.0002-0.00044');
  await hasWindow(page, 'b.json', '0.0002-0.00044');
  assert.equal(new URL(page.url()).hash, '#stage=decode', 'a link to it names the stage');
  await windowOf(page, 'a.json').fill('0-0.0001');
  await page.keyboard.press('Enter');
  await h.quiet(page);
  assert.deepEqual(new URLSearchParams(new URL(page.url()).hash.slice(1)).getAll('window'), ['0@0-0.0001', '1@0.0002-0.00044']);
  assert.equal(new URLSearchParams(new URL(page.url()).hash.slice(1)).get('stage'), null);
  // A field with the focus keeps what is typed.
  await windowOf(page, 'a.json').blur();
  await page.goBack();
  await hasWindow(page, 'a.json', '0.0002-0.00044');
  assert.deepEqual(faults, []);
  await close();
});

test('a stage that a trace does not have is named with those that it has', async () => {
  const { page, close } = await h.openPage(browser, server.origin, '#stage=verify');
  await h.drop(page, served('a.json'));
  await page.locator('.card.error', { hasText: 'a.json has no stage verify: it has prefill, decode' }).waitFor();
  await close();
});

test('window=FROM-TO without a number is the window of every trace', async () => {
  const { page, faults, close } = await h.openPage(browser, server.origin, '#window=0.0001-0.0003');
  await h.drop(page, served('a.json'), served('b.json'));
  await h.settled(page);
  for (const name of ['a.json', 'b.json']) await hasWindow(page, name, '0.0001-0.0003');
  assert.deepEqual(faults, []);
  await close();
});

/** Presses "Copy link to this view": the copied address, and what is said about it. */
async function copyLink(page) {
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
  if (await page.locator('#export[open]').count() === 0) await page.locator('#export summary').click();
  await page.locator('#link').click();
  const said = await page.locator('.view-link .note').innerText();
  return { link: await page.evaluate(() => navigator.clipboard.readText()), said };
}

test('a copied link to the view of a local file restores tab, kernel and window, and says that it lacks the file', async () => {
  const { page, faults, close } = await h.openPage(browser, server.origin);
  const file = h.kineto('mine.json', h.SERVER_OPS);
  await h.drop(page, file);
  await h.settled(page);
  await h.openTab(page, 'kernels');
  await page.getByLabel('Window of mine.json').fill('0.00001-0.00003');
  await page.keyboard.press('Enter');
  await h.quiet(page);
  const { link, said } = await copyLink(page);
  assert.match(said, /^Copied\. The link has this view and not the files: whoever opens it opens mine\.json in it\.$/);
  const other = await h.openPage(browser, server.origin, link.slice(link.indexOf('#')));
  await h.drop(other.page, file);
  await h.settled(other.page);
  await h.quiet(other.page);
  assert.equal(await other.page.locator('#tab-kernels').getAttribute('aria-selected'), 'true');
  assert.equal(await other.page.getByLabel('Window of mine.json').inputValue(), '0.00001-0.00003');
  assert.deepEqual([faults, other.faults], [[], []]);
  await other.close();
  await close();
});

test('a copied link opens the file again if the page came from a link, or if the sender has an address for it', async () => {
  const { page, close } = await visit(`${server.origin}/#!/?url=${host.origin}/a.json.gz`);
  await button(page, 'Load and open').click();
  await h.settled(page);
  const { link, said } = await copyLink(page);
  assert.equal(said, 'Copied. The link asks, loads the file from its host and opens this view.');
  assert.deepEqual([new URL(link).pathname, new URL(link).searchParams.get('url')], ['/open.html', `${host.origin}/a.json.gz`]);
  await close();
  const sent = await relayed({ url: `${host.origin}/relay?src=a` });
  await button(sent.page, /^Show$/).click();
  await h.settled(sent.page);
  await copyLink(sent.page);
  assert.equal(await sent.page.locator('.view-link a').getAttribute('href'), `${host.origin}/relay?src=a`);
  await sent.close();
  const hostile = await relayed({ url: 'javascript:alert(1)' });
  await button(hostile.page, /^Show$/).click();
  await h.settled(hostile.page);
  await copyLink(hostile.page);
  assert.equal(await hostile.page.locator('.view-link a').count(), 0);
  await hostile.close();
});
