// A window that is dragged, picked or typed restricts the whole page, with the command line's numbers for the same window, and is part
// of the address.

import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { test } from 'node:test';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import * as h from './harness.mjs';

const { browser, server } = await h.lend();

/** Two steps of 10 us each, 40 us apart, with a range around each launch, one around both and one around the second only. */
function stepped(name) {
  const event = (cat, text, ts, dur, args, tid) => ({ ph: 'X', cat, name: text, pid: cat === 'kernel' ? 0 : 9, tid, ts, dur, args });
  const step = (at, stage) => [
    event('user_annotation', `step[${stage} bs=2]`, 100 + at, 8, {}, 9),
    event('cuda_runtime', 'cudaLaunchKernel', 101 + at, 2, { correlation: at + 1 }, 9),
    event('kernel', stage === 'DECODE' ? 'ampere_gemm' : 'flash_fwd_kernel', 110 + at, 10, { device: 0, stream: 7, correlation: at + 1 }, 7),
  ];
  return { name, body: Buffer.from(JSON.stringify({ traceEvents: [...step(0, 'EXTEND'), ...step(40, 'DECODE'), event('user_annotation', 'answer', 99, 60, {}, 9), event('user_annotation', 'answer', 139, 15, {}, 9)] })) };
}

const drawn = (page, index = 0) => page.locator('#strips figure').nth(index).locator('[data-key=plot]');
const facts = (page) => page.locator('.run-facts').first().innerText();

/** Waits until the strips no longer move, because content above them, such as a comparison, can arrive late. */
async function atRest(page, index) {
  const place = async () => JSON.stringify(await drawn(page, index).boundingBox());
  for (let before = '', now = await place(); before !== now; [before, now] = [now, await place()]) await h.quiet(page);
}

/** Drags in one move, because a slow one would rest on its way and show a preview. */
async function holdOver(page, from, to, index = 0) {
  await drawn(page, index).scrollIntoViewIfNeeded();
  await atRest(page, index);
  const { x, y, width } = await drawn(page, index).boundingBox();
  await page.mouse.move(x + width * from, y + 8);
  await page.mouse.down();
  await page.mouse.move(x + width * to, y + 12);
}

async function dragOver(page, from, to, index = 0) {
  await holdOver(page, from, to, index);
  await page.mouse.up();
}

/** Asserts that the page's exported report is the command line's for the window in the address. */
async function assertSameAsCommandLine(page, file) {
  const [, window] = new URLSearchParams(new URL(page.url()).hash.slice(1)).get('window').split('@');
  const { stdout } = await h.commandLine(['report', file.name, '--window', window, '--format', 'json'], [file]);
  const { body } = await h.exported(page, 'json');
  assert.equal(body.toString(), stdout.toString());
  return JSON.parse(body).runs[0];
}

test('a drag over the strips restricts the whole report to that window', async () => {
  const file = h.kineto('server.json', h.SERVER_OPS);
  const { page, faults, close } = await h.openPage(browser, server.origin);
  await h.drop(page, file);
  await h.settled(page);
  const whole = await facts(page);
  await dragOver(page, 0.3, 0.7);
  await page.waitForFunction((before) => document.querySelector('.run-facts').textContent !== before, whole);
  await h.settled(page);
  const run = await assertSameAsCommandLine(page, file);
  assert.ok(run.totals.gpu_ops > 0 && run.totals.gpu_ops < h.SERVER_OPS.length);
  assert.ok(run.window.end_ns - run.window.start_ns === run.wall.wall_ns);
  const { rows } = await h.readTable(page);
  assert.equal(rows.length, run.kernels.length);
  await page.goBack();
  await page.waitForFunction((before) => document.querySelector('.run-facts').textContent === before, whole);
  await page.goForward();
  await page.waitForFunction((before) => document.querySelector('.run-facts').textContent !== before, whole);
  // A click returns to the whole trace.
  const { x, y, width } = await drawn(page).boundingBox();
  await page.mouse.click(x + width / 2, y + 5);
  await page.waitForFunction((before) => document.querySelector('.run-facts').textContent === before, whole);
  assert.equal(new URL(page.url()).hash.includes('window'), false);
  assert.deepEqual(faults, []);
  await close();
});

test('strips fit the page after its width changes back and forth', async () => {
  const { page, faults, close } = await h.openPage(browser, server.origin);
  await page.setViewportSize({ width: 1280, height: 900 });
  await h.drop(page, h.kineto('server.json', h.SERVER_OPS));
  await h.settled(page);
  await drawn(page).waitFor();
  const widths = () => page.evaluate(() => ['#strips', '#strips figure svg'].map((place) => document.querySelector(place).getBoundingClientRect().width));
  const [wide, narrow] = [1280, 700];
  assert.deepEqual(await widths(), [wide - 40, wide - 40]);
  // Both widths are requested before the first answer.
  await h.tapWorkers(page, { strips: 500 });
  await page.setViewportSize({ width: narrow, height: 900 });
  await page.waitForFunction(() => window.tap.requests.strips?.length === 1);
  await page.setViewportSize({ width: wide, height: 900 });
  await page.waitForFunction(() => window.tap.requests.strips.length === 2);
  await h.quiet(page);
  assert.deepEqual(await widths(), [wide - 40, wide - 40]);
  const places = await page.locator('.strip-drawing svg').evaluateAll((layers) => layers.map((layer) => JSON.stringify(layer.getBoundingClientRect())));
  assert.deepEqual([places.length, new Set(places).size], [2, 1], 'the pointer layer covers the drawing');
  assert.deepEqual(faults, []);
  await close();
});

test('a pointer that rests during a drag shows a preview of the window', async () => {
  const file = h.kineto('server.json', h.SERVER_OPS);
  const { page, faults, close } = await h.openPage(browser, server.origin);
  await h.drop(page, file);
  await h.settled(page);
  const whole = await facts(page);
  const isWhole = (wanted) => page.waitForFunction(([text, wanted]) => (document.querySelector('.run-facts').innerText === text) === wanted, [whole, wanted]);
  // A drag that the system cancels, such as a touch that becomes a scroll, changes nothing.
  await holdOver(page, 0.2, 0.5);
  await isWhole(false);
  await drawn(page).dispatchEvent('pointercancel', { clientX: 0 });
  await isWhole(true);
  await page.mouse.up();
  assert.doesNotMatch(page.url(), /window=/);
  // A drag that returns to its start is a click.
  await holdOver(page, 0.2, 0.5);
  await isWhole(false);
  assert.doesNotMatch(page.url(), /window=/);
  const { x, y, width } = await drawn(page).boundingBox();
  await page.mouse.move(x + width * 0.2, y + 8);
  await page.mouse.up();
  await isWhole(true);
  await holdOver(page, 0.3, 0.7);
  await isWhole(false);
  const rested = await facts(page);
  await page.mouse.up();
  await page.waitForFunction(() => location.hash.includes('window='));
  await h.settled(page);
  assert.equal(await facts(page), rested);
  await assertSameAsCommandLine(page, file);
  await page.goBack();
  await isWhole(true);
  assert.deepEqual(faults, []);
  await close();
});

test('a file that is closed during a drag is removed without an error', async () => {
  const { page, faults, close } = await h.openPage(browser, server.origin);
  await h.drop(page, h.kineto('a.json', h.SERVER_OPS), stepped('b.json'));
  await h.settled(page);
  await drawn(page, 1).waitFor();
  await h.tapWorkers(page, { window: Infinity });
  await holdOver(page, 0.2, 0.5);
  await page.waitForFunction(() => window.tap.requests.window?.length > 0);
  await page.evaluate(() => document.querySelector('[aria-label="Close a.json"]').click());
  await page.mouse.up();
  await page.waitForFunction(() => document.querySelectorAll('#strips figure').length === 1);
  await h.quiet(page);
  assert.equal(await page.locator('#cards').innerText(), '');
  assert.deepEqual(faults, []);
  await close();
});

test('a replaced reader draws the frame of a window over the strips that are on screen', async () => {
  const { page, faults, close } = await h.openPage(browser, server.origin);
  await h.drop(page, stepped('steps.json'));
  await h.settled(page);
  await drawn(page).waitFor();
  await h.tapWorkers(page);
  // The triage reads the file again, in a worker that replaces the first reader.
  await h.openTab(page, 'triage');
  await page.locator('[class^="table-triage_"]').first().waitFor();
  await page.evaluate(() => void (document.querySelector('#strips svg').stood = true));
  await dragOver(page, 0.2, 0.5);
  await page.locator('#strips .strip-window').waitFor({ state: 'attached' });
  await page.waitForFunction(() => document.querySelector('#results[aria-busy=false]') && !document.querySelector('#todo').textContent.includes('Being computed'));
  assert.equal(await page.evaluate(() => document.querySelector('#strips svg').stood), true, 'a pointer may be held down on the strips');
  assert.deepEqual(faults, []);
  await close();
});

test('leaving a window shows the whole trace at once, with the current settings', async () => {
  const { page, faults, close } = await h.openPage(browser, server.origin);
  await h.tapWorkers(page);
  await h.drop(page, h.kineto('server.json', h.SERVER_OPS));
  await h.settled(page);
  const whole = await facts(page);
  const report = async () => (await h.exported(page, 'json')).body.toString();
  const reported = await report();
  const analysesOf = async (act) => {
    const analyses = () => page.evaluate(() => ['first', 'analyze'].flatMap((what) => window.tap.requests[what] ?? []).length);
    const before = await analyses();
    await act();
    await page.waitForFunction((text) => document.querySelector('.run-facts').innerText === text, whole);
    await h.settled(page);
    return await analyses() - before;
  };
  await dragOver(page, 0.3, 0.7);
  await page.waitForFunction((text) => document.querySelector('.run-facts').innerText !== text, whole);
  assert.equal(await analysesOf(() => page.getByRole('button', { name: 'Whole trace' }).click()), 0);
  assert.equal(await report(), reported);
  await dragOver(page, 0.3, 0.7);
  await page.waitForFunction((text) => document.querySelector('.run-facts').innerText !== text, whole);
  await h.openSettings(page);
  await page.selectOption('[name=attribution]', 'exclusive');
  await page.keyboard.press('Escape');
  assert.equal(await analysesOf(() => page.getByRole('button', { name: 'Whole trace' }).click()) > 0, true);
  assert.equal(JSON.parse(await report()).runs[0].attribution, 'exclusive');
  assert.deepEqual(faults, []);
  await close();
});

test('a step, a stage and a range can be picked by name, and their windows have only their work', async () => {
  const file = stepped('steps.json');
  const { page, faults, close } = await h.openPage(browser, server.origin);
  await h.drop(page, file);
  await h.settled(page);
  const parts = page.getByLabel('Part of steps.json');
  await parts.locator('optgroup').nth(2).waitFor({ state: 'attached' });
  const group = (label) => parts.locator(`optgroup[label="${label}"] option`).allInnerTexts();
  assert.deepEqual(await group('Steps'), ['1: extend/prefill, batch 2, 10.0 us to its last op', '2: decode, batch 2, 2 tokens, 10.0 us to its last op']);
  assert.deepEqual(await group('Stages'), ['extend/prefill 1: 1 step, 10.0 us', 'decode 1: 1 step, 10.0 us']);
  assert.deepEqual(await group('Range answer'), ['1: 50.0 us', '2: 10.0 us']);
  await parts.selectOption({ index: 2 });
  await page.waitForFunction(() => document.querySelectorAll('.block:first-child tbody tr').length === 1);
  const run = await assertSameAsCommandLine(page, file);
  assert.deepEqual(run.kernels.map(({ name, duration_ns }) => [name, duration_ns]), [['ampere_gemm', 10_000]]);
  assert.deepEqual(run.window, { start_ns: 40_000, end_ns: 50_000, whole_ns: 50_000 });
  // A stage, then a range of the program: the work that was launched in each.
  await parts.selectOption({ label: 'extend/prefill 1: 1 step, 10.0 us' });
  await page.waitForFunction(() => document.querySelector('.block:first-child tbody').textContent.includes('flash_fwd'));
  assert.deepEqual((await assertSameAsCommandLine(page, file)).kernels.map(({ name }) => name), ['flash_fwd_kernel']);
  await parts.selectOption({ label: '1: 50.0 us' });
  await page.waitForFunction(() => document.querySelectorAll('.block:first-child tbody tr').length === 2);
  await parts.selectOption({ label: '2: 10.0 us' });
  await page.waitForFunction(() => document.querySelectorAll('.block:first-child tbody tr').length === 1);
  assert.deepEqual((await assertSameAsCommandLine(page, file)).kernels.map(({ name }) => name), ['ampere_gemm']);
  assert.deepEqual(faults, []);
  await close();
});

test('a window can be typed, a wrong one is refused with a sentence, and a link restores it', async () => {
  const file = stepped('steps.json');
  const { page, faults, close } = await h.openPage(browser, server.origin, '#window=0%400.00004-0.00005');
  await h.drop(page, file);
  await page.waitForFunction(() => document.querySelectorAll('.block:first-child tbody tr').length === 1);
  const written = page.getByLabel('Window of steps.json');
  // The strips come after the tables.
  await page.waitForFunction(() => document.querySelector('[aria-label^="Window of steps.json"]')?.value === '0.00004-0.00005');
  await written.fill('7-8');
  await written.press('Enter');
  await page.getByText('the window is empty or outside the trace').waitFor();
  await page.getByRole('button', { name: 'Whole trace' }).click();
  await page.waitForFunction(() => document.querySelectorAll('.block:first-child tbody tr').length === 2);
  assert.deepEqual(faults, []);
  await close();
});

test('each of several runs has its own strips and window', async () => {
  const files = [h.kineto('a.json', h.SERVER_OPS), stepped('b.json')];
  const { page, faults, close } = await h.openPage(browser, server.origin);
  await h.drop(page, ...files);
  await h.settled(page);
  await page.locator('#strips figure').nth(1).waitFor();
  await page.locator('.comparison:not(:empty)').waitFor();
  const before = await page.locator('.run-facts').allInnerTexts();
  await dragOver(page, 0.5, 1, 1);
  await page.waitForFunction((whole) => document.querySelectorAll('.run-facts')[1].textContent !== whole, before[1]);
  assert.equal((await page.locator('.run-facts').allInnerTexts())[0], before[0]);
  await page.getByRole('button', { name: 'Close b.json' }).click();
  await page.waitForFunction(() => !location.hash.includes('window'));
  assert.equal(await page.locator('#strips figure').count(), 1);
  assert.deepEqual(faults, []);
  await close();
});

test('Perfetto receives the window as a readable file, and only Perfetto\'s page does', async () => {
  const file = stepped('steps.json');
  const { page, faults, close } = await h.openPage(browser, server.origin, '#window=0%400.00004-0.00005');
  // A mock of Perfetto's page, which answers a PING and takes the file.
  await page.context().route('https://ui.perfetto.dev/**', (route) => route.fulfill({
    contentType: 'text/html',
    body: `<script>onmessage = ({ data, source, origin }) => {
      if (data === 'PING') source.postMessage('PONG', origin);
      else window.taken = { title: data.perfetto.title, text: new TextDecoder().decode(data.perfetto.buffer) };
    }</script>`,
  }));
  await h.drop(page, file);
  await page.waitForFunction(() => document.querySelectorAll('.block:first-child tbody tr').length === 1);
  const [tab] = await Promise.all([page.waitForEvent('popup'), page.getByRole('button', { name: 'Open in Perfetto' }).click()]);
  await tab.waitForFunction(() => window.taken);
  const taken = await tab.evaluate(() => window.taken);
  const slice = JSON.parse(taken.text);
  assert.equal(taken.title, 'steps.json');
  const named = (cat) => slice.traceEvents.filter((event) => event.cat === cat).map(({ name, dur }) => [name, dur]);
  assert.deepEqual(named('kernel'), [['ampere_gemm', 10]]);
  assert.deepEqual(named('cuda_runtime'), [['cudaLaunchKernel', 2]]);
  assert.deepEqual(faults, []);
  await close();
});

/** Writes so many ops that the page shows partial results first. A third are migrations of unified memory, which are a finding. */
async function largeTrace() {
  const names = ['kernel_0', 'kernel_1', '[CUDA memcpy Unified Host-to-Device]'];
  const kernel = (at) => `{"ph":"X","cat":"kernel","name":"${names[at % 3]}","pid":0,"tid":7,"ts":${10 * at},"dur":${4 + (at % 5)},"args":{"device":0,"stream":7}}`;
  const folder = await mkdtemp(join(tmpdir(), 'gpuprism-window-'));
  const path = join(folder, 'large.json');
  await writeFile(path, `{"traceEvents":[${Array.from({ length: 310_000 }, (_, at) => kernel(at)).join(',')}]}`);
  return { path, remove: () => rm(folder, { recursive: true }) };
}

test('a large trace shows partial results of a window at once and marks what is pending', async () => {
  const trace = await largeTrace();
  const { page, faults, close } = await h.openPage(browser, server.origin, '#tab=findings');
  // The strips are requested again before the first answer, as if the worker were busy with its sections.
  await h.tapWorkers(page, { strips: 500 });
  await page.evaluate(() => {
    window.drawings = 0;
    const count = (node) => void (node.matches?.('svg[role=img]') && (window.drawings += 1));
    new MutationObserver((changes) => changes.forEach(({ addedNodes }) => addedNodes.forEach(count))).observe(document.querySelector('#strips'), { childList: true, subtree: true });
  });
  await page.setInputFiles('#files', trace.path);
  await h.settled(page);
  const whole = await facts(page);
  assert.match(whole, /^310,000 GPU ops/);
  const blocks = () => page.locator('#blocks').innerText();
  const [tab, findings] = [await page.locator('[role=tab][aria-selected=true]').innerText(), await blocks()];
  assert.match(findings, /Findings/);
  // The complete analysis of the window is held.
  await page.evaluate(() => void (window.tap.delays.analyze = Infinity));
  await dragOver(page, 0.1, 0.6);
  await page.waitForFunction((before) => document.querySelector('.run-facts').textContent !== before, whole);
  await page.waitForFunction(() => document.querySelector('#blocks').textContent.endsWith('Being computed'));
  assert.equal(await page.locator('#results').getAttribute('aria-busy'), 'true');
  assert.match(await facts(page), /15[45],\d{3} GPU ops/);
  assert.equal(await page.locator('#todo').isVisible() && !/Being computed/.test(await page.locator('#todo').innerText()), false);
  const names = async () => (await page.locator('[role=tab]').allInnerTexts()).map((text) => text.replace(/[\s\d,.]+$/, ''));
  const before = await names();
  await page.evaluate(() => window.tap.release());
  await h.settled(page);
  await page.waitForFunction(() => document.querySelector('#blocks').textContent.endsWith('Being computed') === false);
  assert.deepEqual(await names(), before, 'tabs stay where they are');
  assert.equal((await page.locator('[role=tab][aria-selected=true]').innerText()).split('\n')[0], tab.split('\n')[0]);
  // Bars and tables that the sections do not change keep their nodes: they may be scrolled or focused.
  await h.openTab(page, 'host');
  await page.locator('.block[data-table=gpu_idle]').waitFor();
  await dragOver(page, 0.4, 0.95);
  await page.waitForFunction(() => document.querySelector('#blocks').textContent.endsWith('Being computed'));
  const standing = () => page.evaluate(() => ['#chart svg', '.block[data-table=devices]'].map((place) => document.querySelector(place).stood));
  await page.evaluate(() => ['#chart svg', '.block[data-table=devices]'].forEach((place) => void (document.querySelector(place).stood = true)));
  await page.evaluate(() => window.tap.release());
  await page.locator('.block[data-table=gpu_idle]').waitFor();
  await h.settled(page);
  assert.deepEqual(await standing(), [true, true]);
  assert.equal(await page.evaluate(() => window.drawings), 1, 'the strips stay too, which the pointer may be held down on');
  // With fewer ops the sections are quick, so no partial results are requested.
  const { length } = await page.evaluate(() => window.tap.requests.analyze);
  const large = await facts(page);
  await dragOver(page, 0.5, 0.6);
  await page.waitForFunction((before) => document.querySelector('.run-facts').textContent !== before, large);
  assert.equal(await page.locator('#results').getAttribute('aria-busy'), 'false');
  assert.equal(await page.evaluate(() => window.tap.requests.analyze.length), length);
  assert.deepEqual(faults, []);
  await close();
  await trace.remove();
});

test('the bars of the timeline of a large trace do not wait for its sections', async () => {
  const trace = await largeTrace();
  const { page, faults, close } = await h.openPage(browser, server.origin);
  // Loads the module that has both.
  await h.drop(page, h.kineto('small.json', h.SERVER_OPS));
  await h.settled(page);
  await h.clear(page);
  await page.evaluate(() => {
    const { postMessage } = Worker.prototype;
    window.order = [];
    Worker.prototype.postMessage = function noted(message, ...more) {
      const { op, args } = message;
      const name = op === 'analyze' && !args.isPartialFirst ? 'sections' : op;
      if (['sections', 'timeline', 'tile'].includes(name)) window.order.push(name);
      return postMessage.call(this, message, ...more);
    };
  });
  await page.setInputFiles('#files', trace.path);
  await h.settled(page);
  const order = await page.evaluate(() => window.order);
  assert.deepEqual(order.filter((name, at) => order.indexOf(name) === at), ['timeline', 'tile', 'sections']);
  assert.deepEqual(faults, []);
  await close();
  await trace.remove();
});

test('a refusal during an analysis leaves partial results, which are completed', async () => {
  const trace = await largeTrace();
  const { page, faults, close } = await h.openPage(browser, server.origin);
  await h.tapWorkers(page);
  await page.setInputFiles('#files', trace.path);
  await h.settled(page);
  const isBusy = () => page.locator('#results').getAttribute('aria-busy');
  await page.evaluate(() => void (window.tap.delays.analyze = Infinity));
  await dragOver(page, 0.1, 0.6);
  await page.waitForFunction(() => document.querySelector('#todo').textContent.includes('Being computed'));
  await page.getByLabel('Window of large.json').fill('nonsense');
  await page.getByLabel('Window of large.json').press('Enter');
  await page.waitForFunction(() => window.tap.requests.analyze.length > 2);
  assert.equal(await isBusy(), 'true');
  await page.evaluate(() => {
    window.tap.delays.analyze = 0;
    window.tap.release();
  });
  await h.settled(page);
  await page.locator('.card.error', { hasText: 'nonsense' }).waitFor();
  assert.equal(await page.locator('#todo').isVisible() && (await page.locator('#todo').innerText()).includes('Being computed'), false);
  assert.deepEqual(faults, []);
  await close();
  await trace.remove();
});

/** A replacement of the module that reads databases: records the windows of its analyses, and refuses them if `refuses`. */
const noting = (refuses) => `
  import { Imported } from './gpuprism_full.js?own';
  export * from './gpuprism_full.js?own';
  export { default } from './gpuprism_full.js?own';
  self.cut = [];
  self.refuses = ${refuses};
  const { analyze } = Imported.prototype;
  Imported.prototype.analyze = function noted(options) {
    const { window } = JSON.parse(options);
    if (window) self.cut.push(window);
    if (window && self.refuses) throw 'refused';
    return analyze.call(this, options);
  };`;

/** The worker of the trace, once it has rehearsed windows. */
async function rehearsed(page) {
  const hasCut = (worker) => worker.evaluate(() => self.cut?.length > 0);
  let found;
  await h.until(async () => {
    for (const worker of page.workers()) if (await hasCut(worker).catch(() => false)) found = worker;
    return found !== undefined;
  }, 'a window is rehearsed');
  return found;
}

for (const refuses of [false, true]) {
  test(`a window is rehearsed before the first one is picked${refuses ? ', in vain,' : ''} and is not shown`, async () => {
    const folder = await mkdtemp(join(tmpdir(), 'gpuprism-window-'));
    await h.writeNsysExport(join(folder, 'run.sqlite'), 0.05);
    const file = { name: 'run.sqlite', body: await readFile(join(folder, 'run.sqlite')) };
    await rm(folder, { recursive: true });
    const { page, faults, close } = await h.openPage(browser, server.origin);
    await page.route('**/pkg/gpuprism_full.js', (route) => route.fulfill({ contentType: 'text/javascript', body: noting(refuses) }));
    const written = page.getByLabel('Window of run.sqlite');
    await h.drop(page, file);
    await h.settled(page);
    const worker = await rehearsed(page);
    await h.quiet(page);
    const whole = await facts(page);
    assert.deepEqual([new URL(page.url()).hash, await written.inputValue(), await page.locator('#cards').innerText()], ['', '', '']);
    assert.equal((await h.exported(page, 'json')).body.toString(), (await h.jsonReport(file)).toString());
    // A window that is picked during the rehearsal gives its own results, and the whole trace can be shown again.
    await worker.evaluate(() => void (self.refuses = false));
    // A window with few ops, and one with most of the trace, whose results are merged from precomputed segments.
    for (const [window, minOps] of [['0.1-0.2', 1_000], ['0.02-0.3', 20_000]]) {
      const before = await facts(page);
      await written.fill(window);
      await written.press('Enter');
      await page.waitForFunction((text) => document.querySelector('.run-facts').innerText !== text, before);
      await h.settled(page);
      const { totals } = await assertSameAsCommandLine(page, file);
      assert.ok(totals.gpu_ops > minOps, `${totals.gpu_ops} ops in ${window}`);
    }
    await page.getByRole('button', { name: 'Whole trace' }).click();
    await page.waitForFunction((text) => document.querySelector('.run-facts').innerText === text, whole);
    assert.deepEqual(faults, []);
    await close();
  });
}

test('while a large file is read, another worker runs its code on a made-up trace, which is not shown', async () => {
  const { body } = h.kineto('server.json', h.SERVER_OPS);
  const trace = JSON.parse(body);
  // 11.5 MB that no compression makes smaller.
  const notes = () => ({ ph: 'M', name: 'notes', args: { text: randomBytes(50_000).toString('base64') } });
  trace.traceEvents.push(...Array.from({ length: 230 }, notes));
  const file = { name: 'server.json.gz', body: gzipSync(JSON.stringify(trace), { level: 1 }) };
  const { page, faults, close } = await h.openPage(browser, server.origin);
  server.requests.length = 0;
  await h.drop(page, file);
  await h.settled(page);
  assert.ok(server.requests.includes('/rehearsal.js'), `${server.requests}`);
  await h.until(() => page.workers().length === 3, 'only the workers of the trace, of the results and of the head are left: that of the made-up trace has ended');
  assert.equal((await h.exported(page, 'json')).body.toString(), (await h.jsonReport(file)).toString());
  assert.deepEqual(faults, []);
  await close();
});
