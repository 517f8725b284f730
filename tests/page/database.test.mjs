// An Nsight Systems export opens in the page with the command line's results. It is never in memory as a whole, damaged files are
// answered with a sentence, and the module that reads databases is fetched for databases only.

import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import * as h from './harness.mjs';

const { browser, server } = await h.lend();
const folder = await mkdtemp(join(tmpdir(), 'gpuprism-exports-'));
after(() => rm(folder, { recursive: true }));
await h.writeNsysExport(join(folder, 'small.sqlite'), 0.01);
const small = await readFile(join(folder, 'small.sqlite'));

/** Asserts that the page shows the command line's report of a file, or its sentence. */
async function assertSameAnswer(page, file) {
  const native = await h.commandLine(['report', file.name, '--format', 'json'], [file]);
  await h.clear(page);
  await h.drop(page, file);
  if (native.status === 0) {
    await h.settled(page);
    assert.equal((await h.exported(page, 'json')).body.toString(), native.stdout.toString());
    return 'read';
  }
  await page.locator('.card.error .message').waitFor();
  const sentence = await h.sentenceOf(page.locator('.card.error .message'));
  assert.ok(sentence.startsWith(`${file.name}: `), sentence);
  assert.ok(h.unquoted(native.stderr).includes(sentence), `the page: ${sentence}\nthe command line: ${native.stderr}`);
  return 'refused';
}

test('reports of real exports are the command line\'s byte for byte', { skip: h.noTraces }, async (t) => {
  const names = readdirSync(h.nsysExports).filter((name) => name.endsWith('.sqlite'));
  assert.notEqual(names.length, 0, `exports in ${h.nsysExports}`);
  const { page, faults, close } = await h.openPage(browser, server.origin);
  for (const name of names) {
    await t.test(name, async () => {
      assert.equal(await assertSameAnswer(page, { name, body: await readFile(join(h.nsysExports, name)) }), 'read');
    });
  }
  assert.deepEqual(faults, []);
  await close();
});

test('a generated export gives the command line\'s report: plain, gzipped in two members, and under another name', async () => {
  const { page, faults, close } = await h.openPage(browser, server.origin);
  const packed = Buffer.concat([gzipSync(small.subarray(0, 1_234_567)), gzipSync(small.subarray(1_234_567))]);
  for (const file of [{ name: 'run.sqlite', body: small }, { name: 'run.sqlite.gz', body: packed }, { name: 'run.json', body: small }]) {
    assert.equal(await assertSameAnswer(page, file), 'read');
    const [run] = JSON.parse((await h.exported(page, 'json')).body).runs;
    assert.ok(run.totals.gpu_ops > 10_000, `${run.totals.gpu_ops} GPU ops`);
  }
  assert.deepEqual(faults, []);
  await close();
});

test('later settings apply to an export, and a trace is compared with it', async () => {
  const { page, faults, close } = await h.openPage(browser, server.origin);
  await h.drop(page, { name: 'run.sqlite', body: small }, h.kineto('b.json', h.SERVER_OPS));
  await h.settled(page);
  await page.waitForFunction(() => document.querySelectorAll('#runs > li:not(.to-come)').length === 2);
  await h.openSettings(page);
  await page.locator('[name=attribution]').selectOption('exclusive');
  await h.settled(page);
  const { runs } = JSON.parse((await h.exported(page, 'json')).body);
  assert.deepEqual(runs.map(({ label, attribution }) => [label, attribution]), [['run.sqlite', 'exclusive'], ['b.json', 'exclusive']]);
  assert.deepEqual(faults, []);
  await close();
});

/** A database with one table, after the description of SQLite's file format (sections 1.3, 1.6, 2.1). */
function database(sql) {
  const page = 512;
  const text = Buffer.from(sql);
  const table = /TABLE (\w+)/.exec(sql)[1];
  const types = [23, 13 + 2 * table.length, 13 + 2 * table.length, 1, ...varint(13 + 2 * text.length)];
  const record = Buffer.concat([Buffer.from([types.length + 1, ...types]), Buffer.from(`table${table}${table}`), Buffer.from([2]), text]);
  const cell = Buffer.concat([Buffer.from([...varint(record.length), 1]), record]);
  const bytes = Buffer.alloc(2 * page);
  bytes.write('SQLite format 3\0', 'latin1');
  bytes.writeUInt16BE(page, 16);
  Buffer.from([1, 1, 0, 64, 32, 32]).copy(bytes, 18);
  bytes.writeUInt32BE(2, 28);
  bytes.writeUInt32BE(1, 40);
  bytes.writeUInt32BE(4, 44);
  bytes.writeUInt32BE(1, 56);
  const at = page - cell.length;
  Buffer.from([0x0d, 0, 0, 0, 1, at >> 8, at & 255, 0, at >> 8, at & 255]).copy(bytes, 100);
  cell.copy(bytes, at);
  Buffer.from([0x0d, 0, 0, 0, 0, page >> 8, page & 255, 0]).copy(bytes, page);
  return bytes;
}

const varint = (n) => (n < 128 ? [n] : [0x80 | n >> 7, n & 127]);

test('a database that is no export is refused with what it is', async () => {
  const { page, faults, close } = await h.openPage(browser, server.origin);
  for (const [sql, want] of [
    ['CREATE TABLE songs (title TEXT)', /not an Nsight Systems export/],
    ['CREATE TABLE rocpd_op (id INTEGER)', /ROCm/],
    ['CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (_id_ INTEGER, start INT)', /nvprof/],
  ]) {
    assert.equal(await assertSameAnswer(page, { name: 'other.sqlite', body: database(sql) }), 'refused');
    assert.match(await page.locator('.card.error .message').textContent(), want);
  }
  assert.deepEqual(faults, []);
  await close();
});

test('a truncated or damaged export gives what can be read, or a sentence, like on the command line', async () => {
  const { page, faults, close } = await h.openPage(browser, server.origin);
  const damaged = Buffer.from(small);
  for (let at = 8_192; at < damaged.length; at += 4_096 * 7) damaged.fill(0xA5, at, at + 64);
  const cases = [
    ['cut in the header', small.subarray(0, 60)], ['cut after a page', small.subarray(0, 4_096)],
    ['cut in the middle', small.subarray(0, small.length >> 1)], ['cut at the end', small.subarray(0, small.length - 5_000)],
    ['noise after the header', Buffer.concat([small.subarray(0, 100), Buffer.alloc(9_000, 0x5A)])], ['damaged pages', damaged],
  ];
  const answers = [];
  for (const [what, body] of cases) answers.push(`${what}: ${await assertSameAnswer(page, { name: 'damaged.sqlite', body })}`);
  assert.ok(answers.some((answer) => answer.endsWith('read')) && answers.some((answer) => answer.endsWith('refused')), answers.join());
  await assertSameAnswer(page, { name: 'cut.sqlite.gz', body: gzipSync(small).subarray(0, 200_000) });
  assert.deepEqual(faults, []);
  await close();
});

test('a gzipped database that is too large is refused with a command that helps', async () => {
  const { page, faults, close } = await h.openPage(browser, server.origin);
  const zeros = gzipSync(Buffer.alloc(1 << 20));
  const body = Buffer.concat([gzipSync(small), ...Array(512).fill(zeros)]);
  await h.drop(page, { name: "it's large.sqlite.gz", body });
  await page.locator('.card.error .message').waitFor({ timeout: 60_000 });
  assert.match(await page.locator('.card.error .message').textContent(), /more than 512 MiB.*gunzip 'it'\\''s large\.sqlite\.gz'/);
  assert.deepEqual(faults, []);
  await close();
});

test('an .nsys-rep is answered with the command that exports it', async () => {
  const { page, close } = await h.openPage(browser, server.origin);
  await h.drop(page, { name: 'run.nsys-rep', body: Buffer.alloc(5_000, 1) });
  const message = await page.locator('.card.error .message').textContent();
  assert.ok(message.includes('nsys export --type sqlite --output run.sqlite --force-overwrite=true --lazy=false run.nsys-rep'), message);
  await close();
});

test('the second module is fetched once for a trace and databases', async () => {
  const { page, faults, close } = await h.openPage(browser, server.origin);
  const asked = [];
  page.context().on('request', (request) => asked.push(request.url()));
  server.requests.length = 0;
  await h.drop(page, h.kineto('a.json', h.SERVER_OPS));
  await h.settled(page);
  await h.drop(page, { name: 'a.sqlite', body: small }, { name: 'b.sqlite', body: small });
  await h.settled(page);
  await page.waitForFunction(() => document.querySelectorAll('#runs > li:not(.to-come)').length === 3);
  assert.equal(server.requests.filter((path) => path.endsWith('_full_bg.wasm')).length, 1);
  const ours = await h.filesOfPage();
  for (const path of server.requests) assert.ok(ours.has(path), path);
  for (const url of asked) assert.ok(url.startsWith(`${server.origin}/`) || url.startsWith(`blob:${server.origin}/`), url);
  assert.deepEqual(faults, []);
  await close();
});

test('a second module that cannot be loaded is reported on the card, and Try again fetches it again', async () => {
  const { page, faults, close } = await h.openPage(browser, server.origin);
  await page.route('**/gpuprism_full_bg.wasm', (route) => route.fulfill({ status: 503 }));
  await h.drop(page, { name: 'run.sqlite', body: small });
  await page.locator('.card.error .message').waitFor();
  assert.match(await page.locator('.card.error .message').textContent(), /could not be loaded.*503/);
  await page.unroute('**/gpuprism_full_bg.wasm');
  await page.locator('.card.error button', { hasText: 'Try again' }).click();
  await h.settled(page);
  assert.deepEqual(faults, []);
  await close();
});

test('a large export shows rows while it is read and takes little memory; Cancel ends it', async () => {
  const path = join(folder, 'large.sqlite');
  await h.writeNsysExport(path, 0.3);
  const { page, faults, close } = await h.openPage(browser, server.origin);
  const workers = page.workers().length;
  await page.evaluate(() => {
    window.seen = [];
    window.cancelAt = 100_000;
    new MutationObserver(() => {
      const card = document.querySelector('.card.reading');
      const rows = Number(/^([\d,]+) rows/.exec(card?.querySelector('.figures').textContent)?.[1].replaceAll(',', '') ?? NaN);
      if (!(rows >= 0)) return;
      window.seen.push(rows);
      if (rows < window.cancelAt) return;
      window.cancelAt = Infinity;
      card.querySelector('button').click();
    }).observe(document.querySelector('#cards'), { subtree: true, childList: true, characterData: true });
  });
  await page.locator('#files').setInputFiles(path);
  await page.waitForFunction(() => window.cancelAt === Infinity && !document.querySelector('.card'));
  // Chromium waits two seconds before it kills a busy worker.
  await h.until(() => page.workers().length === workers, 'the worker is gone');
  assert.equal(await page.locator('#results').isVisible(), false, 'nothing of the cancelled file appears later');
  await page.evaluate(() => { window.seen = []; });
  await page.locator('#files').setInputFiles(path);
  await h.settled(page);
  const seen = await page.evaluate(() => window.seen);
  assert.ok(new Set(seen).size >= 5, `several steps: ${seen}`);
  assert.deepEqual(seen, [...seen].sort((a, b) => a - b), 'progress never goes back');
  const memory = await page.evaluate(() => performance.getEntriesByName('gpuprism:import').at(-1).detail.wasm_memory_bytes);
  // Memory for blocks, pages and columns, independent of the file's 66 MB.
  assert.ok(memory < 60e6, `${memory} bytes of memory`);
  assert.deepEqual(faults, []);
  await close();
});
