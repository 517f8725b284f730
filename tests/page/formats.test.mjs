// Traces of other profilers open in the page with the command line's results, and what is no trace is refused with its sentence.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gzipSync } from 'node:zlib';
import * as h from './harness.mjs';

const { browser, server } = await h.lend();

const KERNELS = `"Kind","Agent_Id","Queue_Id","Thread_Id","Kernel_Id","Kernel_Name","Correlation_Id","Start_Timestamp","End_Timestamp"
"KERNEL_DISPATCH",2,1,7,9,"gemm_kernel",11,1704161511420000100,1704161511420000150
"KERNEL_DISPATCH",2,1,7,9,"softmax",12,1704161511420000160,1704161511420000200
`;
const CALLS = `"Domain","Function","Process_Id","Thread_Id","Correlation_Id","Start_Timestamp","End_Timestamp"
"HIP_RUNTIME_API","hipLaunchKernel",50,7,11,1704161511420000000,1704161511420000020
"HIP_RUNTIME_API","hipLaunchKernel",50,7,12,1704161511420000030,1704161511420000040
`;
const AGENTS = `"Node_Id","Logical_Node_Id","Agent_Type","Cu_Count","Name","Vendor_Name","Product_Name"
2,1,"GPU",304,"gfx942","AMD","AMD Instinct MI300X"
`;

const kernel = (name, device, count, time) =>
  ({ children: [], frame: { name, type: 'function' }, metrics: { count, device_id: device, device_type: 'CUDA', 'time (ns)': time } });
const TREE = JSON.stringify([
  { children: [kernel('matmul_kernel', '0', 7, 1_700), kernel('softmax', '1', 2, 30)], frame: { name: 'ROOT', type: 'function' }, metrics: { count: 0, 'time (ns)': 0 } },
  { CUDA: { 0: { arch: '90' } } },
], null, 4);

const file = (name, text) => ({ name, body: Buffer.from(text) });
const packed = (name, text) => ({ name: `${name}.gz`, body: gzipSync(text) });

test('the tables of a run, gzipped or not, are one trace with the command line\'s report', async () => {
  const { page, faults, close } = await h.openPage(browser, server.origin);
  const tables = [['1_agent_info.csv', AGENTS], ['1_hip_api_trace.csv', CALLS], ['1_kernel_trace.csv', KERNELS]];
  for (const make of [[file, file, file], [packed, packed, packed], [packed, file, packed]]) {
    // The last table is cut before its line end.
    const files = tables.map(([name, text], index) => make[index](name, text.trimEnd()));
    const native = await h.commandLine(['report', ...files.map(({ name }) => name), '--format', 'json'], files);
    await h.clear(page);
    await h.drop(page, ...files);
    await h.settled(page);
    const shown = (await h.exported(page, 'json')).body.toString();
    assert.equal(shown, native.stdout.toString());
    const { runs } = JSON.parse(shown);
    assert.deepEqual(runs.map(({ totals, devices }) => [totals.kernels, devices[0].name]), [[2, 'AMD Instinct MI300X']]);
  }
  assert.deepEqual(faults, []);
  await close();
});

/** Rows that do not repeat, so that half of the gzipped table has a part of them. */
const MANY_KERNELS = KERNELS + Array.from({ length: 300 }, (_, row) => {
  const start = 1704161511420001000n + BigInt(row * 100);
  return `"KERNEL_DISPATCH",2,1,7,9,"gemm_${(row * 7919) % 97}",${row + 20},${start},${start + 50n}\n`;
}).join('');

test('a table that is cut or damaged loses none of the tables after it', async () => {
  const { page, faults, close } = await h.openPage(browser, server.origin);
  const kernels = packed('1_kernel_trace.csv', MANY_KERNELS);
  const cut = kernels.body.subarray(0, kernels.body.length / 2);
  const otherSum = Buffer.from(kernels.body);
  otherSum[otherSum.length - 8] ^= 1;
  for (const [body, code] of [[cut, 'truncated'], [otherSum, 'damaged_gzip']]) {
    const files = [{ ...kernels, body }, packed('1_hip_api_trace.csv', CALLS), packed('1_agent_info.csv', AGENTS)];
    const native = JSON.parse((await h.commandLine(['report', ...files.map(({ name }) => name), '--format', 'json'], files)).stdout).runs[0];
    await h.clear(page);
    await h.drop(page, ...files);
    await h.settled(page);
    const run = JSON.parse((await h.exported(page, 'json')).body).runs[0];
    const { kernels: found } = run.totals;
    // Where the data is damaged, the page loses the rest of the piece of 256 bytes.
    if (code === 'truncated') assert.deepEqual(run.totals, native.totals);
    assert.ok(found > 2 && found <= native.totals.kernels && found > native.totals.kernels - 60, `${found} of ${native.totals.kernels}`);
    // Names of GPUs and calls are in the tables after the broken one.
    assert.deepEqual(run.devices.map(({ name }) => name), ['AMD Instinct MI300X']);
    assert.deepEqual(run.sections.sync, native.sections.sync);
    const codes = ({ notices }) => notices.map((notice) => notice.code);
    if (code === 'truncated') assert.deepEqual(codes(run), codes(native));
    assert.ok(codes(run).includes(code) && codes(native).includes(code), `${codes(run)}`);
    const problem = page.locator('#cards .card', { hasText: 'could not be read' });
    assert.match(await problem.innerText(), /1_kernel_trace\.csv\.gz/);
    await problem.getByRole('button', { name: 'Dismiss' }).click();
  }
  assert.deepEqual(faults, []);
  await close();
});

test('a Proton tree has tables and a notice that there is no timeline', async () => {
  const { page, faults, close } = await h.openPage(browser, server.origin);
  const tree = file('p.hatchet', TREE);
  const native = await h.commandLine(['report', tree.name, '--format', 'json'], [tree]);
  await h.drop(page, tree);
  await h.settled(page);
  const shown = (await h.exported(page, 'json')).body.toString();
  assert.equal(shown, native.stdout.toString());
  const [run] = JSON.parse(shown).runs;
  assert.deepEqual([run.format, run.totals.kernels, run.notices[0].code], ['proton_tree', 9, 'totals_only']);
  assert.deepEqual(faults, []);
  await close();
});

test('what is no trace is refused as on the command line', async () => {
  const { page, faults, close } = await h.openPage(browser, server.origin);
  for (const other of [
    file('a.zip', 'PK\x03\x04 and more'), file('a.txt', 'just some words'), file('a.html', '<html>'), file('a.json', '{"a": 1}'),
    file('b.json', '[{"a": 1}]'), file('a.csv', 'Time (%),Total Time (ns),Instances,Avg (ns),Name\n1,2,3,4,k\n'), file('empty.json', ''),
    file('long.txt', 'words and more words, and no trace\n'.repeat(30_000)), packed('a.parquet', 'PAR1....'),
  ]) {
    const native = await h.commandLine(['report', other.name], [other]);
    await h.clear(page);
    await h.drop(page, other);
    await page.locator('.card.error .message').waitFor();
    const sentence = await h.sentenceOf(page.locator('.card.error .message'));
    assert.ok(h.unquoted(native.stderr).includes(sentence), `the page: ${sentence}\nthe command line: ${native.stderr}`);
  }
  assert.deepEqual(faults, []);
  await close();
});
