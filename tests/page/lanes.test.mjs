// Lanes of the timeline: pinned below the axis while the others are scrolled, folded with their group, hidden, moved; by pointer, keys and
// menu, and kept in the address.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as h from './harness.mjs';

const { browser, server } = await h.lend();

const event = (cat, text, ts, dur, pid, tid, args = {}) => ({ ph: 'X', cat, name: text, pid, tid, ts, dur, args });

/** Gemms on stream 7, a softmax on stream 9, and twelve threads with calls, so that the lanes are higher than the timeline. */
function trace() {
  const traceEvents = [];
  for (let index = 0; index < 10; index += 1) {
    const at = 100 + 100 * index;
    traceEvents.push(event('cuda_runtime', 'cudaLaunchKernel', at - 10, 3, 9, 100, { correlation: index + 1 }));
    traceEvents.push(event('kernel', 'ampere_gemm', at, 60, 0, 7, { device: 0, stream: 7, correlation: index + 1 }));
    traceEvents.push(event('kernel', 'softmax_kernel', at + 60, 30, 0, 9, { device: 0, stream: 9 }));
  }
  for (let thread = 101; thread < 113; thread += 1) traceEvents.push(event('cuda_runtime', 'cudaEventQuery', 200, 500, 9, thread));
  return { name: 'lanes.json', body: Buffer.from(JSON.stringify({ traceEvents })) };
}

async function opened(fragment = '') {
  const opened = await h.openPage(browser, server.origin, fragment);
  await h.drop(opened.page, trace());
  await drawn(opened.page);
  return opened;
}

const drawn = async (page) => {
  await page.locator('.timeline[data-state=drawn]').waitFor();
  await h.quiet(page);
};

/** The first and the last row of pixels that have the colour of a category; null without one. */
const rowsOf = async (page, category) => page.evaluate(([r, g, b]) => {
  const canvas = document.querySelector('.timeline canvas');
  const { data, width, height } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  const rows = [];
  for (let y = 0; y < height; y += 1) {
    for (let x = 0; x < width; x += 1) {
      const at = 4 * (y * width + x);
      if (data[at] !== r || data[at + 1] !== g || data[at + 2] !== b) continue;
      rows.push(y / devicePixelRatio);
      break;
    }
  }
  return rows.length > 0 ? [rows[0], rows.at(-1)] : null;
}, await h.fill(page, category));

const lanesInAddress = (page) => new URLSearchParams(new URL(page.url()).hash.slice(1)).getAll('lanes');

const scrollLanes = (page, top) => page.locator('.timeline-scroll').evaluate((node, to) => void (node.scrollTop = to), top);

test('a pinned lane stays below the axis while the others are scrolled, and is selected there', async () => {
  const { page, faults, close } = await opened();
  const menu = page.locator('.lane-menu');
  await menu.locator('summary').click();
  await menu.getByRole('button', { name: /^Pin stream 9|^Pin .*stream 9/ }).click();
  await drawn(page);
  await page.keyboard.press('Escape');
  assert.equal(await menu.evaluate((node) => node.open), false);
  await scrollLanes(page, 10_000);
  await drawn(page);
  const [top, bottom] = await rowsOf(page, 'cat-softmax');
  assert.ok(top >= 19 && bottom <= 42, `the lane is right below the axis: ${top} to ${bottom}`);
  assert.equal(await rowsOf(page, 'cat-gemm'), null, 'the other stream is scrolled away');
  const canvas = page.locator('.timeline canvas');
  const { width } = await canvas.boundingBox();
  // The last softmax ends at the right edge.
  await canvas.click({ position: { x: width - 12, y: (top + bottom) / 2 } });
  await page.locator('.moment h3', { hasText: 'softmax_kernel' }).waitFor();
  assert.deepEqual(faults, []);
  await close();
});

test('a click on the heading of a group folds it, the address keeps that, and Back unfolds it', async () => {
  const { page, close } = await opened();
  const before = await rowsOf(page, 'cat-gemm');
  assert.ok(before);
  await page.locator('.timeline canvas').click({ position: { x: 30, y: 28 } });
  await drawn(page);
  assert.equal(await rowsOf(page, 'cat-gemm'), null);
  assert.equal(lanesInAddress(page).length, 1);
  const { hash } = new URL(page.url());
  await page.goBack();
  await drawn(page);
  assert.deepEqual(await rowsOf(page, 'cat-gemm'), before);
  await close();
  const again = await opened(hash);
  assert.equal(await rowsOf(again.page, 'cat-gemm'), null, 'the link has the folded group');
  await again.close();
});

test('keys pin, fold and move the lane of the selected bar; what is selected next is shown also in a hidden lane', async () => {
  const { page, faults, close } = await opened();
  const [gemm, softmax] = [await rowsOf(page, 'cat-gemm'), await rowsOf(page, 'cat-softmax')];
  assert.ok(gemm[0] < softmax[0]);
  await page.locator('.timeline canvas').focus();
  await page.keyboard.press('ArrowRight');
  await page.locator('.moment h3', { hasText: 'ampere_gemm' }).waitFor();
  await page.keyboard.press('Shift+ArrowDown');
  await page.waitForFunction(() => location.hash.includes('lanes='));
  await drawn(page);
  const [movedGemm, movedSoftmax] = [await rowsOf(page, 'cat-gemm'), await rowsOf(page, 'cat-softmax')];
  assert.ok(movedSoftmax[0] < movedGemm[0], `stream 9 is above stream 7: ${movedSoftmax}, ${movedGemm}`);
  await page.keyboard.press('p');
  await page.waitForFunction(() => location.hash.includes('pin'));
  await page.keyboard.press('p');
  await page.waitForFunction(() => !location.hash.includes('pin'));
  await page.keyboard.press('c');
  await page.waitForFunction(() => location.hash.includes('fold'));
  await drawn(page);
  assert.equal(await rowsOf(page, 'cat-gemm'), null);
  await page.keyboard.press('n');
  await page.waitForFunction(() => !location.hash.includes('fold'));
  await drawn(page);
  assert.ok(await rowsOf(page, 'cat-gemm'), 'the next launch is shown');
  assert.deepEqual(faults, []);
  await close();
});

test('the menu filters the list and shows only what it found; a reset brings the others back', async () => {
  const { page, close } = await opened();
  const menu = page.locator('.lane-menu');
  await menu.locator('summary').click();
  const all = await menu.locator('li:not(.lane-group)').count();
  await menu.getByLabel('Filter lanes').fill('stream');
  assert.equal(await menu.locator('li:not(.lane-group)').count(), 2);
  await menu.getByRole('button', { name: 'Show only these' }).click();
  await drawn(page);
  assert.equal(lanesInAddress(page).length, all - 2);
  assert.ok(await rowsOf(page, 'cat-gemm') && await rowsOf(page, 'cat-softmax'));
  assert.equal(await page.locator('.timeline-room').getAttribute('height'), '0', 'two lanes need no scrolling');
  await menu.getByRole('button', { name: 'Reset lanes' }).click();
  await drawn(page);
  assert.deepEqual(lanesInAddress(page), []);
  await close();
});

test('Escape after z scrolls the page back to where it was', async () => {
  const { page, close } = await opened();
  await page.locator('.timeline canvas').focus();
  await page.evaluate(() => scrollTo({ top: 0, behavior: 'instant' }));
  await page.keyboard.press('z');
  await page.locator('.timeline.tall').waitFor();
  assert.ok(await page.evaluate(() => scrollY) > 0);
  await page.keyboard.press('Escape');
  await page.waitForFunction(() => !document.querySelector('.timeline.tall') && scrollY === 0);
  await close();
});
