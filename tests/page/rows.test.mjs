// From a row of a table to its case in the timeline and back, and from a bar of the timeline to its row, on real traces.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import * as h from './harness.mjs';

const { browser, server } = await h.lend();

const TRAINING = 'train_a100_rank3of8.trace.json.gz';
const SERVING = 'sglang_qwen3_30b_b300_decode.trace.json.gz';
const options = { skip: h.noTraces };

async function opened(...names) {
  const opened = await h.openPage(browser, server.origin);
  for (const name of names) await h.drop(opened.page, { name, body: await readFile(join(h.traces, name)) });
  await h.settled(opened.page);
  return opened;
}

/** Presses the first cell of a table that leads to this case, and waits for the bar with this name. */
async function press(page, table, example, name) {
  await page.locator(`.block[data-table=${table}] [data-example="${example}"]`).first().click();
  await page.locator('.moment h3', { hasText: name }).waitFor();
  await h.isLedToTimeline(page);
}

test('a cause of idle time, a collective, a call, a range and a finding lead to a case of theirs', options, async () => {
  const { page, faults, close } = await opened(TRAINING);
  await h.openTab(page, 'host');
  await press(page, 'gpu_idle', 'idle_on drained 3', 'idle: drained');
  await page.keyboard.press('Escape');
  await page.waitForFunction(() => document.activeElement.dataset.example === 'idle_on drained 3');
  assert.match(page.url(), /tab=host/);
  await press(page, 'sync', 'call cudaStreamSynchronize', 'cudaStreamSynchronize');
  await h.openTab(page, 'communication');
  await press(page, 'nccl_ops', 'collective allreduce', /^ncclKernel_AllReduce/);
  await h.openTab(page, 'nvtx');
  await press(page, 'nvtx_ranges', 'range ## backward ##', '## backward ##');
  await h.openTab(page, 'findings');
  await page.locator('.block[data-table=findings] .moment-link').first().click();
  await page.locator('.moment h3', { hasText: /nccl|idle/ }).waitFor();
  assert.deepEqual(faults, []);
  await close();
});

test('the slowest step and a layer lead to their bars', options, async () => {
  const { page, faults, close } = await opened(TRAINING);
  await page.locator('button.unfold').click();
  const cell = page.locator('.block[data-table=slowest_step] td:has([data-example^=step_at])').first();
  const number = await cell.textContent();
  await cell.locator('button').click();
  await page.locator('.moment h3', { hasText: /^Step/ }).waitFor();
  assert.match(await page.locator('.moment dl').textContent(), new RegExp(`Step${number}`));
  await close();
  const serving = await opened(SERVING);
  await serving.page.locator('button.unfold').click();
  await press(serving.page, 'layer_list', 'layer decode 17', /^Layer 17 of 0 to 47$/);
  assert.deepEqual([...faults, ...serving.faults], []);
  await serving.close();
});

test('a bar leads to its row, also to one of a long table that is not loaded yet', options, async () => {
  const { page, faults, close } = await opened(SERVING);
  await page.locator('button.unfold').click();
  await press(page, 'layer_list', 'layer decode 17', /^Layer 17/);
  await page.locator('.moment .table-link', { hasText: 'Layers over a step' }).click();
  const row = page.locator('.block[data-table=layer_list] tr.found');
  await row.waitFor();
  assert.match(await row.textContent(), /^decode17/);
  assert.equal(await page.evaluate(() => document.activeElement.matches('tr.found')), true);
  await close();
  const steps = await h.openPage(browser, server.origin);
  await h.drop(steps.page, manySteps());
  await h.settled(steps.page);
  await steps.page.locator('button.unfold').click();
  const last = steps.page.locator('.block[data-table=slowest_step] [data-example^=step_at]').first();
  await last.click();
  await steps.page.locator('.moment .table-link', { hasText: 'Steps over time' }).click();
  const found = steps.page.locator('.block[data-table=step_list] tr.found');
  await found.waitFor();
  assert.match(await found.textContent(), /^899/);
  assert.deepEqual([...faults, ...steps.faults], []);
  await steps.close();
});

/** 900 steps of one kernel each, of which the last but one takes longest. */
function manySteps() {
  const event = (cat, name, ts, dur, args, tid) => ({ ph: 'X', cat, name, pid: cat === 'kernel' ? 0 : 9, tid, ts, dur, args });
  const start = (step) => step * 100 + (step === 899 ? 50 : 0);
  const traceEvents = Array.from({ length: 900 }, (_, step) => step).flatMap((step) => [
    event('user_annotation', 'decode bs=4', start(step), 60, {}, 9),
    event('cuda_runtime', 'cudaLaunchKernel', start(step) + 5, 2, { correlation: step + 1 }, 9),
    event('kernel', 'flash_fwd_kernel', start(step) + 20, 30 + (step % 3), { device: 0, stream: 7, correlation: step + 1 }, 7),
  ]);
  return { name: 'steps.json', body: Buffer.from(JSON.stringify({ traceEvents })) };
}

test('with several runs, each clause and each row leads to its own run', options, async () => {
  const { page, faults, close } = await opened(SERVING, TRAINING);
  await page.locator('#verdict .table-link', { hasText: 'communication' }).last().click();
  await page.locator('.timeline').nth(1).locator('.moment h3').waitFor();
  assert.match(await page.locator('.timeline').nth(1).locator('.moment h3').textContent(), /^nccl/);
  assert.deepEqual(faults, []);
  await close();
});

test('the times of a compared category and layer lead to the baseline and to the other run', options, async () => {
  const { page, faults, close } = await opened(SERVING, 'sglang_qwen3_30b_mi300_decode.trace.json.gz');
  await h.openTab(page, 'compare');
  for (const [table, column, index, name] of [
    ['compare_categories', 'baseline_ns', 0, /^bmm_/],
    ['compare_categories', 'compared_ns', 1, /^(?!bmm_)./],
    ['compare_roles', 'baseline_us', 0, /^Layer \d+ of/],
    ['compare_roles', 'compared_us', 1, /^Layer \d+ of/],
  ]) {
    const row = page.locator(`.block[data-table=${table}] tbody tr`, { hasText: table === 'compare_roles' ? 'whole layer' : 'moe_gemm' }).first();
    await row.waitFor();
    const keys = (await h.readTable(page, `.block[data-table=${table}]`)).keys;
    await row.locator('td').nth(keys.indexOf(column)).locator('button').click();
    // The panel of the link before may still be open.
    await page.locator('.timeline').nth(index).locator('.moment h3').filter({ hasText: name }).waitFor();
    await h.isLedToTimeline(page);
    await page.keyboard.press('Escape');
    await page.waitForFunction((run) => document.activeElement.dataset.run === run, String(index));
  }
  assert.deepEqual(faults, []);
  await close();
});

test('a wait of a rank leads to the timeline of its trace', options, async () => {
  const { page, faults, close } = await opened(...[0, 1, 2].map((rank) => `dlrm_v100_8ranks/rank${rank}.pt.trace.json.gz`));
  await h.openTab(page, 'communication');
  await page.locator('.block[data-table=rank_waits] tbody tr', { hasText: 'rank 1' }).first().locator('.moment-link').click();
  const selected = page.locator('.timeline:has(.moment h3)');
  await selected.waitFor();
  assert.match(await selected.locator('.timeline-canvas').getAttribute('aria-label'), /rank1/);
  await h.isLedToTimeline(page);
  await page.keyboard.press('Escape');
  await page.waitForFunction(() => /rank1/.test(document.activeElement.dataset.file ?? ''));
  assert.deepEqual(faults, []);
  await close();
});

test('rows of a report without its trace lead nowhere, and beside a trace say what to open', options, async () => {
  const report = await h.jsonReport({ name: TRAINING, body: await readFile(join(h.traces, TRAINING)) });
  const { page, faults, close } = await h.openPage(browser, server.origin);
  await h.drop(page, { name: 'report.json', body: Buffer.from(report) });
  await h.settled(page);
  await h.openTab(page, 'host');
  await page.locator('.block[data-table=gpu_idle] tbody tr').first().waitFor();
  assert.equal(await page.locator('.moment-link').count(), 0);
  await h.drop(page, { name: SERVING, body: await readFile(join(h.traces, SERVING)) });
  await h.settled(page);
  await press(page, 'gpu_idle', 'idle_on host_late 0', 'idle: host late');
  await h.openTab(page, 'host');
  await page.locator('.block[data-table=gpu_idle] [data-example="idle_on drained 3"]').click();
  await page.locator('#cards .card', { hasText: 'It was opened as a report, without its trace. Open the trace to see moments of the run.' }).waitFor();
  assert.deepEqual(faults, []);
  await close();
});
