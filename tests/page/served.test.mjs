// `gpuprism view`: the page opens files of its server in parts, with the results of the command line, and lists the traces of a folder.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { copyFile, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import * as h from './harness.mjs';

const browser = await h.lendBrowser();

/** Starts `gpuprism view`: the address that it prints. */
async function view(t, ...paths) {
  const child = spawn(h.programPath(), ['view', '--no-open', '--page', h.dist, ...paths], { stdio: ['ignore', 'pipe', 'pipe'] });
  t.after(() => child.kill());
  let log = '';
  child.stderr.on('data', (text) => void (log += text));
  const lines = createInterface({ input: child.stdout });
  for await (const line of lines) return line;
  throw new Error(`gpuprism view ended: ${log}`);
}

/** The page at this address; `requests` has the requests of page and workers for files. */
async function visit(t, address) {
  const context = await browser.newContext({ acceptDownloads: true, viewport: { width: 1280, height: 900 } });
  t.after(() => context.close());
  const page = await context.newPage();
  const faults = [];
  const asked = [];
  page.on('pageerror', (error) => faults.push(String(error)));
  context.on('request', (request) => asked.push(request));
  await page.goto(address);
  await page.locator('html[data-simd]').waitFor({ state: 'attached' });
  return { page, faults, asked };
}

async function folder(t) {
  const path = await mkdtemp(join(tmpdir(), 'gpuprism-view-'));
  t.after(() => rm(path, { recursive: true }));
  return path;
}

/** Writes a trace; returns its path. */
async function written(folder, { name, body }) {
  const path = join(folder, name);
  await writeFile(path, body);
  return path;
}

test('named files are opened and give the report of the command line', async (t) => {
  const trace = h.kineto('a run.json', h.SERVER_OPS);
  const address = await view(t, await written(await folder(t), trace));
  const { page, faults, asked } = await visit(t, address);
  await h.settled(page);
  assert.deepEqual(await page.locator('#chips .chip-name').allTextContents(), ['a run.json']);
  const { body } = await h.exported(page, 'json');
  assert.deepEqual(JSON.parse(body), JSON.parse(await h.jsonReport(trace)));
  assert.deepEqual(faults, []);
  const { origin } = new URL(address);
  assert.ok(asked.every((request) => request.url().startsWith('blob:') || request.url().startsWith(origin)), 'no other host');
  assert.equal(await page.locator('#served').count(), 0, 'no list for named files');
});

test('the policy of the page stays as it is', async (t) => {
  const { page } = await visit(t, await view(t));
  const policy = (html) => html.match(/Content-Security-Policy" content="([^"]*)"/)[1];
  const source = policy(await readFile(join(h.root, 'www/index.html'), 'utf8'));
  const served = await page.evaluate(async () => {
    const response = await fetch('./');
    return { html: await response.text(), header: response.headers.get('content-security-policy') };
  });
  assert.equal(policy(served.html), source);
  assert.equal(served.header, null);
});

test('a large file is read in ranges', async (t) => {
  const ops = Array.from({ length: 60_000 }, (_, at) => [`kernel_${at % 7}`, at * 2_000, 1_000]);
  const trace = h.kineto('large.json', ops);
  assert.ok(trace.body.length > 8 << 20);
  const path = await written(await folder(t), trace);
  const { page, faults, asked } = await visit(t, await view(t, path));
  await h.settled(page);
  const ranges = asked.filter((request) => request.url().includes('/api/file/')).map((request) => request.headers().range);
  assert.ok(ranges.length >= 3, `${ranges.length} requests`);
  assert.ok(ranges.every((range) => /^bytes=\d+-\d+$/.test(range ?? '')), ranges.join(' '));
  assert.deepEqual(faults, []);
});

test('a database is read by offset and gives the report of the command line', { skip: h.noTraces }, async (t) => {
  const name = 'h100_nvfuser_s3.16.sqlite';
  const source = join(h.nsysExports, name);
  const { page, faults } = await visit(t, await view(t, source));
  await h.settled(page);
  const { body } = await h.exported(page, 'json');
  assert.deepEqual(JSON.parse(body), JSON.parse(await h.jsonReport({ name, body: await readFile(source) })));
  assert.deepEqual(faults, []);
});

test('the traces of a folder are listed, new ones appear, and a click opens one', async (t) => {
  const traces = await folder(t);
  await written(traces, h.kineto('a.json', h.SERVER_OPS));
  await written(traces, { name: 'notes.txt', body: 'x' });
  const { page, faults } = await visit(t, await view(t, traces));
  const names = page.locator('#served .name');
  await names.first().waitFor();
  assert.deepEqual(await names.allTextContents(), ['a.json']);
  assert.ok(await page.locator('#empty').isVisible(), 'nothing is opened unasked');
  await written(traces, h.kineto('b.json', h.SERVER_OPS));
  await names.nth(1).waitFor({ timeout: 10_000 });
  assert.deepEqual(await names.allTextContents(), ['a.json', 'b.json']);
  assert.match(await page.locator('#served summary').innerText(), /\(2\)$/);
  await names.nth(1).click();
  await h.settled(page);
  assert.deepEqual(await page.locator('#chips .chip-name').allTextContents(), ['b.json']);
  assert.equal(await page.locator('#served').getAttribute('open'), null, 'the menu has closed');
  assert.deepEqual(faults, []);
});

test('a file that is deleted after it was listed is a problem of that file alone', async (t) => {
  const traces = await folder(t);
  const path = await written(traces, h.kineto('a.json', h.SERVER_OPS));
  await copyFile(path, join(traces, 'b.json'));
  const { page } = await visit(t, await view(t, traces));
  const names = page.locator('#served .name');
  await names.nth(1).waitFor();
  await rm(path);
  await names.nth(0).click();
  await page.locator('.card.error').waitFor();
  assert.match(await page.locator('.card.error').innerText(), /deleted or changed/);
});

test('a page on a static host asks for no list of files', async (t) => {
  const server = await h.servePage();
  t.after(() => server.close());
  const { close } = await h.openPage(browser, server.origin);
  await close();
  assert.deepEqual(server.requests.filter((path) => path.includes('api') || path.includes('served')), []);
});
