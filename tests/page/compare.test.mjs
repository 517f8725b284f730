// Open runs are compared with the command line's words and numbers. Runs that cannot be compared are refused with a remedy. The
// baseline is part of the address, a chart is saved as a self-contained picture, and names stay text.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { gunzipSync } from 'node:zlib';
import * as h from './harness.mjs';

const { browser, server } = await h.lend();

const GEMM = 'void cutlass::Kernel<cutlass_80_tensorop_bf16_s16816gemm_bf16_128x64_32x6_tn_align8>(Params)';
const ATTENTION = 'void flash::flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128, 64, 128, 4>>(flash::Flash_fwd_params)';
const NORM = 'void vllm::rms_norm_kernel<c10::BFloat16>(c10::BFloat16*, int)';
const HOSTILE = '<img src=x onerror=alert(1)>';

/** A trace of eight consecutive steps; each launches a gemm, attention and the given kernels, with durations in microseconds. */
function stepped(name, { gemm = 400, attention = 200, more = [], gpu = 'NVIDIA H100', stage = 'DECODE bs=16' } = {}) {
  const traceEvents = [];
  let correlation = 0;
  let at = 100;
  for (let step = 0; step < 8; step++) {
    const start = at;
    for (const [kernel, dur] of [[GEMM, gemm + step % 3], [ATTENTION, attention + step % 2], ...more]) {
      const args = { correlation: ++correlation };
      traceEvents.push({ ph: 'X', cat: 'cuda_runtime', name: 'cudaLaunchKernel', pid: 1, tid: 1, ts: at - 3, dur: 2, args });
      traceEvents.push({ ph: 'X', cat: 'kernel', name: kernel, pid: 0, tid: 7, ts: at, dur, args: { ...args, device: 0, stream: 7 } });
      at += dur + 5;
    }
    traceEvents.push({ ph: 'X', cat: 'user_annotation', name: `step[${stage}]`, pid: 1, tid: 1, ts: start - 4, dur: at - start - 5 });
  }
  return { name, body: Buffer.from(JSON.stringify({ schemaVersion: 1, deviceProperties: [{ id: 0, name: gpu }], traceEvents })) };
}

const TABLES = ['compare_summary', 'compare_categories', 'compare_kernels'];

async function opened(fragment, ...files) {
  const opened = await h.openPage(browser, server.origin, fragment);
  await h.drop(opened.page, ...files);
  await compared(opened.page);
  return opened;
}

/** Waits until every run has its mark. */
const compared = (page) => page.waitForFunction(() => {
  const runs = [...document.querySelectorAll('#runs li')];
  return runs.length > 1 && runs.every((run) => run.querySelector('.run-change:not(:empty)')) && document.querySelector('#results[aria-busy=false]');
}, null, { timeout: 60_000 });

const opensTab = async (page) => {
  await h.openTab(page, 'compare');
  await page.locator('#compare').waitFor();
  await page.locator('.block[data-table=compare_summary]').waitFor();
};

/** The command line's comparison of the files. */
async function native(files, args = []) {
  const { stdout, stderr } = await h.commandLine(['diff', ...files.map(({ name }) => name), ...args, '--format', 'json'], files);
  assert.notEqual(stdout.length, 0, stderr);
  return JSON.parse(stdout);
}

/** The exact value of a cell, as in the JSON. People read another name for the time without GPU work. */
function value({ text, title }, wanted) {
  if (text === 'GPU idle') return 'CPU (non-GPU)';
  if (typeof wanted !== 'number') return title && wanted !== text ? title : text;
  return Number((title || text).replace(/ (ns|%)$/, '').replaceAll(',', ''));
}

/** Asserts that every cell of the tables, and the sentences, are the command line's. */
async function assertSame(page, files, { args, place = '#comparison p' } = {}) {
  const wanted = await native(files, args);
  const sentences = wanted.runs.map(({ verdict }) => verdict).filter(Boolean);
  assert.deepEqual(await page.locator(place).evaluateAll((lines) => lines.map((line) => line.lastChild.textContent)), sentences);
  for (const id of TABLES) {
    const { rows } = wanted.sections[id];
    if (rows.length === 0) continue;
    const table = await h.readTable(page, `.block[data-table=${id}]`);
    assert.equal(table.rows.length, rows.length, id);
    assert.ok(id === 'compare_summary' || table.keys.includes('delta_ns'), `${id} has changes`);
    table.rows.forEach(({ cells }, at) => table.keys.forEach((key, column) => {
      const exact = rows[at][key] ?? '';
      assert.equal(value(cells[column], exact), exact, `${key} of row ${at} in ${id}`);
    }));
  }
}

test('tab, sentences and tables of generated runs are equal to the command line\'s to the nanosecond', async () => {
  const files = [
    stepped('a.json'), stepped('b.json', { attention: 260, gemm: 390, more: [[NORM, 30]] }), stepped('c.json', { gemm: 500 }),
  ];
  const { page, faults, close } = await opened('', ...files);
  const words = await page.locator('.run-change').allTextContents();
  assert.equal(words[0], 'baseline');
  assert.match(words[2], /^▲\+\d+\.\d % per decode step$/);
  await opensTab(page);
  await assertSame(page, files);
  assert.equal(await page.locator('#compare .compared').count(), 2);
  assert.deepEqual(await h.brokenFigures(page, '#compare .compared'), [], 'a figure and its unit stay on one line');
  assert.deepEqual(faults, []);
  await close();
});

test('runs without steps are compared by their totals, like on the command line', async () => {
  const longer = h.SERVER_OPS.map(([name, start, duration, ...where]) => [name, start, duration + (name.includes('flash') ? 900 : 0), ...where]);
  const files = [h.kineto('a.json', h.SERVER_OPS), h.kineto('b.json', longer)];
  const { page, faults, close } = await opened('#tab=compare', ...files);
  await page.locator('.block[data-table=compare_kernels]').waitFor();
  await assertSame(page, files);
  assert.match(await page.locator('#compare').innerText(), /this assumes that both did the same work/);
  assert.deepEqual(faults, []);
  await close();
});

/** A real file as a run of its own: without what makes it a rank of a job. */
async function asRun(path, name) {
  const trace = JSON.parse(gunzipSync(await readFile(path)));
  delete trace.distributedInfo;
  return { name, body: Buffer.from(JSON.stringify(trace)) };
}

test('real runs have the command line\'s numbers, with and without mangled names', { skip: h.noTraces }, async () => {
  const folder = join(h.traces, 'dlrm_v100_8ranks');
  const files = await Promise.all([['rank0', 'before'], ['rank3', 'after']].map(([rank, name]) => asRun(join(folder, `${rank}.pt.trace.json.gz`), `${name}.json`)));
  const { page, faults, close } = await h.openPage(browser, server.origin, '#tab=compare');
  await h.drop(page, ...files);
  await page.locator('.block[data-table=compare_kernels]').waitFor();
  await page.locator('#compare .compared').waitFor();
  await assertSame(page, files, { place: '#compare .compared' });
  assert.deepEqual(faults, []);
  await close();
});

test('names that need the demangler are matched and written like on the command line', async () => {
  const more = [['_Z6vecAddPfS_i.kd', 20]];
  const files = [stepped('a.json', { more }), stepped('b.json', { more: [['_Z6vecAddPfS_i.kd', 60]] })];
  const { page, close } = await opened('#tab=compare', ...files);
  await page.locator('.block[data-table=compare_kernels]').waitFor();
  await assertSame(page, files);
  assert.match(await page.locator('#comparison').innerText(), /\+40\.0 us in vecAdd \(longer launches\)/);
  await close();
});

test('runs that cannot be compared are refused with a remedy and show no change', async () => {
  const files = [stepped('a.json'), stepped('b.json', { stage: 'DECODE bs=64' })];
  const { page, faults, close } = await opened('#tab=compare', ...files);
  const [run] = (await native(files)).runs.slice(1);
  assert.equal(run.outcome, 'not comparable');
  for (const place of ['#comparison', '#compare']) assert.ok((await page.locator(place).innerText()).includes(run.verdict), `${run.verdict} in ${place}`);
  assert.match(run.verdict, /Compare traces captured under the same load/);
  assert.equal(await page.locator('#runs li:nth-child(2) .run-change').innerText(), 'not comparable with the baseline');
  assert.equal(await page.locator('#compare svg.chart').count(), 0);
  assert.deepEqual(await page.locator('.block').evaluateAll((blocks) => blocks.map(({ dataset }) => dataset.table)), ['compare_summary']);
  assert.deepEqual(faults, []);
  await close();
});

test('runs on different GPUs with different batches are compared per token, with a warning', async () => {
  const files = [stepped('a.json'), stepped('b.json', { gpu: 'AMD Instinct MI300X', stage: 'DECODE bs=64' })];
  const { page, faults, close } = await opened('#tab=compare', ...files);
  const { basis, runs: [, run] } = await native(files);
  assert.equal(basis, 'token');
  // 64 instead of 16 tokens in steps of equal time.
  assert.equal(Math.round(run.delta_pct), -75);
  await page.locator('.block[data-table=compare_categories]').waitFor();
  assert.match(await page.locator('#comparison').innerText(), /b\.json is 75\.0 % faster than a\.json per 1,000 tokens.*GPUs differ: AMD Instinct MI300X instead of NVIDIA H100/s);
  assert.match(await page.locator('#compare').innerText(), /the change includes the difference between the GPUs/);
  assert.equal(await page.locator('#compare svg.chart').count(), 1);
  assert.deepEqual(faults, []);
  await close();
});

test('another baseline reverses the signs and is part of the address; Back restores it', async () => {
  const files = [stepped('a.json'), stepped('b.json', { attention: 300 })];
  const { page, faults, close } = await opened('', ...files);
  await opensTab(page);
  const change = () => page.locator('#compare svg .delta-change').first().textContent();
  assert.equal(await change(), '+100 us');
  await page.locator('#compare select').selectOption('1');
  await page.waitForFunction(() => document.querySelector('#compare svg .delta-change')?.textContent === '-100 us');
  assert.match(page.url(), /base=1/);
  assert.equal(await page.locator('#runs li:nth-child(2) .run-change').innerText(), 'baseline');
  await page.waitForFunction(() => document.querySelector('.block[data-table=compare_summary] tbody tr:last-child')?.textContent.includes('baseline'));
  await assertSame(page, files, { args: ['--baseline', '2'] });
  const address = new URL(page.url()).hash;
  await page.goBack();
  await page.waitForFunction(() => document.querySelector('#compare svg .delta-change')?.textContent === '+100 us');
  assert.equal(await page.locator('#compare select').inputValue(), '0');
  await close();
  const again = await opened(address, ...files);
  await again.page.waitForFunction(() => document.querySelector('#compare svg .delta-change')?.textContent === '-100 us');
  assert.deepEqual([...faults, ...again.faults], []);
  await again.close();
});

test('comparison tables sort, filter and save; the saved kernels are the command line\'s bytes', async () => {
  const files = [stepped('a.json'), stepped('b.json', { attention: 300, more: [[NORM, 30]] })];
  const { page, faults, close } = await opened('#tab=compare&base=1', ...files);
  const kernels = page.locator('.block[data-table=compare_kernels]');
  await kernels.locator('[data-key=delta_ns]').click();
  await kernels.locator('th[aria-sort=descending] [data-key=delta_ns]').waitFor();
  const { rows } = await h.readTable(page, '.block[data-table=compare_kernels]');
  assert.match(rows.at(-1).name, /flash_fwd_splitkv/, 'the largest decrease is last');
  await page.locator('#filter').fill('rms_norm');
  await page.waitForFunction(() => document.querySelectorAll('.block[data-table=compare_kernels] tbody tr').length === 1);
  const { name, body } = await h.download(page, kernels.locator('[data-format=csv]'));
  assert.equal(name, 'gpuprism-compare_kernels.csv');
  const { stdout } = await h.commandLine(['diff', 'a.json', 'b.json', '--baseline', '2', '--format', 'csv'], files);
  assert.equal(body.toString(), stdout.toString());
  assert.deepEqual(faults, []);
  await close();
});

test('a single run is not compared, and a closed run disappears from the comparison', async () => {
  const { page, faults, close } = await h.openPage(browser, server.origin);
  server.requests.length = 0;
  await h.drop(page, stepped('a.json'));
  await h.settled(page);
  assert.equal(server.requests.filter((path) => path.includes('compare')).length, 0);
  await h.drop(page, stepped('b.json', { gemm: 800 }));
  await compared(page);
  await page.locator('#chips button[aria-label="Close b.json"]').click();
  await page.waitForFunction(() => document.querySelectorAll('#runs li').length === 1);
  await page.waitForFunction(() => document.querySelector('#comparison').childElementCount === 0);
  assert.equal(await page.locator('.run-change').count(), 0);
  assert.deepEqual(faults, []);
  await close();
});

test('without its module there is no comparison; first results stay, and Try again gives it', async () => {
  const { page, close } = await h.openPage(browser, server.origin);
  await page.route('**/gpuprism_full_bg.wasm', (route) => route.fulfill({ status: 503 }));
  await h.drop(page, stepped('a.json'), stepped('b.json'));
  await page.locator('#comparison p').waitFor();
  assert.match(await page.locator('#comparison').innerText(), /were not compared.*sections of a\.json are missing/);
  assert.ok(await page.locator('.block:first-child table').isVisible());
  await page.unroute('**/gpuprism_full_bg.wasm');
  for (const file of ['a.json', 'b.json']) await page.locator('.card.error', { hasText: file }).getByText('Try again').click();
  await opensTab(page);
  await compared(page);
  await close();
});

test('a hostile run name is text in sentences, chart and picture', async () => {
  const { page, faults, close } = await opened('#tab=compare', stepped('a.json'), stepped(`${HOSTILE}.json`, { gemm: 800 }));
  await page.locator('#compare svg.chart').waitFor();
  assert.ok((await page.locator('#comparison').innerText()).includes(HOSTILE));
  assert.equal(await page.locator('#results img').count(), 0);
  const { body } = await picture(page, '#compare', 'SVG');
  assert.ok(!body.toString().includes('<img') && body.toString().includes('&lt;img'));
  assert.deepEqual(faults, []);
  await close();
});

async function picture(page, place, type) {
  await page.locator(`${place} .picture summary`).click();
  return h.download(page, page.locator(`${place} .picture button`, { hasText: type }));
}

test('one click copies the comparison as the command line\'s Markdown', async () => {
  const files = [stepped('a.json'), stepped('b.json', { gemm: 800 })];
  const { page, close } = await opened('#tab=compare', ...files);
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
  await page.getByRole('button', { name: 'Copy comparison as Markdown' }).click();
  await page.getByText('Copied').waitFor();
  const text = await page.evaluate(() => navigator.clipboard.readText());
  const { stdout } = await h.commandLine(['diff', 'a.json', 'b.json', '--format', 'markdown'], files);
  assert.equal(text, stdout.toString());
  await close();
});

test('a chart fits its place after the page is quickly narrowed and widened', async () => {
  const { page, faults, close } = await opened('', stepped('a.json'), stepped('b.json', { gemm: 500 }));
  await page.setViewportSize({ width: 900, height: 900 });
  await opensTab(page);
  const widths = () => page.locator('#compare svg.chart').evaluate((chart) => [chart.clientWidth, chart.parentElement.clientWidth]);
  const [drawn, place] = await widths();
  assert.equal(drawn, place);
  // Both widths are requested before the first answer.
  await h.tapWorkers(page, { chart: 500 });
  await page.evaluate(() => {
    const { postMessage } = Worker.prototype;
    window.unanswered = 0;
    Worker.prototype.postMessage = function counted(message, ...more) {
      if (message.op === 'chart') {
        window.unanswered += 1;
        this.addEventListener('message', ({ data }) => data.id === message.id && window.unanswered--);
      }
      return postMessage.call(this, message, ...more);
    };
  });
  await page.setViewportSize({ width: 700, height: 900 });
  const isRequested = (width) => page.waitForFunction((width) => window.tap.requests.chart?.some(({ args }) => 'baseline' in args && args.width === width), width);
  await isRequested(place - 200);
  await page.setViewportSize({ width: 900, height: 900 });
  await isRequested(place);
  await page.waitForFunction(() => window.unanswered === 0);
  assert.deepEqual(await widths(), [place, place]);
  assert.deepEqual(faults, []);
  await close();
});

test('a chart is saved as a self-contained SVG and as a PNG of twice its size', async () => {
  const { page, faults, close } = await opened('#tab=compare', stepped('a.json'), stepped('b.json', { gemm: 800, attention: 230 }));
  for (const [tab, place, name] of [['compare', '#compare', 'gpuprism-changes-a-b'], ['timeline', '.chart-and-findings', 'gpuprism-bars-a-b']]) {
    await h.openTab(page, tab);
    await page.locator(`${place} svg.chart`).waitFor();
    const vector = await picture(page, place, 'SVG');
    assert.equal(vector.name, `${name}.svg`);
    const look = await page.evaluate((text) => {
      const picture = new DOMParser().parseFromString(text, 'image/svg+xml');
      const mark = picture.querySelector('[data-key=gemm]');
      return { root: picture.documentElement.localName, fill: mark.getAttribute('fill'), words: picture.documentElement.getAttribute('aria-label'), names: [...picture.querySelectorAll('text')].map((text) => text.firstChild.data) };
    }, vector.body.toString());
    const shown = await page.locator(`${place} svg [data-key=gemm]`).first().evaluate((mark) => getComputedStyle(mark).fill);
    assert.deepEqual([look.root, look.fill], ['svg', shown]);
    assert.match(look.words, /gemm/);
    assert.doesNotMatch(vector.body.toString(), /var\(|url\(|href|class=/);
    const raster = await picture(page, place, 'PNG');
    assert.equal(raster.name, `${name}.png`);
    const [, width, height] = vector.body.toString().match(/ viewBox="\S+ \S+ (\d+) (\d+)"/).map(Number);
    assert.deepEqual([raster.body.readUInt32BE(16), raster.body.readUInt32BE(20)], [2 * width, 2 * height]);
    const isNamed = (category) => look.names.some((text) => text === category || text.startsWith(`${category} `));
    assert.ok(isNamed('gemm') && isNamed('attention'), `${look.names} tell what the colours mean`);
    assert.ok(await colours(page, raster.body) > 3, 'it is drawn, not blank');
  }
  assert.equal(await page.locator('.card.error').count(), 0);
  assert.deepEqual(faults, []);
  await close();
});

test('the legend of a saved picture says what the page says, with the times of the runs; the data are saved, too', async () => {
  const { page, faults, close } = await h.openPage(browser, server.origin);
  await h.drop(page, stepped('first run.json'));
  await h.settled(page);
  const shown = await page.locator('#legend button').allInnerTexts();
  const vector = await picture(page, '.chart-and-findings', 'SVG');
  assert.equal(vector.name, 'gpuprism-bars-first-run.svg');
  const { legend, hatched } = await page.evaluate((text) => {
    const marks = [...new DOMParser().parseFromString(text, 'image/svg+xml').querySelectorAll('[width="10"][height="10"]')];
    const next = (mark) => [mark.nextElementSibling, mark.nextElementSibling.nextElementSibling].find(({ localName }) => localName === 'text').textContent;
    return { legend: marks.map(next), hatched: marks.filter((mark) => mark.nextElementSibling.localName === 'path').map(next) };
  }, vector.body.toString());
  assert.deepEqual(legend.map((text) => text.replace(/ [\d.,]+ [mun]?s$/, '')), shown);
  assert.ok(legend.every((text) => / [\d.,]+ [mun]?s$/.test(text)), `${legend} have times`);
  assert.match(hatched.join(), /^GPU idle [^,]+$/);
  await page.locator('.chart-and-findings .picture summary').click();
  const data = await h.download(page, page.locator('.chart-and-findings .picture button', { hasText: 'CSV' }));
  assert.match(data.body.toString(), /^(run,)?category,/);
  assert.deepEqual(faults, []);
  await close();
});

/** The number of colours in a picture. */
function colours(page, body) {
  return page.evaluate(async (base64) => {
    const image = await createImageBitmap(new Blob([Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0))]));
    const canvas = new OffscreenCanvas(image.width, image.height);
    canvas.getContext('2d').drawImage(image, 0, 0);
    return new Set(new Uint32Array(canvas.getContext('2d').getImageData(0, 0, image.width, image.height).data.buffer)).size;
  }, body.toString('base64'));
}

test('a third file that is refused does not prevent the comparison of the others', async () => {
  const broken = { name: 'broken.json', body: Buffer.from('{"traceEvents": 7') };
  const { page, close } = await opened('', stepped('a.json'), stepped('b.json', { gemm: 800 }), broken);
  assert.match(await page.locator('#comparison p').innerText(), /b\.json is .* slower than a\.json/);
  await page.locator('.card.error').waitFor();
  await close();
});
