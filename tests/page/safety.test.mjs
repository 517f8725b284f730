// Names from a trace are text everywhere. The page and its workers cannot reach another origin or open a frame that could. After a
// drop the network gets requests for the page's own static files only. The module uses SIMD.

import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import * as h from './harness.mjs';

const { browser, server } = await h.lend();
const foreign = await h.serveForeign();
after(() => foreign.close());

const SCRIPT = 'window.pwned = true; alert(1)';
const NAMES = [
  `<img src=x onerror="${SCRIPT}">`,
  `"><script>${SCRIPT}</script>`,
  `</td></table><svg onload='${SCRIPT}'>`,
  `<iframe srcdoc="<script>${SCRIPT}</script>">`,
  `javascript:${SCRIPT}`,
  `=cmd|' /C calc'!A0`,
  `]]></style><style>*{display:none}</style>`,
  '\u202egnp.exe',
  'y'.repeat(5_000),
];
const hostileTrace = () => h.kineto('<img src=x onerror=alert(1)>.json', NAMES.map((name, at) => [name, at * 10_000, 5_000 + at]));
const hostileRules = { name: '<i>rules.json', body: Buffer.from(JSON.stringify({ gpuprism: { default: { 'img|script|svg': `<b onclick="${SCRIPT}">bold</b>` } } })) };

test('hostile names, categories and file names are shown as text', async () => {
  const { page, faults, close } = await h.openPage(browser, server.origin);
  const elements = () => page.evaluate(() => document.querySelectorAll('script, img, iframe, object, embed, style, b, i, #results svg[onload], [onerror], [onload], [onclick]').length);
  const before = await elements();
  await h.drop(page, hostileTrace(), hostileRules);
  await h.settled(page);
  await page.locator('.swatch').first().waitFor();
  const { rows } = await h.readTable(page);
  assert.deepEqual(new Set(rows.map(({ name }) => name)), new Set(NAMES), 'every name is there in full');
  const openers = page.locator('#blocks button.kernel');
  const opened = [];
  for (let at = 0; at < await openers.count(); at += 1) {
    const name = await openers.nth(at).evaluate((button) => button.parentElement.title);
    await openers.nth(at).click();
    await page.waitForFunction((name) => document.querySelector('#kernel-title')?.textContent === name, name);
    await page.locator('#kernel .block').first().waitFor();
    opened.push(await page.locator('#kernel-title').textContent());
    await page.keyboard.press('Escape');
  }
  assert.deepEqual(new Set(opened), new Set(NAMES), 'the panel shows the full names');
  assert.equal(await elements(), before, 'no element came from a name');
  for (const tab of await page.locator('[role=tab]').all()) {
    await tab.click();
    await h.quiet(page);
    assert.equal(await elements(), before, `no element came from a name in ${await tab.textContent()}`);
  }
  await h.quiet(page);
  assert.equal(await page.evaluate(() => window.pwned), undefined);
  assert.deepEqual(faults, []);
  await close();
});

test('the exported HTML report runs no script from a name', async () => {
  const { page, faults, close } = await h.openPage(browser, server.origin);
  await h.drop(page, hostileTrace());
  await h.settled(page);
  const { body } = await h.exported(page, 'html');
  const reader = await page.context().newPage();
  reader.on('dialog', (dialog) => {
    faults.push(dialog.message());
    dialog.dismiss();
  });
  // Its images and frames have loaded or failed, so their handlers have run.
  await reader.setContent(body.toString(), { waitUntil: 'load' });
  await h.frames(reader);
  assert.equal(await reader.evaluate(() => window.pwned), undefined);
  assert.equal(await reader.evaluate(() => document.querySelectorAll('img, iframe, [onerror], [onload], [onclick]').length), 0);
  assert.deepEqual(faults, []);
  await close();
});

/** Attempts of hostile code in the page or a worker. */
async function reachOut(origin) {
  const opened = (channel) => new Promise((done, failed) => Object.assign(channel, { onopen: done, onerror: failed }));
  const tries = {
    fetch: () => fetch(`${origin}/fetch`),
    blind: () => fetch(`${origin}/blind`, { method: 'POST', mode: 'no-cors', body: 'x' }),
    import: () => import(`${origin}/import.js`),
    request: () => new Promise((done, failed) => {
      const request = new XMLHttpRequest();
      request.onload = done;
      request.onerror = failed;
      request.open('GET', `${origin}/request`);
      request.send();
    }),
    events: () => opened(new EventSource(`${origin}/events`)),
    socket: () => opened(new WebSocket(`${origin.replace('http', 'ws')}/socket`)),
    worker: () => new Promise((done, failed) => {
      const worker = new Worker(`${origin}/worker.js`);
      worker.onmessage = done;
      worker.onerror = failed;
    }),
  };
  const reached = [];
  const within = (attempt) => Promise.race([attempt(), new Promise((_, failed) => setTimeout(failed, 500))]);
  for (const [way, attempt] of Object.entries(tries)) {
    await (async () => within(attempt))().then(() => reached.push(way), () => {});
  }
  return reached;
}

test('no fetch or import of the page or its workers reaches another origin', async () => {
  assert.equal((await fetch(`${foreign.origin}/control`)).status, 200, 'the other origin answers all requests');
  const { page, close } = await h.openPage(browser, server.origin);
  await h.drop(page, h.kineto('a.json', h.SERVER_OPS));
  await h.settled(page);
  await page.locator('#headline > *').first().waitFor();
  assert.deepEqual(await page.evaluate(reachOut, foreign.origin), []);
  await page.evaluate((origin) => {
    navigator.sendBeacon(`${origin}/beacon`, 'x');
    new Image().src = `${origin}/image`;
    const add = (tag, props) => document.body.appendChild(Object.assign(document.createElement(tag), props));
    add('script', { src: `${origin}/script` });
    add('iframe', { src: `${origin}/frame` });
    add('object', { data: `${origin}/object` });
    add('video', { src: `${origin}/video` });
    add('link', { rel: 'stylesheet', href: `${origin}/style` });
    add('link', { rel: 'prefetch', href: `${origin}/prefetch` });
    add('form', { action: `${origin}/form`, method: 'post' }).submit();
  }, foreign.origin);
  assert.equal(page.workers().length, 3, 'one worker for the trace, one that renders, one for the lines below the verdict');
  for (const worker of page.workers()) {
    assert.match(worker.url(), /^blob:/);
    assert.deepEqual(await worker.evaluate(reachOut, foreign.origin), []);
  }
  const fresh = await page.evaluate((origin) => new Promise((done) => {
    const text = `fetch('${origin}/fresh').then(() => postMessage('reached'), () => postMessage('blocked'))`;
    const worker = new Worker(URL.createObjectURL(new Blob([text])));
    worker.onmessage = ({ data }) => done(data);
    worker.onerror = () => done('blocked');
  }), foreign.origin);
  assert.equal(fresh, 'blocked');
  const byAddress = await page.evaluate(() => new Promise((done) => {
    try {
      const worker = new Worker('worker.js', { type: 'module' });
      worker.onerror = () => done('blocked');
      setTimeout(() => done('started'), 1_000);
    } catch {
      done('blocked');
    }
  }));
  assert.equal(byAddress, 'blocked', 'a worker by address would not inherit the policy');
  await page.waitForTimeout(300);
  assert.deepEqual(foreign.requests, ['/control']);
  await close();
});

test('after a file is opened no frame opens: a frame without a policy could fetch from anywhere', async () => {
  const { page, close } = await h.openPage(browser, server.origin);
  await h.drop(page, h.kineto('a.json', h.SERVER_OPS));
  await h.settled(page);
  // The lines below the verdict have a worker of their own.
  await page.locator('#headline > *').first().waitFor();
  await h.quiet(page);
  server.requests.length = 0;
  foreign.requests.length = 0;
  for (const file of ['style.css', 'favicon.svg', 'open.html', 'offline.html', 'about:blank', 'blob']) {
    const reached = await page.evaluate(async ([file, origin]) => {
      const src = file === 'blob' ? URL.createObjectURL(new Blob(['<p>'], { type: 'text/html' })) : file;
      const frame = document.body.appendChild(Object.assign(document.createElement('iframe'), { src }));
      await new Promise((done) => setTimeout(done, 300));
      try {
        await frame.contentWindow.fetch(`${origin}/from-frame`);
        return true;
      } catch {
        return false;
      }
    }, [file, foreign.origin]);
    assert.equal(reached, false, file);
  }
  assert.deepEqual(server.requests, []);
  assert.deepEqual(foreign.requests, []);
  await close();
});

test('after a drop only static files of the page are requested', async () => {
  const { page, faults, close } = await h.openPage(browser, server.origin);
  const asked = [];
  page.context().on('request', (request) => asked.push(request.url()));
  server.requests.length = 0;
  server.sent.length = 0;
  foreign.requests.length = 0;
  await h.drop(page, h.kineto('secret-run.json', h.SERVER_OPS), { name: 'bad.json', body: Buffer.from('bad') });
  await h.settled(page);
  await page.locator('#filter').fill('secret');
  await page.locator('[role=tab]').nth(1).click();
  await h.exported(page, 'markdown');
  await h.quiet(page);
  for (const url of asked) assert.ok(url.startsWith(`${server.origin}/`) || url.startsWith(`blob:${server.origin}/`), url);
  const ours = await h.filesOfPage();
  for (const path of server.requests) assert.ok(ours.has(path), path);
  for (const { path, method, search, body } of server.sent) assert.deepEqual({ method, search, body }, { method: 'GET', search: '', body: 0 }, path);
  assert.deepEqual(foreign.requests, []);
  assert.deepEqual(faults, []);
  await close();
});

test('the page has no inline style or script, and its policy names no other host', async () => {
  const { page, close } = await h.openPage(browser, server.origin);
  await h.drop(page, h.kineto('a.json', h.SERVER_OPS));
  await h.settled(page);
  // A script may give an element a length as a custom property, which its class in the style sheet uses.
  const found = await page.evaluate(() => ({
    inline: document.querySelectorAll('style, script:not([src])').length
      + [...document.querySelectorAll('[style]')].filter(({ style }) => [...style].some((name) => !name.startsWith('--'))).length,
    policy: document.querySelector('meta[http-equiv=Content-Security-Policy]').content,
  }));
  assert.equal(found.inline, 0);
  assert.equal(found.policy, "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src blob:; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none'");
  await close();
});

test('the module was built with SIMD', async () => {
  const { page, close } = await h.openPage(browser, server.origin);
  assert.equal(await page.locator('html').getAttribute('data-simd'), 'true');
  await close();
});
