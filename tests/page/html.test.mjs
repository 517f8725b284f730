// The HTML file that the page saves is that of the command line for the same traces, strips included.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { test } from 'node:test';
import * as h from './harness.mjs';

const { browser, server } = await h.lend();

/** Opens the files in the page, saves its HTML, and asserts that the command line writes the same bytes. Returns them as text. */
async function savedLikeCommandLine(fragment, args, ...files) {
  const { page, faults, close } = await h.openPage(browser, server.origin, fragment);
  await h.drop(page, ...files);
  await h.settled(page);
  const { name, body } = await h.exported(page, 'html');
  assert.equal(name, 'gpuprism-report.html');
  const { stdout, stderr } = await h.commandLine(['report', ...files.map((file) => file.name), '--format', 'html', ...args], files);
  assert.equal(body.toString(), stdout.toString(), stderr);
  assert.deepEqual(faults, []);
  await close();
  return body.toString();
}

const TIMELINE = '<strong>Timeline</strong>';
const server1 = h.kineto('server.json', h.SERVER_OPS);
const server2 = h.kineto('other.json', h.SERVER_OPS);

const REAL = join(h.traces, 'sglang_qwen3_8b_mi300_extend.trace.json.gz');

test('the HTML of a real trace begins with its strips', { skip: h.noTraces }, async () => {
  const page = await savedLikeCommandLine('', [], { name: basename(REAL), body: await readFile(REAL) });
  assert.ok(page.indexOf(TIMELINE) > 0 && page.indexOf(TIMELINE) < page.indexOf('Where the time went'));
});

test('the strips show the whole trace with the picked window framed', async () => {
  const page = await savedLikeCommandLine('#window=0%400.000005-0.00002', ['--window', '0.000005-0.00002'], server1);
  assert.ok(page.includes('The frame is the analyzed window') && page.includes('class="strip-window"'));
});

test('each of several traces has its strips', async () => {
  const page = await savedLikeCommandLine('', [], server1, server2);
  for (const { name } of [server1, server2]) assert.ok(page.includes(`<strong>Timeline of ${name}</strong>`), name);
});

test('a saved report has no trace and no strips, next to a trace as alone', async () => {
  const saved = { name: 'saved.report.json', body: await h.jsonReport(server2) };
  assert.ok(!(await savedLikeCommandLine('', [], saved)).includes('<strong>Timeline'));
  const page = await savedLikeCommandLine('', [], saved, server1);
  assert.ok(page.includes(`<strong>Timeline of ${server1.name}</strong>`) && !page.includes(`<strong>Timeline of ${server2.name}</strong>`));
});

test('a category that the legend of the saved file hides is faint in its strips, and as before when it is shown again', async () => {
  const { page, faults, close } = await h.openPage(browser, server.origin);
  await h.drop(page, server1);
  await h.settled(page);
  const { body } = await h.exported(page, 'html');
  const saved = await page.context().newPage();
  await saved.setContent(body.toString());
  const opacities = (key) => saved.locator(`.strip[data-key="${key}"]`).evaluateAll((strips) => [...new Set(strips.map((strip) => getComputedStyle(strip).opacity))]);
  const button = saved.locator('.legend button[data-key="gemm"]');
  await button.click();
  await saved.mouse.move(0, 0);
  await button.blur();
  assert.deepEqual([await opacities('gemm'), await opacities('norm')], [['0.2'], ['1']]);
  await button.click();
  await saved.mouse.move(0, 0);
  await button.blur();
  assert.deepEqual(await opacities('gemm'), ['1']);
  assert.deepEqual(faults, []);
  await close();
});
