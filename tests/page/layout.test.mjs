// Where things are: five tabs and a menu, what is on the first screen, and that nothing moves after it was shown.

import assert from 'node:assert/strict';
import { readdir, readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { join } from 'node:path';
import * as h from './harness.mjs';

const { browser, server } = await h.lend();

const DECODE = 'sglang_qwen3_30b_b300_decode.trace.json.gz';
/** Above this sum of layout shifts a person notices that something moved. */
const MAX_SHIFT = 0.02;

/** Fifteen kernels with names of different length, with a pause. */
const generated = () => h.kineto('fifteen.json', Array.from({ length: 15 }, (_, at) => [`void serving::kernel_${'long_'.repeat(at % 4)}${at}<float, ${at}>(float*)`, 20_000 * at, 15_000 - 700 * at]));

/** Tests something with the generated trace, and with a recorded one. @param {(file: { name: string, body: Buffer }) => Promise<void>} check */
function testTraces(title, check) {
  test(title, () => check(generated()));
  test(`${title}: recorded`, { skip: h.noTraces }, async () => check({ name: DECODE, body: await readFile(join(h.traces, DECODE)) }));
}

async function opened(files, { width, height, fragment = '' }) {
  const opening = await h.openPage(browser, server.origin, fragment);
  await opening.page.setViewportSize({ width, height });
  await opening.page.evaluate(() => {
    window.shifts = [];
    const describe = ({ node, previousRect, currentRect }) => `${node?.id || node?.className || node?.nodeName} from ${previousRect.y} to ${currentRect.y}`;
    // Before there are results, the empty page makes room for the file that was dropped.
    const hasResults = () => !document.querySelector('#results').matches('[hidden], [data-shown=nothing]');
    window.noteShifts = (entries) => entries.forEach(({ value, sources }) => hasResults() && window.shifts.push({ value, sources: sources.map(describe) }));
    window.shiftObserver = new PerformanceObserver((list) => window.noteShifts(list.getEntries()));
    window.shiftObserver.observe({ type: 'layout-shift', buffered: false });
  });
  if ([files].flat().length === 0) return opening;
  await h.drop(opening.page, ...[files].flat());
  await h.settled(opening.page);
  return opening;
}

const timelineDrawn = (page) => page.locator('.timeline[data-state=drawn]').waitFor({ timeout: 60_000 });

/** The edges of an element in the window, rounded. */
const box = (page, selector, index = 0) => page.locator(selector).nth(index).evaluate((node) => {
  const { top, bottom, left, right, height } = node.getBoundingClientRect();
  return Object.fromEntries(Object.entries({ top, bottom, left, right, height }).map(([name, value]) => [name, Math.round(value)]));
});

/** Asserts that little moved since the last call. */
async function assertStill(page, when) {
  await h.quiet(page);
  const shifts = await page.evaluate(() => {
    window.noteShifts(window.shiftObserver.takeRecords());
    return window.shifts.splice(0);
  });
  const sum = shifts.reduce((total, { value }) => total + value, 0);
  assert.ok(sum < MAX_SHIFT, `${when}: ${sum.toFixed(4)} ${JSON.stringify(shifts)}`);
}

testTraces('every trace has the same five tabs, and everything else is in one menu', async (file) => {
  const { page, faults, close } = await opened(file, { width: 1440, height: 900 });
  assert.deepEqual(await page.locator('[role=tab]').evaluateAll((tabs) => tabs.map(({ id }) => id)), ['tab-timeline', 'tab-kernels', 'tab-host', 'tab-communication', 'tab-compare']);
  await h.openTab(page, 'notices');
  assert.deepEqual(await page.locator('[role=tab]').evaluateAll((tabs) => tabs.map(({ id }) => id).slice(5)), ['tab-notices'], 'the chosen one of the menu is in the row');
  assert.match(await page.locator('#more [aria-current]').textContent(), /^Notices/);
  await h.openTab(page, 'timeline');
  assert.equal(await page.locator('[role=tab]').count(), 5);
  assert.deepEqual(faults, []);
  await close();
});

testTraces('on a screen of 1440 x 900 the verdict, the whole timeline and the begin of causes and kernels are in sight', async (file) => {
  const { page, faults, close } = await opened(file, { width: 1440, height: 900 });
  await timelineDrawn(page);
  const [canvas, table, causes] = [await box(page, '.timeline-canvas'), await box(page, '.block.short table'), await box(page, '#causes')];
  assert.ok((await box(page, '#verdict')).top > 0 && canvas.height >= 400 && canvas.bottom < table.top, JSON.stringify({ canvas, table }));
  assert.ok(table.top < 900 && causes.top < 900, JSON.stringify({ table, causes }));
  assert.deepEqual(faults, []);
  await close();
});

testTraces('on a phone the verdict is on the first screen and the bar and the numbers of ten kernels on the first two, without sideways scrolling', async (file) => {
  const { page, faults, close } = await opened(file, { width: 390, height: 844 });
  await timelineDrawn(page);
  assert.ok((await box(page, '#verdict')).bottom < 844 && (await box(page, '#chart svg')).bottom <= 2 * 844, JSON.stringify(await box(page, '#chart svg')));
  const tenth = await box(page, '.block.short tbody tr', 9);
  assert.ok(tenth.bottom <= 2 * 844, JSON.stringify(tenth));
  const numbers = await page.locator('.block.short tbody tr').first().locator('td:is(.time, .share)').evaluateAll((cells) => cells.map((cell) => cell.getBoundingClientRect().right));
  assert.ok(numbers.length === 2 && numbers.every((right) => right <= 390), String(numbers));
  assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 390);
  assert.deepEqual(faults, []);
  await close();
});

testTraces('nothing moves after it was shown, on load and when a window is picked', async (file) => {
  for (const size of [{ width: 1440, height: 900 }, { width: 390, height: 844 }]) {
    const { page, faults, close } = await opened(file, size);
    await timelineDrawn(page);
    await assertStill(page, `loading ${file.name} at ${size.width}`);
    const facts = await page.locator('.run-facts').innerText();
    await page.evaluate(() => {
      const field = document.querySelector('[aria-label^="Window of"]');
      field.value = '0.00004-0.0002';
      field.dispatchEvent(new Event('change', { bubbles: true }));
    });
    await page.waitForFunction((before) => document.querySelector('.run-facts').innerText !== before, facts);
    await h.settled(page);
    await assertStill(page, `a window of ${file.name} at ${size.width}`);
    assert.deepEqual(faults, []);
    await close();
  }
});

/** Drags files over the page until the module with the timeline is there. A drop without that reads a small file with the other module first. */
async function prepareByDrag(page) {
  await h.tapWorkers(page);
  await page.evaluate(() => {
    const dataTransfer = new DataTransfer();
    dataTransfer.items.add(new File([''], 'dragged.json'));
    document.body.dispatchEvent(new DragEvent('dragenter', { dataTransfer, bubbles: true }));
  });
  await page.waitForFunction(() => window.tap.requests.rehearse?.length > 0);
}

/** Records in `window.frames` which part of the results was shown, one after the other. */
const watchFrames = (page) => page.evaluate(() => {
  const results = document.querySelector('#results');
  window.frames = [results.dataset.shown];
  new MutationObserver(() => window.frames.at(-1) !== results.dataset.shown && window.frames.push(results.dataset.shown)).observe(results, { attributes: true, attributeFilter: ['data-shown'] });
});

/** The number of colours on the canvas of a timeline. */
const colourCount = (page) => page.locator('.timeline-canvas').evaluate((canvas) => {
  const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  return new Set(new Uint32Array(data.buffer)).size;
});

testTraces('the timeline is shown while its trace is analyzed, then the verdict, then the tables, and nothing moves', async (file) => {
  for (const width of [1920, 1440, 1280]) {
    const { page, faults, close } = await opened([], { width, height: 900 });
    await prepareByDrag(page);
    await watchFrames(page);
    await page.evaluate(() => (window.tap.delays.first = Infinity));
    await h.drop(page, file);
    await page.locator('#results[data-shown=timeline] .timeline[data-state]').waitFor();
    assert.ok(await colourCount(page) > 10, 'it has bars');
    assert.deepEqual(await page.locator(':is(#runs, .tab-row, #chart, footer)').evaluateAll((nodes) => nodes.map((node) => getComputedStyle(node).visibility)), Array(4).fill('hidden'));
    await page.locator('#verdict', { hasText: 'Analyzing' }).waitFor();
    const before = await box(page, '.timeline-canvas');
    await page.evaluate(() => window.tap.release());
    await h.settled(page);
    assert.deepEqual(await box(page, '.timeline-canvas'), before);
    await timelineDrawn(page);
    assert.deepEqual(await page.evaluate(() => window.frames), ['nothing', 'timeline', 'head', 'all']);
    await assertStill(page, `loading ${file.name} at ${width}`);
    assert.deepEqual(faults, []);
    await close();
  }
});

test('on a narrow page, and if another tab was asked for, the timeline does not come before the verdict', async () => {
  for (const [width, fragment] of [[390, ''], [1100, ''], [1440, '#tab=kernels']]) {
    const { page, faults, close } = await opened([], { width, height: 844, fragment });
    await prepareByDrag(page);
    await watchFrames(page);
    await h.drop(page, generated());
    await h.settled(page);
    await page.locator('#results[data-shown=all]').waitFor();
    assert.deepEqual(await page.evaluate(() => window.frames), ['nothing', 'head', 'all']);
    assert.deepEqual(faults, []);
    await close();
  }
});

test('a timeline without results goes if its analysis is refused, which has a way on, or if its file is closed', async () => {
  const { page, faults, close } = await opened([], { width: 1440, height: 900, fragment: '#rules=none/none' });
  await prepareByDrag(page);
  await h.drop(page, generated());
  await page.locator('.card.error').waitFor();
  assert.equal(await page.locator('.card.error').count(), 1);
  assert.ok(await page.locator('#results').isHidden());
  await page.locator('.card.error button', { hasText: 'Use the built-in rules' }).click();
  await h.settled(page);
  assert.equal(await page.locator('.card.error').count(), 0);
  await h.clear(page);
  await page.evaluate(() => (window.tap.delays.first = Infinity));
  await h.drop(page, generated());
  await page.locator('#results[data-shown=timeline] .timeline[data-state]').waitFor();
  await page.locator('#chips .chip:not(.undo) button').first().click();
  await page.locator('#results').waitFor({ state: 'hidden' });
  assert.ok(await page.locator('#empty').isVisible());
  assert.equal(await page.locator('.timeline').count(), 0);
  assert.deepEqual(faults, []);
  await close();
});

testTraces('nothing moves either when several files are opened at once', async (file) => {
  const renamed = ({ body }, name) => ({ name, body });
  for (const size of [{ width: 1440, height: 900 }, { width: 390, height: 844 }]) {
    const { page, faults, close } = await opened(['one.json', 'two.json'].map((name) => renamed(file, file.name.endsWith('.gz') ? `${name}.gz` : name)), size);
    await page.waitForFunction(() => document.querySelectorAll('.timeline[data-state=drawn]').length === 2);
    await assertStill(page, `loading two of ${file.name} at ${size.width}`);
    assert.deepEqual(faults, []);
    await close();
  }
});

test('a rule file that is opened next to a trace moves nothing', async () => {
  const { page, faults, close } = await opened(generated(), { width: 1440, height: 900 });
  await timelineDrawn(page);
  await assertStill(page, 'the trace');
  await h.drop(page, { name: 'mine.json', body: JSON.stringify({ gpuprism: { default: { kernel_1: 'mine' } } }) });
  await page.locator('.chip', { hasText: 'mine.json' }).waitFor();
  await page.locator('#legend', { hasText: 'mine' }).waitFor();
  await h.settled(page);
  await assertStill(page, 'the rules');
  assert.deepEqual(faults, []);
  await close();
});

/** Three different traces, recorded if they are there, and the ranks of a job. */
async function severalTraces() {
  const ops = (count) => Array.from({ length: count }, (_, at) => [`kernel_${at}`, 20_000 * at, 9_000, 7 + (at % 3)]);
  const rank = (at) => {
    const { name, body } = h.kineto(`rank${at}.json`, [['nvjet_tst_64x8', 1_000, 30_000 + 60_000 * at], ['ncclDevKernel_AllReduce_Sum_bf16_RING_LL', 40_000 + 60_000 * at, 80_000 - 60_000 * at, 20]]);
    return { name, body: Buffer.from(JSON.stringify({ ...JSON.parse(body), distributedInfo: { backend: 'nccl', rank: at, world_size: 2 } })) };
  };
  const read = async (...path) => ({ name: path.at(-1), body: await readFile(join(h.traces, ...path)) });
  if (h.noTraces) return [[h.kineto('a.json', ops(9)), h.kineto('b.json', ops(40)), h.kineto('c.json', ops(3))], [rank(0), rank(1)]];
  const ranks = (await readdir(join(h.traces, 'dlrm_v100_8ranks'))).filter((name) => name.endsWith('.gz'));
  return [
    await Promise.all([DECODE, 'train_v100_216k_events.trace.json.gz', 'vllm_b200_eager_prefill.trace.json.gz'].map((name) => read(name))),
    await Promise.all(ranks.map((name) => read('dlrm_v100_8ranks', name))),
  ];
}

test('nothing moves when different traces or the ranks of a job are opened at once', async () => {
  const [different, ranks] = await severalTraces();
  for (const size of [{ width: 1440, height: 900 }, { width: 390, height: 844 }]) {
    for (const [files, fragment, isPrepared] of [[different, ''], [ranks, ''], [ranks, '#tab=communication'], [different, '', true], [ranks, '', true]]) {
      const { page, faults, close } = await opened(isPrepared ? [] : files, { ...size, fragment });
      if (isPrepared) {
        await prepareByDrag(page);
        await h.drop(page, ...files);
        await h.settled(page);
      }
      await page.waitForFunction(() => document.querySelector('#comparison p:not(.pending)'), null, { timeout: 60_000 });
      if (!fragment) await page.waitForFunction((count) => document.querySelectorAll('.timeline[data-state=drawn]').length === count, Math.min(files.length, 4), { timeout: 60_000 });
      await assertStill(page, `loading ${files.length} traces at ${size.width} ${fragment}${isPrepared ? ', with the second module at hand' : ''}`);
      assert.deepEqual(faults, []);
      await close();
    }
  }
});

test('a trace without GPU work says first what is missing, and has no empty tables', async () => {
  const op = { ph: 'X', cat: 'cpu_op', name: 'aten::mm', pid: 9, tid: 9, ts: 1_000, dur: 20, args: {} };
  const file = { name: 'cpu.json', body: Buffer.from(JSON.stringify({ traceEvents: [op] })) };
  for (const size of [{ width: 1440, height: 900 }, { width: 390, height: 844 }]) {
    const { page, faults, close } = await opened(file, size);
    await page.locator('#verdict', { hasText: 'No GPU work in this trace.' }).waitFor();
    await page.locator('.notice', { hasText: 'no GPU events; 1 CPU event' }).waitFor();
    const [tabs, notices] = [await box(page, '.tab-row'), await box(page, '#notices')];
    assert.ok(notices.top - tabs.bottom < 30, JSON.stringify({ tabs, notices }));
    for (const part of ['#strips', '#timelines', '#chart', '#panel table']) assert.equal(await page.locator(part).filter({ visible: true }).count(), 0, part);
    await assertStill(page, 'loading a trace without GPU work');
    for (const tab of ['kernels', 'host']) {
      await h.openTab(page, tab);
      await page.locator('#blocks', { hasText: 'The trace contains no GPU ops.' }).waitFor();
      assert.equal(await page.locator('#panel table').count(), 0, tab);
    }
    assert.deepEqual(faults, []);
    await close();
  }
});

/** The first kernel of stream 8 starts 8 ms after its launch although the GPU is idle. */
const unseenWork = () => {
  const launched = (at, wait, id, stream) => [
    { ph: 'X', cat: 'cuda_runtime', name: 'cudaLaunchKernel', pid: 9, tid: 9, ts: at, dur: 2, args: { correlation: id } },
    { ph: 'X', cat: 'kernel', name: 'gemm', pid: 0, tid: stream, ts: at + wait, dur: 500, args: { device: 0, stream, correlation: id } },
  ];
  return { name: 'unseen.json', body: Buffer.from(JSON.stringify({ traceEvents: [...launched(1_000, 10, 1, 7), ...launched(2_000, 8_000, 2, 8)] })) };
};

test('a warning with a figure is one sentence, also on a phone', async () => {
  const { page, faults, close } = await opened(unseenWork(), { width: 390, height: 844 });
  const figure = page.locator('.notice .figure', { hasText: /^8\.0 ms$/ }).first();
  await figure.waitFor();
  assert.equal(await figure.evaluate((node) => getComputedStyle(node).display), 'inline');
  assert.match(await figure.locator('..').innerText(), /^GPU 0 executed work that is not in the file for 8\.0 ms, /);
  assert.deepEqual(faults, []);
  await close();
});

test('the strips of several runs do not cover each other, and on a phone the tabs with their fields take at most a fifth of the screen', async () => {
  const streams = (count) => Array.from({ length: 5 * count }, (_, at) => ['gemm', 1_000 * at, 900, at % 5]);
  const files = ['one.json', 'two.json', 'three.json'].map((name) => h.kineto(name, streams(9)));
  for (const size of [{ width: 1440, height: 900 }, { width: 390, height: 844 }]) {
    const { page, faults, close } = await opened(files, size);
    await page.waitForFunction(() => document.querySelectorAll('#strips svg').length >= 6);
    const boxes = await page.locator('#strips > figure').evaluateAll((figures) => figures.map((figure) => {
      const { top } = figure.getBoundingClientRect();
      return { top, bottom: Math.max(...[...figure.querySelectorAll('*')].map((node) => node.getBoundingClientRect().bottom)) };
    }));
    for (const [index, { bottom }] of boxes.slice(0, -1).entries()) assert.ok(bottom <= boxes[index + 1].top + 1, JSON.stringify(boxes));
    if (size.width === 390) {
      for (const tab of ['timeline', 'kernels']) {
        await h.openTab(page, tab);
        assert.ok((await box(page, '.tab-row')).height <= size.height / 5, `${tab}: ${JSON.stringify(await box(page, '.tab-row'))}`);
      }
    }
    assert.deepEqual(faults, []);
    await close();
  }
});

test('the axis of the strips stays in sight while many strips are scrolled', async () => {
  const events = Array.from({ length: 6 }, (_, stream) => (
    { ph: 'X', cat: 'kernel', name: 'gemm', pid: 0, tid: stream + 7, ts: 1_000 + 10 * stream, dur: 50, args: { device: 0, stream: stream + 7 } }));
  const { page, close } = await opened({ name: 'streams.json', body: Buffer.from(JSON.stringify({ traceEvents: events })) }, { width: 1440, height: 900, fragment: '#tab=kernels' });
  await page.locator('.strip-axis svg').waitFor();
  for (const scrollTop of [0, 40, 1_000]) {
    await page.locator('#strips').evaluate((node, top) => void (node.scrollTop = top), scrollTop);
    const [strips, axis] = [await box(page, '#strips'), await box(page, '.strip-axis')];
    assert.ok(axis.top >= strips.top && axis.bottom <= strips.bottom && axis.height >= 16, JSON.stringify({ scrollTop, strips, axis }));
  }
  await close();
});

test('the head with verdict, figures, tabs and filter stays in sight, and leaves room for the rows', async () => {
  const { page, faults, close } = await opened(generated(), { width: 1440, height: 900, fragment: '#tab=host' });
  // The page is tall enough once its tables are drawn.
  await page.waitForFunction(() => {
    scrollTo(0, 600);
    return scrollY > 100;
  });
  await h.quiet(page);
  const head = await box(page, '.head');
  assert.ok(head.top === 0 && head.height <= 170, JSON.stringify(head));
  for (const part of ['#verdict', '.run-facts', '#tabs', '#filter']) assert.ok((await box(page, part)).bottom <= head.bottom, part);
  assert.deepEqual(faults, []);
  await close();
});
