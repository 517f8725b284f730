// A large file shows its progress and can be cancelled. A file that cannot be read is answered with the command line's sentence. In
// every case the next file opens.

import assert from 'node:assert/strict';
import { open, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import * as h from './harness.mjs';

const { browser, server } = await h.lend();
const folder = await mkdtemp(join(tmpdir(), 'gpuprism-large-'));
after(() => rm(folder, { recursive: true }));

/** Writes about 64 MB of host events with a few kernels; returns the path and the number of kernels. */
async function largeTrace(name) {
  const path = join(folder, name);
  const file = await open(path, 'w');
  await file.write('{"schemaVersion":1,"traceEvents":[\n');
  let kernels = 0;
  for (let block = 0; block < 64; block += 1) {
    const events = [];
    for (let at = 0; at < 6_000; at += 1) {
      const ts = (block * 6_000 + at) * 10;
      const host = { ph: 'X', cat: 'python_function', name: `serve/loop.py(${at}): step_${at % 97}`, pid: 1, tid: 1, ts, dur: 5, args: { 'Python id': at, 'Python parent id': at - 1, 'Ev Idx': ts } };
      events.push(JSON.stringify(host));
    }
    events.push(JSON.stringify({ ph: 'X', cat: 'kernel', name: 'nvjet_tst_128x64', pid: 0, tid: 7, ts: block * 60_000, dur: 40, args: { device: 0, stream: 7, correlation: block } }));
    kernels += 1;
    await file.write(`${block ? ',\n' : ''}${events.join(',\n')}`);
  }
  await file.write('\n]}\n');
  const { size } = await file.stat();
  await file.close();
  return { path, kernels, size };
}

async function opensAnother(page) {
  await h.drop(page, h.kineto('next.json', h.SERVER_OPS));
  await h.settled(page);
  assert.match(await page.locator('#chips').innerText(), /next\.json/);
  assert.equal(await page.locator('.block:first-child tbody tr').count() > 0, true);
}

test('a large file shows bytes, rate and GPU ops while it is read, then its result', async () => {
  const { path, kernels, size } = await largeTrace('large.json');
  assert.ok(size > 40e6, `${size} bytes`);
  const { page, faults, close } = await h.openPage(browser, server.origin);
  await page.evaluate(() => {
    window.seen = [];
    new MutationObserver(() => {
      const card = document.querySelector('.card.reading');
      if (card) window.seen.push([card.querySelector('progress').value, card.querySelector('.figures').textContent]);
    }).observe(document.querySelector('#cards'), { subtree: true, childList: true, characterData: true });
  });
  await page.locator('#files').setInputFiles(path);
  await h.settled(page);
  const seen = await page.evaluate(() => window.seen);
  const values = seen.map(([value]) => value);
  assert.ok(new Set(values).size >= 3, `several steps: ${values}`);
  assert.deepEqual(values, [...values].sort((a, b) => a - b), 'progress never goes back');
  assert.ok(seen.some(([, text]) => /\d MB of \d+\.\d MB .*GPU ops .*reading/.test(text)), JSON.stringify(seen.slice(0, 5)));
  const [run] = JSON.parse((await h.exported(page, 'json')).body).runs;
  assert.equal(run.totals.gpu_ops, kernels);
  assert.deepEqual(faults, []);
  await close();
});

test('Cancel ends the reading and its worker, and another file opens', async () => {
  const { path } = await largeTrace('cancelled.json');
  const { page, faults, close } = await h.openPage(browser, server.origin);
  const workers = page.workers().length;
  await page.evaluate(() => {
    const observer = new MutationObserver(() => {
      const card = document.querySelector('.card.reading');
      if (!card || card.querySelector('progress').value === 0) return;
      observer.disconnect();
      window.cancelledAt = card.querySelector('progress').position;
      card.querySelector('button').click();
    });
    observer.observe(document.querySelector('#cards'), { subtree: true, childList: true, characterData: true });
  });
  await page.locator('#files').setInputFiles(path);
  await page.waitForFunction(() => window.cancelledAt !== undefined && !document.querySelector('.card'));
  assert.ok(await page.evaluate(() => window.cancelledAt) < 1, 'cancelled before the end');
  assert.equal(await page.locator('#empty').isVisible(), true);
  await h.until(() => page.workers().length === workers, 'the worker is gone');
  await h.quiet(page);
  assert.equal(await page.locator('#results').isVisible(), false, 'nothing of the cancelled file appears later');
  await opensAnother(page);
  assert.deepEqual(faults, []);
  await close();
});

const REFUSED = [
  ['noise', { name: 'noise.bin', body: Buffer.from(Array.from({ length: 5_000 }, (_, at) => (at * at * 31 + 7) % 251 + 1)) }],
  ['an empty file', { name: 'empty.json', body: Buffer.alloc(0) }],
  ['an Nsight Systems capture', { name: 'run.nsys-rep', body: Buffer.concat([Buffer.from('NVIDIA\0\0\x01\x02\x03\xff\xfe', 'latin1'), Buffer.alloc(4_000, 0x90)]) }],
  ['an SQLite database', { name: 'run.sqlite', body: Buffer.concat([Buffer.from('SQLite format 3\0', 'latin1'), Buffer.alloc(8_000)]) }],
  ['prose', { name: 'notes.txt', body: Buffer.from('It was slow last night.\n'.repeat(50)) }],
  ['a hostile file name', { name: '<img src=x onerror=alert(1)>.json', body: Buffer.from([1, 2, 3, 0xff, 0xfe, 0, 9]) }],
];
test('a file that is no trace is refused with the command line\'s sentence, and the page continues', async (t) => {
  const { page, faults, close } = await h.openPage(browser, server.origin);
  for (const [what, file] of REFUSED) {
    await t.test(what, async () => {
      const { status, stderr } = await h.commandLine(['report', file.name], [file]);
      assert.notEqual(status, 0);
      await h.clear(page);
      await h.drop(page, file);
      const message = page.locator('.card.error .message');
      await message.waitFor();
      const sentence = await h.sentenceOf(message);
      assert.ok(sentence.length > 20, sentence);
      assert.ok(h.unquoted(stderr).includes(sentence), `the page: ${sentence}\nthe command line: ${stderr}`);
      assert.equal(await page.locator('.card.error h2').textContent(), `Error${file.name}`);
      await page.locator('.card.error button', { hasText: 'Dismiss' }).click();
      assert.equal(await page.locator('.card').count(), 0);
      await opensAnother(page);
    });
  }
  assert.deepEqual(faults, []);
  await close();
});

test('of good and bad files dropped together the good ones open', async () => {
  const { page, faults, close } = await h.openPage(browser, server.origin);
  await h.drop(page, h.kineto('a.json', h.SERVER_OPS), { name: 'bad.json', body: Buffer.alloc(0) }, h.kineto('b.json', h.SERVER_OPS), h.kineto('c.json', h.SERVER_OPS));
  await h.settled(page);
  await page.waitForFunction(() => document.querySelectorAll('#runs > li:not(.to-come)').length === 3);
  assert.deepEqual(await page.locator('#chips .chip-name').allTextContents(), ['a.json', 'b.json', 'c.json']);
  assert.equal(await page.locator('.card.error').count(), 1);
  await page.locator('#chips button').first().click();
  await page.waitForFunction(() => document.querySelectorAll('#runs > li:not(.to-come)').length === 2);
  assert.deepEqual(faults, []);
  await close();
});

test('a renderer that fails is replaced, and the table is drawn', async () => {
  const { page, faults, close } = await h.openPage(browser, server.origin);
  const [renderer] = page.workers();
  await h.drop(page, h.kineto('a.json', h.SERVER_OPS));
  await h.settled(page);
  await Promise.all([renderer.waitForEvent('close'), renderer.evaluate(() => void setTimeout(() => { throw new Error('dead'); }))]);
  await h.openTab(page, 'kernels');
  await page.waitForFunction(() => document.querySelector('.block[data-table=categories] thead [data-key=elapsed_ns]'));
  assert.equal(await page.locator('#tab-kernels').getAttribute('aria-selected'), 'true');
  assert.equal(await page.locator('.card').count(), 0);
  assert.deepEqual(faults, []);
  await close();
});
