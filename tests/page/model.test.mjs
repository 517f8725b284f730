// The tab Model shows sentences and charts above its tables. They agree with the command line, a click on a step picks its window, and
// without layers the tables say why. Charts follow the chosen theme.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as h from './harness.mjs';

const { browser, server } = await h.lend();

const LAYER = [['rms_norm', 4], ['gemm_qkv', 30], ['flash_fwd', 20], ['gemm_o', 15], ['add_rms_norm', 4], ['gemm_gate_up', 60], ['silu_and_mul', 5], ['gemm_down', 40]];
const LAYERS = 8;
const STEPS = 4;

/** A torch trace of decode steps of eight layers; the last step is twice as long, and its fifth layer slow in all steps. */
function steps() {
  const events = [];
  const op = (cat, name, ts, dur, tid, args) => events.push({ ph: 'X', cat, name, pid: 0, tid, ts, dur, args });
  let now = 10_000;
  for (let step = 0; step < STEPS; step += 1) {
    const scale = step === STEPS - 1 ? 2 : 1;
    const start = now;
    const launch = (name, dur) => {
      const correlation = events.length;
      op('cuda_runtime', 'cudaLaunchKernel', start - 300 + events.length % 200, 1, 9, { correlation });
      op('kernel', name, now, dur * scale, 7, { device: 0, stream: 7, correlation });
      now += dur * scale + 1;
    };
    launch('embedding', 5);
    for (let layer = 0; layer < LAYERS; layer += 1) for (const [name, dur] of LAYER) launch(name, layer === 4 && name === 'flash_fwd' ? dur + 90 : dur);
    launch('rms_norm', 4);
    launch('gemm_head', 100);
    launch('argmax_kernel', 10);
    op('user_annotation', 'step[DECODE bs=4]', start - 400, 350, 9, {});
    now += 500;
  }
  return { name: 'steps.json', body: Buffer.from(JSON.stringify({ schemaVersion: 1, deviceProperties: [{ id: 0, name: 'NVIDIA H100 80GB HBM3' }], traceEvents: events })) };
}

async function opened(file, fragment = '#tab=model') {
  const view = await h.openPage(browser, server.origin, fragment);
  await h.drop(view.page, file);
  await view.page.locator('#results[aria-busy=false]').waitFor({ timeout: 60_000 });
  await view.page.locator('#model').waitFor();
  return view;
}

const lines = (page) => page.locator('#model .model-lines p').allTextContents();
const figure = (page, id) => page.locator(`#model figure[data-panel=${id}]`);
const titles = (page, id) => figure(page, id).locator('svg.chart title').allTextContents();

test('the sentences are those of the command line', async () => {
  const { page, faults, close } = await opened(steps());
  await figure(page, 'layers').waitFor();
  const { stdout } = await h.commandLine(['model', 'steps.json', '--format', 'json'], [steps()]);
  const { lines: expected } = JSON.parse(stdout).runs[0];
  assert.deepEqual(await lines(page), expected.map(({ text }) => text));
  assert.match((await lines(page))[0], /^Decode: 4 steps/);
  assert.deepEqual(await h.brokenFigures(page, '#model .model-lines p'), [], 'a figure and its unit stay on one line');
  assert.deepEqual(faults, []);
  await close();
});

test('a layer has a segment per role, an outlier is marked, and the charts have a summary', async () => {
  const { page, close } = await opened(steps());
  await figure(page, 'layers').waitFor();
  const roles = await titles(page, 'layers');
  assert.equal(roles.filter((title) => title.startsWith('gate/up (gate_up): 60.0 us')).length, 1, roles.join('\n'));
  assert.ok(roles[0].startsWith('norms (norm)'), 'in order of execution');
  const layers = await titles(page, 'layer_list');
  assert.equal(layers.filter((title) => title.startsWith('layer ')).length, LAYERS);
  assert.deepEqual(layers.filter((title) => title.includes('outlier')).map((title) => title.slice(0, 7)), ['layer 4']);
  for (const id of ['layers', 'layer_list', 'step_list']) {
    assert.ok(await figure(page, id).locator('svg.chart').getAttribute('aria-label'), id);
  }
  await figure(page, 'layers').getByRole('button', { name: 'show the table' }).click();
  assert.ok(await page.locator('.block[data-table=layer_roles]').isVisible());
  await close();
});

test('the parts of a layer with a hidden category are faint and keep their place', async () => {
  const { page, faults, close } = await opened(steps());
  await figure(page, 'layers').waitFor();
  const parts = () => figure(page, 'layers').locator('svg.chart rect.seg').evaluateAll((shapes) => shapes.map((shape) => ({
    x: shape.getAttribute('x'), isGemm: shape.classList.contains('cat-gemm'), opacity: getComputedStyle(shape).fillOpacity,
  })));
  const all = await parts();
  assert.ok(all.some(({ isGemm, opacity }) => isGemm && opacity === '1'), JSON.stringify(all));
  await page.locator('#legend button', { hasText: 'gemm' }).click();
  await figure(page, 'layers').locator('.faint').first().waitFor({ state: 'attached' });
  assert.deepEqual(await parts(), all.map((part) => (part.isGemm ? { ...part, opacity: '0.2' } : part)));
  assert.deepEqual(faults, []);
  await close();
});

test('a click on a step picks its window', async () => {
  const { page, faults, close } = await opened(steps());
  const step = figure(page, 'step_list').locator('[data-window]');
  await step.first().waitFor();
  assert.equal(await step.count(), STEPS);
  const window = await step.nth(1).getAttribute('data-window');
  await step.nth(1).click();
  await page.waitForFunction(() => location.hash.includes('window='));
  await page.locator('#results[aria-busy=false]').waitFor();
  await page.waitForFunction(() => document.querySelector('#model .model-lines p')?.textContent?.startsWith('Decode: 1 step'));
  assert.ok(decodeURIComponent(await page.evaluate(() => location.hash)).includes(window.slice(0, 8)), window);
  assert.deepEqual(faults, []);
  await close();
});

const CONFIG = { name: 'config.json', body: Buffer.from(JSON.stringify({
  architectures: ['Qwen3ForCausalLM'], model_type: 'qwen3', hidden_size: 4096, intermediate_size: 12288, num_hidden_layers: LAYERS,
  num_attention_heads: 32, num_key_value_heads: 8, head_dim: 128, vocab_size: 151936, torch_dtype: 'bfloat16', tie_word_embeddings: false,
})) };

test('with a config, the number of GPUs can be set by keyboard and is in the address; the report is that of the command line', async () => {
  const { page, faults, close } = await opened(steps());
  assert.ok(await page.locator('#split').isHidden(), 'without a config there is nothing to split');
  await h.drop(page, CONFIG);
  await h.openSettings(page);
  await page.locator('#split').waitFor();
  await page.locator('#split summary').focus();
  await page.keyboard.press('Enter');
  await page.keyboard.press('Tab');
  await page.keyboard.type('2');
  await page.keyboard.press('Tab');
  await page.waitForFunction(() => document.querySelector('#split summary').textContent === 'TP 2' && location.hash.includes('tp=2'));
  await h.settled(page);
  const { stdout } = await h.commandLine(['report', 'steps.json', '--config', 'config.json', '--tp', '2', '--format', 'json'], [steps(), CONFIG]);
  const { body } = await h.exported(page, 'json');
  assert.equal(body.toString(), stdout.toString());
  assert.match(body.toString(), /TP 2, EP 1, PP 1, DP 1/);
  await page.goBack();
  await page.waitForFunction(() => document.querySelector('#split input[name=tp]').value === '');
  await page.goForward();
  await h.openSettings(page);
  await page.locator('#split').evaluate((menu) => void (menu.open = true));
  await page.locator('#split input[name=tp]').fill('0');
  await page.keyboard.press('Enter');
  await page.locator('.card.error', { hasText: '0 GPUs cannot share a model' }).waitFor();
  assert.deepEqual(faults, []);
  await close();
});

test('without steps and layers there are no charts, and the tables say why', async () => {
  const { page, faults, close } = await opened(h.kineto('plain.json', h.SERVER_OPS));
  await page.locator('.missing[data-table~=layers] summary').click();
  await page.locator('.missing[data-table~=layers] .gap').first().waitFor();
  assert.equal(await page.locator('#model figure').count(), 0);
  await page.locator('#tabs').getByRole('tab').first().click();
  // It is shown on demand.
  await page.locator('#model').waitFor({ state: 'hidden' });
  assert.deepEqual(faults, []);
  await close();
});
