// The first screen answers: the verdict, the critical path as one bar, the largest saving with what to do next; below it the timeline with
// 45 % of the window, the causes and the kernels. Many files are one line.

import assert from 'node:assert/strict';
import { readFile, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import * as h from './harness.mjs';

const { browser, server } = await h.lend();

const example = async () => ({ name: 'example.json.gz', body: await readFile(join(h.dist, 'example.json.gz')) });
const report = async () => JSON.parse(await h.jsonReport(await example())).runs[0];
const recorded = async (name) => ({ name, body: await readFile(join(h.traces, name)) });

async function opened(files, { width = 1440, height = 900 } = {}) {
  const opening = await h.openPage(browser, server.origin);
  await opening.page.setViewportSize({ width, height });
  await h.drop(opening.page, ...[files].flat());
  await h.settled(opening.page);
  await opening.page.locator('.timeline[data-state=drawn]').first().waitFor();
  await h.quiet(opening.page);
  return opening;
}

const box = (page, selector) => page.locator(selector).first().evaluate((node) => {
  const { top, bottom, left, right, height, width } = node.getBoundingClientRect();
  return { top, bottom, left, right, height, width };
});

test('the head has the critical path as one bar, whose parts fill it, and a table behind it', async () => {
  const { page, faults, close } = await opened(await example());
  const bar = await box(page, '.path-bar svg');
  const parts = await page.locator('.path-bar rect[data-key]:not(.path-ground)').evaluateAll((rects) => rects.map((rect) => rect.getBoundingClientRect()).map(({ left, right }) => ({ left, right })));
  assert.ok(parts.length > 5, String(parts.length));
  parts.slice(1).forEach(({ left }, index) => assert.ok(Math.abs(left - parts[index].right) < 2.5, `part ${index + 1} begins at ${left}, the one before ends at ${parts[index].right}`));
  assert.ok(parts[0].left - bar.left < 3 && bar.right - parts.at(-1).right < 3);
  const step = (await report()).sections.critical_path.rows.filter(({ stage, kind }, _, [first]) => stage === first.stage && kind !== 'host, before the first op');
  const sum = step.reduce((total, { per_step_ms: ms }) => total + ms, 0);
  assert.equal(await page.locator('.path figcaption a').innerText(), `Critical path of a decode step, ${sum.toPrecision(3)} ms`);
  assert.match(await page.locator('.path-bar svg').getAttribute('aria-label'), /^Critical path: GPU work .*; host /);
  // Work of the GPU is filled with the colour of its category, the host is hatched.
  assert.ok(await page.locator('.path-bar rect.cat-gemm').count() > 0 && await page.locator('.path-bar path.hatch.cat-cpu').count() > 0);
  await page.locator('.path figcaption a').click();
  await page.locator('.block[data-table=critical_path]').waitFor();
  assert.deepEqual(faults, []);
  await close();
});

test('the largest saving is one line with its finding and the next action, and the head repeats nothing', async () => {
  const { page, faults, close } = await opened(await example());
  const { findings } = (await report()).sections;
  const largest = findings.rows.toSorted((a, b) => b.cost_ms - a.cost_ms)[0];
  const line = await page.locator('#headline .saving:visible').innerText();
  assert.ok(line.startsWith(`Largest saving: ${largest.title}, `), line);
  assert.ok(line.includes(`→ ${h.unquoted(largest.action.split('\n')[0])}`), line);
  const head = await page.locator('.head').innerText();
  for (const gone of ['Bottleneck', 'Main idle cause', 'rules gpuprism', 'Largest recoverable cost', 'the largest category']) assert.ok(!head.includes(gone), gone);
  const sizes = await page.locator('.head :is(p, a, li)').evaluateAll((nodes) => nodes.map((node) => [node.closest('#verdict') !== null, Number.parseFloat(getComputedStyle(node).fontSize)]));
  const most = (isVerdict) => Math.max(...sizes.filter(([is]) => is === isVerdict).map(([, size]) => size));
  assert.ok(most(true) > most(false), 'the verdict has the largest type');
  await page.locator('#headline .saving:visible a').click();
  await page.locator(`.block[data-table=${largest.section}], .moment`).first().waitFor();
  assert.deepEqual(faults, []);
  await close();
});

test('on a phone the verdict, the critical path and the largest saving are on the first screen, without sideways scrolling', async () => {
  const { page, faults, close } = await opened(await example(), { width: 390, height: 844 });
  for (const part of ['#verdict', '.path-bar', '#headline .saving:not([hidden])', '#tabs']) assert.ok((await box(page, part)).bottom <= 844, part);
  assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 390);
  assert.deepEqual(faults, []);
  await close();
});

test('the timeline takes 45 % of the window, with z all of it, and has the axis of the strips above it', async () => {
  const { page, faults, close } = await opened(await example());
  assert.ok(Math.abs((await box(page, '.timeline-scroll')).height - 405) < 2);
  await page.locator('.timeline-canvas').focus();
  await page.keyboard.press('z');
  await h.frames(page);
  assert.ok((await box(page, '.timeline-scroll')).height > 750);
  await page.keyboard.press('z');
  await h.frames(page);
  assert.ok((await box(page, '.timeline-scroll')).height < 410);
  const [plot, canvas] = [await box(page, '[data-key=plot]'), await box(page, '.timeline-canvas')];
  assert.ok(Math.abs(plot.left - canvas.left - h.GUTTER_PX) <= 1, `${plot.left} and ${canvas.left}`);
  assert.equal(await page.locator('.strip-axis').first().isVisible(), false);
  assert.deepEqual(faults, []);
  await close();
});

test('f fits the selected bar to 80 % of the width', async () => {
  const { page, faults, close } = await opened(await example());
  await page.locator('.timeline-canvas').focus();
  await page.keyboard.press('ArrowDown');
  await page.locator('.moment').waitFor();
  const before = await h.shareInView(page);
  await h.viewChanges(page, () => page.keyboard.press('f'));
  const exact = await page.locator('.moment dl > div', { hasText: 'Duration' }).first().locator('dd').getAttribute('title');
  const { window_ns: window } = (await report()).totals;
  const fitted = await h.shareInView(page);
  const share = Number(exact.replaceAll(/\D/g, '')) / (fitted.length * window);
  assert.ok(fitted.length < before.length && Math.abs(share - 0.8) < 0.02, `${exact}: ${share}`);
  assert.deepEqual(faults, []);
  await close();
});

test('a timeline opens at the steps, if they are a small part of the file', { skip: h.noTraces }, async () => {
  const { page, faults, close } = await opened(await recorded('sglang_qwen3_8b_mi300_decode.trace.json.gz'));
  const view = await h.shareInView(page);
  // One step of 10.5 ms in 474 ms.
  assert.ok(view.length < 0.05 && view.length > 0.02, JSON.stringify(view));
  assert.deepEqual(faults, []);
  await close();
});

test('the causes are those of the report in its order, and switched off causes are replayed together', async () => {
  const { page, faults, close } = await opened(await example());
  const { what_if: whatIf } = (await report()).sections;
  const main = whatIf.rows.filter(({ stage }) => stage === 'decode').slice(0, 10);
  assert.deepEqual((await page.locator('#causes td.cause').allInnerTexts()).map((text, index) => text.startsWith(main[index].change)), main.map(() => true));
  const toggles = page.locator('#causes input');
  await toggles.nth(0).check();
  await toggles.nth(3).check();
  const simulated = page.locator('#headline .simulated', { hasText: /^With these changes a step takes .* instead of / });
  await simulated.waitFor();
  await page.locator('#causes [role=status]', { hasText: /^With these changes/ }).waitFor();
  await toggles.nth(0).uncheck();
  await toggles.nth(3).uncheck();
  await simulated.waitFor({ state: 'hidden' });
  assert.deepEqual(faults, []);
  await close();
});

test('a finding has what to do first, then one line of evidence, and its confidence as a mark', async () => {
  const { page, faults, close } = await opened(await example());
  const finding = page.locator('.findings > li').first();
  const [action, evidence] = [await finding.locator('> p').first().boundingBox(), await finding.locator('details').boundingBox()];
  assert.ok(action.y < evidence.y && evidence.height < 24, JSON.stringify({ action, evidence }));
  assert.match(await finding.locator('.confidence').getAttribute('aria-label'), /^Confidence: (high|medium|low)$/);
  await finding.locator('summary').click();
  assert.ok((await finding.locator('details').boundingBox()).height > evidence.height);
  assert.deepEqual(faults, []);
  await close();
});

test('eight ranks of a job are one line, with the tabs above 300 px, and a click shows the ranks', { skip: h.noTraces }, async () => {
  const folder = join(h.traces, 'dlrm_v100_8ranks');
  const files = await Promise.all((await readdir(folder)).sort().map(async (name) => ({ name, body: await readFile(join(folder, name)) })));
  const { page, faults, close } = await opened(files);
  await page.locator('.job-verdict').waitFor();
  assert.ok((await box(page, '#tabs')).bottom < 300, JSON.stringify(await box(page, '#tabs')));
  const summary = page.getByRole('button', { name: '8 ranks of one job' });
  assert.equal(await page.locator('#runs > li:visible').count(), 1);
  await summary.click();
  assert.equal(await page.locator('#runs > li:visible').count(), 9);
  assert.equal(await summary.getAttribute('aria-expanded'), 'true');
  assert.deepEqual(faults, []);
  await close();
});

test('of two runs the comparison is the headline', async () => {
  const file = await example();
  const { page, faults, close } = await opened([file, { ...file, name: 'other.json.gz' }]);
  await page.locator('#comparison p').first().waitFor();
  const [comparison, verdict] = [await box(page, '#comparison p'), await box(page, '#verdict')];
  assert.ok(comparison.bottom <= verdict.top);
  const size = (selector) => page.locator(selector).first().evaluate((node) => Number.parseFloat(getComputedStyle(node).fontSize));
  assert.ok(await size('#comparison p') > await size('#verdict'));
  assert.deepEqual(faults, []);
  await close();
});

test('the first Tab offers to skip to the timeline', async () => {
  const { page, faults, close } = await opened(await example());
  await page.evaluate(() => document.activeElement?.blur());
  await page.keyboard.press('Tab');
  assert.equal(await page.evaluate(() => document.activeElement?.textContent), 'Skip to the timeline');
  await page.keyboard.press('Enter');
  assert.ok(await page.evaluate(() => document.activeElement?.classList.contains('timeline-canvas')));
  assert.deepEqual(faults, []);
  await close();
});

test('on paper the timeline is there, without its buttons', async () => {
  const { page, faults, close } = await opened(await example());
  await page.emulateMedia({ media: 'print' });
  assert.ok(await page.locator('.timeline-canvas').isVisible());
  assert.equal(await page.locator('.timeline-tools').isVisible(), false);
  const [canvas, figure] = [await box(page, '.timeline-canvas'), await box(page, '.timeline')];
  assert.ok(canvas.height > 100 && canvas.bottom <= figure.bottom + 1, JSON.stringify({ canvas, figure }));
  assert.deepEqual(faults, []);
  await close();
});

test('no script that a worker runs has a static import, which Firefox blocks', async () => {
  // What is reached from the scripts of the workers by dynamic imports.
  const seen = new Set(['worker.js', 'render-worker.js', 'tools-worker.js']);
  for (const name of seen) {
    const text = await readFile(join(h.dist, name), 'utf8');
    assert.doesNotMatch(text, /^import [^(]/m, name);
    for (const [, path] of text.matchAll(/import\('\.\/([\w.-]+\.js)'\)/g)) if (path !== 'types.js') seen.add(path);
  }
  assert.ok(seen.has('rehearsal.js') && seen.has('timeline-view.js'), [...seen].join());
});
