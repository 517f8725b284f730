// The ranks of a job have a tab with one bar each, with the command line's verdict and numbers. Files outside a job are named, other
// runs have no such tab, several GPUs of one export are ranks, ranks are read in parallel, and a dropped folder opens all of them.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import * as h from './harness.mjs';

const { browser, server } = await h.lend();

/** A rank of a job: all ranks leave their all-reduce after 100 us, and this one enters it after `late` us. */
function rank(number, world, late, name = `rank${number}.json`) {
  const { body } = h.kineto(name, [
    ['nvjet_tst_64x8', 0, late * 1000],
    ['ncclDevKernel_AllReduce_Sum_bf16_RING_LL', late * 1000, (100 - late) * 1000, 20],
  ]);
  const trace = { distributedInfo: { backend: 'nccl', rank: number, world_size: world }, ...JSON.parse(body) };
  return { name, body: Buffer.from(JSON.stringify(trace)) };
}

const block = (id) => `.block[data-table=${id}]`;
const verdicts = (page) => page.locator('#ranks .compared').allInnerTexts();

async function saved(page, id) {
  const { body } = await h.download(page, page.locator(`${block(id)} [data-format=csv]`));
  return body.toString();
}

async function opened(page) {
  await page.locator('#ranks svg.chart').waitFor();
  await page.locator(block('ranks')).waitFor();
}

/** The lengths of a bar's parts in nanoseconds, by row and part, from their tooltips. */
const lengths = (page) => page.locator('#ranks rect.seg').evaluateAll((marks) => marks.map((mark) => [
  mark.dataset.row, mark.dataset.key, Number(/\(([\d,]+) ns\)/.exec(mark.textContent)[1].replaceAll(',', '')),
]));

/** The tab of the comparison says that ranks are not compared, and has no baseline, chart and tables. */
async function assertNotCompared(page) {
  await page.locator('#compare', { hasText: 'ranks of one job' }).waitFor();
  await page.locator('#results[aria-busy=false]').waitFor();
  assert.equal(await page.locator('#compare').locator('select, svg.chart, .compared').count(), 0);
  assert.equal(await page.locator('.block').count(), 0);
}

test('two ranks: who is waited for, bars that add up, and the command line\'s tables', async () => {
  const { page, faults, close } = await h.openPage(browser, server.origin);
  server.requests.length = 0;
  const files = [rank(1, 2, 90), rank(0, 2, 30)];
  await h.drop(page, ...files);
  await h.settled(page);
  const verdict = 'Rank 1 delays the others: 85.7 % of the other ranks\' time in collectives is waiting for it (60.0 us per rank; it is last in 1 of 1), because its GPU works longer (nvjet_tst_64x8 takes 90.0 us, on the other rank 30.0 us). If this rank alone comes earlier, the job gains at most 60.0 us, 60.0 % of its time. Rank 1 computes 200 % longer than rank 0.';
  // The line under the verdict has it in place of the comparison of two runs.
  await page.locator('#comparison p').waitFor();
  assert.deepEqual([await page.locator('#comparison p').allInnerTexts(), await page.locator('.run-change:not(:empty)').count()], [[verdict], 0]);
  assert.equal(await page.locator('#verdict').isVisible(), false, 'replaced by the verdict about the job');
  await page.getByRole('button', { name: 'Ranks in full' }).click();
  await opened(page);
  assert.deepEqual(await verdicts(page), [verdict]);
  assert.deepEqual(await h.brokenFigures(page, '#ranks li'), [], 'a figure and its unit stay on one line');
  assert.deepEqual(await lengths(page), [
    ['0', 'compute', 30_000], ['0', 'transfer', 10_000], ['0', 'waiting for a rank', 60_000],
    ['1', 'compute', 90_000], ['1', 'transfer', 10_000],
  ]);
  for (const id of ['ranks', 'rank_collectives', 'rank_waits', 'rank_files']) {
    const { status, stdout } = await h.commandLine(['ranks', ...files.map(({ name }) => name), '--format', 'csv', '--table', id], files);
    assert.equal(status, 0);
    assert.equal(await saved(page, id), stdout.toString(), id);
  }
  // Also while the comparison tab is open, which compares no ranks. A window of one rank sets the same time range in all ranks of the job.
  await h.openTab(page, 'compare');
  await assertNotCompared(page);
  await page.locator('#compare').getByRole('button', { name: 'Communication and ranks' }).click();
  await opened(page);
  await h.openTab(page, 'compare');
  assert.deepEqual([await page.locator('#comparison p').allInnerTexts(), await page.locator('.run-change:not(:empty)').count()], [[verdict], 0]);
  const window = (name) => page.getByLabel(`Window of ${name}, from-to in seconds`);
  await window('rank1.json').fill('0.00004-0.00008');
  await page.keyboard.press('Enter');
  const ofWindow = 'Rank 1 delays the others: 100 % of the other ranks\' time in collectives is waiting for it (40.0 us per rank; it is last in 1 of 1), because its GPU works longer. If this rank alone comes earlier, the job gains at most 40.0 us, 100 % of its time. Rank 1 computes for 40.0 us, rank 0 not at all. All values refer to the selected window.';
  await page.locator('#comparison p', { hasText: 'refer to the selected window' }).waitFor();
  assert.deepEqual(await page.locator('#comparison p').allInnerTexts(), [ofWindow]);
  assert.deepEqual([await window('rank0.json').inputValue(), await window('rank1.json').inputValue()], ['0.00004-0.00008', '0.00004-0.00008']);
  // It is part of the address, and Back removes it from all ranks.
  assert.match(decodeURIComponent(page.url()), /window=0@0\.00004-0\.00008.*1@0\.00004-0\.00008/);
  await h.openTab(page, 'communication');
  await opened(page);
  assert.deepEqual(await lengths(page), [['0', 'waiting for a rank', 40_000], ['1', 'compute', 40_000]]);
  await page.goBack();
  await page.goBack();
  await page.locator('#comparison p', { hasText: verdict }).waitFor();
  await page.waitForFunction((inputs) => inputs.every((input) => input.value === ''), await Promise.all(['rank0.json', 'rank1.json'].map((name) => window(name).elementHandle())));
  await h.openTab(page, 'kernels');
  await page.locator('#ranks').waitFor({ state: 'hidden' });
  // One of two ranks is left.
  await page.locator('#chips button').last().click();
  await page.locator('#verdict').waitFor();
  await h.openTab(page, 'communication');
  await h.quiet(page);
  assert.ok(await page.locator('#ranks').isHidden());
  assert.deepEqual(faults, []);
  await close();
});

test('a run of another job next to ranks is compared with them', async () => {
  const { page, faults, close } = await h.openPage(browser, server.origin);
  await h.drop(page, rank(0, 2, 30), rank(1, 2, 90));
  await h.settled(page);
  await h.openTab(page, 'compare');
  await assertNotCompared(page);
  await h.drop(page, { ...rank(0, 4, 50), name: 'another.json' });
  await page.locator('#compare select').waitFor();
  await page.locator('.block[data-table=compare_summary]').waitFor();
  assert.match(await page.locator('#compare').innerText(), /^Compared with/);
  assert.deepEqual(faults, []);
  await close();
});

test('a job that is closed down to one file leaves no trace in any tab, and two runs in one file have no ranks', async () => {
  const { page, faults, close } = await h.openPage(browser, server.origin);
  const files = [rank(0, 2, 30), rank(1, 2, 90)];
  await h.drop(page, ...files);
  await h.settled(page);
  await page.locator('#comparison p.job-verdict').waitFor();
  await h.openTab(page, 'compare');
  await assertNotCompared(page);
  await page.locator('#chips button').last().click();
  await page.locator('#verdict').waitFor();
  // A redraw after a change of width comes late.
  await h.quiet(page);
  assert.deepEqual([await page.locator('#comparison').innerText(), await page.locator('#compare').isVisible()], ['', false]);
  await h.clear(page);
  const { stdout } = await h.commandLine(['report', ...files.map(({ name }) => name), '--format', 'json'], files);
  await h.drop(page, { name: 'both.json', body: stdout });
  await h.settled(page);
  await page.locator('#comparison p').first().waitFor();
  await page.locator('#chips button').last().click();
  await page.locator('#empty').waitFor();
  await h.quiet(page);
  assert.equal(await page.locator('#cards').innerText(), '');
  assert.deepEqual(faults, []);
  await close();
});

test('the timelines of the ranks that the verdict names come first', async () => {
  const { page, faults, close } = await h.openPage(browser, server.origin);
  await h.drop(page, ...[30, 31, 30, 32, 30, 90].map((late, number) => rank(number, 6, late)));
  await h.settled(page);
  await page.locator('#comparison p', { hasText: 'Rank 5 delays the others' }).waitFor();
  await h.quiet(page);
  const names = () => page.locator('.timeline figcaption > .run-label:first-of-type').allInnerTexts();
  assert.deepEqual(await names(), ['rank5.json', 'rank0.json', 'rank1.json', 'rank2.json']);
  await page.locator('.timeline-more').getByRole('button', { name: 'rank4.json' }).click();
  await page.waitForFunction(() => document.querySelectorAll('.timeline[data-state=drawn]').length === 5);
  assert.equal((await names())[0], 'rank5.json', 'it stays the first');
  assert.deepEqual(faults, []);
  await close();
});

test('a file outside a job is named with the reason', async () => {
  const { page, faults, close } = await h.openPage(browser, server.origin, '#tab=ranks');
  await h.drop(page, rank(0, 2, 30), rank(1, 2, 90), h.kineto('other.json', h.SERVER_OPS));
  await h.settled(page);
  await opened(page);
  const notices = page.locator('#ranks .notice-text');
  await notices.first().waitFor();
  assert.deepEqual(await notices.allInnerTexts(), ['other.json is not grouped: neither the file nor its name gives a rank number, and it has one GPU.']);
  await page.locator(`${block('rank_files')} tbody tr`, { hasText: 'other.json' }).waitFor();
  assert.deepEqual(faults, []);
  await close();
});

test('two runs that are no ranks have no comparison of ranks', async () => {
  const { page, faults, close } = await h.openPage(browser, server.origin);
  await h.drop(page, h.kineto('before.json', h.SERVER_OPS), h.kineto('after.json', h.SERVER_OPS));
  await h.settled(page);
  await h.openTab(page, 'communication');
  await h.quiet(page);
  assert.equal(await page.locator('#ranks').count(), 0);
  assert.deepEqual(faults, []);
  await close();
});

test('several GPUs of one trace are ranks, also after the triage', async () => {
  const { page, faults, close } = await h.openPage(browser, server.origin, '#tab=ranks');
  const work = (device, late) => [['nvjet_tst_64x8', 0, late, 7, device], ['ncclDevKernel_AllReduce_Sum_bf16_RING_LL', late, 100_000 - late, 20, device]];
  await h.drop(page, h.kineto('both.json', [...work(0, 20_000), ...work(1, 60_000)]));
  await h.settled(page);
  await opened(page);
  assert.match((await verdicts(page))[0], /^GPU 1 delays the others: 50\.0 %/);
  await h.openTab(page, 'triage');
  await page.locator('.block[data-table^=triage_]').first().waitFor();
  await h.openTab(page, 'communication');
  await opened(page);
  assert.match((await verdicts(page))[0], /^GPU 1 delays the others: 50\.0 %/);
  assert.deepEqual(faults, []);
  await close();
});

test('eight ranks of a real job are read in parallel and have the command line\'s results', { skip: h.noTraces }, async () => {
  const folder = join(h.traces, 'dlrm_v100_8ranks');
  const names = [...Array(8).keys()].map((number) => `rank${number}.pt.trace.json.gz`);
  const files = await Promise.all(names.map(async (name) => ({ name, body: await readFile(join(folder, name)) })));
  const { page, faults, close } = await h.openPage(browser, server.origin, '#tab=ranks');
  await h.drop(page, ...files);
  await h.settled(page);
  await opened(page);
  await page.locator('#chips li').nth(7).waitFor();
  const { stdout } = await h.commandLine(['ranks', ...names, '--format', 'json'], files);
  const { jobs: [job] } = JSON.parse(stdout);
  await page.locator('#ranks .compared', { hasText: job.verdict }).waitFor();
  const found = await lengths(page);
  job.ranks.forEach(({ parts }, at) => {
    const own = found.filter(([row]) => row === String(at)).map(([, , ns]) => ns).toSorted();
    // Parts narrower than a hundredth of a pixel are not drawn.
    assert.deepEqual(own, Object.values(parts).filter((ns) => ns > job.window_ns / 10_000).toSorted());
  });
  assert.deepEqual(faults, []);
  await close();
});

test('as many files are read at once as there are cores, at most eight', async () => {
  for (const [cores, max] of [[6, 6], [64, 8], [1, 2]]) {
    const context = await browser.newContext({ serviceWorkers: 'block' });
    const page = await context.newPage();
    // Requests are held until all readers that may run at once have started: otherwise a small file is read before the next one starts.
    await page.addInitScript(([cores, max]) => {
      Object.defineProperty(Navigator.prototype, 'hardwareConcurrency', { get: () => cores });
      Object.defineProperty(Navigator.prototype, 'deviceMemory', { get: () => 8 });
      const { postMessage } = Worker.prototype;
      window.reading = [0, 0];
      const held = [];
      Worker.prototype.postMessage = function post(message, ...more) {
        const send = () => postMessage.call(this, message, ...more);
        if (message.op !== 'open') return send();
        window.reading[1] = Math.max(window.reading[1], ++window.reading[0]);
        this.addEventListener('message', ({ data }) => data.id === message.id && data.progress === undefined && window.reading[0]--);
        held.push(send);
        if (window.reading[1] >= max) held.splice(0).forEach((go) => go());
      };
    }, [cores, max]);
    await page.goto(`${server.origin}/`);
    await page.locator('html[data-simd]').waitFor({ state: 'attached' });
    await h.drop(page, ...[...Array(12).keys()].map((number) => rank(number, 12, 50)));
    const reached = () => page.evaluate(() => window.reading[1]);
    await page.waitForFunction((max) => window.reading[1] >= max, max).catch(async () => assert.fail(`${await reached()} of ${max} at once`));
    await h.settled(page);
    await page.locator('#chips li').nth(11).waitFor();
    assert.equal(await reached(), max);
    await context.close();
  }
});

test('a dropped folder opens all ranks of a stage', async () => {
  const { page, faults, close } = await h.openPage(browser, server.origin, '#tab=ranks');
  const names = ['1757-TP-0-DECODE.json', '1757-TP-1-DECODE.json', 'notes.txt'];
  const files = [rank(0, 2, 30, names[0]), rank(1, 2, 90, names[1]), { name: names[2], body: Buffer.from('x') }];
  await page.evaluate((list) => {
    const files = list.map(({ name, text }) => ({
      isFile: true, fullPath: `/job/${name}`, file: (done) => done(new File([text], name)),
    }));
    const reader = () => {
      let rest = files;
      return { readEntries: (done) => { done(rest); rest = []; } };
    };
    const event = new DragEvent('drop', { bubbles: true, cancelable: true });
    const items = [{ webkitGetAsEntry: () => ({ isDirectory: true, isFile: false, createReader: reader }) }];
    Object.defineProperty(event, 'dataTransfer', { value: { types: ['Files'], items, files: [] } });
    document.body.dispatchEvent(event);
  }, files.map(({ name, body }) => ({ name, text: body.toString() })));
  await page.locator('#chips li').nth(1).waitFor();
  await h.settled(page);
  await opened(page);
  assert.match((await verdicts(page))[0], /^Rank 1 delays the others/);
  assert.match(await page.locator('.card').innerText(), /notes\.txt/);
  assert.deepEqual(faults, []);
  await close();
});

test('each trace sends its log once, whatever is opened or closed later, to one worker', async () => {
  const { page, faults, close } = await h.openPage(browser, server.origin);
  await h.tapWorkers(page);
  await h.drop(page, rank(0, 4, 30), rank(1, 4, 90));
  await h.settled(page);
  await h.openTab(page, 'communication');
  await opened(page);
  const bars = (count) => page.waitForFunction((count) => document.querySelectorAll('#ranks rect.seg[data-key=compute]').length === count, count);
  for (const number of [2, 3]) {
    await h.drop(page, rank(number, 4, 50));
    await bars(number + 1);
  }
  await page.locator('#chips button').last().click();
  await bars(3);
  assert.deepEqual(await page.evaluate(() => [window.tap.requests.ranksLog.length, new Set(window.tap.requests.setRankLogs.map(({ worker }) => worker)).size]), [4, 1]);
  assert.match((await verdicts(page))[0], /^Of the 3 of 4 ranks that are open, rank 1 comes last most/);
  assert.deepEqual(faults, []);
  await close();
});
