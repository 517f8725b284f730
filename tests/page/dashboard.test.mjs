// The dashboard draws every panel for which a run has data, and the others show what is missing in the words of the sections. Its
// options are part of the address, shapes open the kernel or the table of the same numbers, charts are saved as self-contained
// pictures, names stay text, and axe-core finds no serious problem.

/* global axe */

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { test } from 'node:test';
import * as h from './harness.mjs';

const AXE = await readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const PANELS = ['kernels', 'timeline', 'roofline', 'nvlink', 'collectives', 'streams', 'latency', 'phases', 'skew'];
const HOSTILE = '<img src=x onerror=alert(1)>';
const GEMM = 'nvjet_tst_128x64_64x8_1x2_h_bz_coopA_NNT';

const { browser, server } = await h.lend();

const section = (title, columns, rows, summary = {}) => ({
  title, derived_from: '', limits: [], missing: null, summary, rows_in_all: rows.length, columns,
  rows: rows.map((row) => Object.fromEntries(columns.map((column, at) => [column, row[at]]))),
});

/** A report of the trace with sections of counters, latencies, phases and ranks, like that of an Nsight export. */
async function complete(name, ops = h.SERVER_OPS) {
  const report = JSON.parse(await h.jsonReport(h.kineto(name, ops)));
  const [run] = report.runs;
  run.devices[0].name = 'NVIDIA H100 80GB HBM3';
  Object.assign(run.sections, {
    roofline: section('Roofline', ['kernel_name', 'total_time_ms', 'call_count', 'flops', 'bytes', 'arithmetic_intensity', 'achieved_tflops'],
      [[GEMM, 4.321, 1, 2e12, 4e9, 500, 462.85], [HOSTILE, 1, 1, 1e9, 1e9, 1, 1.5]]),
    nvlink_timeseries: section('NVLink over time', ['metric_source_id', 'metric_name', 'timestamp_ns', 'timestamp_ms', 'metric_value', 'nccl_active'],
      [0, 1, 2, 3].flatMap((at) => ['RX', 'TX'].map((way) => [1, `NVLink ${way}`, at * 1e5, at / 10, 10 * at + way.length, at === 2]))),
    launch_latency_histogram: section('Launch latency', ['bin_start_us', 'bin_end_us', 'count', 'without_communication'],
      [[0, 5, 20, 18], [5, 10, 4, 4]]),
    launch_latency_rows: section('Launch latency', ['latency_us'], [[10]], { p50_us: 2.25, p95_us: 7.5, p99_us: 9.75 }),
    phase_split: section('Phases', ['phase', 'total_time_ms', 'pct_of_total', 'without_communication_ms'],
      [['decode', 0.015, 60, 0.01], ['unclassified', 0.01, 40, 0.01]]),
    nccl_rank_skew: section('Ranks', ['op_name', 'rank_label', 'total_time_ms', 'max_duration_ms', 'skew_vs_median_pct'],
      [['allreduce', 'rank:0', 2, 1, 12.5], ['allreduce', 'rank:1', 1.5, 1, -7.25]]),
  });
  return { name: `${name}.report.json`, body: Buffer.from(JSON.stringify(report)) };
}

async function opened(fragment, ...files) {
  const opened = await h.openPage(browser, server.origin, fragment);
  await h.drop(opened.page, ...files);
  await drawn(opened.page);
  return opened;
}

const drawn = (page) => page.waitForFunction((count) => document.querySelectorAll('#dashboard figure').length === count
  && document.querySelector('#results[aria-busy=false]'), PANELS.length, { timeout: 60_000 });

const figure = (page, id) => page.locator(`#dashboard figure[data-panel=${id}]`);

/** The tooltips of a panel's shapes. */
const titles = (page, id) => figure(page, id).locator('svg.chart title').allTextContents();

test('the histogram of launch latencies is a picture above its table, in room that is kept for it', async () => {
  for (const width of [1440, 390]) {
    const { page, faults, close } = await h.openPage(browser, server.origin, '#tab=launch_latency_histogram');
    await page.setViewportSize({ width, height: 900 });
    await h.drop(page, await complete('run'));
    const table = page.locator('.block[data-table=launch_latency_histogram]');
    await table.waitFor();
    const top = () => table.evaluate((node) => Math.round(node.getBoundingClientRect().top + scrollY));
    const before = await top();
    await page.locator('.latency-picture svg', { hasText: 'p50 2.25 us' }).waitFor();
    assert.equal(await page.locator('.latency-picture .chart-mark').count() > 0, true);
    assert.ok(await page.locator('.latency-picture').evaluate((picture) => picture.nextElementSibling.dataset.table === 'launch_latency_histogram'));
    assert.ok(Math.abs(await top() - before) <= 2, `${before} to ${await top()} at ${width}`);
    assert.deepEqual(faults, []);
    await close();
  }
});

test('a complete run has every panel, with summary, note and exact values', async () => {
  const { page, faults, close } = await opened('#tab=dashboard', await complete('run.json'));
  assert.deepEqual(await page.locator('#dashboard figure').evaluateAll((all) => all.map(({ dataset }) => dataset.panel)), PANELS);
  for (const id of PANELS) {
    const svg = figure(page, id).locator('svg.chart');
    assert.equal(await svg.count(), 1, id);
    assert.match(await svg.getAttribute('aria-label'), /^[A-Z0-9].*\.$/, id);
    assert.equal(await svg.getAttribute('role'), 'img');
  }
  for (const [id, words] of [
    ['kernels', `${GEMM}: 0.004321 ms in 1 launch, gemm`], ['roofline', '500 FLOP per byte, 462.85 TFLOP/s'], ['skew', 'allreduce, rank:1: -7.25 % from the median rank'],
    ['latency', 'p95: 7.5 us'], ['phases', 'decode: 0.015 ms, 60 % of the total'], ['nvlink', 'NVLink TX: 32'], ['collectives', 'allreduce: 0.00625 ms'],
  ]) {
    assert.ok((await titles(page, id)).some((title) => title.includes(words)), `${words} in ${await titles(page, id)}`);
  }
  assert.match(await figure(page, 'roofline').innerText(), /H100 SXM5 80 GB \(from the device name\)/);
  assert.equal(await page.evaluate(() => document.querySelectorAll('#dashboard img').length), 0, 'names stay text');
  assert.deepEqual(faults, []);
  await close();
});

test('a trace without some data shows what is missing and how to capture it', async () => {
  const { page, faults, close } = await opened('#tab=dashboard', h.kineto('run.json', h.SERVER_OPS));
  for (const [id, command] of [['roofline', 'ncu --set roofline'], ['nvlink', '--gpu-metrics-devices=all'], ['phases', 'record_function'], ['latency', 'ProfilerActivity'], ['skew', 'torch.profiler']]) {
    assert.equal(await figure(page, id).locator('svg.chart').count(), 0, id);
    assert.ok((await figure(page, id).locator('code').innerText()).includes(command), id);
  }
  assert.deepEqual(faults, []);
  await close();
});

test('options are part of the address and survive a reload; Back undoes them', async () => {
  const files = [await complete('a.json'), await complete('b.json', h.SERVER_OPS.map(([name, start, duration, ...where]) => [name, start, duration + 500, ...where]))];
  const { page, faults, close } = await opened('#tab=dashboard', ...files);
  await page.locator('#dashboard .dash-base').first().waitFor({ state: 'attached' });
  assert.match(await page.locator('#dashboard [role=status]').innerText(), /^b\.json, next to a\.json$/);
  assert.ok((await titles(page, 'kernels')).some((title) => title.endsWith('; baseline 0.004321 ms')), 'the same kernel of the baseline');
  await page.locator('#dashboard [name=comm]').uncheck();
  await figure(page, 'collectives').getByText('Communication is switched off.').waitFor();
  assert.ok(!(await titles(page, 'kernels')).some((title) => title.startsWith('ncclDevKernel')));
  await page.locator('#dashboard [name=gpu]').selectOption('h200-sxm');
  await figure(page, 'roofline').getByText('H200 SXM 141 GB (as selected)').waitFor();
  await page.locator('#dashboard [name=above]').fill('0.5');
  await figure(page, 'kernels').getByText('No kernel to show.').waitFor();
  const address = new URL(page.url()).hash;
  for (const part of ['tab=dashboard', 'comm=off', 'gpu=h200-sxm', 'above=0.5']) assert.ok(address.includes(part), `${part} in ${address}`);
  await page.goBack();
  await figure(page, 'kernels').locator('svg.chart').waitFor();
  await page.locator('#dashboard [name=base]').selectOption('1');
  await page.getByText('a.json, next to b.json').waitFor();
  await close();
  const again = await opened(address, ...files);
  assert.equal(await again.page.locator('#dashboard [name=above]').inputValue(), '0.5');
  assert.equal(await again.page.locator('#dashboard [name=gpu]').inputValue(), 'h200-sxm');
  assert.equal(await again.page.locator('#dashboard [name=comm]').isChecked(), false);
  await figure(again.page, 'kernels').getByText('Kernels with a total time of at least 0.5 ms.').waitFor();
  assert.deepEqual([...faults, ...again.faults], []);
  await again.close();
});

test('a hidden category is hidden in every panel, faint where its place in time counts, until it is shown again', async () => {
  const { page, faults, close } = await opened('#tab=dashboard', await complete('run.json'));
  /** The chips are in the first tab. */
  const press = async (chip) => {
    await page.locator('#tabs').getByRole('tab').first().click();
    await page.locator('#legend').getByRole('button', { name: chip, exact: true }).click();
    await h.openTab(page, 'dashboard');
  };
  const marks = (id, category) => figure(page, id).locator(`svg.chart :is(.seg, .dash-dot).cat-${category}`);
  const opacity = (mark) => mark.evaluate((shape) => getComputedStyle(shape).fillOpacity);
  const before = { kernels: await marks('kernels', 'gemm').count(), roofline: await marks('roofline', 'gemm').count() };
  assert.ok(before.kernels > 0 && before.roofline > 0, JSON.stringify(before));
  await press('gemm');
  await figure(page, 'roofline').getByText('Left out with hidden categories: 1 point.').waitFor();
  for (const id of ['kernels', 'roofline']) assert.equal(await marks(id, 'gemm').count(), 0, id);
  assert.ok(await marks('timeline', 'gemm').count() > 0, 'an event keeps its place');
  assert.deepEqual([await opacity(marks('timeline', 'gemm').first()), await opacity(marks('timeline', 'attention').first())], ['0.2', '1']);
  await press('communication');
  for (const id of ['collectives', 'skew']) await figure(page, id).getByText('Communication is hidden.').waitFor();
  assert.equal(await marks('streams', 'communication').count(), 0);
  assert.equal(await figure(page, 'nvlink').locator('.dash-active').count(), 0);
  await press('Show all');
  await figure(page, 'skew').locator('svg.chart').waitFor();
  assert.deepEqual({ kernels: await marks('kernels', 'gemm').count(), roofline: await marks('roofline', 'gemm').count() }, before);
  assert.equal(await figure(page, 'timeline').locator('.faint').count(), 0);
  assert.deepEqual(faults, []);
  await close();
});

test('an invalid address shows the default dashboard', async () => {
  const { page, faults, close } = await opened('#tab=dashboard&gpu=%00&above=-9e99x&comm=?&base=77&run=-3', await complete('run.json'));
  assert.equal(await page.locator('#dashboard [name=above]').inputValue(), '0');
  assert.equal(await page.locator('#cards .card.error').count(), 0);
  assert.deepEqual(faults, []);
  await close();
});

test('a kernel\'s bar opens the kernel, and every panel opens its table', async () => {
  const { page, faults, close } = await opened('#tab=dashboard', await complete('run.json'));
  await figure(page, 'kernels').locator(`rect[data-kernel="${GEMM}"]`).click();
  await page.waitForFunction((name) => document.querySelector('#kernel-title')?.textContent === name, GEMM);
  await page.keyboard.press('Escape');
  for (const [id, table] of [['kernels', 'top_kernels'], ['skew', 'nccl_rank_skew'], ['roofline', 'roofline']]) {
    await h.openTab(page, 'dashboard');
    await drawn(page);
    await figure(page, id).getByRole('button', { name: /show the table/ }).click();
    await page.locator(`.block[data-table=${table}]`).waitFor();
    assert.equal(await page.locator('#dashboard').isVisible(), false);
    assert.equal(await page.locator('#filter').isVisible(), true);
  }
  assert.deepEqual(faults, []);
  await close();
});

test('every chart is saved as self-contained SVG and PNG', async () => {
  // A page for each type: Chromium drops the eleventh download of a page within one second.
  for (const type of ['SVG', 'PNG']) {
    const { page, faults, close } = await opened('#tab=dashboard', await complete('run.json'));
    for (const id of PANELS) {
      await figure(page, id).locator('summary').click();
      const { name, body } = await h.download(page, figure(page, id).getByRole('button', { name: `Save as ${type}` }));
      assert.equal(name, `gpuprism-${id}.${type.toLowerCase()}`);
      if (type === 'PNG') assert.equal(body.subarray(1, 4).toString(), 'PNG');
      else assert.ok(!/class=|url\(|<script|<img/.test(body.toString()) && body.length > 1_000, id);
    }
    assert.deepEqual(faults, []);
    await close();
  }
});

test('axe-core finds no serious problem, and nothing is wider than the page, light or dark, wide or narrow', async () => {
  const { page, faults, close } = await opened('#tab=dashboard', await complete('a.json'), await complete('b.json'));
  for (const [colorScheme, width] of [['light', 1280], ['dark', 1280], ['light', 400], ['dark', 360]]) {
    await page.emulateMedia({ colorScheme });
    await page.setViewportSize({ width, height: 900 });
    await page.waitForFunction(() => [...document.querySelectorAll('#dashboard svg.chart')].every((chart) => chart.clientWidth <= chart.parentElement.clientWidth + 1
      && Number(chart.getAttribute('width')) <= Math.max(240, chart.parentElement.clientWidth)));
    if (!await page.evaluate(() => 'axe' in window)) await page.evaluate(AXE);
    const found = await page.evaluate(async () => (await axe.run('#dashboard', { resultTypes: ['violations'] })).violations
      .filter(({ impact }) => ['serious', 'critical'].includes(impact)).map(({ id, nodes }) => `${id}: ${nodes[0].html}`));
    assert.deepEqual(found, [], `${colorScheme}, ${width}`);
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), width);
  }
  assert.deepEqual(faults, []);
  await close();
});
