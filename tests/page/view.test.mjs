// Rule files change categories; legend, sorting and filtering work; the address restores the view; the keyboard reaches everything.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as h from './harness.mjs';

const { browser, server } = await h.lend();

const trace = () => h.kineto('server.json', h.SERVER_OPS);
const rules = (name, book) => ({ name, body: Buffer.from(JSON.stringify(book)) });

async function opened(fragment = '') {
  const opening = await h.openPage(browser, server.origin, fragment);
  await h.drop(opening.page, trace());
  await h.settled(opening.page);
  return opening;
}

async function categoryOf(page, name) {
  const { rows, keys } = await h.readTable(page);
  return rows.find((row) => row.name.includes(name))?.cells[keys.indexOf('category')].text;
}

const waitForCategory = (page, name, category) => page.waitForFunction(([part, wanted]) => {
  const row = [...document.querySelectorAll('.block:first-child tbody tr')].find((tr) => tr.querySelector('td.kernel').title.includes(part));
  return row?.querySelector('td.category')?.textContent === wanted;
}, [name, category]);

test('a dropped rule file changes categories in all runs; closing it restores them', async () => {
  const { page, faults, close } = await opened();
  const usual = await categoryOf(page, 'nvjet');
  await h.drop(page, rules('mine.json', { gpuprism: { default: { nvjet: 'my_matrices' } } }));
  await waitForCategory(page, 'nvjet', 'my_matrices');
  assert.ok((await page.locator('#legend button').allTextContents()).includes('my_matrices'));
  assert.match(await page.locator('.chip.rules').innerText(), /mine\.json/);
  await page.locator('.chip.rules button').click();
  await waitForCategory(page, 'nvjet', usual);
  assert.deepEqual(faults, []);
  await close();
});

test('a rule file can come before the trace, and its engine and model can be chosen', async () => {
  const { page, faults, close } = await h.openPage(browser, server.origin);
  await h.drop(page, rules('lab.json', { lab: { tiny: { nvjet: 'lab_gemm', '.*': 'rest' } } }));
  await page.locator('.chip.rules').waitFor();
  await h.drop(page, trace());
  await h.settled(page);
  await h.openSettings(page);
  await page.locator('[name=rules]').selectOption('lab/tiny');
  await waitForCategory(page, 'nvjet', 'lab_gemm');
  assert.match(page.url(), /rules=lab%2Ftiny/);
  assert.deepEqual(faults, []);
  await close();
});

test('a bad rule file is refused with file, engine, model and rule, and changes nothing', async () => {
  const { page, faults, close } = await opened();
  const usual = await categoryOf(page, 'nvjet');
  await h.drop(page, rules('broken.json', { sglang: { llama: { '(never closed': 'x' } } }));
  const message = page.locator('.card.error .message');
  await message.waitFor();
  const text = await message.textContent();
  for (const part of ['broken.json', 'sglang', 'llama', '(never closed']) assert.ok(text.includes(part), `${part} in: ${text}`);
  assert.equal(await page.locator('.chip.rules').count(), 0);
  assert.equal(await categoryOf(page, 'nvjet'), usual);
  assert.deepEqual(faults, []);
  await close();
});

test('the legend hides a category in chart and table and shows it again', async () => {
  const { page, faults, close } = await opened();
  const category = await categoryOf(page, 'nccl');
  const marks = page.locator(`#chart rect[data-key="${category}"]`);
  const entry = page.locator('#legend button', { hasText: category });
  assert.equal(await marks.count() > 0, true);
  await entry.click();
  await page.waitForFunction((name) => !document.querySelector(`#chart [data-key="${name}"]`), category);
  await page.waitForFunction(() => ![...document.querySelectorAll('.block:first-child tbody tr')].some((tr) => tr.querySelector('td.kernel').title.includes('nccl')));
  assert.ok(await page.locator('#chart rect.seg.faint').count() > 0, 'it keeps its place in the bar');
  assert.equal(await entry.getAttribute('aria-pressed'), 'false');
  assert.match(page.url(), new RegExp(`hide=${category}`));
  await entry.click();
  await marks.first().waitFor();
  await waitForCategory(page, 'nccl', category);
  // A segment shows only its category; picked again, it shows all.
  await marks.first().click();
  await page.waitForFunction((name) => [...document.querySelectorAll('.block:first-child tbody td.category')].every((td) => td.textContent === name), category);
  await marks.first().click();
  await page.waitForFunction(() => !document.querySelector('#legend [aria-pressed=false]'));
  assert.deepEqual(faults, []);
  await close();
});

test('sorting and filtering change order, rows and the announced count', async () => {
  const { page, faults, close } = await opened();
  await page.locator('.block:first-child thead [data-key=duration_ns]').click();
  await page.waitForFunction(() => document.querySelector('th:has([data-key=duration_ns])').getAttribute('aria-sort') === 'descending');
  const durations = async () => {
    const { rows, keys } = await h.readTable(page);
    return rows.map(({ cells }) => Number(cells[keys.indexOf('duration_ns')].title.replace(/\D/g, '')));
  };
  const descending = await durations();
  assert.deepEqual(descending, [...descending].sort((a, b) => b - a));
  await page.locator('.block:first-child thead [data-key=duration_ns]').click();
  await page.waitForFunction(() => document.querySelector('th:has([data-key=duration_ns])').getAttribute('aria-sort') === 'ascending');
  assert.deepEqual(await durations(), [...descending].reverse());
  const all = await page.locator('.block:first-child .shown').innerText();
  await page.locator('#filter').fill('NCCL');
  await page.waitForFunction(() => document.querySelectorAll('.block:first-child tbody tr').length === 1);
  assert.match((await h.readTable(page)).rows[0].name, /nccl/);
  assert.notEqual(await page.locator('.block:first-child .shown').innerText(), all);
  await page.locator('#filter').fill('no such kernel');
  await page.waitForFunction(() => document.querySelectorAll('.block:first-child tbody tr').length === 0);
  assert.deepEqual(faults, []);
  await close();
});

test('the address restores tab, sort and filter for the same file; Back returns', async () => {
  const { page, faults, close } = await opened('#tab=kernels&sort=duration_ns&dir=asc&filter=rms');
  assert.equal(await page.locator('#filter').inputValue(), 'rms');
  assert.equal(await page.locator('.block:first-child th:has([data-key=duration_ns])').getAttribute('aria-sort'), 'ascending');
  assert.equal(await page.locator('.block:first-child tbody tr').count(), 1);
  await h.openTab(page, 'host');
  assert.match(page.url(), /#tab=host$/);
  await page.goBack();
  await page.waitForFunction(() => document.querySelector('#filter').value === 'rms' && document.querySelectorAll('.block:first-child tbody tr').length === 1);
  const address = page.url();
  await page.reload();
  await page.locator('html[data-simd]').waitFor({ state: 'attached' });
  await h.drop(page, trace());
  await h.settled(page);
  assert.equal(page.url(), address);
  assert.equal(await page.locator('#filter').inputValue(), 'rms');
  assert.deepEqual(faults, []);
  await close();
});

test('several runs have one bar and one line each, and the table can show one of them', async () => {
  const { page, faults, close } = await h.openPage(browser, server.origin);
  await h.drop(page, h.kineto('a.json', h.SERVER_OPS), h.kineto('b.json', [['only_in_b', 0, 5_000]]));
  await h.settled(page);
  await page.waitForFunction(() => document.querySelectorAll('#runs > li:not(.to-come)').length === 2);
  await page.locator('#run').selectOption({ label: 'b.json' });
  await page.waitForFunction(() => document.querySelectorAll('.block:first-child tbody tr').length === 1);
  assert.match((await h.readTable(page)).rows[0].name, /only_in_b/);
  assert.match(page.url(), /run=1/);
  assert.deepEqual(faults, []);
  await close();
});

test('settings are enabled for traces and disabled for saved reports', async () => {
  const { page, faults, close } = await h.openPage(browser, server.origin);
  await h.drop(page, { name: 'saved.json', body: await h.jsonReport(trace()) });
  await h.settled(page);
  const selects = page.locator('#settings select');
  const states = () => selects.evaluateAll((all) => all.map(({ disabled, title }) => [disabled, title.startsWith('Needs the trace itself')]));
  assert.deepEqual(await states(), Array(3).fill([true, true]));
  await h.drop(page, trace());
  await page.locator('#runs > li:not(.to-come)').nth(1).waitFor();
  assert.deepEqual(await states(), Array(3).fill([false, false]));
  await page.locator('#chips button').last().click();
  await page.waitForFunction(() => document.querySelectorAll('#runs > li:not(.to-come)').length === 1);
  assert.deepEqual(await states(), Array(3).fill([true, true]));
  assert.deepEqual(faults, []);
  await close();
});

test('a trace without GPU work has no empty chart; a second trace has the chart at full width', async () => {
  const { page, faults, close } = await h.openPage(browser, server.origin);
  const host = { ph: 'X', cat: 'cpu_op', name: 'aten::mm', pid: 1, tid: 1, ts: 0, dur: 8, args: {} };
  await h.drop(page, { name: 'host.json', body: Buffer.from(JSON.stringify({ schemaVersion: 1, traceEvents: [host] })) });
  await h.settled(page);
  const parts = page.locator('.chart-and-findings > figure :is(figcaption, svg, #legend button, summary)');
  await page.locator('#chart svg').waitFor({ state: 'attached' });
  assert.equal(await parts.filter({ visible: true }).count(), 0);
  assert.match(await page.locator('#notices').innerText(), /no GPU events/);
  await h.drop(page, trace());
  await page.locator('#chart rect[data-key]').first().waitFor();
  assert.deepEqual(await page.locator('#chart').evaluate((place) => [place.firstChild.clientWidth, place.parentElement.clientWidth]), Array(2).fill(await page.locator('.chart-and-findings > figure').evaluate((figure) => figure.clientWidth)));
  // The person hid everything, so the legend that shows it again stays.
  while (await page.locator('#legend [aria-pressed=true]').count() > 0) await page.locator('#legend [aria-pressed=true]').first().click();
  await page.locator('#chart rect[data-key]').first().waitFor({ state: 'detached' });
  assert.ok(await page.locator('#legend .all').isVisible());
  assert.deepEqual(faults, []);
  await close();
});

test('the chosen tab is visible at any width, and no menu entry is cut off', async () => {
  const { page, faults, close } = await opened();
  const isSeen = (id) => page.waitForFunction((id) => {
    const [frame, tab] = ['tabs', id].map((id) => document.getElementById(id)?.getBoundingClientRect());
    return tab && document.getElementById(id).ariaSelected === 'true' && tab.left >= frame.left - 1 && tab.right <= frame.right + 1;
  }, id);
  for (const width of [1280, 390]) {
    await page.setViewportSize({ width, height: 900 });
    await page.keyboard.press('e');
    const heights = await page.locator('#export button').evaluateAll((all) => all.map((button) => [button.scrollHeight <= button.clientHeight, button.scrollWidth <= button.clientWidth]));
    assert.deepEqual(heights, Array(5).fill([true, true]), `${width} px`);
    await page.keyboard.press('Escape');
  }
  await page.keyboard.press('[');
  await isSeen('tab-compare');
  await page.keyboard.press('1');
  await isSeen('tab-timeline');
  await h.openTab(page, 'notices');
  await isSeen('tab-notices');
  assert.deepEqual(faults, []);
  await close();
});

/** Presses Tab until the focus matches; returns the focused nodes on the way. */
async function tabTo(page, selector) {
  const way = [];
  for (let presses = 0; presses < 80; presses += 1) {
    await page.keyboard.press('Tab');
    const [hit, name] = await page.evaluate((wanted) => [document.activeElement.matches(wanted), document.activeElement.outerHTML.slice(0, 80)], selector);
    if (hit) return way;
    way.push(name);
  }
  return assert.fail(`${selector} was not reached: ${way.join('\n')}`);
}

test('the keyboard reaches choosing, tabs, filter, headings and rows', async () => {
  const { page, faults, close } = await h.openPage(browser, server.origin);
  // The browser's other chooser, which gives handles, cannot be driven by a test.
  await page.evaluate(() => delete self.showOpenFilePicker);
  const choosing = page.waitForEvent('filechooser');
  await tabTo(page, '#choose');
  await page.keyboard.press('Enter');
  const chooser = await choosing;
  const file = trace();
  await chooser.setFiles({ name: file.name, mimeType: 'application/json', buffer: file.body });
  await h.settled(page);
  await tabTo(page, '[role=tab]');
  const tabs = await page.locator('[role=tab]').count();
  await page.keyboard.press('ArrowRight');
  await page.waitForFunction(() => document.activeElement.getAttribute('role') === 'tab' && document.activeElement.previousElementSibling?.getAttribute('aria-selected') === 'false');
  await page.keyboard.press('Home');
  await page.waitForFunction(() => document.activeElement.id === 'tab-timeline' && document.querySelector('button.kernel'));
  assert.equal(await page.locator('[role=tab][tabindex="0"]').count(), 1, `one tab stop for ${tabs} tabs`);
  await tabTo(page, '#filter');
  await tabTo(page, '#legend button');
  await tabTo(page, '.block:first-child .scroll');
  await tabTo(page, '.block:first-child thead [data-key=count]');
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => document.activeElement.dataset.key === 'count' && document.activeElement.parentElement.getAttribute('aria-sort') === 'descending');
  await tabTo(page, 'button.kernel');
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => document.activeElement.id === 'kernel-title' && document.querySelector('#kernel svg'));
  await page.keyboard.press('Escape');
  await page.waitForFunction(() => document.activeElement.matches('button.kernel') && document.querySelector('#kernel').hidden);
  await page.keyboard.press('/');
  assert.equal(await page.evaluate(() => document.activeElement.id), 'filter');
  await page.keyboard.press('Escape');
  assert.equal(await page.evaluate(() => document.activeElement.id), '');
  assert.deepEqual(faults, []);
  await close();
});

test('a focused node of a table keeps the focus when the table is replaced', async () => {
  const { page, faults, close } = await opened();
  const sorted = (direction) => page.waitForFunction((wanted) => document.querySelector('.block:first-child th:has([data-key=count])').getAttribute('aria-sort') === wanted, direction);
  // A late redraw keeps the focus.
  const sort = () => page.evaluate(() => document.querySelector('.block:first-child thead [data-key=count]').click());
  const kernel = page.locator('.block:first-child button.kernel').nth(1);
  const name = await kernel.locator('..').getAttribute('title');
  await kernel.focus();
  await sort();
  await sorted('descending');
  assert.deepEqual(await page.evaluate(() => [document.activeElement.className, document.activeElement.parentElement.title]), ['kernel', name]);
  await page.locator('.block:first-child .scroll').focus();
  await sort();
  await sorted('ascending');
  assert.equal(await page.evaluate(() => document.activeElement.matches('.block:first-child .scroll')), true);
  assert.deepEqual(faults, []);
  await close();
});

test('the focus is visible, and nothing is wider than a narrow screen', async () => {
  const { page, close } = await opened();
  await page.locator('#filter').focus();
  await page.keyboard.press('Shift+Tab');
  assert.notEqual(await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle), 'none');
  await page.setViewportSize({ width: 400, height: 800 });
  await h.quiet(page);
  assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 400);
  await close();
});

/** A report of the command line with sections that are added by hand. */
async function explained(sections) {
  const report = JSON.parse(await h.jsonReport(trace()));
  const section = (given) => ({ title: '', derived_from: '', limits: [], missing: null, summary: {}, rows_in_all: given.rows?.length ?? 0, columns: Object.keys(given.rows?.[0] ?? {}), rows: [], ...given });
  report.runs[0].sections = Object.fromEntries(Object.entries(sections).map(([name, given]) => [name, section(given)]));
  return { name: 'explained.json', body: Buffer.from(JSON.stringify(report)) };
}

const finding = (severity, title, cost_ms) => ({ severity, title, cost_ms, evidence: `${title} 38 %\n12 gaps`, action: `mend ${title}` });

test('findings are next to the chart, the first three at once and all on demand', async () => {
  const { page, faults, close } = await h.openPage(browser, server.origin);
  const rows = [finding('high', '<img src=x onerror=alert(1)>', 412.25), finding('medium', 'b', 1), finding('low', 'c', null), finding('low', 'd', null)];
  await h.drop(page, await explained({ findings: { title: 'Findings', rows } }));
  await h.settled(page);
  const items = page.locator('#todo .findings > li');
  assert.equal(await items.count(), 3);
  assert.ok(!(await items.first().innerText()).includes('12 gaps'), 'one line of evidence');
  await items.first().locator('summary').click();
  const first = await items.first().innerText();
  for (const part of ['High', '<img src=x', '412 ms', '12 gaps', 'mend <img']) assert.ok(first.includes(part), `${part} in ${first}`);
  await page.locator('#todo button').click();
  await page.waitForFunction(() => document.querySelectorAll('.table-findings tbody tr').length === 4);
  assert.match(page.url(), /tab=findings/);
  assert.deepEqual(faults, []);
  await close();
});

test('commands in notices and findings are formatted as code', async () => {
  const { page, faults, close } = await h.openPage(browser, server.origin);
  const rows = [{ ...finding('high', 'a', 1), action: 'Capture with `--trace=node` and `-o x`.\nA name with one ` stays <b>as it is</b>.' }];
  await h.drop(page, await explained({ findings: { title: 'Findings', rows } }));
  await h.settled(page);
  const advice = page.locator('#todo .findings > li > p');
  assert.deepEqual(await advice.allInnerTexts(), ['Capture with --trace=node and -o x.', 'A name with one ` stays <b>as it is</b>.']);
  assert.deepEqual(await advice.locator('code').allInnerTexts(), ['--trace=node', '-o x']);
  assert.deepEqual(faults, []);
  await close();
});

test('a section shows figures, notes and rows; a missing one shows why and the command', async () => {
  const { page, faults, close } = await h.openPage(browser, server.origin, '#tab=nccl_ops');
  await h.drop(page, await explained({
    nccl_ops: { title: 'Collectives', derived_from: 'communication kernels', limits: ['Ranks are not compared.'], summary: { exposed_ms: 391.6 }, rows: [{ op_name: 'allreduce', count: 5, total_time_ms: 2.5 }, { op_name: 'broadcast', count: 7, total_time_ms: 0.5 }] },
    nvlink_during_nccl: { title: 'NVLink', missing: { why: 'No counters were sampled.', recapture: 'nsys profile --gpu-metrics-devices=all CMD' } },
  }));
  await h.settled(page);
  assert.equal(await page.locator('#tab-communication').getAttribute('aria-selected'), 'true');
  const [block, missing] = [page.locator('.block[data-table=nccl_ops]'), page.locator('.missing[data-table=nvlink_during_nccl]')];
  const about = block.getByRole('button', { name: 'About Collectives' });
  assert.equal(await about.getAttribute('aria-expanded'), 'false');
  await about.press('Enter');
  assert.equal(await about.getAttribute('aria-expanded'), 'true');
  const words = await block.innerText();
  for (const part of ['Collectives', 'communication kernels', 'Ranks are not compared.', 'Exposed', '392 ms', '2 rows']) assert.ok(words.includes(part), `${part} in ${words}`);
  const gap = await missing.innerText();
  for (const part of ['Not in this trace: NVLink', 'No counters were sampled.', 'nsys profile --gpu-metrics-devices=all CMD', 'Copy']) assert.ok(gap.includes(part), `${part} in ${gap}`);
  assert.equal(await missing.locator('table').count(), 0);
  await block.locator('[data-key=count]').click();
  await page.waitForFunction(() => document.querySelector('.table-nccl_ops tbody td').textContent === 'broadcast');
  assert.match(page.url(), /of=nccl_ops/);
  const csv = await h.exported(page, 'csv');
  assert.equal(csv.name, 'gpuprism-nccl_ops.csv');
  assert.equal(csv.body.toString(), 'run,op_name,count,total_time_ms\nserver.json,allreduce,5,2.5\nserver.json,broadcast,7,0.5\n');
  assert.deepEqual(faults, []);
  await close();
});

test('what tables of a tab lack is one line, with each reason once, and a link to one of them opens it', async () => {
  const { page, faults, close } = await h.openPage(browser, server.origin);
  const none = (title) => ({ title, missing: { why: 'No communication kernel ran.', recapture: '' } });
  const findings = { title: 'Findings', rows: [{ ...finding('high', 'Without a section', 1), section: 'nccl_by_pid' }] };
  await h.drop(page, await explained({ findings, nccl_ops: none('Collectives'), nccl_by_pid: none('By process'), nvlink_during_nccl: { title: 'NVLink', missing: { why: 'No counters were sampled.', recapture: '' } } }));
  await h.settled(page);
  await page.evaluate(() => { Element.prototype.scrollIntoView = function () { window.broughtUp = this.textContent; }; });
  await page.locator('#todo a', { hasText: 'Without a section' }).click();
  await page.locator('#blocks .gap').first().waitFor();
  assert.deepEqual(await page.locator('#blocks summary').allTextContents(), ['Not in this trace: Collectives, By process, NVLink']);
  assert.deepEqual(await page.locator('#blocks h3').allTextContents(), ['Collectives, By process', 'NVLink']);
  assert.deepEqual(await page.locator('#blocks .gap').allTextContents(), ['No communication kernel ran.', 'No counters were sampled.']);
  assert.match(await page.evaluate(() => window.broughtUp), /^Not in this trace/);
  assert.ok(await page.locator('#blocks .gap').first().isVisible());
  assert.equal(await page.locator('#blocks button[data-format=csv]').count(), 0, 'nothing to save');
  assert.deepEqual(faults, []);
  await close();
});

test('another tool\'s report opens with its tables and is joined with its series of samples', async () => {
  const { page, faults, close } = await h.openPage(browser, server.origin, '#tab=counters');
  const kernels = [{ kernel_name: 'nvjet_gemm', device_id: 0, call_count: 2, total_time_ns: 3e6, total_time_ms: 3 }];
  const report = { tool: { name: 'nsys-llm-explainer', version: '0.3.2' }, metrics: { top_kernels: { kernels, total_kernel_time_ns: 3e6 }, launch_storm: { window_s: 0.004, total_launches: 2 } } };
  const series = 'metric_source_id,metric_name,timestamp_ns,timestamp_ms,metric_value,nccl_active\r\n1,NVLink RX,5,0.000005,7.5,True\r\n';
  await h.drop(page, { name: 'nvlink_timeseries.csv', body: Buffer.from(series) }, { name: 'report.json', body: Buffer.from(JSON.stringify(report)) });
  await h.settled(page);
  await page.waitForFunction(() => document.querySelectorAll('#runs > li:not(.to-come)').length === 1 && document.querySelector('.table-nvlink_timeseries'));
  assert.match(await page.locator('.table-nvlink_timeseries').innerText(), /NVLink RX/);
  assert.match(await page.locator('#notices').textContent(), /nsys-llm-explainer 0\.3\.2/);
  assert.deepEqual(faults, []);
  await close();
});

test('the chosen run stays in the tables when another is closed, and the last run is shown in full', async () => {
  const { page, faults, close } = await h.openPage(browser, server.origin);
  await h.drop(page, h.kineto('a.json', h.SERVER_OPS), h.kineto('b.json', [...h.SERVER_OPS, ['only_in_b', 40_000, 500]]));
  await h.settled(page);
  await page.locator('#run').selectOption('1');
  await page.locator('.block[data-table=kernels] tbody tr', { hasText: 'only_in_b' }).waitFor();
  await page.locator('#chips button[aria-label="Close a.json"]').click();
  await page.waitForFunction(() => document.querySelectorAll('#runs > li:not(.to-come)').length === 1);
  await h.settled(page);
  await page.locator('.block[data-table=kernels] tbody tr', { hasText: 'only_in_b' }).waitFor();
  assert.deepEqual(faults, []);
  await close();
});

test('a closed file can be opened again at its place and with its window, until another file is opened or closed', async () => {
  const { page, faults, close } = await h.openPage(browser, server.origin);
  await h.drop(page, h.kineto('a.json', h.SERVER_OPS), h.kineto('b.json', [...h.SERVER_OPS, ['only_in_b', 40_000, 500]]));
  await h.settled(page);
  const chips = () => page.locator('#chips .chip-name').allInnerTexts();
  const offer = page.locator('.chip.undo');
  await page.getByLabel('Window of a.json, from-to in seconds').fill('0-0.00001');
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => location.hash.includes('window='));
  await h.settled(page);
  await page.locator('#chips button[aria-label="Close a.json"]').click();
  await page.waitForFunction(() => document.querySelectorAll('#runs > li:not(.to-come)').length === 1);
  assert.equal(new URL(page.url()).hash.includes('window='), false);
  await offer.getByRole('button', { name: 'Undo' }).click();
  await page.waitForFunction(() => document.querySelectorAll('#runs > li:not(.to-come)').length === 2 && location.hash.includes('0%400-0.00001'));
  await h.settled(page);
  assert.deepEqual(await chips(), ['a.json', 'b.json']);
  assert.equal(await offer.count(), 0);
  assert.match(await page.locator('.run-facts').first().innerText(), /^0 to 10\.0 us of /);
  // The last file, and one that is no trace.
  for (const name of ['a.json', 'b.json']) await page.getByRole('button', { name: `Close ${name}` }).click();
  await page.locator('#empty').waitFor();
  assert.deepEqual(await offer.locator('.chip-name').allInnerTexts(), ['closing b.json'], 'only the last');
  await h.drop(page, { name: 'mine.json', body: Buffer.from('{"engine": {"model": {"only_in_b": "mine"}}}') });
  await page.locator('#chips .chip.rules').waitFor();
  assert.equal(await offer.count(), 0);
  await page.getByRole('button', { name: 'Close mine.json' }).click();
  await offer.getByRole('button', { name: 'Undo' }).click();
  await page.locator('#chips .chip.rules').waitFor();
  assert.deepEqual(faults, []);
  await close();
});
