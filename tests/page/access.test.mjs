// axe-core finds no serious problem in any state of the page: light or dark, wide or narrow. Nothing is wider than a small phone,
// targets are large enough for fingers, and after running out of memory the page reads less of a trace and says so.

/* global axe */

import assert from 'node:assert/strict';
import { cp, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import * as h from './harness.mjs';

const AXE = await readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

const { browser, server } = await h.lend();

const LOOKS = [['light', 1280], ['dark', 1280], ['light', 400], ['dark', 400]];

/** The serious problems that axe-core finds in a frame, with their first nodes. */
async function broken(frame) {
  // Evaluated through the debugger, to which the page's policy does not apply.
  if (!await frame.evaluate(() => 'axe' in window)) await frame.evaluate(AXE);
  return frame.evaluate(async () => {
    const { violations } = await axe.run(document, { resultTypes: ['violations'], elementRef: false });
    return violations.filter(({ impact }) => ['serious', 'critical'].includes(impact))
      .map(({ id, nodes }) => `${id}: ${nodes.slice(0, 4).map(({ html, failureSummary }) => `${html.slice(0, 160)} ${failureSummary}`).join(' | ')}`);
  });
}

async function assertSound(page, state, frame = page, looks = LOOKS) {
  for (const [theme, width] of looks) {
    await page.emulateMedia({ colorScheme: theme });
    await page.setViewportSize({ width, height: 900 });
    await frame.waitForFunction(() => [...document.querySelectorAll('#chart svg')].every((chart) => chart.clientWidth <= chart.parentElement.clientWidth));
    assert.deepEqual(await broken(frame), [], `${state}, ${theme}, ${width} px wide`);
  }
}

/** Kernels of every category on two streams, launched by calls in steps. */
function everything(name) {
  const kernels = ['nvjet_gemm', 'ncclDevKernel_AllReduce_Sum_bf16_RING_LL', 'flash_fwd_splitkv_kernel', 'fused_moe_kernel', 'rms_norm_kernel', 'rotary_embedding_kernel',
    'softmax_warp_forward', 'act_and_mul_kernel', 'per_token_quant_int8', 'reduce_kernel', 'vectorized_elementwise_kernel', 'topk_sampling', 'reshape_and_cache', 'nothing_known', 'cudnn_conv2d'];
  const host = (cat, text, ts, dur, args) => ({ ph: 'X', cat, name: text, pid: 1, tid: 1, ts, dur, args });
  const launch = (text, at) => [
    host('cpu_op', 'aten::mm', at * 20, 8, { 'External id': at + 1 }),
    host('cuda_runtime', 'cudaLaunchKernel', at * 20 + 1, 4, { correlation: at + 1, 'External id': at + 1 }),
    { ph: 'X', cat: 'kernel', name: text, pid: 0, tid: 7 + (at % 2), ts: at * 20 + 9, dur: 18, args: { device: 0, stream: 7 + (at % 2), correlation: at + 1, 'External id': at + 1 } },
  ];
  const steps = [host('user_annotation', 'step[EXTEND bs=1 toks=128]', 0, 140, {}), host('user_annotation', 'step[DECODE bs=16]', 145, 400, {}),
    host('python_function', 'python/sglang/srt/models/qwen3.py(310): forward', 1, 130, { 'Python id': 1, 'Python parent id': 0 })];
  return { name, body: Buffer.from(JSON.stringify({ schemaVersion: 1, deviceProperties: [{ id: 0, name: 'NVIDIA H100' }], traceEvents: [...steps, ...kernels.flatMap(launch)] })) };
}

const choose = async (page, id) => {
  await h.openTab(page, id);
  if (id === 'triage') await page.waitForFunction(() => document.querySelector('.block[data-table^=triage_]') && !document.querySelector('.triage-run.reading'), null, { timeout: 60_000 });
  // The dashboard has charts instead of tables.
  await page.locator(id === 'dashboard' ? '#dashboard figure[data-panel=skew]' : '#results[aria-busy=false] .block').first().waitFor();
};

test('the empty page and the help have no serious problem', async () => {
  const { page, close } = await h.openPage(browser, server.origin);
  await page.locator('details.help').evaluateAll((all) => all.forEach((details) => void (details.open = true)));
  await assertSound(page, 'empty');
  await page.keyboard.press('?');
  await page.getByRole('dialog').waitFor();
  await assertSound(page, 'help');
  await close();
});

test('reading and problem cards have no serious problem', async () => {
  const { page, close } = await h.openPage(browser, server.origin);
  await page.evaluate(() => {
    // A file that never ends.
    File.prototype.stream = () => new ReadableStream({ pull: () => new Promise(() => {}) });
  });
  await h.drop(page, { name: 'slow.json', body: Buffer.alloc(1000, ' ') }, { name: 'other.json', body: Buffer.from('{}') });
  await page.locator('.card.reading').first().waitFor();
  await assertSound(page, 'reading');
  await close();
  const second = await h.openPage(browser, server.origin);
  await h.drop(second.page, { name: 'picture.png', body: Buffer.from('\x89PNG\r\n\x1a\n') }, { name: 'broken.json', body: Buffer.from('{"traceEvents"') });
  await second.page.locator('.card.error').nth(1).waitFor();
  await assertSound(second.page, 'problems');
  await second.close();
});

test('all tabs and menus of results have no serious problem', async () => {
  const { page, close } = await h.openPage(browser, server.origin);
  await h.drop(page, everything('all.json'), h.kineto('second.json', h.SERVER_OPS));
  await h.settled(page);
  await page.waitForFunction(() => document.querySelectorAll('#runs > li:not(.to-come)').length === 2);
  const tabs = await page.locator('[role=tab], #more button').evaluateAll((all) => all.map(({ id }) => id.replace(/^(tab|more)-/, '')));
  assert.ok(tabs.includes('triage') && tabs.length > 10, String(tabs));
  for (const id of tabs) {
    await page.setViewportSize({ width: 1280, height: 900 });
    await choose(page, id);
    await assertSound(page, `tab ${id}`, page, id === tabs[0] ? LOOKS : [LOOKS[0], LOOKS[3]]);
  }
  await page.setViewportSize({ width: 1280, height: 900 });
  await choose(page, tabs[0]);
  await page.locator('button.kernel').first().click();
  await page.locator('#kernel svg.chart').first().waitFor();
  await page.locator('#legend button').first().click();
  await h.openSettings(page);
  await page.locator('#wall summary').click();
  await page.keyboard.press('e');
  await assertSound(page, 'menus');
  await choose(page, 'kernels');
  await page.locator('.column-menu summary').first().click();
  await page.locator('.column-menu input').nth(1).uncheck();
  await assertSound(page, 'columns');
  await close();
});

test('a long table has no serious problem', async () => {
  const { page, close } = await h.openPage(browser, server.origin, '#tab=kernels');
  await h.drop(page, h.kineto('wide.json', Array.from({ length: 3_000 }, (_, at) => [`kernel_${at}`, at * 1_000, 900])));
  await h.settled(page);
  await page.locator('.scroll.long').evaluate((frame) => void (frame.scrollTop = 20_000));
  await assertSound(page, 'long table', page, [LOOKS[0], LOOKS[3]]);
  await close();
});

test('the page that loads remote files has no serious problem', async () => {
  const context = await browser.newContext({ serviceWorkers: 'block' });
  const page = await context.newPage();
  for (const query of ['', '?url=https://example.com/run.json.gz']) {
    await page.goto(`${server.origin}/open.html${query}`);
    await page.locator('#cards > *').first().waitFor();
    await assertSound(page, `open.html${query}`);
  }
  await context.close();
});

test('an embedded page has no serious problem', async () => {
  const { page, close } = await h.openPage(browser, server.origin, '?embed=1');
  await assertSound(page, 'embedded and empty');
  await h.drop(page, everything('all.json'));
  await h.settled(page);
  await assertSound(page, 'embedded');
  await close();
});

test('nothing is wider than a small phone, and touch targets are large enough', async () => {
  const context = await browser.newContext({ serviceWorkers: 'block', viewport: { width: 360, height: 740 }, hasTouch: true, isMobile: true });
  const page = await context.newPage();
  await page.goto(server.origin);
  await page.locator('html[data-simd]').waitFor({ state: 'attached' });
  const width = () => page.evaluate(() => document.documentElement.scrollWidth);
  assert.equal(await width(), 360, 'empty');
  await h.drop(page, everything(`${'a-long-name-of-a-trace-'.repeat(6)}.json`), h.kineto('second.json', h.SERVER_OPS));
  await h.settled(page);
  for (const id of await page.locator('[role=tab], #more button').evaluateAll((all) => all.map(({ id }) => id.replace(/^(tab|more)-/, '')))) {
    await choose(page, id);
    assert.equal(await width(), 360, id);
  }
  await choose(page, 'kernels');
  await page.locator('.column-menu summary').first().click();
  await page.locator('.column-menu input').first().waitFor();
  const [menu] = await page.locator('.column-menu[open] .menu-items').evaluateAll((all) => all.map((node) => node.getBoundingClientRect().toJSON()));
  assert.ok(menu.left >= 0 && menu.right <= 360, JSON.stringify(menu));
  // The minimum of WCAG 2.2 (2.5.8).
  const small = await page.evaluate(() => [...document.querySelectorAll('button, summary, select, input:not([hidden], [type=checkbox]), .column-menu label')]
    .filter((node) => node.checkVisibility() && Math.min(node.offsetHeight, node.offsetWidth) < 24).map((node) => node.outerHTML.slice(0, 100)));
  assert.deepEqual(small, []);
  await page.keyboard.press('?');
  await page.getByRole('dialog').waitFor();
  assert.equal(await width(), 360, 'help');
  await context.close();
});

/** Serves the page with a reader that runs out of memory while `isShort`, a condition on what is left out. */
async function serveShortOfMemory(isShort) {
  const folder = await mkdtemp(join(tmpdir(), 'gpuprism-memory-'));
  await cp(h.dist, folder, { recursive: true });
  const failing = `if (args.file && op.startsWith('open') && (${isShort})(args.leftOut)) throw new RangeError('Array buffer allocation failed');`;
  const serve = await readFile(join(folder, 'worker-serve.js'), 'utf8');
  const short = serve.replace('const value = await handler(args, progress);', `${failing} $&`);
  assert.notEqual(short, serve);
  await writeFile(join(folder, 'worker-serve.js'), short);
  const server = await h.servePage({ folder });
  return { ...server, close: async () => {
    await server.close();
    await rm(folder, { recursive: true });
  } };
}

test('a message with a command has a button that copies it', async () => {
  const { page, close } = await h.openPage(browser, server.origin);
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
  await h.drop(page, { name: 'trace.json.zst', body: Buffer.from([0x28, 0xb5, 0x2f, 0xfd, 0, 0, 0, 0]) });
  await page.locator('.card.error').getByRole('button', { name: 'Copy', exact: true }).click();
  await page.getByText('Copied').waitFor();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), 'zstd -d');
  await close();
});

test('after running out of memory a trace is read again without its code, and the page says so', async () => {
  const short = await serveShortOfMemory('(leftOut) => leftOut === null');
  const { page, faults, close } = await h.openPage(browser, short.origin, '#tab=timeline');
  await h.drop(page, everything('x.json'));
  await h.settled(page);
  const card = page.locator('.card');
  await card.getByText('Memory ran out, so the file was read without CPU ops and Python functions.').waitFor();
  await assertSound(page, 'read without code');
  const notes = page.locator('.timeline p', { hasText: 'CPU ops and Python functions have no lanes' });
  await notes.waitFor({ state: 'attached' });
  assert.doesNotMatch(await page.locator('#notices').textContent(), /only GPU events/, 'calls and ranges were read');
  await card.getByRole('button', { name: 'Dismiss' }).click();
  assert.equal(await card.count(), 0);
  assert.deepEqual(faults, []);
  await close();
  await short.close();
});

test('a trace that was read without its code can be read again in full', async () => {
  const short = await serveShortOfMemory('(leftOut) => leftOut === null');
  const { page, close } = await h.openPage(browser, short.origin, '#tab=timeline');
  await h.drop(page, everything('x.json'));
  await h.settled(page);
  // The worker of the next reading is a new one, with room.
  await page.evaluate(() => {
    const { postMessage } = Worker.prototype;
    Worker.prototype.postMessage = function roomy(message) {
      postMessage.call(this, message.op === 'open' ? { ...message, args: { ...message.args, leftOut: undefined } } : message);
    };
  });
  await page.locator('.card').getByRole('button', { name: 'Try again in full' }).click();
  await page.waitForFunction(() => !document.querySelector('.card') && document.querySelector('.timeline p'));
  await page.waitForFunction(() => [...document.querySelectorAll('.timeline p')].every((notes) => !notes.textContent.includes('have no lanes')));
  await close();
  await short.close();
});

test('if memory is too short for calls and ranges too, only GPU events are read', async () => {
  const short = await serveShortOfMemory("(leftOut) => leftOut !== 'host'");
  const { page, close } = await h.openPage(browser, short.origin);
  await h.drop(page, everything('x.json'));
  await h.settled(page);
  await page.locator('.card').getByText('Memory ran out, so the file was read without calls and ranges of the host.').waitFor();
  assert.match(await page.locator('#notices').textContent(), /only GPU events were read: 17 host events are excluded/);
  await close();
  await short.close();
});

test('a trace that never fits into memory has a command to copy', async () => {
  const short = await serveShortOfMemory('() => true');
  const { page, close } = await h.openPage(browser, short.origin);
  await h.drop(page, { ...everything('x'), name: "it's all.json" });
  const card = page.locator('.card.error');
  await card.waitFor();
  const words = await card.innerText();
  assert.match(words, /needs more memory than a browser tab can give/);
  assert.match(words, /too large even without calls and ranges of the host/);
  assert.ok(words.includes("gpuprism report 'it'\\''s all.json'"), words);
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
  await card.getByRole('button', { name: 'Copy' }).click();
  await page.getByText('Copied').waitFor();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), "gpuprism report 'it'\\''s all.json'");
  await assertSound(page, 'out of memory');
  await close();
  await short.close();
});
