// Timelines below each other: runs aligned at a moment, the ranks of a job at a collective, the slowest step below the median one. What is
// aligned is at the same place on all canvases, and stays there when one of them is zoomed.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import * as h from './harness.mjs';

const { browser, server } = await h.lend();
const RANKS = new URL('../../../shared/traces/torch/dlrm_v100_8ranks/', import.meta.url);
/** Where the aligned moment is on a canvas, as a share of its bars. */
const ANCHOR_SHARE = 0.1;

const event = (cat, text, ts, dur, tid, args = {}) => ({ ph: 'X', cat, name: text, pid: cat === 'kernel' ? 0 : 9, tid, ts, dur, args });

/** Steps of a gemm each, with these durations in microseconds, after a pause. Each starts 10 us after the end of the one before. */
function stepped(name, durations, pause = 0) {
  let now = 1_000;
  const traceEvents = [event('kernel', 'softmax_kernel', 900 - pause, 5, 7, { device: 0, stream: 7 })];
  durations.forEach((duration, index) => {
    const args = { correlation: index + 1 };
    traceEvents.push(event('user_annotation', 'step[DECODE bs=4]', now - 6, duration + 8, 9), event('cuda_runtime', 'cudaLaunchKernel', now - 4, 2, 9, args),
      event('kernel', 'ampere_gemm', now, duration, 7, { device: 0, stream: 7, ...args }));
    now += duration + 10;
  });
  return { name, body: Buffer.from(JSON.stringify({ traceEvents })) };
}

async function opened(...files) {
  const opened = await h.openPage(browser, server.origin);
  await h.drop(opened.page, ...files);
  await opened.page.waitForFunction((count) => document.querySelectorAll('.timeline[data-state=drawn]').length === count, files.length);
  return opened;
}

/** For each canvas the runs of pixels with the colour of a category, as [from, to] in pixels of the page. */
const bars = async (page, category) => page.evaluate(([r, g, b]) => [...document.querySelectorAll('.timeline canvas')].map((canvas) => {
  const { data, width, height } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  const isFilled = (x) => {
    for (let y = 0; y < height; y += 1) {
      const at = 4 * (y * width + x);
      if (data[at] === r && data[at + 1] === g && data[at + 2] === b) return true;
    }
    return false;
  };
  const runs = [];
  for (let x = 0; x < width; x += 1) {
    if (!isFilled(x)) continue;
    if (runs.at(-1)?.[1] === x - 1) runs.at(-1)[1] = x;
    else runs.push([x, x]);
  }
  return runs.map((run) => run.map((x) => (x * canvas.clientWidth) / width));
}), await h.fill(page, category));

const settle = async (page) => {
  await h.quiet(page);
  await page.waitForFunction(() => document.querySelectorAll('.timeline[data-state=loading]').length === 0);
};

const anchor = async (page) => {
  const { width } = await page.locator('.timeline canvas').first().boundingBox();
  return h.GUTTER_PX + ANCHOR_SHARE * (width - h.GUTTER_PX);
};

/** The bar of each canvas that begins at the aligned moment, or up to 8 us after it, at this length of a microsecond. */
const atAnchor = async (page, x) => (await bars(page, 'cat-gemm')).map((runs) => runs.find(([from]) => from > x - 3));

/** Waits until the timelines are aligned like this. */
const aligned = (page, kind) => page.waitForFunction((wanted) => document.querySelector('.timeline-tools select')?.value === wanted, kind);

const align = async (page, kind) => {
  await page.getByLabel('Alignment of the timelines').selectOption(kind);
  await settle(page);
};

test('runs of different lengths are aligned at their median step, and a zoom of one zooms the other', async () => {
  const { page, faults, close } = await opened(stepped('a.json', [40, 50, 60, 50, 45]), stepped('b.json', [90, 100, 140, 100, 95], 700));
  await align(page, 'step');
  const x = await anchor(page);
  const [a, b] = await atAnchor(page, x);
  assert.ok(Math.abs(a[0] - b[0]) < 4, `both begin at the anchor: ${a}, ${b}`);
  // One has half the length of the other on the same scale.
  const ratio = (b[1] - b[0]) / (a[1] - a[0]);
  assert.ok(ratio > 1.7 && ratio < 2.3, `${ratio}`);
  await page.locator('.timeline').nth(1).getByRole('button', { name: 'Zoom in' }).click();
  await settle(page);
  const zoomed = await bars(page, 'cat-gemm');
  const lengths = zoomed.map((runs) => Math.max(...runs.map(([from, to]) => to - from)));
  assert.ok(lengths[0] > 1.3 * (a[1] - a[0]) || zoomed[0].some(([from]) => from <= h.GUTTER_PX + 1), `the first run is zoomed, too: ${JSON.stringify(zoomed)}`);
  await align(page, 'none');
  const before = await bars(page, 'cat-gemm');
  await page.locator('.timeline').nth(1).getByRole('button', { name: 'Show all' }).click();
  await settle(page);
  const after = await bars(page, 'cat-gemm');
  assert.deepEqual(after[0], before[0], 'not aligned, the first one stays');
  assert.notDeepEqual(after[1], before[1]);
  assert.deepEqual(faults, []);
  await close();
});

test('two runs are on one scale from the left edge on, in strips and timelines, so that the slower one looks longer', async () => {
  const slower = [40, 50, 60, 50, 45].map((us) => 2 * us);
  const { page, faults, close } = await opened(stepped('a.json', [40, 50, 60, 50, 45]), stepped('b.json', slower));
  await settle(page);
  await aligned(page, 'first_step');
  await page.locator('.strips figure').nth(1).locator('.strip-plot').waitFor({ state: 'attached' });
  const plots = await page.locator('.strips .strip-plot').evaluateAll((nodes) => nodes.map((node) => node.getBoundingClientRect()).map(({ left, width }) => ({ left, width })));
  // From the softmax to the end of the last step: 100 us, then the steps with 10 us between them.
  const [short, long] = [100 + 245 + 40, 100 + 490 + 40];
  const share = plots[0].width / plots[1].width;
  assert.ok(Math.abs(share - short / long) < 0.02, `${share}, not ${short / long}`);
  assert.equal(plots[0].left, plots[1].left);
  const canvas = await page.locator('.timeline canvas').first().boundingBox();
  const gemms = await bars(page, 'cat-gemm');
  const ends = gemms.map((runs) => runs.at(-1)[1] + canvas.x - plots[0].left);
  assert.ok(Math.abs(ends[0] / ends[1] - short / long) < 0.02, `the last step ends at ${ends}`);
  const softmax = await bars(page, 'cat-softmax');
  assert.ok(softmax.every(([[from]]) => Math.abs(canvas.x + from - plots[0].left) <= 2), `${JSON.stringify(softmax)} begin where the strips do: ${plots[0].left}`);
  assert.ok(Math.abs(ends[1] - plots[1].width) < 0.02 * plots[1].width, 'a strip is as long as its timeline');
  // What a person chooses stays.
  await align(page, 'none');
  await page.locator('.timeline').first().getByRole('button', { name: 'Show all' }).click();
  await settle(page);
  assert.equal(await page.getByLabel('Alignment of the timelines').inputValue(), 'none');
  assert.deepEqual(faults, []);
  await close();
});

test('two runs have the first step of their common stage at one place, with all ops of both in view, also after Show all', async () => {
  const { page, faults, close } = await opened(stepped('a.json', [40, 50, 60, 50, 45]), stepped('b.json', [40, 50, 60, 50, 45], 200));
  const starts = async () => {
    await settle(page);
    return [(await bars(page, 'cat-gemm')).map(([[from]]) => from), (await bars(page, 'cat-softmax')).map(([[from]]) => from)];
  };
  await aligned(page, 'first_step');
  const [steps, ops] = await starts();
  assert.ok(Math.abs(steps[0] - steps[1]) <= 2, `the first steps start at ${steps}`);
  assert.ok(ops[0] - ops[1] > 50, `b starts 200 us earlier: ${ops}`);
  await page.locator('.timeline').first().getByRole('button', { name: 'Zoom in' }).click();
  await page.locator('.timeline').first().getByRole('button', { name: 'Show all' }).click();
  assert.deepEqual(await starts(), [steps, ops]);
  // A third run ends that alignment and gets the same one with all.
  await h.drop(page, stepped('c.json', [40, 50, 60, 50, 45], 100));
  await page.waitForFunction(() => document.querySelectorAll('.timeline[data-state=drawn]').length === 3);
  await aligned(page, 'first_step');
  const [ofThree] = await starts();
  assert.ok(ofThree.every((start) => Math.abs(start - ofThree[0]) <= 2), `the first steps start at ${ofThree}`);
  assert.deepEqual(faults, []);
  await close();
});

test('runs without steps are aligned at their first GPU op', async () => {
  const plain = (name) => ({ name, body: Buffer.from(JSON.stringify({ traceEvents: [event('kernel', 'softmax_kernel', 100, 50, 7, { device: 0, stream: 7 })] })) });
  const { page, faults, close } = await opened(plain('a.json'), plain('b.json'));
  await settle(page);
  assert.equal(await page.getByLabel('Alignment of the timelines').inputValue(), 'first');
  assert.deepEqual(faults, []);
  await close();
});

test('runs of very different lengths have a scale each', async () => {
  const { page, close } = await opened(stepped('a.json', [40]), stepped('b.json', Array.from({ length: 20 }, () => 90)));
  await settle(page);
  assert.equal(await page.getByLabel('Alignment of the timelines').inputValue(), 'none');
  const widths = await page.locator('.strips .strip-plot').evaluateAll((nodes) => nodes.map((node) => node.getBoundingClientRect().width));
  assert.equal(widths[0], widths[1]);
  await close();
});

test('runs are aligned at a mark in each; without one the page says how to set it', async () => {
  const { page, close } = await opened(stepped('a.json', [40, 50, 60]), stepped('b.json', [90, 100, 140]));
  await align(page, 'mark');
  await page.getByText('a.json has no mark: point at a moment of its timeline and press M.').waitFor();
  assert.equal(await page.getByLabel('Alignment of the timelines').inputValue(), 'none');
  for (const index of [0, 1]) {
    await page.locator('.timeline canvas').nth(index).focus();
    // The softmax, then the first gemm.
    for (const key of ['ArrowRight', 'ArrowRight', 'm']) {
      await page.keyboard.press(key);
      await h.quiet(page);
    }
    await page.locator('.timeline').nth(index).locator('.timeline-marks:not([hidden])').waitFor();
  }
  await align(page, 'mark');
  const x = await anchor(page);
  const [a, b] = await atAnchor(page, x);
  assert.ok(Math.abs(a[0] - b[0]) < 3 && Math.abs(a[0] - x) < 3, `${a}, ${b} at ${x}`);
  await close();
});

test('the slowest step of a run is below its median one, and the same button closes it', async () => {
  const { page, faults, close } = await opened(stepped('a.json', [40, 50, 150, 50, 45]));
  const steps = page.getByRole('button', { name: 'Median and slowest step' }).first();
  await steps.click();
  await page.locator('.timeline').nth(1).waitFor();
  await page.getByText('slowest step of decode').waitFor();
  assert.equal(await page.getByText('median step of decode').count(), 1);
  await settle(page);
  const [median, slowest] = await atAnchor(page, await anchor(page));
  assert.ok(Math.abs(median[0] - slowest[0]) < 4, `${median}, ${slowest}`);
  const ratio = (slowest[1] - slowest[0]) / (median[1] - median[0]);
  assert.ok(ratio > 2.6 && ratio < 3.4, `150 us against 50: ${ratio}`);
  // Wheel, keys and details work in both.
  await page.locator('.timeline canvas').nth(1).focus();
  await page.keyboard.press('ArrowRight');
  await page.locator('.timeline').nth(1).locator('.moment').waitFor();
  await steps.click();
  await page.locator('.timeline').nth(1).waitFor({ state: 'detached' });
  assert.deepEqual(faults, []);
  await close();
});

test('a run without three steps says beside its timeline that none is slow', async () => {
  const { page, faults, close } = await opened(stepped('a.json', [40, 50]));
  const steps = page.getByRole('button', { name: 'Median and slowest step' });
  await steps.click();
  await page.locator('.timeline figcaption').getByText('no stage has three steps of different length').waitFor();
  assert.ok(await steps.isDisabled());
  assert.equal(await page.locator('.card.error').count(), 0);
  assert.deepEqual(faults, []);
  await close();
});

test('ranks of a job leave a collective at the same place, and waiting is shaded', { skip: h.noTraces }, async () => {
  const files = await Promise.all([0, 1, 2].map(async (rank) => ({ name: `rank${rank}.pt.trace.json.gz`, body: await readFile(new URL(`rank${rank}.pt.trace.json.gz`, RANKS)) })));
  const { page, faults, close } = await opened(...files);
  const before = await page.locator('.timeline canvas').first().screenshot();
  await align(page, 'collective');
  await h.quiet(page);
  const ends = (await bars(page, 'cat-communication')).map((runs) => runs.at(-1)[1]);
  assert.ok(Math.max(...ends) - Math.min(...ends) <= 2, `the last collective ends together: ${ends}`);
  assert.ok(!before.equals(await page.locator('.timeline canvas').first().screenshot()));
  assert.deepEqual(faults, []);
  await close();
});
