// Every gesture of the timeline on recorded traces: torch.profiler traces of SGLang, vLLM and training, and Nsight Systems exports. What the
// gestures do exactly is tested on small made-up traces in timeline.test.mjs.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { basename, join } from 'node:path';
import * as h from './harness.mjs';

const { browser, server } = await h.lend();

const RECORDED = [join(h.root, 'examples/traces/decoder_graph.json.gz')];
const SHARED = [
  'sglang_qwen3_30b_b300_decode.trace.json.gz', 'vllm_b200_eager_prefill.trace.json.gz', 'train_a100_rank3of8.trace.json.gz', '../nsys/h100_2gpu_fastvideo_s3.25.sqlite',
].map((name) => join(h.traces, name));

const canvas = (page) => page.locator('.timeline canvas').first();
const moment = (page) => page.locator('.moment');

/** The part in view after an act that changes it, as shares of the strips. */
async function movedBy(page, act) {
  await h.viewChanges(page, act);
  return h.shareInView(page);
}

/** Asserts that two shares of the strips are at most a few of their pixels apart. */
const assertNear = (actual, expected, what) => assert.ok(Math.abs(actual - expected) < 0.004, `${what}: ${actual}, not ${expected}`);

async function drag(page, from, to, steps = 4) {
  await page.mouse.move(from.x, from.y);
  await page.mouse.down();
  await page.mouse.move(to.x, to.y, { steps });
  await page.mouse.up();
}

/** A point of the canvas at this share of its bars. */
async function point(page, share, below = 60) {
  const { x, y, width } = await canvas(page).boundingBox();
  return { x: x + h.gutterPx(width) + share * (width - h.gutterPx(width)), y: y + below };
}

async function zoomAndPan(page) {
  await canvas(page).focus();
  let view = await h.shareInView(page);
  for (let times = 0; times < 3; times += 1) view = await movedBy(page, () => page.keyboard.press('w'));
  const right = await movedBy(page, () => page.keyboard.press('d'));
  assertNear(right.from, view.from + 0.2 * view.length, 'd pans by a fifth');
  assertNear((await movedBy(page, () => page.keyboard.press('a'))).from, view.from, 'a pans back');
  const wider = await movedBy(page, () => page.keyboard.press('s'));
  assertNear(0.6 * wider.length, view.length, 's undoes w');

  const at = await point(page, 0.3);
  await page.mouse.move(at.x, at.y);
  const zoomed = await movedBy(page, () => page.mouse.wheel(0, -200));
  assert.ok(zoomed.length < wider.length, JSON.stringify({ wider, zoomed }));
  assertNear(zoomed.from + 0.3 * zoomed.length, wider.from + 0.3 * wider.length, 'what is under the pointer stays there');
  const panned = await movedBy(page, () => drag(page, { ...at, x: at.x + 100 }, at));
  const { width } = await canvas(page).boundingBox();
  assertNear(panned.from, zoomed.from + (100 / (width - h.GUTTER_PX)) * zoomed.length, 'a drag pans');
  assertNear(panned.length, zoomed.length, 'without a zoom');

  const [frame, plot] = [await page.locator('.strip-view').first().boundingBox(), await page.locator('[data-key=plot]').first().boundingBox()];
  const middle = { x: frame.x + frame.width / 2, y: frame.y + frame.height / 2 };
  const moved = await movedBy(page, () => drag(page, middle, { ...middle, x: middle.x + 40 }));
  assertNear(moved.from, panned.from + 40 / plot.width, 'a drag of the frame in the strips pans');
}

async function selectAndMark(page) {
  await canvas(page).focus();
  await page.keyboard.press('ArrowRight');
  const name = await moment(page).locator('h3').innerText();
  assert.match(name, /\w/);
  await page.locator('.timeline [role=status]', { hasText: /\w+.*, / }).first().waitFor();
  const before = await h.shareInView(page);
  const fitted = await movedBy(page, () => page.keyboard.press('f'));
  assert.ok(fitted.length < before.length, 'f zooms to the selected bar');
  await page.keyboard.press('m');
  await page.getByRole('list', { name: 'Marks' }).getByText(/^1: /).waitFor();
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('ArrowUp');
  await moment(page).locator('h3').waitFor();
  // The first Escape goes back to the view before, the second one closes the selection.
  const back = await movedBy(page, () => page.keyboard.press('Escape'));
  assertNear(back.from, before.from, 'Escape goes back');
  assertNear(back.length, before.length, 'to the same view');
  await page.keyboard.press('Escape');
  await moment(page).waitFor({ state: 'detached' });
}

/** Double clicks the bar that a click in the middle of the canvas selects, in the first lane that has one there. */
async function zoomToABar(page) {
  const { height } = await canvas(page).boundingBox();
  const before = await h.shareInView(page);
  for (let below = 45; below < height - 5; below += 8) {
    const at = await point(page, 0.5, below);
    await page.mouse.click(at.x, at.y);
    await h.quiet(page);
    if (await moment(page).count() === 0) continue;
    const zoomed = await movedBy(page, async () => {
      await page.mouse.dblclick(at.x, at.y);
      // Two clicks of its driver are no double click in Firefox.
      if (h.isFirefox) await canvas(page).dispatchEvent('dblclick', { clientX: at.x, clientY: at.y });
    });
    assert.ok(Math.abs(zoomed.length - before.length) > 0.001, 'a double click zooms to the bar');
    await canvas(page).focus();
    await movedBy(page, () => page.keyboard.press('Escape'));
    await page.keyboard.press('Escape');
    await moment(page).waitFor({ state: 'detached' });
    return;
  }
  assert.fail('no bar in the middle of the timeline');
}

async function pickAWindow(page) {
  const facts = () => page.locator('.runs').innerText();
  const whole = await facts();
  await page.keyboard.down('Shift');
  await drag(page, await point(page, 0.2), await point(page, 0.8));
  await page.keyboard.up('Shift');
  await page.waitForFunction(() => location.hash.includes('window='));
  await page.waitForFunction((text) => document.querySelector('.runs').innerText !== text, whole);
  await h.settled(page);
  await page.getByRole('navigation', { name: 'Windows' }).getByRole('button', { name: 'Whole trace' }).waitFor();
  await canvas(page).focus();
  // The views before come first.
  for (let times = 0; times < 20 && page.url().includes('window='); times += 1) {
    await page.keyboard.press('Escape');
    await h.quiet(page);
  }
  await page.waitForFunction(() => !location.hash.includes('window='));
  await page.waitForFunction((text) => document.querySelector('.runs').innerText === text, whole);
}

/** Two fingers, 40 pixels apart, spread to 120. */
async function pinch(page) {
  await page.setViewportSize({ width: 390, height: 844 });
  await canvas(page).scrollIntoViewIfNeeded();
  await page.locator('.timeline-tools button', { hasText: 'Show all' }).first().click();
  await h.shareInView(page);
  const at = await point(page, 0.5, 40);
  const zoomed = await movedBy(page, () => h.touch(page, canvas(page), ...[[-20, -60], [20, 60]].map(([from, to]) => ({ from: { ...at, x: at.x + from }, to: { ...at, x: at.x + to } }))));
  assert.ok(zoomed.length < 0.5, JSON.stringify(zoomed));
}

for (const path of [...RECORDED, ...SHARED]) {
  test(`each gesture works with ${basename(path)}`, { skip: SHARED.includes(path) && h.noTraces }, async () => {
    const { page, faults, close } = await h.openPage(browser, server.origin);
    await page.setViewportSize({ width: 1440, height: 900 });
    await h.drop(page, { name: basename(path), body: await readFile(path) });
    await h.settled(page);
    await canvas(page).scrollIntoViewIfNeeded();
    await zoomAndPan(page);
    await selectAndMark(page);
    await zoomToABar(page);
    await pickAWindow(page);
    await pinch(page);
    assert.deepEqual(faults, []);
    await close();
  });
}
