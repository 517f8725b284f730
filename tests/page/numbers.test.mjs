// Every number on the page and every exported byte is equal to the command line's for the same file.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import * as h from './harness.mjs';

const { browser, server } = await h.lend();

/** The whole number in a tooltip such as "9,500 ns", with any separator of its digit groups. */
function exact(title) {
  return Number(title.replace(/(?<=\d)[,\s\u2009\u202f\u00a0](?=\d)/g, '').match(/-?\d+/)?.[0]);
}

async function wholeTable(page) {
  // As for printing: all rows at once.
  await page.evaluate(() => dispatchEvent(new Event('beforeprint')));
  return h.readTable(page);
}

async function assertKernelTable(page, report) {
  const [run] = report.runs;
  const table = await wholeTable(page);
  const at = (key) => {
    const index = table.keys.indexOf(key);
    assert.notEqual(index, -1, `a column ${key} among ${table.keys}`);
    return index;
  };
  assert.equal(table.rows.length, run.kernels.length);
  const rows = new Map(table.rows.map(({ name, cells }) => [name, cells]));
  for (const kernel of run.kernels) {
    const row = rows.get(kernel.name);
    assert.ok(row, `a row for ${kernel.name}`);
    assert.equal(row[at('category')].text, kernel.category);
    assert.equal(exact(row[at('count')].text), kernel.count);
    for (const key of ['elapsed_ns', 'duration_ns']) assert.equal(exact(row[at(key)].title), kernel[key], `${key} of ${kernel.name}`);
  }
  for (const key of ['elapsed_ns', 'duration_ns']) assert.equal(exact(table.totals[at(key)].title), run.totals[key], `total ${key}`);
}

test('the kernel table of a generated trace has the command line\'s values, which were computed by hand', async () => {
  const file = h.kineto('server.json', h.SERVER_OPS);
  const report = JSON.parse(await h.jsonReport(file));
  // The all-reduce has the time after the first kernel's end: 14,250 - 10,500 ns. The other ops do not overlap.
  assert.equal(report.runs[0].totals.elapsed_ns, 9_500 + 3_750 + 4_321 + 3_003 + 700 + 1_100 + 650);
  const { page, faults, close } = await h.openPage(browser, server.origin, '#tab=kernels');
  await h.drop(page, file);
  await h.settled(page);
  await assertKernelTable(page, report);
  assert.deepEqual(faults, []);
  await close();
});

test('one click on the example gives the command line\'s numbers', async () => {
  const file = { name: 'example.json.gz', body: await readFile(join(h.dist, 'example.json.gz')) };
  const { page, faults, close } = await h.openPage(browser, server.origin, '#tab=kernels');
  await page.locator('#example').click();
  await h.settled(page);
  await assertKernelTable(page, JSON.parse(await h.jsonReport(file)));
  assert.equal(await page.locator('#verdict').innerText() !== '', true);
  assert.deepEqual(faults, []);
  await close();
});

test('mangled names are demangled like on the command line', async () => {
  const mangled = h.kineto('mangled.json', [
    ['_Z6vecAddPfS_i.kd', 0, 5_000],
    ['_ZN7ck_tile6kentryILi1ENS_12Rmsnorm2dFwdIfEEJEEEvv', 6_000, 3_000],
    ['_Zbroken', 10_000, 1_000],
  ]);
  const { page, faults, close } = await h.openPage(browser, server.origin, '#tab=kernels');
  await h.drop(page, mangled);
  await h.settled(page);
  const { body } = await h.exported(page, 'json');
  assert.equal(body.toString(), (await h.jsonReport(mangled)).toString());
  const [first] = JSON.parse(body).runs[0].kernels;
  assert.equal(first.short_name, 'vecAdd');
  assert.deepEqual(faults, []);
  await close();
});

test('a dropped phase map applies to every trace, like on the command line', async () => {
  const range = (name, ts, dur) => ({ ph: 'X', cat: 'user_annotation', name, pid: 1, tid: 1, ts, dur });
  const kernel = (ts, correlation) => [
    { ph: 'X', cat: 'cuda_runtime', name: 'cudaLaunchKernel', pid: 1, tid: 1, ts, dur: 1, args: { correlation } },
    { ph: 'X', cat: 'kernel', name: 'k', pid: 0, tid: 7, ts: ts + 2, dur: 4, args: { device: 0, stream: 7, correlation } },
  ];
  const traceEvents = [range('alpha', 0, 10), ...kernel(1, 1), range('beta', 20, 10), ...kernel(21, 2)];
  const trace = { name: 'phases.json', body: Buffer.from(JSON.stringify({ traceEvents })) };
  const map = { name: 'map.json', body: Buffer.from('{"first": "alpha", "second": ["re:^be"]}') };
  const { page, faults, close } = await h.openPage(browser, server.origin, '#tab=kernels');
  await h.drop(page, trace);
  await h.settled(page);
  await h.drop(page, map);
  await page.locator('.chip.rules').waitFor();
  await h.settled(page);
  const { body } = await h.exported(page, 'json');
  const rows = JSON.parse(body).runs[0].sections.nvtx_kernel_phases.rows;
  assert.deepEqual(rows.map(({ phase, total_time_ms }) => [phase, total_time_ms]), [['first', 0.004], ['second', 0.004], ['unmapped', 0]]);
  const native = await h.commandLine(['report', 'phases.json', '--phase-map', 'map.json', '--format', 'json'], [trace, map]);
  assert.equal(body.toString(), native.stdout.toString());
  assert.deepEqual(faults, []);
  await close();
});

test('a dropped config of a model applies to every trace, like on the command line', async () => {
  const traceEvents = [
    { ph: 'X', cat: 'user_annotation', name: 'step[DECODE bs=2 g_sq=2 g_sk=50]', pid: 1, tid: 1, ts: 0, dur: 10 },
    { ph: 'X', cat: 'cuda_runtime', name: 'cudaLaunchKernel', pid: 1, tid: 1, ts: 1, dur: 1, args: { correlation: 1 } },
    { ph: 'X', cat: 'kernel', name: 'k', pid: 0, tid: 7, ts: 20, dur: 400, args: { device: 0, stream: 7, correlation: 1 } },
  ];
  const deviceProperties = [{ id: 0, name: 'NVIDIA H100 80GB HBM3' }];
  const trace = { name: 'decode.json', body: Buffer.from(JSON.stringify({ deviceProperties, traceEvents })) };
  const dimensions = { hidden_size: 1024, num_hidden_layers: 10, num_attention_heads: 8, intermediate_size: 4096, vocab_size: 10000 };
  const config = { name: 'config.json', body: Buffer.from(JSON.stringify(dimensions)) };
  const { page, faults, close } = await h.openPage(browser, server.origin, '#tab=kernels');
  await h.drop(page, config);
  await page.locator('.chip.rules').waitFor();
  await h.drop(page, trace);
  await h.settled(page);
  const { body } = await h.exported(page, 'json');
  const [row] = JSON.parse(body).runs[0].sections.step_floor.rows;
  assert.equal(row.weights_gb, (10 * (4 * 1024 * 1024 + 3 * 1024 * 4096) + 10000 * 1024) * 2 / 1e9);
  const native = await h.commandLine(['report', 'decode.json', '--config', 'config.json', '--format', 'json'], [trace, config]);
  assert.equal(body.toString(), native.stdout.toString());
  const servers = { name: 'server_args.json', body: Buffer.from('{"model_path": "m", "tp_size": 2}') };
  await h.drop(page, servers);
  await page.locator('.chip.rules', { hasText: 'server_args.json' }).waitFor();
  await h.settled(page);
  const { body: divided } = await h.exported(page, 'json');
  assert.equal(JSON.parse(divided).runs[0].sections.step_floor.rows[0].weights_gb, row.weights_gb / 2);
  assert.deepEqual(faults, []);
  await close();
});

const HOSTILE = h.kineto('hostile "names" & <b>.json', [
  ['<img src=x onerror=alert(1)>', 0, 5_000],
  ['=cmd|\' /C calc\'!A0', 6_000, 5_000],
  ['|a|`b`\n# c\t\u0001\u202e', 12_000, 5_000],
  ['x'.repeat(5_000), 18_000, 5_000],
  ['\ud83d\ude80 gemm', 24_000, 1],
]);

const EXPORTS = [
  ['one file', () => [h.kineto('server.json', h.SERVER_OPS)]],
  ['hostile names', () => [HOSTILE]],
  ['two files at once, in the order given', () => [h.kineto('b.json', h.SERVER_OPS), h.kineto('a.json', h.SERVER_OPS.slice(2))]],
  ['two devices', () => [h.kineto('devices.json', h.SERVER_OPS.map(([name, start, duration, stream], at) => [name, start, duration, stream, at % 2]))]],
];
for (const [what, make] of EXPORTS) {
  test(`the exported JSON is the command line's, byte for byte: ${what}`, async () => {
    const files = make();
    const { page, faults, close } = await h.openPage(browser, server.origin, '#tab=kernels');
    await h.drop(page, ...files);
    await h.settled(page);
    await page.waitForFunction((count) => document.querySelectorAll('#runs > li:not(.to-come)').length === count, files.length);
    const { name, body } = await h.exported(page, 'json');
    assert.equal(name, 'gpuprism-report.json');
    assert.equal(body.toString(), (await h.jsonReport(...files)).toString());
    assert.deepEqual(faults, []);
    await close();
  });
}

test('an exported report opens again and exports the same bytes', async () => {
  const first = await h.jsonReport(h.kineto('server.json', h.SERVER_OPS));
  const { page, faults, close } = await h.openPage(browser, server.origin, '#tab=kernels');
  await h.drop(page, { name: 'gpuprism-report.json', body: first });
  await h.settled(page);
  await assertKernelTable(page, JSON.parse(first));
  assert.equal((await h.exported(page, 'json')).body.toString(), first.toString());
  assert.deepEqual(faults, []);
  await close();
});

test('settings apply to the report', async () => {
  const { page, faults, close } = await h.openPage(browser, server.origin, '#tab=kernels');
  await h.drop(page, h.kineto('server.json', h.SERVER_OPS));
  await h.settled(page);
  await h.openSettings(page);
  await page.locator('[name=attribution]').selectOption('first_come');
  await page.locator('[name=devices]').selectOption('merged');
  await page.locator('#wall summary').click();
  await page.locator('#wall input').fill('1.5');
  await page.locator('#wall input').press('Enter');
  await h.settled(page);
  const [run] = JSON.parse((await h.exported(page, 'json')).body).runs;
  assert.equal(run.attribution, 'first_come');
  assert.equal(run.devices_merged, true);
  assert.equal(run.wall.source, 'given');
  assert.equal(run.wall.wall_ns, 1_500_000_000);
  await h.openSettings(page);
  await page.locator('#wall summary').click();
  await page.locator('#wall input').fill('soon');
  await page.locator('#wall input').press('Enter');
  await page.locator('.card.error .message').waitFor();
  assert.match(await page.locator('.card.error .message').innerText(), /soon/);
  assert.equal(await page.locator('#results').isVisible(), true);
  assert.deepEqual(faults, []);
  await close();
});

const REAL = [
  'sglang_qwen3_8b_mi300_decode.trace.json.gz', 'vllm_mi300_decode_full_graph.trace.json.gz', 'h100_nvl_small.pt.trace.json.gz',
  'nccl_metadata_a100.trace.json.gz', 'mi250_minitoy.trace.json.gz', 'cpu_only.pt.trace.json.gz',
  'cupti_range_profiler_no_kernels.trace.json.gz',
];
test('the page shows the command line\'s numbers for real traces', { skip: h.noTraces }, async (t) => {
  const { page, faults, close } = await h.openPage(browser, server.origin, '#tab=kernels');
  for (const name of REAL) {
    await t.test(name, async () => {
      const file = { name, body: await readFile(join(h.traces, name)) };
      const native = await h.commandLine(['report', name, '--format', 'json'], [file]);
      await h.clear(page);
      await h.drop(page, file);
      if (native.status === 0) {
        await h.settled(page);
        assert.equal((await h.exported(page, 'json')).body.toString(), native.stdout.toString());
      } else {
        await page.locator('.card.error .message').waitFor();
        assert.ok(h.unquoted(native.stderr).includes(await page.locator('.card.error .message').innerText()));
      }
    });
  }
  assert.deepEqual(faults, []);
  await close();
});
