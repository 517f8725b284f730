// The pivot has the command line's numbers, totals and CSV. Its layout is part of the address, its script is loaded with its tab, and
// a saved report shows what it lacks.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as h from './harness.mjs';

const { browser, server } = await h.lend();

/** A prefill and a decode on two streams, each with the calls that launch its kernels, and a copy outside all steps. */
function serving(name) {
  const event = (cat, of, ts, dur, more) => ({ ph: 'X', cat, name: of, pid: 9, tid: 9, ts, dur, args: {}, ...more });
  const traceEvents = [event('user_annotation', 'step[EXTEND bs=1 toks=9]', 0, 99), event('user_annotation', 'step[DECODE bs=1]', 100, 99)];
  h.SERVER_OPS.forEach(([of, , duration, stream = 7], at) => {
    const ts = at * 30 + (at > 5 ? 200 : 0);
    traceEvents.push(event('cuda_runtime', 'cudaLaunchKernel', ts, 1, { args: { correlation: at + 1 } }));
    traceEvents.push(event('kernel', of, ts + 2, duration / 100, { pid: 0, tid: stream, args: { device: 0, stream, correlation: at + 1 } }));
  });
  return { name, body: Buffer.from(JSON.stringify({ schemaVersion: 1, traceEvents })) };
}

const block = '.block[data-table=pivot]';

/** The rows of the table as texts, headings first and sums last. */
const cells = (page) => page.locator(`${block} table`).evaluate((table) => [...table.rows].map((row) => [...row.cells].map((cell) => cell.textContent.replace(/[↑↓]$/, ''))));
/** The exact values of the cells, from their titles. */
const exact = (page) => page.locator(`${block} tbody`).evaluate((body) => [...body.rows].map((row) => [...row.cells].map((cell) => cell.title.replace(/ ns$/, '') || cell.textContent)));

async function choose(page, choice) {
  for (const [name, value] of Object.entries(choice)) await page.locator(`#pivot select[name=${name}]`).selectOption(value);
}

async function titled(page, title) {
  await page.locator(`${block} h2`, { hasText: new RegExp(`^${title}$`) }).waitFor();
}

test('the script is loaded with the tab, which starts with the report\'s own pivot', async () => {
  const { page, faults, close } = await h.openPage(browser, server.origin);
  server.requests.length = 0;
  await h.drop(page, serving('a.json'));
  await h.settled(page);
  assert.deepEqual(server.requests.filter((path) => /pivot/.test(path)), []);
  await h.openTab(page, 'kernels');
  await page.locator('#pivot').waitFor();
  await titled(page, 'Pivot');
  assert.deepEqual(server.requests.filter((path) => /pivot/.test(path)), ['/pivot.js']);
  assert.match(await page.locator(`${block} table`).textContent(), /GPU idle/);
  await h.openTab(page, 'timeline');
  await page.locator('#pivot').waitFor({ state: 'hidden' });
  assert.deepEqual(faults, []);
  await close();
});

test('a pivot on the page and its CSV are equal to the command line\'s', async () => {
  const { page, faults, close } = await h.openPage(browser, server.origin, '#tab=pivot');
  const files = [serving('a.json'), h.kineto('b.json', h.SERVER_OPS)];
  await h.drop(page, ...files);
  await page.locator('#pivot').waitFor();
  await h.settled(page);
  for (const [title, flags] of [
    ['Elapsed time by category and stage', { rows: 'category', columns: 'stage' }],
    ['Count by stream and step', { rows: 'stream', columns: 'step', values: 'count' }],
    ['Duration by kernel and run', { rows: 'kernel', columns: 'run', values: 'duration' }],
    ['Duration by kernel and process', { rows: 'kernel', columns: 'process', values: 'duration', percent: 'column' }],
  ]) {
    const { rows, columns, values = 'elapsed', percent = '' } = flags;
    await choose(page, { percent: '', columns: 'none', rows, values });
    await choose(page, { columns, percent });
    await titled(page, title);
    const args = ['pivot', ...files.map(({ name }) => name), '--format', 'csv', '--rows', rows, '--columns', columns, '--values', values];
    const { status, stdout } = await h.commandLine(percent ? [...args, '--percent', percent] : args, files);
    assert.equal(status, 0);
    const { body } = await h.download(page, page.locator(`${block} [data-format=csv]`));
    assert.equal(body.toString(), stdout.toString(), title);
    assert.equal((await cells(page)).length, body.toString().trim().split('\n').length, 'a row a line, with headings and sums');
  }
  assert.deepEqual(faults, []);
  await close();
});

test('cells are those of the steps, sums are at both ends, and rows sort and filter', async () => {
  const { page, faults, close } = await h.openPage(browser, server.origin, '#tab=pivot');
  await h.drop(page, serving('a.json'));
  await page.locator('#pivot').waitFor();
  await choose(page, { rows: 'stage', columns: 'stream', values: 'count' });
  await titled(page, 'Count by stage and stream');
  assert.deepEqual(await cells(page), [
    ['Stage', 'stream 7', 'stream 20', 'All'], ['extend/prefill', '3', '1', '4'], ['decode', '2', '', '2'], ['(outside steps)', '1', '', '1'], ['total', '6', '1', '7'],
  ]);
  await page.locator(`${block} thead button`).nth(1).click();
  await page.waitForFunction((of) => document.querySelector(`${of} tbody td`).textContent === 'extend/prefill', block);
  await page.locator(`${block} thead button`).nth(1).click();
  await page.waitForFunction((of) => document.querySelector(`${of} tbody td`).textContent === '(outside steps)', block);
  await page.locator('#filter').fill('decode');
  await page.waitForFunction((of) => document.querySelectorAll(`${of} tbody tr`).length === 1, block);
  assert.deepEqual(await exact(page), [['decode', '2', '', '2']]);
  assert.equal(await page.locator(`${block} tfoot`).count(), 0, 'sums of all rows do not stand under some');
  assert.deepEqual(faults, []);
  await close();
});

test('the layout is part of the address; Back undoes a choice, and a pasted address restores it', async () => {
  const { page, faults, close } = await h.openPage(browser, server.origin, '#tab=pivot');
  await h.drop(page, serving('a.json'));
  await page.locator('#pivot').waitFor();
  await choose(page, { columns: 'stage' });
  await titled(page, 'Elapsed time by category and stage');
  await choose(page, { percent: 'row', top: '10' });
  await page.waitForFunction((of) => document.querySelector(`${of} thead`).textContent.includes('%'), block);
  const address = page.url();
  await page.reload();
  await page.locator('html[data-simd]').waitFor({ state: 'attached' });
  await h.drop(page, serving('a.json'));
  await titled(page, 'Elapsed time by category and stage');
  assert.equal(page.url(), address);
  assert.equal(await page.locator('#pivot select[name=percent]').inputValue(), 'row');
  await page.goBack();
  await page.goBack();
  await page.waitForFunction((of) => !document.querySelector(`${of} thead`).textContent.includes('%'), block);
  assert.equal(await page.locator('#pivot select[name=percent]').inputValue(), '');
  assert.deepEqual(faults, []);
  await close();
});

test('settings apply to the pivot, and a triaged trace keeps its pivot', async () => {
  const { page, faults, close } = await h.openPage(browser, server.origin, '#tab=pivot');
  await h.drop(page, h.kineto('a.json', h.SERVER_OPS));
  await page.locator('#pivot').waitFor();
  await choose(page, { rows: 'device', columns: 'none' });
  await titled(page, 'Elapsed time by device');
  assert.deepEqual(await exact(page), [['GPU 0', '23,024']]);
  await h.openSettings(page);
  await page.locator('#settings select[name=attribution]').selectOption('exclusive');
  await page.waitForFunction((of) => document.querySelector(`${of} tbody td:last-child`).title !== '23,024 ns', block);
  // 1,000-10,500 and 8,000-14,250 share 2,500 ns.
  assert.deepEqual(await exact(page), [['GPU 0', '20,524']]);
  await h.openTab(page, 'triage');
  await page.locator('.block[data-table^=triage_]').first().waitFor();
  await h.openTab(page, 'kernels');
  await titled(page, 'Elapsed time by device');
  await choose(page, { rows: 'stream' });
  await titled(page, 'Elapsed time by stream');
  assert.equal(await page.locator('.card').count(), 0);
  assert.deepEqual(faults, []);
  await close();
});

test('the pivot of a saved report shows what it lacks', async () => {
  const { page, faults, close } = await h.openPage(browser, server.origin, '#tab=pivot');
  await h.drop(page, { name: 'r.json', body: await h.jsonReport(serving('a.json')) });
  await page.locator('#pivot').waitFor();
  await choose(page, { columns: 'stage' });
  await titled(page, 'Elapsed time by category and stage');
  assert.match(await page.locator(`${block} .gap`).textContent(), /a\.json: A report contains only runs, categories and kernels\. Open the trace for/);
  assert.deepEqual((await cells(page))[0].length, 2);
  assert.deepEqual(faults, []);
  await close();
});
