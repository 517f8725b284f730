// The module for everything after the first results is fetched once, after the first results of the first trace, and works on the current
// reports. If it cannot be loaded, the page shows a problem and tries again at the next request.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as h from './harness.mjs';

const { browser, server } = await h.lend();

const asked = () => server.requests.filter((path) => /tools|full/.test(path)).sort();
const labels = async (page) => JSON.parse((await h.exported(page, 'json')).body).runs.map(({ label }) => label);

test('the module is fetched once, after the first results of the first trace; files without a trace do without it', async () => {
  const { page, faults, close } = await h.openPage(browser, server.origin);
  server.requests.length = 0;
  // Not dropped: a drag over the page loads the module for the trace that may come.
  await page.setInputFiles('#files', { name: 'report.json', mimeType: 'application/json', buffer: Buffer.from(await h.jsonReport(h.kineto('b.json', h.SERVER_OPS))) });
  await h.settled(page);
  await h.quiet(page);
  assert.deepEqual(asked(), []);
  await page.locator('#chips button[aria-label="Close report.json"]').click();
  let release;
  const held = new Promise((done) => void (release = done));
  await page.route('**/gpuprism_full_bg.wasm', async (route) => {
    await held;
    await route.continue();
  });
  await h.drop(page, h.kineto('a.json', h.SERVER_OPS));
  await page.locator('#todo', { hasText: 'Being computed' }).waitFor();
  assert.ok(await page.locator('.block:first-child table').isVisible(), 'the first results do not wait for it');
  assert.equal(await page.locator('#results').getAttribute('aria-busy'), 'true');
  release();
  await h.settled(page);
  await page.locator('#more-findings').waitFor({ state: 'attached' });
  assert.deepEqual(await labels(page), ['a.json']);
  await h.exported(page, 'csv');
  await h.exported(page, 'html');
  assert.deepEqual([...new Set(asked())], ['/pkg/gpuprism_full.js', '/pkg/gpuprism_full_bg.wasm', '/tools-worker.js', '/tools.js']);
  assert.equal(asked().filter((path) => path.endsWith('.wasm')).length, 1);
  assert.equal(page.workers().length, 3, 'the reader without sections has ended');
  assert.deepEqual(faults, []);
  await close();
});

test('an export has the files and settings of its moment', async () => {
  const { page, faults, close } = await h.openPage(browser, server.origin);
  await h.drop(page, h.kineto('a.json', h.SERVER_OPS));
  await h.settled(page);
  assert.deepEqual(await labels(page), ['a.json']);
  await h.drop(page, h.kineto('b.json', h.SERVER_OPS.slice(2)));
  await page.locator('#chips .chip', { hasText: 'b.json' }).waitFor();
  await h.settled(page);
  assert.deepEqual(await labels(page), ['a.json', 'b.json']);
  await page.locator('#chips button[aria-label="Close a.json"]').click();
  await h.settled(page);
  assert.deepEqual(await labels(page), ['b.json']);
  assert.deepEqual(faults, []);
  await close();
});

test('a module that cannot be loaded gives a card; first results stay, nothing partial is saved, and Try again completes them', async () => {
  const { page, close } = await h.openPage(browser, server.origin);
  await page.route('**/gpuprism_full_bg.wasm', (route) => route.fulfill({ status: 503 }));
  await h.drop(page, h.kineto('a.json', h.SERVER_OPS));
  await h.settled(page);
  const card = page.locator('.card.error');
  await card.first().waitFor();
  assert.match(await card.first().textContent(), /a\.json.*could not be loaded.*503/);
  assert.ok(await page.locator('.block:first-child table').isVisible());
  await page.locator('#export summary').click();
  await page.locator('#export [data-format=json]').click();
  await page.locator('.card.error', { hasText: 'the sections of a.json are missing' }).waitFor();
  await page.unroute('**/gpuprism_full_bg.wasm');
  await page.locator('.card.error button', { hasText: 'Try again' }).click();
  await page.locator('#more-findings').waitFor({ state: 'attached' });
  await h.settled(page);
  assert.deepEqual(await labels(page), ['a.json']);
  await close();
});
