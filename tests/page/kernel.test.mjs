// A pressed kernel name opens the kernel in detail with the trace's numbers. It is part of the address, Back and Escape close it, the
// window restricts it, a saved report explains why it has no detail, and its script is loaded on demand.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as h from './harness.mjs';

const { browser, server } = await h.lend();

/** Ten launches of `mine`, 1 to 10 us long, one per millisecond, each 5 us after a launch of `other`. */
function trace(name) {
  const event = (cat, of, ts, dur, more) => ({ ph: 'X', cat, name: of, pid: 9, tid: 9, ts, dur, args: {}, ...more });
  const traceEvents = [event('user_annotation', 'the range', 0, 20_000)];
  const launch = (of, ts, dur, correlation) => traceEvents.push(
    event('cuda_runtime', 'cudaLaunchKernel', ts, 1, { args: { correlation } }),
    event('kernel', of, ts + 100, dur, { pid: 0, tid: 7, args: { device: 0, stream: 7, correlation } }));
  for (let at = 0; at < 10; at += 1) {
    launch('other', at * 1000, 10, at * 2 + 1);
    launch('mine', at * 1000 + 15, at + 1, at * 2 + 2);
  }
  return { name, body: Buffer.from(JSON.stringify({ schemaVersion: 1, traceEvents })) };
}

const opener = (page) => page.locator('.block[data-table=kernels] td.kernel[title=mine] button');

const figures = (page) => page.locator('#kernel .block[data-table=kernel_lanes] .figures').evaluate(
  (list) => Object.fromEntries([...list.children].map((one) => [one.querySelector('dt').textContent, one.querySelector('dd').textContent])));

const cells = (page, table) => page.locator(`#kernel .block[data-table=${table}] tbody`).evaluate(
  (body) => [...body.rows].map((row) => [...row.cells].map((cell) => cell.textContent)));

const launches = (page, count) => page.waitForFunction(
  (count) => document.querySelector('#kernel .figures dd')?.textContent === count, count);

test('a pressed name opens the kernel with its numbers; Escape and Back close it', async () => {
  const { page, faults, close } = await h.openPage(browser, server.origin);
  await h.drop(page, trace('a.json'));
  await h.settled(page);
  assert.ok(!server.requests.includes('/kernel.js'), 'nothing of it is fetched before');
  await opener(page).click();
  await launches(page, '10');
  const shown = await figures(page);
  // 1 to 10 us: the sum is 55, the median between 5 and 6, and the device is busy for 155 us.
  assert.deepEqual([shown.Total, shown.Mean, shown.Min, shown.p50, shown.p90, shown.p99, shown.Max], ['55.0 us', '5.50 us', '1.00 us', '5.50 us', '9.10 us', '9.91 us', '10.0 us']);
  assert.equal(shown['Of busy time'], '35.5 %');
  assert.match(shown.Rules, /^gpuprism\/default, built in$/);
  assert.deepEqual((await cells(page, 'kernel_callers')).map((row) => row.slice(0, 3)), [['cudaLaunchKernel', 'the range', '10']]);
  const neighbours = (await cells(page, 'kernel_neighbours')).map((row) => row.slice(0, 3));
  assert.deepEqual(neighbours, [['before', 'other', '10'], ['after', 'other', '9'], ['after', '', '1']]);
  const [durations, time] = await page.locator('#kernel svg.chart').evaluateAll((charts) => charts.map((chart) => chart.getAttribute('aria-label')));
  assert.match(durations, /^Durations of 10 launches: p50 5\.50 us, p90 9\.10 us, p99 9\.91 us\.$/);
  assert.match(time, /^10 launches over 9\.\d+ ms: at most 1 in .* the longest 10\.0 us\.$/);
  assert.match(page.url(), /kernel=mine/);
  assert.equal(await page.evaluate(() => document.activeElement.id), 'kernel-title');
  await page.keyboard.press('Escape');
  await page.locator('#kernel').waitFor({ state: 'hidden' });
  assert.doesNotMatch(page.url(), /kernel=/);
  assert.equal(await page.evaluate(() => document.activeElement.textContent), 'mine', 'the focus is where it was');
  await page.goBack();
  await launches(page, '10');
  await page.locator('#kernel td.kernel[title=other] button').first().click();
  await page.locator('#kernel-title', { hasText: /^other$/ }).waitFor();
  await page.goBack();
  await page.locator('#kernel-title', { hasText: /^mine$/ }).waitFor();
  assert.deepEqual(faults, []);
  await close();
});

test('the charts of a kernel with a hidden category are faint', async () => {
  const { page, faults, close } = await h.openPage(browser, server.origin);
  await h.drop(page, trace('a.json'));
  await h.settled(page);
  await opener(page).click();
  await launches(page, '10');
  const opacities = () => page.locator('#kernel svg.chart').evaluateAll((charts) => charts.map((chart) => getComputedStyle(chart.querySelector('.seg')).fillOpacity));
  assert.deepEqual(await opacities(), ['1', '1']);
  const category = page.locator('#legend button', { hasText: 'misc' });
  await category.click();
  await page.locator('#kernel svg.chart.faint').first().waitFor();
  assert.deepEqual(await opacities(), ['0.2', '0.2']);
  await category.click();
  await page.locator('#kernel svg.chart.faint').first().waitFor({ state: 'detached' });
  assert.deepEqual(await opacities(), ['1', '1']);
  assert.deepEqual(faults, []);
  await close();
});

test('the kernel is restricted to the picked window', async () => {
  const { page, faults, close } = await h.openPage(browser, server.origin, '#kernel=mine');
  await h.drop(page, trace('a.json'));
  await launches(page, '10');
  // From the first op: the launches of 1, 2 and 3 us.
  await page.locator('#strips input[type=text]').fill('0-0.0025');
  await page.keyboard.press('Enter');
  await launches(page, '3');
  assert.equal((await figures(page)).Max, '3.00 us');
  assert.deepEqual(faults, []);
  await close();
});

test('a rule for the kernel is made from a list of categories, with a preview, and can be undone', async () => {
  const { page, faults, close } = await h.openPage(browser, server.origin);
  await h.drop(page, trace('a.json'));
  await h.settled(page);
  await opener(page).click();
  await launches(page, '10');
  const rule = page.locator('#kernel .kernel-rule');
  const add = rule.getByRole('button', { name: 'Add the rule' });
  const category = () => figures(page).then((shown) => shown.Category);
  await page.waitForFunction(() => document.querySelector('.kernel-rule [name=regex]').value === 'mine');
  assert.equal(await rule.locator('select').inputValue(), 'misc', 'the category so far');
  assert.ok(await add.isHidden(), 'the rule is folded');
  await rule.getByText('Rule', { exact: true }).click();
  assert.ok(await add.isDisabled(), 'nothing is to be added yet');
  await rule.getByText('Rule', { exact: true }).click();
  assert.ok(await add.isHidden());
  assert.ok(await rule.locator('option').count() > 10);
  await rule.locator('select').selectOption('attention');
  // All launches of `mine`: 55 of 155 us.
  const preview = rule.locator('.block[data-table=rule_draft]');
  await preview.waitFor();
  assert.deepEqual(await preview.locator('.figures dd').allTextContents(), ['1', '10', '55.0 us', '35.5 %']);
  assert.deepEqual(await preview.locator('tbody td').allTextContents().then((cells) => cells.slice(0, 3)), ['mine', 'misc', '10']);
  await add.click();
  await page.waitForFunction(() => document.querySelector('#kernel .figures').textContent.includes('attention'));
  assert.match((await figures(page)).Rules, /own rules\.json/);
  assert.match(await rule.locator('#kernel-rule-status').textContent(), /stored in this browser/);
  assert.equal(await page.evaluate(() => Object.keys(JSON.parse(localStorage.getItem('gpuprism:own-rules')).gpuprism.default).length), 1);

  // Another category replaces it; a wrong or empty rule cannot be added.
  await rule.locator('select').selectOption('\n');
  assert.ok(await add.isDisabled());
  await rule.getByLabel('Name of the category').fill('my kernels');
  await preview.waitFor();
  await rule.locator('[name=regex]').fill('mi(');
  await rule.locator('.wrong').waitFor();
  assert.match(await rule.locator('.wrong').textContent(), /mi\(: unusable regex/);
  assert.ok(await add.isDisabled());
  await rule.locator('[name=regex]').fill('mine|other');
  await page.waitForFunction(() => document.querySelector('.kernel-rule .figures dd')?.textContent === '2');
  await add.click();
  await page.waitForFunction(() => document.querySelector('#kernel .figures').textContent.includes('my kernels'));
  await rule.getByRole('button', { name: 'Undo' }).click();
  await page.waitForFunction(() => document.querySelector('#kernel .figures').textContent.includes('attention'));
  assert.equal(await category(), 'attention');

  await rule.getByRole('button', { name: 'As JSON' }).click();
  await page.locator('#own-rules').waitFor();
  assert.match(await page.locator('#own-rules').inputValue(), /"mine": "attention"/);
  assert.deepEqual(faults, []);
  await close();
});

test('a saved report explains why it has no detail', async () => {
  const { page, faults, close } = await h.openPage(browser, server.origin);
  await h.drop(page, { name: 'report.json', body: await h.jsonReport(trace('a.json')) });
  await h.settled(page);
  await opener(page).click();
  await page.locator('#kernel .gap').waitFor();
  assert.match(await page.locator('#kernel .gap').textContent(), /saved report, which contains no individual launches/);
  assert.deepEqual(faults, []);
  await close();
});

/** Twenty launches of `mine`: 10 us after `first`, 80 us after `second`. */
function twoLengths() {
  const kernel = (name, ts, dur) => ({ ph: 'X', cat: 'kernel', name, pid: 0, tid: 7, ts, dur, args: { device: 0, stream: 7 } });
  const traceEvents = Array.from({ length: 20 }, (_, at) => [
    kernel(at % 2 ? 'second' : 'first', at * 1000, 5), kernel('mine', at * 1000 + 10, at % 2 ? 80 + (at % 3) : 10 + (at % 3)),
  ]).flat();
  return { name: 'lengths.json', body: Buffer.from(JSON.stringify({ schemaVersion: 1, traceEvents })) };
}

test('a kernel with two lengths has a row for its short and its long launches, with what tells them apart', async () => {
  const { page, faults, close } = await h.openPage(browser, server.origin);
  await h.drop(page, twoLengths());
  await h.settled(page);
  await opener(page).click();
  await launches(page, '20');
  const rows = (await cells(page, 'kernel_peaks')).map((row) => [row[0], row[1], row.at(-1)]);
  assert.deepEqual(rows, [['short', '10', 'after first'], ['long', '10', 'after second']]);
  assert.deepEqual(faults, []);
  await close();
});
