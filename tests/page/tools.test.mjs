// The module for everything after the first results is fetched once, when it is first needed, and works on the current reports. If
// it cannot be loaded, the page shows a problem and tries again at the next request.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as h from './harness.mjs';

const { browser, server } = await h.lend();

const asked = () => server.requests.filter((path) => /tools|full/.test(path)).sort();
const labels = async (page) => JSON.parse((await h.exported(page, 'json')).body).runs.map(({ label }) => label);

test('the first export fetches the module once; results, sorting, filtering and tabs do not', async () => {
  const { page, faults, close } = await h.openPage(browser, server.origin);
  server.requests.length = 0;
  await h.drop(page, h.kineto('a.json', h.SERVER_OPS));
  await h.settled(page);
  await page.locator('.block:first-child thead button').nth(1).click();
  await page.locator('#filter').fill('nccl');
  await page.locator('#filter').fill('');
  await page.locator('#tab-findings').click();
  await page.locator('#tab-kernels').click();
  await page.waitForTimeout(300);
  assert.deepEqual(asked(), []);
  assert.deepEqual(await labels(page), ['a.json']);
  await h.exported(page, 'csv');
  await h.exported(page, 'html');
  assert.deepEqual(asked(), ['/pkg/gpuprism_full.js', '/pkg/gpuprism_full_bg.wasm', '/tools-worker.js', '/tools.js']);
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

test('a module that cannot be loaded gives a card; results stay, and the next export tries again', async () => {
  const { page, close } = await h.openPage(browser, server.origin);
  await page.route('**/gpuprism_full_bg.wasm', (route) => route.fulfill({ status: 503 }));
  await h.drop(page, h.kineto('a.json', h.SERVER_OPS));
  await h.settled(page);
  await page.locator('#export summary').click();
  await page.locator('#export [data-format=json]').click();
  const card = page.locator('.card.error');
  await card.waitFor();
  assert.match(await card.textContent(), /The export failed.*503/);
  assert.ok(await page.locator('.block:first-child table').isVisible());
  await page.unroute('**/gpuprism_full_bg.wasm');
  assert.deepEqual(await labels(page), ['a.json']);
  await close();
});
