// The timeline: bars are where the trace has them, every gesture works by pointer and by keys, and details are the trace's own figures.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as h from './harness.mjs';

const { browser, server } = await h.lend();

/** Two kernels of 20 and 30 us, 50 us apart, each launched 9 us before it starts by a call of 2 us. Time zero is the first kernel. */
function twoKernels(name = 'two.json') {
  const event = (cat, text, ts, dur, args, tid) => ({ ph: 'X', cat, name: text, pid: cat === 'kernel' ? 0 : 9, tid, ts, dur, args });
  const pair = (at, kernel, dur, id) => [
    event('cuda_runtime', 'cudaLaunchKernel', at - 9, 2, { correlation: id }, 9),
    event('kernel', kernel, at, dur, { device: 0, stream: 7, correlation: id }, 7),
  ];
  return { name, body: Buffer.from(JSON.stringify({ traceEvents: [...pair(1_000, 'ampere_gemm', 20, 1), ...pair(1_070, 'flash_fwd_kernel', 30, 2)] })) };
}

const LENGTH_US = 100;
const timeline = (page) => page.locator('.timeline').first();
const canvas = (page) => timeline(page).locator('canvas');

async function drawn(page) {
  await page.locator('.timeline[data-state=drawn]').first().waitFor();
}

async function opened(file, viewport) {
  const opened = await h.openPage(browser, server.origin);
  if (viewport) await opened.page.setViewportSize(viewport);
  await h.drop(opened.page, file);
  await drawn(opened.page);
  await canvas(opened.page).scrollIntoViewIfNeeded();
  return opened;
}

/** A point on the canvas: at a time, in the lane whose title the page's own layout has at this index. The whole trace is in view. */
async function point(page, us, lane) {
  const { x, y, width } = await canvas(page).boundingBox();
  const share = us / (1.005 * LENGTH_US);
  // Axis 20, heading 17; steps and idle 15 each, the stream 20, with 3 between; then the heading of the thread.
  const tops = { steps: 37, idle: 55, stream: 73, calls: 113 };
  // Below the label.
  return { x: x + h.gutterPx(width) + share * (width - h.gutterPx(width)), y: y + tops[lane] + (lane === 'stream' ? 17 : 8) };
}

/** The colour of a pixel as [r, g, b]. */
const pixel = async (page, { x, y }) => {
  const { x: left, y: top } = await canvas(page).boundingBox();
  return canvas(page).evaluate((node, [px, py]) => {
    const ratio = node.width / node.clientWidth;
    return [...node.getContext('2d').getImageData(Math.round(px * ratio), Math.round(py * ratio), 1, 1).data].slice(0, 3);
  }, [x - left, y - top]);
};

/** The part of the trace that is in view, in microseconds. */
async function inView(page) {
  const share = await h.shareInView(page);
  const [from, length] = [share.from * LENGTH_US, share.length * LENGTH_US];
  return { from, to: from + length, length };
}

/** Asserts that two times in microseconds are at the same place, within a few pixels of the strips. */
const assertNear = (actual, expected, what) => assert.ok(Math.abs(actual - expected) < 0.6, `${what}: ${actual}, not ${expected}`);

/** The part of the trace that is in view after an act that changes it. */
async function movedBy(page, act) {
  await h.viewChanges(page, act);
  return inView(page);
}

const window = (page) => new URLSearchParams(new URL(page.url()).hash.slice(1)).get('window');

test('a kernel has the colour of its category from its start to its end, and idle time has none', async () => {
  const { page, faults, close } = await opened(twoKernels());
  const [gemm, attention] = [await h.fill(page, 'cat-gemm'), await h.fill(page, 'cat-attention')];
  assert.deepEqual(await pixel(page, await point(page, 2, 'stream')), gemm);
  assert.deepEqual(await pixel(page, await point(page, 18, 'stream')), gemm);
  assert.deepEqual(await pixel(page, await point(page, 98, 'stream')), attention);
  const idle = await pixel(page, await point(page, 45, 'stream'));
  assert.notDeepEqual(idle, gemm);
  assert.notDeepEqual(idle, attention);
  assert.deepEqual(faults, []);
  await close();
});

test('the name of a kernel that others overlap is within the widest part of it that is seen', async () => {
  const kernel = (name, ts, dur) => ({ ph: 'X', cat: 'kernel', name, pid: 0, tid: 7, ts, dur, args: { device: 0, stream: 7 } });
  const events = [kernel('covered_gemm_kernel_with_a_long_name', 0, 60), kernel('later_gemm_kernel', 40, 60), kernel('inner_gemm_kernel', 50, 20)];
  const { page, faults, close } = await h.openPage(browser, server.origin);
  await page.evaluate(() => {
    const { fillText } = CanvasRenderingContext2D.prototype;
    window.names = [];
    CanvasRenderingContext2D.prototype.fillText = function recorded(text, x, ...rest) {
      if (this.font.includes('mono')) window.names.push({ text, x, width: this.measureText(text).width });
      return fillText.call(this, text, x, ...rest);
    };
  });
  await h.drop(page, { name: 'overlap.json', body: Buffer.from(JSON.stringify({ traceEvents: events })) });
  await drawn(page);
  await h.quiet(page);
  const { width } = await canvas(page).boundingBox();
  const x = (us) => h.gutterPx(width) + (us / 100.5) * (width - h.gutterPx(width));
  const names = await page.evaluate(() => window.names);
  for (const [start, from, to] of [['covered', 0, 40], ['later', 70, 100], ['inner', 50, 70]]) {
    const name = names.findLast(({ text }) => text.startsWith(start.slice(0, 3)));
    assert.ok(name && name.x >= x(from) - 1 && name.x + name.width <= x(to) + 1, `${JSON.stringify(name)} is between ${x(from)} and ${x(to)}`);
  }
  assert.deepEqual(faults, []);
  await close();
});

test('the filter finds ops: they are counted and marked, Enter leads to the first, n and N lead on, and nothing is typed into it', async () => {
  const event = (name, ts) => ({ ph: 'X', cat: 'kernel', name, pid: 0, tid: 7, ts, dur: 10, args: { device: 0, stream: 7 } });
  const events = [event('ampere_gemm', 0), event('flash_fwd_kernel', 20), event('other_gemm', 40), event('Ampere_GEMM_2', 90)];
  const { page, faults, close } = await opened({ name: 'four.json', body: Buffer.from(JSON.stringify({ traceEvents: events })) });
  await h.settled(page);
  const found = (text) => page.locator('.timeline figcaption', { hasText: text }).waitFor();
  await page.keyboard.press('/');
  await page.keyboard.type('gemm');
  await found('3 GPU ops with “gemm” · Enter: the first');
  await h.quiet(page);
  const ink = await page.evaluate(() => {
    const probe = document.createElement('span');
    probe.style.color = 'var(--text)';
    document.body.append(probe);
    const { color } = getComputedStyle(probe);
    probe.remove();
    return color.match(/\d+/g).map(Number);
  });
  const above = async (us) => {
    const { x, y } = await point(page, us, 'stream');
    return pixel(page, { x, y: y - 17 });
  };
  for (const us of [5, 45, 95]) assert.deepEqual(await above(us), ink, `${us} us`);
  assert.notDeepEqual(await above(25), ink);
  await page.keyboard.press('Enter');
  await found('1 of 3 with “gemm” · n: next, N: previous');
  const heading = (name) => page.locator('.moment h3', { hasText: name }).waitFor();
  await heading('ampere_gemm');
  await page.keyboard.press('n');
  await found('2 of 3');
  await heading('other_gemm');
  await page.keyboard.press('n');
  await found('3 of 3');
  await page.keyboard.press('N');
  await found('2 of 3');
  assert.equal(await page.locator('#filter').inputValue(), 'gemm');
  await page.locator('#filter').fill('no such name');
  await found('no GPU op with “no such name”');
  await page.locator('#filter').fill('');
  await found('Wheel: zoom');
  assert.deepEqual(faults, []);
  await close();
});

test('a hidden category has faint bars in the timeline and in the strips, at once and after a reload', async () => {
  const { page, faults, close } = await opened(twoKernels());
  const [gemm, attention] = [await h.fill(page, 'cat-gemm'), await h.fill(page, 'cat-attention')];
  const strip = () => page.locator('.strips path.strip[data-key=gemm]').evaluate((node) => Number(getComputedStyle(node).fillOpacity));
  const toggle = page.locator('#legend button', { hasText: 'gemm' });
  const colours = async () => {
    await inView(page);
    return { gemm: await pixel(page, await point(page, 10, 'stream')), attention: await pixel(page, await point(page, 85, 'stream')), empty: await pixel(page, await point(page, 45, 'stream')) };
  };
  await toggle.click();
  for (const reloads of [true, false]) {
    await page.waitForFunction(() => document.querySelector('.strips path.faint'));
    const hidden = await colours();
    assert.notDeepEqual(hidden.gemm, gemm);
    assert.ok(await strip() < 0.5);
    assert.notDeepEqual(hidden.gemm, hidden.empty, 'something ran there');
    assert.deepEqual(hidden.attention, attention);
    if (!reloads) continue;
    await page.reload();
    await page.locator('html[data-simd]').waitFor({ state: 'attached' });
    await h.drop(page, twoKernels());
    await drawn(page);
    await canvas(page).scrollIntoViewIfNeeded();
  }
  await toggle.click();
  await page.waitForFunction(() => !document.querySelector('.strips path.faint'));
  assert.deepEqual((await colours()).gemm, gemm);
  assert.equal(await strip(), 1);
  // Idle time is a category too.
  const hatching = async () => {
    await inView(page);
    const places = await Promise.all(Array.from({ length: 12 }, async (_, at) => {
      const { x, y } = await point(page, 55, 'idle');
      return pixel(page, { x: x + at, y });
    }));
    const values = places.map(([red]) => red);
    return Math.max(...values) - Math.min(...values);
  };
  const before = await hatching();
  await page.locator('#legend button', { hasText: 'GPU idle' }).click();
  await page.waitForFunction(() => location.hash.includes('hide='));
  const faint = await hatching();
  assert.ok(faint < before / 2 && faint > 0, `${faint}, ${before} before`);
  assert.deepEqual(faults, []);
  await close();
});

test('a click shows the figures of a kernel, its launch and its neighbours lead on, and Escape closes them', async () => {
  const { page, faults, close } = await opened(twoKernels());
  const { x, y } = await point(page, 85, 'stream');
  await page.mouse.click(x, y);
  const moment = page.locator('.moment');
  await moment.locator('h3', { hasText: 'flash_fwd_kernel' }).waitFor();
  const text = await moment.innerText();
  for (const fact of ['30.0 us', '70.0 us', 'attention', 'cudaLaunchKernel', '9.00 us']) assert.ok(text.includes(fact), `${fact} in ${text}`);
  await moment.getByRole('button', { name: 'Its launch: cudaLaunchKernel, 2.00 us' }).click();
  await moment.locator('h3', { hasText: 'cudaLaunchKernel' }).waitFor();
  await moment.getByRole('button', { name: 'What it launched' }).click();
  await moment.getByRole('button', { name: '← Previous: ampere_gemm, 20.0 us' }).click();
  await moment.locator('h3', { hasText: 'ampere_gemm' }).waitFor();
  await canvas(page).focus();
  await page.keyboard.press('Escape');
  await moment.waitFor({ state: 'detached' });
  assert.deepEqual(faults, []);
  await close();
});

test('an arrow leads from the launch to its kernel, whichever of the two is selected', async () => {
  const { page, close } = await opened(twoKernels());
  const accent = await page.locator('.strip-view').first().evaluate((node) => getComputedStyle(node).stroke.match(/\d+/g).map(Number));
  const { x, y } = await point(page, 70, 'stream');
  // Inside of its head, at the height of the middle of the bar, which is 7 above the point.
  const head = [-9, -8, -7].map((above) => ({ x: x - 6, y: y + above }));
  const isDrawn = async () => (await Promise.all(head.map((place) => pixel(page, place)))).every((colour) => colour.join() === accent.join());
  assert.equal(await isDrawn(), false);
  for (const [us, lane, name] of [[85, 'stream', 'flash_fwd_kernel'], [62, 'calls', 'cudaLaunchKernel']]) {
    const at = await point(page, us, lane);
    await page.mouse.click(at.x, at.y);
    await page.locator('.moment h3', { hasText: name }).waitFor();
    await page.mouse.move(0, 0);
    await inView(page);
    assert.equal(await isDrawn(), true, name);
  }
  await close();
});

test('the card of a bar appears where the pointer rests and lies inside the window at its edges', async () => {
  const name = `flash_fwd_${'with_a_long_name_'.repeat(12)}`;
  const file = { name: 'long.json', body: Buffer.from(String(twoKernels().body).replaceAll('flash_fwd_kernel', name)) };
  for (const viewport of [{ width: 1280, height: 900 }, { width: 390, height: 844 }]) {
    const { page, faults, close } = await opened(file, viewport);
    // The window ends below the lane.
    const height = Math.round((await point(page, 85, 'stream')).y) + 20;
    await page.setViewportSize({ ...viewport, height });
    await inView(page);
    const card = page.locator('.timeline-card');
    for (const us of [75, 99]) {
      const at = await point(page, us, 'stream');
      assert.ok(at.y < height && at.y > height - 40, 'the lane is at the bottom');
      await page.mouse.move(at.x, at.y);
      await card.waitFor();
      await h.quiet(page);
      const text = await card.innerText();
      for (const fact of [name, '30.0 us', 'attention']) assert.ok(text.includes(fact), `${fact} in ${text}`);
      const { x, y: top, width, height: tall } = await card.boundingBox();
      assert.ok(x >= 0 && x + width <= viewport.width && top >= 0 && top + tall <= height, JSON.stringify({ viewport, height, us, x, top, width, tall }));
    }
    const idle = await point(page, 45, 'stream');
    await page.mouse.move(idle.x, idle.y);
    await card.waitFor({ state: 'hidden' });
    // What comes under the resting pointer with the wheel has its card, and a key that moves the view closes it.
    const end = await point(page, 72, 'stream');
    await page.mouse.move(end.x, end.y);
    await card.waitFor();
    await page.mouse.wheel(-100, 0);
    await card.waitFor({ state: 'hidden' });
    await page.mouse.wheel(100, 0);
    await card.waitFor();
    await canvas(page).focus();
    await page.keyboard.press('a');
    await card.waitFor({ state: 'hidden' });
    assert.deepEqual(faults, []);
    await close();
  }
});

test('a click on an idle gap says why the GPU was idle, what came before and what after', async () => {
  const { page, close } = await opened(twoKernels());
  const { x, y } = await point(page, 45, 'idle');
  await page.mouse.click(x, y);
  await page.locator('.moment h3', { hasText: 'idle: host late' }).waitFor();
  const text = await page.locator('.moment').innerText();
  for (const fact of ['50.0 us', 'ampere_gemm', 'flash_fwd_kernel', 'cudaLaunchKernel']) assert.ok(text.includes(fact), `${fact} in ${text}`);
  for (const bar of ['The op before it: ampere_gemm, 20.0 us', 'The op after it: flash_fwd_kernel, 30.0 us']) assert.ok(text.includes(bar), `${bar} in ${text}`);
  await page.locator('.moment').getByRole('button', { name: 'The late call: cudaLaunchKernel, 2.00 us' }).click();
  await page.locator('.moment h3', { hasText: 'cudaLaunchKernel' }).waitFor();
  await close();
});

/** The two kernels, and a third one that is launched during the second, and starts 50 us after its end. */
function threeKernels() {
  const { traceEvents } = JSON.parse(twoKernels().body.toString());
  const event = (cat, name, ts, dur, args, tid) => ({ ph: 'X', cat, name, pid: cat === 'kernel' ? 0 : 9, tid, ts, dur, args });
  traceEvents.push(
    event('cuda_runtime', 'cudaLaunchKernel', 1_080, 2, { correlation: 3 }, 9),
    event('kernel', 'ampere_gemm', 1_150, 30, { device: 0, stream: 7, correlation: 3 }, 7),
  );
  return { name: 'three.json', body: Buffer.from(JSON.stringify({ traceEvents })) };
}

test('a legend below the lanes names the hatching of each cause of idle time in the trace, and of no other, in room that was kept for it', async () => {
  for (const viewport of [{ width: 1440, height: 900 }, { width: 390, height: 844 }]) {
    for (const [file, causes] of [[twoKernels(), ['host late']], [threeKernels(), ['host late', 'other stream']]]) {
      const { page, faults, close } = await opened(file, viewport);
      const list = timeline(page).getByRole('list', { name: 'Causes of idle time' });
      await list.getByText(causes.at(-1)).waitFor();
      assert.deepEqual(await list.getByRole('listitem').allInnerTexts(), causes);
      const samples = list.locator('svg');
      const [lines, strokes] = await Promise.all([
        samples.evaluateAll((nodes) => nodes.map((node) => node.firstChild.getAttribute('d'))),
        samples.evaluateAll((nodes) => nodes.map((node) => getComputedStyle(node.firstChild).stroke.match(/\d+/g).map(Number))),
      ]);
      assert.equal(new Set(lines).size, causes.length, 'each has its own lines');
      for (const stroke of strokes) assert.deepEqual(stroke, await h.fill(page, 'cat-cpu'));
      const height = await timeline(page).locator('.timeline-legend').evaluate((node) => {
        const before = node.offsetHeight;
        node.replaceChildren();
        return [before, node.offsetHeight];
      });
      assert.equal(height[0], height[1], 'the empty line is as high');
      assert.deepEqual(faults, []);
      await close();
    }
  }
});

test('the details of an idle gap lead to the table of its finding', async () => {
  const { page, faults, close } = await opened(twoKernels());
  const { x, y } = await point(page, 45, 'idle');
  await page.mouse.click(x, y);
  const link = page.locator('.moment .note a.table-link').first();
  const table = (await link.getAttribute('href')).replace('#tab=', '');
  await link.click();
  await page.locator(`.block[data-table~="${table}"]`).waitFor();
  assert.deepEqual(faults, []);
  await close();
});

test('on a phone the buttons of a selected bar are in the window and work', async () => {
  const { page, faults, close } = await opened(twoKernels(), { width: 390, height: 800 });
  const { x, y } = await point(page, 10, 'stream');
  await page.mouse.click(x, y);
  const buttons = page.locator('.moment header button');
  await buttons.first().waitFor();
  for (const button of await buttons.all()) {
    await button.scrollIntoViewIfNeeded();
    const { x: left, y: top, width, height } = await button.boundingBox();
    assert.ok(left >= 0 && left + width <= 390 && top > -1 && top + height < 801, `${await button.innerText()}: ${[left, top, width, height]}`);
  }
  await page.locator('.moment').getByRole('button', { name: /^Next: flash/ }).click();
  await page.locator('.moment h3', { hasText: 'flash_fwd_kernel' }).waitFor();
  await page.locator('.moment').getByRole('button', { name: 'Close' }).click();
  await page.locator('.moment').waitFor({ state: 'hidden' });
  assert.deepEqual(faults, []);
  await close();
});

test('if the timeline cannot be drawn, the results appear and the problem is shown once', async () => {
  const { page, faults, close } = await h.openPage(browser, server.origin);
  await page.evaluate(() => {
    const { postMessage } = Worker.prototype;
    // The worker refuses options that it does not know.
    const refused = ({ args, ...message }) => ({ ...message, args: { ...args, options: { unknown: true } } });
    Worker.prototype.postMessage = function refusing(message) {
      postMessage.call(this, message.op === 'timeline' ? refused(message) : message);
    };
  });
  await h.drop(page, twoKernels());
  await h.settled(page);
  await page.locator('#cards .card', { hasText: 'The timeline could not be drawn' }).waitFor();
  assert.match(await page.locator('#verdict').innerText(), /\w/);
  await h.openTab(page, 'kernels');
  await page.locator('.block[data-table=kernels]', { hasText: 'ampere_gemm' }).waitFor();
  assert.equal(await page.locator('#cards .card').count(), 1);
  assert.deepEqual(faults, []);
  await close();
});

test('the keys alone reach every bar, say its name, zoom and go back', async () => {
  const { page, faults, close } = await opened(twoKernels());
  const said = (text) => page.locator('.timeline [role=status]', { hasText: text }).waitFor();
  await canvas(page).focus();
  await page.keyboard.press('ArrowRight');
  await said('ampere_gemm');
  await page.keyboard.press('ArrowRight');
  await said('flash_fwd_kernel, 30.0 us, stream 7');
  await page.keyboard.press('ArrowDown');
  await said('cudaLaunchKernel, 2.00 us');
  await page.keyboard.press('ArrowUp');
  await said('kernel');
  const before = await canvas(page).screenshot();
  await page.keyboard.press('f');
  await h.quiet(page);
  await drawn(page);
  const fitted = await canvas(page).screenshot();
  assert.ok(!before.equals(fitted), 'f zooms to the selected bar');
  for (const key of ['w', 'd', 'a', 's', 'm']) await page.keyboard.press(key);
  // From the view that f left, then from the selection.
  await page.keyboard.press('Escape');
  await page.keyboard.press('Escape');
  await page.locator('.moment').waitFor({ state: 'detached' });
  await page.keyboard.press('Escape');
  await h.quiet(page);
  assert.deepEqual(faults, []);
  await close();
});

test('keys that are pressed faster than details come act one after the other', async () => {
  const { page, faults, close } = await opened(twoKernels());
  await canvas(page).focus();
  await page.keyboard.press('ArrowRight');
  const heading = page.locator('.moment h3');
  await heading.filter({ hasText: 'ampere_gemm' }).waitFor();
  await h.tapWorkers(page, { moment: 300 });
  // To the launching call and back, then to the next kernel.
  for (const key of ['ArrowDown', 'ArrowUp', 'ArrowRight']) await page.keyboard.press(key);
  await heading.filter({ hasText: 'flash_fwd_kernel' }).waitFor();
  await h.quiet(page);
  assert.equal(await heading.textContent(), 'flash_fwd_kernel');
  // Escape closes the details of a bar that it was too fast for.
  for (const key of ['ArrowLeft', 'Escape']) await page.keyboard.press(key);
  await page.locator('.moment').waitFor({ state: 'detached' });
  await h.quiet(page);
  assert.equal(await page.locator('.moment').count(), 0);
  assert.deepEqual(faults, []);
  await close();
});

test('w and s zoom at the pointer, at the selected bar without a pointer, else at the middle; a and d pan', async () => {
  const { page, faults, close } = await opened(twoKernels());
  const press = async (key) => {
    await page.keyboard.press(key);
    return inView(page);
  };
  await canvas(page).focus();
  const middle = await press('w');
  assertNear(middle.length, 1.005 * 0.6 * LENGTH_US, 'w shows three fifths');
  assertNear(middle.from + middle.to, LENGTH_US, 'at the middle');
  const left = await press('a');
  assertNear(left.from, middle.from - 0.2 * middle.length, 'a pans to the left by a fifth');
  assertNear(left.length, middle.length, 'without a zoom');
  const right = await press('d');
  assertNear(right.from, middle.from, 'd pans back');
  assertNear((await press('s')).length, LENGTH_US, 's shows the whole trace again');
  // The first kernel is 20 us long.
  await press('ArrowRight');
  await page.locator('.moment h3', { hasText: 'ampere_gemm' }).waitFor();
  const selected = await press('w');
  assertNear(((10 - selected.from) / selected.length) * 101, 10.5, 'the middle of the selected bar stays where it is');
  await press('s');
  const at = await point(page, 85, 'stream');
  await page.mouse.move(at.x, at.y);
  await press('w');
  const pointed = await press('w');
  assertNear(pointed.length, 1.005 * 0.36 * LENGTH_US, 'two steps');
  assertNear(((85 - pointed.from) / pointed.length) * 101, 85.5, 'what is under the pointer stays there');
  assert.deepEqual(faults, []);
  await close();
});

test('a double click zooms to a bar, and Escape goes back view by view, then from the selection, then to the whole trace', async () => {
  const { page, faults, close } = await opened(twoKernels());
  const moment = page.locator('.moment');
  const kernel = await point(page, 85, 'stream');
  await canvas(page).focus();
  await page.keyboard.press('w');
  const before = await inView(page);
  const [left, shown] = [h.GUTTER_PX, await canvas(page).boundingBox()];
  const x = shown.x + left + ((75 - before.from) / before.length) * (shown.width - left);
  // The 30 us of the kernel are 80 % of the width, with an eighth of them on each side. The strips end with the kernel.
  const fitted = await movedBy(page, async () => {
    await page.mouse.dblclick(x, kernel.y);
    // Two clicks of its driver are no double click in Firefox.
    if (h.isFirefox) await canvas(page).dispatchEvent('dblclick', { clientX: x, clientY: kernel.y });
  });
  assertNear(fitted.from, 70 - 3.75, 'the begin');
  assertNear(fitted.to, LENGTH_US, 'the end');
  // The same again is no step, and what is moved by hand is none.
  await page.keyboard.press('f');
  await movedBy(page, () => page.mouse.wheel(0, -400));
  const moved = await movedBy(page, () => moment.getByRole('button', { name: '← Previous' }).click());
  await moment.locator('h3', { hasText: 'ampere_gemm' }).waitFor();
  await movedBy(page, () => moment.getByRole('button', { name: 'Zoom to it' }).click());
  await canvas(page).focus();
  const escape = async () => {
    await page.keyboard.press('Escape');
    return inView(page);
  };
  for (const expected of [moved, before]) {
    const now = await escape();
    assertNear(now.from, expected.from, 'the begin of the view before');
    assertNear(now.length, expected.length, 'its length');
    await moment.locator('h3', { hasText: 'ampere_gemm' }).waitFor();
  }
  const closed = await escape();
  await moment.waitFor({ state: 'detached' });
  assertNear(closed.length, before.length, 'the selection is closed, and the view stays');
  assert.equal((await escape()).length, LENGTH_US);
  assert.deepEqual(faults, []);
  await close();
});

test('without a selection the arrow up begins at the lowest lane in view, the arrow down at the highest', async () => {
  const { page, faults, close } = await opened(twoKernels());
  await canvas(page).focus();
  await page.keyboard.press('ArrowUp');
  await page.locator('.moment h3', { hasText: 'cudaLaunchKernel' }).waitFor();
  await page.keyboard.press('Escape');
  await page.locator('.moment').waitFor({ state: 'detached' });
  await page.keyboard.press('ArrowDown');
  await page.locator('.moment h3', { hasText: 'idle: host late' }).waitFor();
  assert.deepEqual(faults, []);
  await close();
});

test('from a kernel of the table to its third launch: its name, its panel, the next launches', async () => {
  const event = (ts, text) => ({ ph: 'X', cat: 'kernel', name: text, pid: 0, tid: 7, ts, dur: 5, args: { device: 0, stream: 7 } });
  const events = [0, 20, 40, 60].flatMap((ts) => [event(1_000 + ts, 'ampere_gemm'), event(1_010 + ts, 'softmax_kernel')]);
  const { page, faults, close } = await opened({ name: 'four.json', body: Buffer.from(JSON.stringify({ traceEvents: events })) });
  await page.locator('#blocks button.kernel', { hasText: 'softmax_kernel' }).first().click();
  await page.getByRole('button', { name: 'In the timeline' }).click();
  const moment = page.locator('.moment');
  await moment.locator('h3', { hasText: 'softmax_kernel' }).waitFor();
  const start = (text) => moment.locator('.figures, dl, div', { hasText: text }).first().waitFor();
  await start('10.0 us');
  await page.keyboard.press('n');
  await start('30.0 us');
  await moment.getByRole('button', { name: 'Same kernel →' }).click();
  await start('50.0 us');
  assert.deepEqual(faults, []);
  await close();
});

test('the time of an idle gap in its table leads to the gap', async () => {
  const { page, faults, close } = await opened(twoKernels());
  await h.openTab(page, 'host');
  await page.locator('.table-gpu_idle_gaps button.moment-link').first().click();
  await page.locator('.moment h3', { hasText: 'idle: host late' }).waitFor();
  assert.deepEqual(faults, []);
  await close();
});

test('both times of an idle gap among the longest events lead to it, and each time of a launch to its call or its kernel', async () => {
  const { page, faults, close } = await opened(twoKernels());
  const leadsTo = async (table, row, column, name) => {
    await h.openTab(page, 'host');
    await page.locator(`.table-${table} tbody tr`, row).first().locator('button.moment-link').nth(column).click();
    await h.isLedToTimeline(page);
    await page.locator('.moment h3', { hasText: name }).waitFor();
    await page.keyboard.press('Escape');
    await h.isLedBack(page);
    await page.locator('#tab-host[aria-selected=true]').waitFor();
  };
  for (const column of [0, 1]) await leadsTo('timeline_events', { hasText: 'GPU idle' }, column, 'idle: host late');
  for (const column of [0, 1]) await leadsTo('launch_latency_rows', {}, column, 'cudaLaunchKernel');
  for (const column of [2, 3]) await leadsTo('launch_latency_rows', {}, column, 'gemm');
  assert.deepEqual(faults, []);
  await close();
});

/** Three kernels that the host launched before the first began: what is between them is the usual delay. */
function launchedAhead() {
  const pair = (index) => [
    { ph: 'X', cat: 'cuda_runtime', name: 'cudaLaunchKernel', pid: 9, tid: 9, ts: 900 + 5 * index, dur: 2, args: { correlation: index + 1 } },
    { ph: 'X', cat: 'kernel', name: 'ampere_gemm', pid: 0, tid: 7, ts: 1_000 + 102 * index, dur: 100, args: { device: 0, stream: 7, correlation: index + 1 } },
  ];
  return { name: 'ahead.json', body: Buffer.from(JSON.stringify({ traceEvents: [0, 1, 2].flatMap(pair) })) };
}

test('a gap that has no bar is marked at its times, which the view shows', async () => {
  const { page, faults, close } = await opened(launchedAhead());
  await h.openTab(page, 'host');
  for (const column of [0, 1]) {
    const row = page.locator('.table-gpu_idle_gaps tbody tr').first();
    assert.match(await row.innerText(), /turnaround/);
    await row.locator('button.moment-link').nth(column).click();
    await page.locator('.timeline', { hasText: 'no bar for this row of the table' }).waitFor();
    await h.isLedToTimeline(page);
    await h.quiet(page);
    assert.match(await page.locator('.timeline-marks').innerText(), /2\.00 us/);
    assert.ok((await h.shareInView(page)).length < 0.05);
    await page.keyboard.press('Escape');
    await h.isLedBack(page);
    await page.locator('#tab-host[aria-selected=true]').waitFor();
  }
  assert.deepEqual(faults, []);
  await close();
});

/** A trace whose idle gaps, many more than fit on the screen, get longer with time. */
function manyGaps() {
  let at = 1_000;
  const ops = Array.from({ length: 120 }, (_, index) => {
    const start = at;
    at += 9_000 + 500 * index;
    return [`kernel_${index % 9}`, start, 5_000];
  });
  return h.kineto('gaps.json', ops);
}

test('after a time of a table was pressed, Escape and a link lead back to where the reader was', async () => {
  const { page, faults, close } = await opened(manyGaps());
  await h.openTab(page, 'host');
  const rows = page.locator('.block[data-table=gpu_idle_gaps] .scroll');
  // The ends are times too: they lead to the same gap.
  const pressed = page.locator('.table-gpu_idle_gaps tbody tr').nth(40).locator('button.moment-link');
  const state = async () => [await page.evaluate(() => Math.round(scrollY)), await rows.evaluate(({ scrollTop }) => Math.round(scrollTop))];
  for (const [column, leave] of [
    [0, () => page.keyboard.press('Escape')],
    [1, () => page.getByRole('button', { name: '← Longest idle gaps' }).click()],
    [0, async () => {
      await page.locator('.moment button').first().focus();
      await page.keyboard.press('Escape');
    }],
  ]) {
    await pressed.nth(column).scrollIntoViewIfNeeded();
    await page.evaluate(() => scrollBy(0, 37));
    // The click may scroll first.
    await rows.evaluate((node) => addEventListener('pointerdown', () => {
      window.before = [Math.round(scrollY), Math.round(node.scrollTop)];
    }, { capture: true, once: true }));
    await pressed.nth(column).click();
    const before = await page.evaluate(() => window.before);
    await page.locator('.moment h3', { hasText: /^idle/ }).waitFor();
    await h.isLedToTimeline(page);
    await drawn(page);
    await leave();
    await h.isLedBack(page);
    assert.equal(await page.evaluate(() => document.activeElement.dataset.time), await pressed.nth(column).getAttribute('data-time'));
    assert.deepEqual(await state(), before);
    assert.match(page.url(), /tab=host/);
  }
  // A bar that was selected since is closed first, after the way back to what was in view before.
  await pressed.first().click();
  await page.locator('.moment').waitFor();
  await page.keyboard.press('ArrowRight');
  await page.waitForFunction(() => document.querySelector('.moment button[title*="left arrow"]'));
  await h.quiet(page);
  await page.keyboard.press('Escape');
  await page.keyboard.press('Escape');
  await page.locator('.moment').waitFor({ state: 'detached' });
  assert.equal(await page.locator('#tab-timeline').getAttribute('aria-selected'), 'true');
  await page.getByRole('button', { name: '← Longest idle gaps' }).click();
  await page.waitForFunction(() => document.activeElement.classList.contains('moment-link'));
  assert.deepEqual(faults, []);
  await close();
});

test('a finding shows its longest case in the timeline, and a clause of the verdict the longest kernel of its category', async () => {
  const copy = 'Memcpy HtoD (Pageable -> Device)';
  const op = (cat, name, ts, dur) => ({ ph: 'X', cat, name, pid: 0, tid: 7, ts, dur, args: { device: 0, stream: 7 } });
  const ops = [op('kernel', 'ampere_gemm', 1_000, 20), op('gpu_memcpy', copy, 1_020, 15), op('gpu_memcpy', copy, 1_040, 25), op('kernel', 'ampere_gemm', 1_070, 30)];
  const { page, faults, close } = await opened({ name: 'copies.json', body: Buffer.from(JSON.stringify({ traceEvents: ops })) });
  const moment = page.locator('.moment');
  await page.getByRole('button', { name: 'Show the longest such copy' }).click();
  await moment.locator('h3', { hasText: copy }).waitFor();
  // The longer copy starts 40 us after the first op.
  await moment.locator('.figures, dl, div', { hasText: '40.0 us' }).first().waitFor();
  // The title opens the table with the numbers, below the timeline.
  await page.locator('#todo h3 a').first().click();
  await page.waitForFunction(() => document.querySelector('#panel').dataset.tab !== 'timeline');
  assert.equal(await page.locator('.timeline-canvas').isVisible(), true);
  await moment.locator('h3', { hasText: copy }).waitFor();
  // The table of the categories opens below the timeline, which stands at the longest kernel of the category.
  await page.locator('#verdict a', { hasText: 'gemm' }).click();
  await page.locator('#blocks > :first-child[data-table=categories]').waitFor();
  await moment.locator('h3', { hasText: 'ampere_gemm' }).waitFor();
  const bounds = async (selector) => page.locator(selector).first().boundingBox();
  const [plot, table] = [await bounds('.timeline-canvas'), await bounds('.block[data-table=categories] table')];
  assert.ok(plot.y >= 0 && plot.y + plot.height < table.y && table.y < 900, JSON.stringify({ plot, table }));
  // Another tab is that tab alone; the moment stays selected.
  await h.openTab(page, 'host');
  await page.locator('.timelines').waitFor({ state: 'hidden' });
  await page.getByRole('tab', { name: 'Timeline' }).click();
  await moment.locator('h3', { hasText: 'ampere_gemm' }).waitFor();
  await moment.locator('.figures, dl, div', { hasText: '70.0 us' }).first().waitFor();
  assert.deepEqual(faults, []);
  await close();
});

/** The two kernels below this many streams with a kernel each, so that the lanes of the host are screens below the first ones. */
function manyLanes(streams) {
  const { traceEvents } = JSON.parse(twoKernels().body.toString());
  const kernel = (_, at) => ({ ph: 'X', cat: 'kernel', name: `norm_${at}`, pid: 0, tid: 100 + at, ts: 1_000 + at, dur: 10, args: { device: 0, stream: 100 + at, correlation: 100 + at } });
  traceEvents.push(...Array.from({ length: streams }, kernel));
  return { name: 'many-lanes.json', body: Buffer.from(JSON.stringify({ traceEvents })) };
}

test('a lane below the fold has no tiles until it is scrolled to, and then it is drawn', async () => {
  const { page, faults, close } = await h.openPage(browser, server.origin);
  await h.tapWorkers(page);
  await h.drop(page, manyLanes(60));
  await h.settled(page);
  await drawn(page);
  const requested = () => page.evaluate(() => [...new Set((globalThis.tap.requests.tile ?? []).map(({ args }) => args.layer))]);
  const scroll = (top) => page.locator('.timeline-scroll').evaluate((node, top) => node.scrollTo(0, top), top);
  const first = await requested();
  assert.ok(first.includes('derived') && !first.includes('host'), `${first}`);
  // Scrolled by this much, the lanes of the host are still more than a screen away.
  await scroll(300);
  await inView(page);
  assert.ok(!(await requested()).includes('host'), `${await requested()}`);
  await scroll(1e6);
  await page.waitForFunction(() => globalThis.tap.requests.tile?.some(({ args }) => args.layer === 'host'));
  await inView(page);
  const launch = await h.fill(page, 'tl-launch');
  const hasLaunches = (colour) => canvas(page).evaluate((node, [red, green, blue]) => {
    const { data } = node.getContext('2d').getImageData(0, 0, node.width, node.height);
    return data.some((_, at) => at % 4 === 0 && data[at] === red && data[at + 1] === green && data[at + 2] === blue);
  }, colour);
  assert.ok(await hasLaunches(launch), 'the calls that launched the kernels');
  assert.deepEqual(faults, []);
  await close();
});

test('every trace has a timeline: the first four at once, further ones when they are asked for', async () => {
  const { page, faults, close } = await h.openPage(browser, server.origin);
  await page.setViewportSize({ width: 1440, height: 900 });
  await h.drop(page, ...[1, 2, 3, 4, 5, 6].map((at) => ({ ...twoKernels(), name: `trace${at}.json` })));
  await h.settled(page);
  const drawnOnes = (count) => page.waitForFunction((count) => document.querySelectorAll('.timeline[data-state=drawn]').length === count, count);
  await drawnOnes(4);
  const more = page.locator('.timeline-more button');
  assert.deepEqual(await more.allTextContents(), ['trace5.json', 'trace6.json']);
  await more.last().click();
  await drawnOnes(5);
  assert.match(await page.locator('.timeline').last().innerText(), /trace6\.json/);
  assert.deepEqual(await more.allTextContents(), ['trace5.json']);
  assert.deepEqual(faults, []);
  await close();
});

test('the wheel zooms at the pointer: what is under it stays there', async () => {
  const { page, close } = await opened(twoKernels());
  const at = await point(page, 19, 'stream');
  await page.mouse.move(at.x, at.y);
  for (let turn = 0; turn < 6; turn += 1) await page.mouse.wheel(0, -200);
  await h.quiet(page);
  await drawn(page);
  assert.deepEqual(await pixel(page, at), await h.fill(page, 'cat-gemm'), 'the end of the kernel is still under the pointer');
  const { x, y, width } = await canvas(page).boundingBox();
  assert.notDeepEqual(await pixel(page, { x: x + width - 20, y: at.y }), await h.fill(page, 'cat-attention'), 'the second kernel is out of view');
  assert.ok(y > 0);
  await close();
});

test('Shift and a drag pick a window for all tables, and Escape goes back to the whole trace', async () => {
  const { page, faults, close } = await opened(twoKernels());
  const [from, to] = [await point(page, 10, 'stream'), await point(page, 90, 'stream')];
  await page.keyboard.down('Shift');
  await page.mouse.move(from.x, from.y);
  await page.mouse.down();
  await page.mouse.move(to.x, to.y, { steps: 4 });
  await page.mouse.up();
  await page.keyboard.up('Shift');
  await page.waitForFunction(() => location.hash.includes('window='));
  const [start, end] = window(page).slice(2).split('-').map(Number);
  assert.ok(Math.abs(start * 1e6 - 10) < 0.3 && Math.abs(end * 1e6 - 90) < 0.3, window(page));
  await canvas(page).focus();
  await page.keyboard.press('Escape');
  await page.waitForFunction(() => !location.hash.includes('window='));
  assert.deepEqual(faults, []);
  await close();
});

test('two fingers zoom, one pans, and a tap selects on a touch screen', async () => {
  const { page, faults, close } = await opened(twoKernels(), { width: 390, height: 844 });
  const { x, y } = await point(page, 50, 'stream');
  const across = (from, to) => ({ from: { x: x + from, y }, to: { x: x + to, y } });
  await h.touch(page, canvas(page), across(-20, -60), across(20, 60));
  const zoomed = await inView(page);
  // What was between the fingers, 40 pixels apart, is 120 pixels wide.
  assert.ok(Math.abs(zoomed.length - 1.005 * LENGTH_US / 3) < 4, JSON.stringify(zoomed));
  assert.ok(Math.abs((zoomed.from + zoomed.to) / 2 - 50) < 3, JSON.stringify(zoomed));
  const scrolled = await page.evaluate(() => scrollY);
  await h.touch(page, canvas(page), across(60, -60));
  const panned = await inView(page);
  const { width } = await canvas(page).boundingBox();
  assert.ok(Math.abs(panned.from - zoomed.from - (120 / (width - h.gutterPx(width))) * zoomed.length) < 3, JSON.stringify({ zoomed, panned }));
  assert.ok(Math.abs(panned.length - zoomed.length) < 1, 'one finger does not zoom');
  assert.equal(await page.evaluate(() => scrollY), scrolled, 'the page stays');
  await h.touch(page, canvas(page), across(60, 60));
  await page.locator('.moment h3', { hasText: 'flash_fwd_kernel' }).waitFor();
  assert.equal(await page.evaluate(() => document.documentElement.scrollWidth > innerWidth), false, 'nothing runs off the page');
  assert.deepEqual(faults, []);
  await close();
});

test('m marks the selected bar, the marks have their times and distance, and m again removes one', async () => {
  const { page, faults, close } = await opened(twoKernels());
  const marks = timeline(page).getByRole('list', { name: 'Marks' });
  const said = (text) => page.locator('.timeline [role=status]', { hasText: text }).waitFor();
  await canvas(page).focus();
  await page.keyboard.press('ArrowRight');
  await said('ampere_gemm');
  await page.keyboard.press('m');
  await said('mark 1 at 0 ns');
  const before = await canvas(page).boundingBox();
  await page.keyboard.press('ArrowRight');
  await said('flash_fwd_kernel');
  await page.keyboard.press('m');
  await said('mark 2 at 70.0 us, 70.0 us after mark 1');
  assert.deepEqual(await marks.locator('li').allInnerTexts(), ['1: 0 us', '↔ 70.0 us', '2: 70.0 us', 'Remove marks']);
  assert.match(await marks.getByRole('button', { name: '2: 70.0 us' }).getAttribute('title'), /^70,000 ns since the first GPU op/);
  assert.deepEqual(await canvas(page).boundingBox(), before, 'the marks take the place of the hint');
  // Their lines go through all lanes.
  const columns = await canvas(page).evaluate((node) => {
    const [r, g, b] = getComputedStyle(document.querySelector('.strip-view')).stroke.match(/\d+/g).map(Number);
    const { data } = node.getContext('2d').getImageData(0, node.height - 3, node.width, 1);
    return Array.from({ length: node.width }, (_, x) => x).filter((x) => data[4 * x] === r && data[4 * x + 1] === g && data[4 * x + 2] === b);
  });
  assert.equal(columns.length, 2, String(columns));
  await page.keyboard.press('m');
  await said('Mark removed');
  assert.deepEqual(await marks.locator('li').allInnerTexts(), ['1: 0 ns', 'Remove marks']);
  await marks.getByRole('button', { name: 'Remove marks' }).click();
  await marks.waitFor({ state: 'hidden' });
  assert.deepEqual(faults, []);
  await close();
});

test('without a selection m marks the time under the pointer, or the middle of the view', async () => {
  const { page, close } = await opened(twoKernels());
  const times = async (count) => {
    const buttons = page.getByRole('list', { name: 'Marks' }).locator('button[title*="since"]');
    await buttons.nth(count - 1).waitFor();
    return (await buttons.evaluateAll((nodes) => nodes.map(({ title }) => Number(title.split(' ns')[0].replaceAll(',', '')) / 1000)));
  };
  await canvas(page).focus();
  await page.keyboard.press('m');
  assertNear((await times(1))[0], LENGTH_US / 2, 'the middle');
  const { x, y } = await point(page, 85, 'stream');
  await page.mouse.move(x, y);
  await page.keyboard.press('m');
  assertNear((await times(2))[1], 85, 'the pointer');
  // The titles of the lanes are left of all times.
  await page.mouse.move((await canvas(page).boundingBox()).x + 10, y);
  await page.keyboard.press('m');
  await page.locator('.timeline [role=status]', { hasText: 'Mark removed' }).waitFor();
  assert.equal(await page.getByRole('list', { name: 'Marks' }).locator('button').count(), 2, 'the mark at the middle is removed, and no third one is set');
  await close();
});

test('the strips frame what the timeline shows, and a drag of the frame pans it without picking a window', async () => {
  const { page, faults, close } = await opened(twoKernels());
  const frame = page.locator('.strip-view');
  const visible = (wanted) => page.waitForFunction((value) => document.querySelector('.strip-view').getAttribute('visibility') === value, wanted);
  await visible('hidden');
  await canvas(page).focus();
  for (let times = 0; times < 3; times += 1) await page.keyboard.press('w');
  await visible('visible');
  const plot = await page.locator('[data-key=plot]').boundingBox();
  const before = await frame.boundingBox();
  const expected = 1.005 * 0.6 ** 3 * plot.width;
  assert.ok(Math.abs(before.width - expected) < 4, `${before.width} of ${plot.width}, not ${expected}`);
  assert.ok(Math.abs(before.x + before.width / 2 - plot.x - plot.width / 2) < 4, JSON.stringify({ before, plot }));
  await page.mouse.move(before.x + before.width / 2, before.y + before.height / 2);
  await page.mouse.down();
  await page.mouse.move(before.x + before.width / 2 + 60, before.y + before.height / 2, { steps: 4 });
  await page.mouse.up();
  await page.waitForFunction((left) => document.querySelector('.strip-view').getBoundingClientRect().x > left + 50, before.x);
  const after = await frame.boundingBox();
  assert.ok(Math.abs(after.x - before.x - 60) < 3 && Math.abs(after.width - before.width) < 2, JSON.stringify({ before, after }));
  assert.equal(window(page), null);
  // With Shift, a window inside of the frame is picked.
  await page.keyboard.down('Shift');
  await page.mouse.move(after.x + 20, after.y + 10);
  await page.mouse.down();
  await page.mouse.move(after.x + 80, after.y + 10, { steps: 4 });
  await page.mouse.up();
  await page.keyboard.up('Shift');
  await page.waitForFunction(() => location.hash.includes('window='));
  assert.deepEqual(faults, []);
  await close();
});

test('the windows that were picked are a trail: a click goes back to one, and Escape goes back a step', async () => {
  const { page, faults, close } = await opened(twoKernels());
  const trail = page.getByRole('navigation', { name: 'Windows' });
  const steps = async (...wanted) => {
    await page.waitForFunction((texts) => JSON.stringify([...document.querySelectorAll('.trail > :not([aria-hidden])')].map((step) => step.textContent)) === JSON.stringify(texts), wanted);
  };
  const pick = async (text) => {
    // Typed, because Firefox reports no change of a field that a script has filled.
    await page.getByLabel(/^Window of/).press('ControlOrMeta+a');
    await page.keyboard.type(text);
    await page.keyboard.press('Enter');
  };
  await steps();
  await pick('0.00001-0.00009');
  await steps('Whole trace', '10.0 to 90.0 us');
  await pick('0.00007-0.00008');
  await steps('Whole trace', '10.0 to 90.0 us', '70.0 to 80.0 us');
  await trail.getByRole('button', { name: '10.0 to 90.0 us' }).click();
  await steps('Whole trace', '10.0 to 90.0 us');
  assert.equal(window(page), '0@0.00001-0.00009');
  await pick('0.00002-0.000021');
  await steps('Whole trace', '10.0 to 90.0 us', '20.00 to 21.00 us');
  await canvas(page).focus();
  await page.keyboard.press('Escape');
  await steps('Whole trace', '10.0 to 90.0 us');
  await trail.getByRole('button', { name: 'Whole trace' }).click();
  await steps();
  assert.equal(window(page), null);
  assert.deepEqual(faults, []);
  await close();
});
