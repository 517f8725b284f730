// `gpuprism view --server URL`: from the server to the verdict on the page, and everything that can go wrong on the way.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import * as h from './harness.mjs';

const browser = await h.lendBrowser();

const TIMEOUT = { timeout: 60_000 };

/** Starts a program: its first line, and the lines after it. */
async function started(t, program, args) {
  const child = spawn(program, args, { stdio: ['pipe', 'pipe', 'inherit'] });
  t.after(() => child.kill());
  const lines = [];
  const first = await new Promise((done, fail) => {
    createInterface({ input: child.stdout }).on('line', (line) => {
      lines.push(line);
      done(line);
    });
    child.on('exit', () => fail(new Error(`${program} ended`)));
  });
  return { first, lines };
}

/** An imitated server and the page that captures from it. */
async function capturing(t, behaviour = [], flags = []) {
  const out = await mkdtemp(join(tmpdir(), 'gpuprism-captures-'));
  t.after(() => rm(out, { recursive: true }));
  const program = h.programPath();
  const server = await started(t, resolve(dirname(program), 'examples/fake_server'), behaviour);
  const view = await started(t, program, ['view', '--no-open', '--page', h.dist, '--server', server.first, '--out', out, ...flags]);
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
  t.after(() => context.close());
  const page = await context.newPage();
  const faults = [];
  page.on('pageerror', (error) => faults.push(String(error)));
  await page.goto(view.first);
  const panel = page.locator('#capture');
  await panel.waitFor();
  return { page, panel, faults, server, address: view.first };
}

const start = async (panel, load) => {
  await panel.locator('select').selectOption(load);
  await panel.getByRole('button', { name: 'Start capture' }).click();
};
const titled = (panel, words) => panel.locator('summary', { hasText: words }).waitFor(TIMEOUT);
const chips = (page) => page.locator('#chips .chip-name').allTextContents();

test('a capture shows its progress and then the verdict, and a second one is compared with it', async (t) => {
  const { page, panel, faults } = await capturing(t);
  await panel.locator('.checks .notice', { hasText: 'SGLang 0.5.23' }).waitFor(TIMEOUT);
  assert.ok(await panel.locator('.checks .severity.warning').count() > 0, 'warnings have remedies');
  await start(panel, 'decode');
  await titled(panel, 'Capturing capture-1');
  await panel.locator('.progress li', { hasText: 'without the profiler' }).waitFor(TIMEOUT);
  assert.ok(await panel.getByRole('button', { name: 'Start capture' }).isHidden(), 'one capture at a time');
  await titled(panel, 'Captured capture-1: 1 trace');
  await h.settled(page);
  assert.ok((await chips(page)).some((name) => name.startsWith('capture-1/decode/')), String(await chips(page)));
  assert.ok((await page.locator('#results').innerText()).length > 0, 'the verdict is on the page');
  assert.equal(await panel.locator('details').getAttribute('open'), null, 'the panel makes room for the results');

  await panel.locator('summary').click();
  await start(panel, 'decode');
  await titled(panel, 'Captured capture-2: 1 trace');
  await h.settled(page);
  assert.ok((await chips(page)).every((name) => name.startsWith('capture-2/')), 'the new capture replaces the old one');
  await panel.getByRole('button', { name: 'Compare decode with capture-1' }).click();
  await page.locator('#comparison:not([hidden])').waitFor(TIMEOUT);
  const traces = (await chips(page)).filter((name) => name.includes('/decode/'));
  assert.deepEqual(traces.map((name) => name.split('/')[0]), ['capture-1', 'capture-2'], 'the earlier one is the baseline');
  assert.deepEqual(faults, []);
});

test('a cancelled capture stops the profiler of the server', async (t) => {
  const { panel, server, faults } = await capturing(t, ['hangs']);
  await start(panel, 'prefill');
  await panel.locator('.progress li', { hasText: 'starting' }).waitFor(TIMEOUT);
  await panel.getByRole('button', { name: 'Cancel' }).click();
  await titled(panel, 'The capture was cancelled');
  await panel.getByRole('button', { name: 'Start capture' }).waitFor();
  const deadline = Date.now() + 5_000;
  while (!server.lines.includes('/stop_profile') && Date.now() < deadline) await new Promise((done) => void setTimeout(done, 50));
  assert.equal(server.lines.filter((path) => path === '/stop_profile').length, 1);
  assert.deepEqual(faults, []);
});

test('a server without a profiler gives a problem with its remedy, before and after the start', async (t) => {
  const { panel } = await capturing(t, ['no-profiler']);
  await panel.locator('.checks .severity.error').waitFor(TIMEOUT);
  assert.ok((await panel.locator('.checks li:has(.severity.error) .remedy').innerText()).length > 0);
  await start(panel, 'both');
  await titled(panel, 'The capture failed');
  assert.match(await panel.locator('.message').innerText(), /profil/);
});

// The program waits a minute or more for traces before it says so, therefore its answers are imitated here. server/tests/capture.rs has
// the program's part.
test('traces that this machine does not see are copied by hand, and then the capture goes on', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'gpuprism-elsewhere-'));
  t.after(() => rm(folder, { recursive: true }));
  await writeFile(join(folder, 'a.json'), h.kineto('a.json', h.SERVER_OPS).body);
  const { page, panel, faults, address } = await capturing(t, [], [folder]);
  const { files } = await page.evaluate(async () => (await fetch('api/files')).json());
  const status = { server: 'http://gpu1:30000', folder, steps: 5, max_steps: 9, progress: [], complete: null, files: [], comparisons: [] };
  const why = 'it writes to /tmp/t on its own machine, which is not visible here: copy them';
  const awaiting = { ...status, state: 'awaiting_files', title: 'The traces of capture-1 are not visible on this machine', problem: why, commands: ["scp -p 'gpu1:/tmp/t/*' out/   # a server on another machine"] };
  const complete = { ...status, state: 'complete', title: 'Captured capture-1: 1 trace', problem: null, commands: [], complete: 'capture-1', files };
  await page.route('**/api/capture', (route) => route.fulfill({ json: awaiting }));
  await page.route('**/api/capture/resume', (route) => route.fulfill({ json: complete }));
  await page.goto(address);
  await titled(panel, 'not visible on this machine');
  assert.equal(await panel.locator('.message').innerText(), why);
  assert.match(await panel.locator('.command code').innerText(), /^scp -p /);
  assert.ok(await panel.locator('.command').getByRole('button', { name: 'Copy' }).isVisible());
  const goOn = panel.getByRole('button', { name: 'The files are there: go on' });
  await goOn.click();
  await titled(panel, 'Captured capture-1: 1 trace');
  await h.settled(page);
  assert.deepEqual(await chips(page), ['a.json']);
  assert.ok(await goOn.isHidden());
  assert.deepEqual(faults, []);
});

test('a reload shows the state of a capture that runs, and offers the files of the last', async (t) => {
  const { page, panel, address } = await capturing(t);
  await start(panel, 'decode');
  await titled(panel, 'Capturing');
  await page.goto(address);
  await titled(panel, 'Capturing');
  await titled(panel, 'Captured capture-1');
  await h.settled(page);
  await page.goto(address);
  await panel.getByRole('button', { name: 'Open capture-1' }).click();
  await h.settled(page);
});

test('without --server there is no panel, and its scripts are not loaded', async (t) => {
  const view = await started(t, h.programPath(), ['view', '--no-open', '--page', h.dist]);
  const page = await browser.newPage();
  t.after(() => page.close());
  const asked = [];
  page.on('request', (request) => asked.push(request.url()));
  await page.goto(view.first);
  await page.locator('html[data-simd]').waitFor({ state: 'attached' });
  assert.ok(asked.some((url) => url.endsWith('/served.js')));
  assert.deepEqual(asked.filter((url) => url.includes('capture')), []);
});
