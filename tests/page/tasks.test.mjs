// Ten questions about real traces, each answered with at most a stated number of gestures. A gesture is a click, a choice from a list, or
// text in a field. Opening the file is not counted. Tasks on traces of the project always run; the others need the shared traces.

import assert from 'node:assert/strict';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { gunzipSync } from 'node:zlib';
import * as h from './harness.mjs';

const { browser, server } = await h.lend();
const skip = h.noTraces;

const DECODE = 'sglang_qwen3_30b_b300_decode.trace.json.gz';
const TRAINING = 'train_v100_216k_events.trace.json.gz';

/** A decoder on an H200, captured twice: its decode steps replay a graph, and the same work launched kernel by kernel with stacks. */
const RECORDED = join(h.root, 'examples/traces');

const file = async (name, folder = h.traces) => ({ name, body: await readFile(join(folder, name)) });

/** Opens files, runs the task and checks its number of gestures and the faults of the page. */
async function task(files, allowed, answer) {
  const { page, faults, close } = await h.openPage(browser, server.origin);
  await page.setViewportSize({ width: 1440, height: 900 });
  await h.drop(page, ...files);
  await h.settled(page);
  let gestures = 0;
  const counted = (act) => (...args) => {
    gestures += 1;
    return act(...args);
  };
  await answer(page, {
    click: counted((locator) => locator.click()),
    choose: counted((locator, option) => locator.selectOption(option)),
    write: counted((locator, text) => locator.fill(text)),
    save: counted((locator) => h.download(page, locator)),
  });
  assert.ok(gestures <= allowed, `${gestures} gestures, at most ${allowed} allowed`);
  assert.deepEqual(faults, []);
  await close();
}

/** The rows of a section by the command line. */
async function section(one, id) {
  const report = JSON.parse(await h.jsonReport(one));
  return report.runs[0].sections[id];
}

const kernelButton = (page, text) => page.locator('#blocks button.kernel', text && { hasText: text }).first();
const moment = (page) => page.locator('.moment');

test('which kernel costs most in decode, and which line launches it', async () => {
  const files = await Promise.all(['decoder_graph.json.gz', 'decoder_eager.json.gz'].map((name) => file(name, RECORDED)));
  await task(files, 3, async (page, { click, choose }) => {
    await click(page.locator('#more > summary'));
    await click(page.locator('#more-triage'));
    const run = page.locator('.triage-run').first();
    await run.waitFor();
    await choose(run.locator('select'), { label: 'decoder_eager.json.gz' });
    // The table of the stage decode begins with its longest kernel, the attention.
    const first = page.locator('[data-table="triage_kernels@decode"] tbody tr', { has: page.locator('button.place') }).first();
    await first.locator('button.place', { hasText: 'capture_torch.py:53 attend' }).waitFor();
    assert.match(await first.innerText(), /cudnn_generated[^\t]*\n\tattention/);
  });
});

test('which kernel costs most in decode, and which line replays its graph', { skip }, async () => {
  const one = await file(DECODE);
  const [most] = (await section(one, 'kernels')).rows.sort((a, b) => b.elapsed_ns - a.elapsed_ns);
  await task([one], 3, async (page, { click }) => {
    assert.equal(await page.locator('#blocks td.kernel').first().getAttribute('title'), most.kernel_name ?? most.name);
    await click(kernelButton(page));
    await click(page.getByRole('button', { name: 'In the timeline' }));
    await moment(page).getByText('cuda_graph_runner.py(1359): replay').waitFor();
  });
});

test('why the GPU is idle between two steps', { skip }, async () => {
  await task([await file(TRAINING)], 3, async (page, { click }) => {
    await click(page.locator('#todo button', { hasText: /Show the longest such/ }).first());
    await moment(page).locator('h3', { hasText: 'idle: host late' }).waitFor();
    const text = await moment(page).innerText();
    for (const fact of ['Op before', 'Op after', 'Launched after', 'aten::fill_']) assert.ok(text.includes(fact), `${fact} in ${text}`);
  });
});

test('zoom to one decode step', async () => {
  const one = await file('decoder_graph.json.gz', RECORDED);
  const { rows, summary } = await section(one, 'step_list');
  const step = rows[2];
  assert.equal(step.stage, 'decode');
  await task([one], 1, async (page, { choose }) => {
    const option = page.locator('#strips select option', { hasText: /^3: decode/ }).first();
    await choose(page.locator('#strips select').first(), await option.getAttribute('value'));
    await page.waitForFunction(() => location.hash.includes('window='));
    // FILE@FROM-TO or FROM-TO, in seconds since the first op.
    const window = new URLSearchParams(new URL(page.url()).hash.slice(1)).get('window').split('@').at(-1);
    const [from, to] = window.split('-').map((text) => Math.round(Number(text) * 1e9));
    // JSON.parse rounds times since 1970 to 256 ns.
    assert.ok(Math.abs(from - (step.start_ns - summary.first_op_ns)) < 1_000);
    assert.ok(to > from && to <= from + step.duration_ns + 1_000);
  });
});

test('the slowest step against the median step', { skip }, async () => {
  const one = await file(TRAINING);
  const { rows } = await section(one, 'slowest_step');
  const steps = (await section(one, 'step_list')).rows.map(({ duration_ns: time }) => time).sort((a, b) => a - b);
  const total = rows.find(({ part }) => part === 'total');
  assert.deepEqual([total.in_slowest_ms, total.in_median_ms], [steps.at(-1) / 1e6, steps[(steps.length - 1) >> 1] / 1e6]);
  await task([one], 2, async (page, { click }) => {
    const table = page.locator('.block[data-table=slowest_step]');
    if (!await table.isVisible()) await click(page.locator('#panel summary, #panel button', { hasText: 'Steps, layers and model' }).first());
    await table.getByText(rows[0].part).first().waitFor();
  });
});

test('what changed between two runs', { skip }, async () => {
  const before = await file(DECODE);
  // The same run, but everything takes a quarter longer.
  const trace = JSON.parse(gunzipSync(before.body));
  for (const event of trace.traceEvents) for (const time of ['ts', 'dur']) if (time in event) event[time] *= 1.25;
  const after = { name: 'after.json', body: Buffer.from(JSON.stringify(trace)) };
  await task([before, after], 1, async (page, { click }) => {
    await page.locator('#comparison p', { hasText: /after\.json is 25\.0\s%\sslower than .* per step: 9\.38\sms instead of 7\.51/ }).waitFor();
    await click(page.locator('#comparison button', { hasText: 'in full' }));
    await page.locator('.block[data-table=compare_categories] tbody tr', { hasText: 'attention' }).first().waitFor();
  });
});

test('which rank the others wait for, and why', { skip }, async () => {
  const folder = join(h.traces, 'dlrm_v100_8ranks');
  const files = await Promise.all((await readdir(folder)).filter((name) => name.endsWith('.gz')).map((name) => file(name, folder)));
  await task(files, 1, async (page) => {
    await page.locator('#comparison p', { hasText: /^Rank \d delays the others: .* because / }).waitFor();
  });
});

test('a rule for a kernel', { skip }, async () => {
  await task([await file(DECODE)], 3, async (page, { click, choose }) => {
    await click(kernelButton(page));
    const rule = page.locator('#kernel .kernel-rule');
    await rule.locator('option[value=norm]').waitFor({ state: 'attached' });
    await choose(rule.locator('select'), 'norm');
    await rule.locator('.block[data-table=rule_draft]').waitFor();
    await click(rule.getByRole('button', { name: 'Add the rule' }));
    await page.locator('#kernel .block[data-table=kernel_lanes] .figures', { hasText: 'own rules' }).waitFor();
  });
});

test('by which rule a kernel has its category', { skip }, async () => {
  await task([await file(DECODE)], 3, async (page, { click }) => {
    await click(kernelButton(page));
    await page.locator('#kernel').getByText('Category rule').waitFor();
  });
});

test('a redacted report for a colleague', { skip }, async () => {
  const one = await file(DECODE);
  await task([one], 4, async (page, { click, save }) => {
    await click(page.locator('#export summary'));
    await click(page.locator('#share'));
    await page.locator('.share-preview h2').waitFor();
    await click(page.locator('.share-panel [name=format][value=html]'));
    await page.locator('.share-preview h2', { hasText: /\.html,/ }).waitFor();
    const { name, body } = await save(page.locator('.share-panel .primary'));
    assert.ok(name.endsWith('.html') && body.includes('moe_gemm'));
  });
});

test('the third launch of a kernel that is found by a part of its name', { skip }, async () => {
  await task([await file(DECODE)], 3, async (page, { click, write }) => {
    await write(page.locator('#filter'), 'routingIndicesDynBlock');
    await click(kernelButton(page, 'routingIndicesDynBlock'));
    const third = page.locator('#kernel .block[data-table=kernel_launches] tbody tr').nth(2).locator('button.moment-link');
    const time = Number(await third.innerText());
    await click(third);
    await moment(page).getByText(`${time.toPrecision(3)} ms`).first().waitFor();
  });
});

test('what ran on the CPU while the GPU was idle', { skip }, async () => {
  await task([await file(DECODE)], 2, async (page, { click }) => {
    await click(page.locator('#todo button', { hasText: /Show the longest such/ }).first());
    await moment(page).getByText(/\.py\(\d+\)/).first().waitFor();
  });
});
