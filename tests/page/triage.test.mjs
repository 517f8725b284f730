// Torch traces, and no other files, have a triage tab. Its module is fetched when the tab is opened, its results are the command
// line's, kernels and source lines are clickable, and names stay text.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import * as h from './harness.mjs';

const { browser, server } = await h.lend();

const HOSTILE = '<img src=x onerror=alert(1)>';

/** A torch trace of two steps, a prefill and a decode, whose kernels are launched by ops in Python frames. */
function coded(name, { kernel = 'void cutlass::Kernel<cutlass_80_tensorop_bf16_s16816gemm_bf16>(Params)', file = 'python/sglang/srt/models/qwen3.py' } = {}) {
  const host = (cat, text, ts, dur, args) => ({ ph: 'X', cat, name: text, pid: 1, tid: 1, ts, dur, args });
  const launch = (ts, id, text, dur) => [
    host('cpu_op', 'aten::mm', ts, 8, { 'External id': id }),
    host('cuda_runtime', 'cudaLaunchKernel', ts + 1, 4, { correlation: id, 'External id': id }),
    { ph: 'X', cat: 'kernel', name: text, pid: 0, tid: 7, ts: ts + 10, dur, args: { device: 0, stream: 7, correlation: id, 'External id': id } },
  ];
  const step = (text, ts, id) => [
    host('user_annotation', text, ts, 90, {}),
    host('python_function', `${file}(310): forward`, ts + 1, 60, { 'Python id': id, 'Python parent id': 0 }),
    ...launch(ts + 2, id, kernel, 20),
    ...launch(ts + 32, id + 1, 'void vllm::rms_norm_kernel<c10::BFloat16>(c10::BFloat16*, int)', 5),
  ];
  const traceEvents = [...step('step[EXTEND bs=1 toks=128]', 0, 1), ...step('step[DECODE bs=16]', 100, 3)];
  return { name, body: Buffer.from(JSON.stringify({ schemaVersion: 1, traceEvents })) };
}

const fetched = (pattern) => server.requests.filter((path) => pattern.test(path)).length;

async function openTriage(page) {
  await h.openTab(page, 'triage');
  await triaged(page);
}

const triaged = (page) => page.waitForFunction(() => document.querySelector('.block[data-table^=triage_]')
  && !document.querySelector('.triage-run.reading') && document.querySelector('#results[aria-busy=false]'), null, { timeout: 60_000 });

const report = async (page) => JSON.parse((await h.exported(page, 'json')).body);

test('torch traces have a triage in the menu before and after it is opened; other files have none', async () => {
  const { page, faults, close } = await h.openPage(browser, server.origin);
  await h.drop(page, coded('run.json'));
  await h.settled(page);
  const menu = () => page.locator('#more button').evaluateAll((items) => items.map(({ id }) => id));
  const before = await menu();
  assert.ok(before.includes('more-triage'), String(before));
  await openTriage(page);
  assert.deepEqual(await menu(), before);
  await h.clear(page);
  const csv = 'Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,StcSMem (MB),DymSMem (MB),Bytes (MB),Throughput (MBps),SrcMemKd,DstMemKd,Device,Ctx,GreenCtx,Strm,Name\n1000,500,1,1,1,1,32,1,1,16,0,0,,,,,NVIDIA H100 (0),1,,7,k\n';
  await h.drop(page, { name: 'run.csv', body: Buffer.from(csv) });
  await page.waitForFunction(() => document.querySelector('#more-rules') && !document.querySelector('#more-triage'));
  assert.deepEqual(faults, []);
  await close();
});

test('the script is fetched when the tab is opened, and nothing else is requested', async () => {
  const { page, faults, close } = await h.openPage(browser, server.origin);
  server.requests.length = 0;
  const asked = [];
  page.on('request', (request) => asked.push([request.method(), request.url()]));
  await h.drop(page, coded('run.json'));
  await h.settled(page);
  assert.equal(fetched(/triage/), 0);
  await openTriage(page);
  assert.deepEqual([...new Set(server.requests)].filter((path) => /triage|full/.test(path)).sort(), ['/pkg/gpuprism_full.js', '/pkg/gpuprism_full_bg.wasm', '/triage.js']);
  for (const [method, url] of asked) assert.ok(method === 'GET' && (url.startsWith(`${server.origin}/`) || url.startsWith(`blob:${server.origin}/`)), `${method} ${url}`);
  for (const worker of page.workers()) assert.match(worker.url(), /^blob:/);
  assert.equal(page.workers().length, 3, 'one for the trace, one that renders, one for the lines below the verdict: the reader without code has ended');
  assert.deepEqual(faults, []);
  await close();
});

/** The command line's triage of the first file. */
async function native(file, args = [], ...others) {
  const { status, stdout, stderr } = await h.commandLine(['triage', '--input', file.name, ...args, '--format', 'json'], [file, ...others]);
  assert.equal(status, 0, stderr);
  return stdout.toString();
}

/** The bytes of the triage's sections, up to the next section or the end of the report. */
function triageBytes(text) {
  const from = text.indexOf('"triage_catalog"');
  assert.notEqual(from, -1);
  const to = text.indexOf('"trust": {', from);
  return text.slice(from, to === -1 ? undefined : to).replace(/[\s,}\]]+$/, '');
}

/** Asserts that the triage in the page's report is the command line's and that the rest is the report without it. */
async function assertSameReport(page, file) {
  const { body } = await h.exported(page, 'json');
  const wanted = await native(file);
  assert.equal(triageBytes(body.toString()), triageBytes(wanted));
  const [mine, theirs] = [JSON.parse(body), JSON.parse(wanted)];
  const names = Object.keys(mine.runs[0].sections).filter((name) => name.startsWith('triage_'));
  assert.deepEqual(names, ['triage_catalog', 'triage_fuse', 'triage_kernels', 'triage_overlap', 'triage_steps', 'triage_summary']);
  names.forEach((name) => delete mine.runs[0].sections[name]);
  assert.deepEqual(mine, JSON.parse(await h.jsonReport(file)));
  // The command line triages without the other sections, which the verdict is made from.
  Object.assign(theirs.runs[0], { sections: mine.runs[0].sections, verdict: mine.runs[0].verdict });
  assert.deepEqual(theirs, mine);
}

test('reports with the triage are the command line\'s byte for byte', async (t) => {
  const recorded = ['sglang_qwen3_30b_b300_decode.trace.json.gz', 'vllm_mi300_decode_full_graph.trace.json.gz', 'vllm_b200_eager_prefill.trace.json.gz'];
  for (const name of ['run.json', ...recorded]) {
    const isRecorded = name !== 'run.json';
    await t.test(name, { skip: isRecorded && h.noTraces }, async () => {
      const file = isRecorded ? { name, body: await readFile(join(h.traces, name)) } : coded(name);
      const { page, faults, close } = await h.openPage(browser, server.origin, '#tab=triage');
      await h.drop(page, file);
      await triaged(page);
      await assertSameReport(page, file);
      assert.deepEqual(faults, []);
      await close();
    });
  }
});

test('later settings keep the triage, and the address restores the tab', async () => {
  const { page, faults, close } = await h.openPage(browser, server.origin);
  await h.drop(page, coded('run.json'));
  await h.settled(page);
  await openTriage(page);
  assert.match(page.url(), /tab=triage/);
  await h.openSettings(page);
  await page.locator('[name=attribution]').selectOption('exclusive');
  await h.drop(page, { name: 'mine.json', body: Buffer.from(JSON.stringify({ gpuprism: { default: { rms: 'my_norm' } } })) });
  await page.locator('#legend button', { hasText: 'my_norm' }).waitFor({ state: 'attached' });
  await triaged(page);
  const [run] = (await report(page)).runs;
  assert.equal(run.attribution, 'exclusive');
  assert.ok(run.categories.some(({ category }) => category === 'my_norm'));
  assert.ok(run.sections.triage_kernels);
  await page.reload();
  await page.locator('html[data-simd]').waitFor({ state: 'attached' });
  await h.drop(page, coded('run.json'));
  await triaged(page);
  assert.equal(await page.locator('#tab-triage').getAttribute('aria-selected'), 'true');
  assert.deepEqual(faults, []);
  await close();
});

test('server arguments are a chip and no run', async () => {
  const { page, faults, close } = await h.openPage(browser, server.origin, '#tab=triage');
  await h.drop(page, coded('run.json'), { name: 'server_args.json', body: Buffer.from('{"model_path": "Qwen/Qwen3-8B", "tp_size": 2}') });
  await page.locator('.chip.rules', { hasText: 'server_args.json' }).waitFor();
  await triaged(page);
  assert.equal((await report(page)).runs.length, 1);
  await h.drop(page, { name: 'server_args.json', body: Buffer.from('[1]') });
  await page.locator('.card.error .message').waitFor();
  assert.deepEqual(faults, []);
  await close();
});

test('server arguments apply to the triage, and a trace of captures provides source lines, like on the command line', { skip: h.noTraces }, async (t) => {
  const names = ['vllm_mi300_decode_full_graph.trace.json.gz', 'vllm_mi300_graph_capture.pt.trace.json.gz'];
  const [trace, capture] = await Promise.all(names.map(async (name) => ({ name, body: await readFile(join(h.traces, name)) })));
  const args = { name: 'server_args.json', body: Buffer.from('{"model_path": "Qwen/Qwen3-8B", "tp_size": 2}') };
  const [theirs] = JSON.parse(await native(trace, [capture.name], capture, args)).runs;
  assert.equal(theirs.label, trace.name);
  // The command makes no other sections, and some key figures come from those.
  const sections = Object.entries(theirs.sections).filter(([name]) => name !== 'key_figures');
  assert.ok(sections.length >= 5);
  for (const drops of [[[capture, trace, args]], [[trace], [capture], [args]]]) {
    await t.test(`dropped in ${drops.length} steps`, async () => {
      const { page, faults, close } = await h.openPage(browser, server.origin, '#tab=triage');
      for (const files of drops) {
        await h.drop(page, ...files);
        await triaged(page);
      }
      await page.waitForFunction(() => document.querySelectorAll('.triage-run select').length === 2, null, { timeout: 60_000 });
      await page.locator('.chip.rules', { hasText: args.name }).waitFor();
      await triaged(page);
      const choice = page.locator('.triage-run', { has: page.locator(`.run-label[title="${trace.name}"]`) }).locator('select option:checked');
      assert.equal(await choice.textContent(), capture.name);
      const mine = (await report(page)).runs.find(({ label }) => label === trace.name).sections;
      for (const [name, section] of sections) assert.deepEqual(mine[name], section, name);
      assert.deepEqual(faults, []);
      await close();
    });
  }
});

/** A torch trace whose two kernels are launched by one graph. */
function replayed(name) {
  const call = { ph: 'X', cat: 'cuda_runtime', name: 'cudaGraphLaunch', pid: 1, tid: 1, ts: 5, dur: 4, args: { correlation: 9 } };
  const kernels = ['void cutlass::Kernel<cutlass_80_tensorop_bf16_s16816gemm_bf16>(Params)', 'void vllm::rms_norm_kernel<c10::BFloat16>(c10::BFloat16*, int)']
    .map((kernel, at) => ({ ph: 'X', cat: 'kernel', name: kernel, pid: 0, tid: 7, ts: 20 + 30 * at, dur: 20, args: { device: 0, stream: 7, correlation: 9, 'graph node id': at + 1 } }));
  const runner = { ph: 'X', cat: 'python_function', name: 'python/sglang/srt/model_executor/cuda_graph_runner.py(812): replay', pid: 1, tid: 1, ts: 1, dur: 80, args: { 'Python id': 1, 'Python parent id': 0 } };
  return { name, body: Buffer.from(JSON.stringify({ schemaVersion: 1, traceEvents: [runner, call, ...kernels] })) };
}

test('kernels with lines of their own need no eager capture', async () => {
  const { page, faults, close } = await h.openPage(browser, server.origin, '#tab=triage');
  await h.drop(page, coded('eager.json'));
  await triaged(page);
  assert.equal(await page.locator('.mapping-offer').count(), 0);
  assert.deepEqual(faults, []);
  await close();
});

test('kernels of graphs take their Python lines from an eager capture that is dropped on the offer', async () => {
  const { page, faults, close } = await h.openPage(browser, server.origin, '#tab=triage');
  await h.drop(page, replayed('graphs.json'));
  await triaged(page);
  const places = () => page.locator('[data-table^=triage_kernels] button.place').allTextContents();
  const replays = await places();
  assert.ok(replays.length === 2 && replays.every((place) => place.includes('cuda_graph_runner.py:812')), String(replays));
  const offer = page.locator('.mapping-offer');
  const { name, body } = coded('eager.json');
  await offer.evaluate((node, text) => {
    const dataTransfer = new DataTransfer();
    dataTransfer.items.add(new File([text], 'eager.json'));
    for (const type of ['dragenter', 'dragover', 'drop']) node.dispatchEvent(new DragEvent(type, { dataTransfer, bubbles: true, cancelable: true }));
  }, body.toString());
  await offer.waitFor({ state: 'detached' });
  await page.locator('[data-table^=triage_kernels] button.place', { hasText: 'qwen3.py:310' }).first().waitFor();
  await triaged(page);
  assert.equal(await page.locator('.triage-run', { has: page.locator('.run-label[title="graphs.json"]') }).locator('select option:checked').textContent(), name);
  const [run] = (await report(page)).runs;
  assert.equal(run.label, 'graphs.json');
  assert.ok(JSON.stringify(run.sections.triage_kernels).includes('qwen3.py:310'));
  assert.deepEqual(faults, []);
  await close();
});

/** Drops a folder, given as {path: body}. Scripts cannot create a real one, so its entries are mocked. */
async function dropFolder(page, files) {
  await page.evaluate((listed) => {
    const tree = {};
    for (const [path, text] of listed) {
      const parts = path.split('/');
      const base = parts.pop();
      parts.reduce((at, part) => (at[part] ??= {}), tree)[base] = text;
    }
    const entry = (name, what, around) => {
      const fullPath = `${around}/${name}`;
      if (typeof what === 'string') return { isFile: true, isDirectory: false, fullPath, file: (done) => done(new File([what], name)) };
      let rest = Object.entries(what).map(([below, inside]) => entry(below, inside, fullPath));
      return { isFile: false, isDirectory: true, fullPath, createReader: () => ({ readEntries: (done) => [done(rest.slice(0, 2)), (rest = rest.slice(2))] }) };
    };
    const [[name, what]] = Object.entries(tree);
    DataTransferItem.prototype.webkitGetAsEntry = () => entry(name, what, '');
    const dataTransfer = new DataTransfer();
    dataTransfer.items.add(new File([''], name));
    for (const type of ['dragenter', 'drop']) document.body.dispatchEvent(new DragEvent(type, { dataTransfer, bubbles: true, cancelable: true }));
  }, Object.entries(files));
}

test('a profile folder opens its traces and settings and names what is set aside', async () => {
  const { page, faults, close } = await h.openPage(browser, server.origin);
  const trace = coded('x').body.toString();
  await dropFolder(page, {
    'profile/prefill/1-TP-0.trace.json': trace, 'profile/prefill/1-TP-1.trace.json': trace, 'profile/decode/1-TP-0.trace.json': trace,
    'profile/server_args.json': '{"model_path": "m"}', 'profile/notes.txt': 'x',
  });
  await page.locator('.chip').nth(3).waitFor();
  await h.settled(page);
  const chips = await page.locator('.chip-name').allTextContents();
  assert.deepEqual(new Set(chips), new Set(['profile/prefill/1-TP-0.trace.json', 'profile/prefill/1-TP-1.trace.json', 'profile/decode/1-TP-0.trace.json', 'profile/server_args.json']));
  const card = await page.locator('.card').innerText();
  assert.ok(card.includes('notes.txt') && !card.includes('1-TP-1'), card);
  await openTriage(page);
  assert.deepEqual(faults, []);
  await close();
});

/** A decode step of 30 requests that replays a product, and the capture of its graph for batch 32. */
function replayedProduct() {
  const host = (cat, name, ts, dur, args = {}) => ({ ph: 'X', cat, name, pid: 9, tid: 9, ts, dur, args });
  const kernel = 'Cijk_Alik_Bljk_BBS_BH_MT32x32x256';
  const gpu = { ...host('kernel', kernel, 1040, 20, { device: 0, stream: 7, correlation: 5 }), pid: 0, tid: 7 };
  const step = [host('user_annotation', 'step[DECODE bs=30]', 1000, 100), host('cuda_runtime', 'hipGraphLaunch', 1010, 5, { correlation: 5 }), gpu];
  const capture = [
    host('user_annotation', 'capture_32_DECODE', 50, 300), host('cuda_runtime', 'hipStreamBeginCapture', 100, 1),
    host('cpu_op', 'aten::mm', 110, 20, { 'External id': 1, 'Input Dims': [[32, 4096], [4096, 6144]], 'Input type': ['c10::BFloat16', 'c10::BFloat16'] }),
    host('cuda_runtime', 'hipLaunchKernel', 115, 2, { kernel }), host('cuda_runtime', 'hipStreamEndCapture', 150, 1),
  ];
  return [step, capture].map((traceEvents) => JSON.stringify({ schemaVersion: 1, traceEvents }));
}

test('captures of graphs in a dropped folder give replayed kernels their shapes and are no runs', async () => {
  const { page, faults, close } = await h.openPage(browser, server.origin);
  const [step, capture] = replayedProduct();
  await dropFolder(page, { 'run/t.json': step, 'run/capture_traces/bs_32_rank0.json': capture, 'run/capture_traces/bs_64_rank0.json': '{' });
  await h.settled(page);
  const { runs } = await report(page);
  assert.equal(runs.length, 1);
  const [product] = runs[0].sections.op_costs.rows;
  // 2 x 32 x 6,144 x 4,096 operations.
  assert.deepEqual([product.op, product.shape, product.gflop], ['aten::mm', '32 x 6144 x 4096', 1.610612736]);
  const [notice] = runs[0].notices.filter(({ code }) => code === 'graph_captures');
  assert.match(notice.message, /^1 of the 1 ops that graphs replay/);
  assert.deepEqual(faults, []);
  await close();
});

test('a torch trace can take its source lines from another', async () => {
  const { page, faults, close } = await h.openPage(browser, server.origin, '#tab=triage');
  await h.drop(page, coded('graph.json'), coded('eager.json'));
  await page.waitForFunction(() => document.querySelectorAll('.triage-run select').length === 2);
  await triaged(page);
  const choice = page.locator('.triage-run', { hasText: 'graph.json' }).first().locator('select');
  assert.deepEqual(await choice.locator('option').allTextContents(), ['this trace', 'eager.json']);
  await choice.selectOption({ label: 'eager.json' });
  await page.waitForFunction(() => document.querySelectorAll('.triage-run select').length === 2);
  await triaged(page);
  assert.equal(await page.locator('.triage-run select').first().locator('option:checked').textContent(), 'eager.json');
  await page.locator('.chip', { hasText: 'eager.json' }).locator('button').click();
  await page.waitForFunction(() => document.querySelectorAll('.triage-run').length === 0);
  await triaged(page);
  assert.equal((await report(page)).runs.length, 1);
  assert.deepEqual(faults, []);
  await close();
});

/** A report of the command line with a triage that is added by hand. */
async function byHand(kernel = 'void vllm::rms_norm_kernel<c10::BFloat16>') {
  const text = JSON.parse(await h.jsonReport(h.kineto('server.json', h.SERVER_OPS)));
  const section = (title, rows) => ({ title, derived_from: '', limits: [], missing: null, summary: {}, rows_in_all: rows.length, columns: Object.keys(rows[0]), rows });
  const row = (stage, name, ns) => ({ stage, kernel_name: name, category: 'norm', duration_ns: ns, share_pct: 12.5, python_location: 'python/sglang/srt/models/qwen3.py:310 forward\npython/sglang/srt/layers/norm.py:7 call' });
  text.runs[0].sections = {
    triage_summary: section('Triage', [{ stage: 'decode', launches: 2, dominated_by: HOSTILE }]),
    triage_kernels: section('Kernel table', [row('decode', kernel, 1350), row('extend/prefill', HOSTILE, 9500)]),
    triage_fuse: section('Fuse patterns', [{ stage: 'decode', pattern: 'p', evidence: `one\ntwo ${HOSTILE}` }]),
  };
  return { name: 'triage.json', body: Buffer.from(JSON.stringify(text)) };
}

async function openByHand() {
  const opening = await h.openPage(browser, server.origin, '#tab=triage');
  await opening.page.context().grantPermissions(['clipboard-read', 'clipboard-write'], { origin: server.origin });
  await h.drop(opening.page, await byHand());
  await h.settled(opening.page);
  await opening.page.locator('#triage').waitFor();
  return opening;
}

const clipboard = (page) => page.evaluate(() => navigator.clipboard.readText());

test('each stage has a table, in the order of stages, with list items on lines and hostile names as text', async () => {
  const { page, faults, close } = await openByHand();
  assert.deepEqual(await page.locator('.block h2').allTextContents(), ['Triage', 'Kernel table: extend/prefill', 'Kernel table: decode', 'Fuse patterns: decode']);
  const decode = page.locator('.block[data-table="triage_kernels@decode"]');
  assert.equal(await decode.locator('tbody tr').count(), 1);
  assert.deepEqual(await decode.locator('button.place').allTextContents(), ['python/sglang/srt/models/qwen3.py:310 forward', 'python/sglang/srt/layers/norm.py:7 call']);
  const evidence = page.locator('.block[data-table="triage_fuse@decode"] td').nth(1);
  assert.deepEqual((await evidence.innerText()).split('\n'), ['one', `two ${HOSTILE}`]);
  assert.equal(await page.locator('#results img').count(), 0);
  assert.deepEqual(faults, []);
  await close();
});

test('a source line is copied as path and line', async () => {
  const { page, faults, close } = await openByHand();
  const source = page.locator('[data-table^=triage_kernels] a.source-link').first();
  assert.equal(await source.getAttribute('href'), 'https://github.com/sgl-project/sglang/blob/main/python/sglang/srt/models/qwen3.py#L310');
  assert.match(await source.getAttribute('title'), /the line may have moved/);
  await page.locator('button.place').first().click();
  await page.waitForFunction(() => document.querySelector('button.place').dataset.message === 'Copied');
  assert.equal(await clipboard(page), 'python/sglang/srt/models/qwen3.py:310');
  assert.deepEqual(faults, []);
  await close();
});

test('a kernel of the triage opens its row among all kernels; Back returns', async () => {
  const { page, faults, close } = await openByHand();
  await page.locator('.block[data-table="triage_kernels@decode"] button.kernel').click();
  await page.waitForFunction(() => document.querySelector('#tab-kernels').getAttribute('aria-selected') === 'true' && document.querySelectorAll('.table-kernels tbody tr').length === 1);
  assert.match((await h.readTable(page)).rows[0].name, /rms_norm/);
  await page.goBack();
  await page.locator('.block[data-table="triage_kernels@decode"]').waitFor();
  assert.deepEqual(faults, []);
  await close();
});

test('one click copies the whole triage as Markdown', async () => {
  const { page, faults, close } = await openByHand();
  await page.locator('#triage button', { hasText: 'Copy triage as Markdown' }).click();
  await page.locator('#triage button', { hasText: 'Copied' }).waitFor();
  const text = await clipboard(page);
  assert.deepEqual(text.match(/^## .*/gm), ['## Triage', '## Kernel table: extend/prefill', '## Kernel table: decode', '## Fuse patterns: decode']);
  assert.ok(text.includes('qwen3.py:310') && text.includes('1.35') && !text.includes('<img'), text);
  assert.deepEqual(faults, []);
  await close();
});

test('a triage that cannot be loaded is reported in its tab with the command; the other results stay', async () => {
  const { page, close } = await h.openPage(browser, server.origin);
  await page.route('**/gpuprism_full_bg.wasm', (route) => route.fulfill({ status: 503 }));
  await h.drop(page, coded('run.json'));
  await h.settled(page);
  await h.openTab(page, 'triage');
  const card = page.locator('#triage .card.error');
  await card.waitFor();
  assert.match(await card.textContent(), /gpuprism triage --input run\.json/);
  await h.openTab(page, 'kernels');
  await page.locator('.table-kernels').waitFor();
  await page.unroute('**/gpuprism_full_bg.wasm');
  await h.openTab(page, 'triage');
  await card.locator('button', { hasText: 'Try again' }).click();
  await triaged(page);
  assert.equal(await card.count(), 0);
  await close();
});
