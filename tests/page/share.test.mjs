// The page shows the content of a file or link before it is shared. Redacted text is in no byte of it. A link opens in a new page with
// the same numbers and reaches no server. Links that are too long, damaged or bombs are answered with a sentence.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { deflateRawSync, inflateRawSync } from 'node:zlib';
import * as h from './harness.mjs';

const { browser, server } = await h.lend();

const SECRET_OPS = [...h.SERVER_OPS, ['void zorblax::attention<float>(float*)', 40_000, 5_000], ['hf_zorblaxzorblax1', 46_000, 1_000]];
const FILE = 'zorblax-TP-1-DECODE.json';

async function open(ops = SECRET_OPS) {
  const opened = await h.openPage(browser, server.origin);
  await h.drop(opened.page, h.kineto(FILE, ops));
  await h.settled(opened.page);
  return opened;
}

async function panel(page, format) {
  await page.locator('#export summary').click();
  await page.locator('#share').click();
  await page.locator('.share-preview h2').waitFor();
  await choose(page, format);
}

/** Picks a format and waits for its preview. */
async function choose(page, format) {
  await page.locator(`.share-panel [name=format][value=${format}]`).check();
  const heading = { link: /^Link,/, zip: /tables\.zip,/, json: /\.json,/, html: /\.html,/, markdown: /\.md,/ }[format];
  await page.locator('.share-preview h2', { hasText: heading }).waitFor();
}

async function replace(page, ...ids) {
  for (const box of await page.locator('.share-panel [name=redact]').all()) {
    const id = await box.getAttribute('value');
    if (await box.isChecked() !== ids.includes(id)) {
      await page.locator(`.share-panel [name=redact][value=${id}]`).setChecked(ids.includes(id));
      await h.quiet(page);
    }
  }
}

const saved = (page) => h.download(page, page.locator('.share-panel .primary'));

/** The files of a zip archive. */
function unzip(bytes) {
  const files = {};
  for (let at = 0; bytes.readUInt32LE(at) === 0x04034b50;) {
    const [packed, name] = [bytes.readUInt32LE(at + 18), bytes.readUInt16LE(at + 26)];
    const from = at + 30 + name;
    files[bytes.toString('utf8', at + 30, from)] = inflateRawSync(bytes.subarray(from, from + packed)).toString();
    at = from + packed;
  }
  return files;
}

const ALL = ['secrets', 'files', 'machines', 'processes', 'models', 'kernels', 'names'];

test('the panel is fetched on demand, counts what can be replaced, and lists what the file contains', async () => {
  const { page, faults, close } = await open();
  assert.equal(server.requests.some((path) => /\/(share|link)\.js/.test(path)), false);
  await panel(page, 'json');
  const words = await page.locator('.share-panel').innerText();
  for (const part of ['Private kernel names', 'zorblax', 'hf_zorblaxzorblax1', FILE, '1 run: ', 'notice', 'none found']) {
    assert.ok(words.includes(part), `${part} in ${words}`);
  }
  const heading = await page.locator('.share-preview h2').textContent();
  const { body } = await saved(page);
  assert.equal(heading, `gpuprism-report.json, ${body.length.toLocaleString('en')} bytes`);
  assert.match(words, /\d+ tables with \d+ rows/);
  assert.deepEqual(faults, []);
  await close();
});

test('a saved file has secrets replaced; with more chosen, no byte of any format has them', async () => {
  const { page, faults, close } = await open();
  const plain = JSON.parse((await h.exported(page, 'json')).body);
  await panel(page, 'json');
  const kept = (await saved(page)).body.toString();
  assert.ok(kept.includes('void zorblax::attention') && !kept.includes('hf_zorblax') && kept.includes('secret 1'));
  await replace(page, ...ALL);
  const redacted = (await saved(page)).body.toString();
  assert.ok(!redacted.includes('zorblax'));
  const numbers = ({ runs }) => runs.map(({ totals, categories, wall }) => ({ totals, categories, wall }));
  assert.deepEqual(numbers(JSON.parse(redacted)), numbers(plain));
  assert.equal(JSON.parse(redacted).runs[0].label, 'run 1 TP1 DECODE');
  for (const format of ['html', 'markdown', 'zip']) {
    await choose(page, format);
    const { body, name } = await saved(page);
    const texts = format === 'zip' ? Object.values(unzip(body)) : [body.toString()];
    for (const text of texts) assert.ok(!text.includes('zorblax'), name);
    if (format === 'zip') assert.deepEqual(unzip(body)['kernels.csv'].split('\n').length, SECRET_OPS.length - 1 + 2);
    if (format === 'html') assert.equal(/(src|href)=|https?:(?!\/\/www\.w3\.org)/.test(texts[0].replaceAll('xmlns="http://www.w3.org/2000/svg"', '')), false);
  }
  assert.deepEqual(faults, []);
  await close();
});

test('the redacted report is the command line\'s byte for byte', async () => {
  const { page, close } = await open();
  await panel(page, 'json');
  await replace(page, ...ALL);
  const { name, body: trace } = h.kineto(FILE, SECRET_OPS);
  for (const format of ['json', 'html']) {
    await choose(page, format);
    const { body } = await saved(page);
    const { stdout } = await h.commandLine(['report', name, '--format', format, '--redact'], [{ name, body: trace }]);
    assert.equal(body.toString(), stdout.toString(), format);
  }
  await close();
});

test('a box that is cleared before the preview of a link has come changes no other redaction', async () => {
  const { page, faults, close } = await open();
  await panel(page, 'html');
  const ticked = () => page.locator('.share-panel [name=redact]:checked').evaluateAll((boxes) => boxes.map(({ value }) => value));
  assert.deepEqual(await ticked(), ['secrets'], 'in files');
  await h.tapWorkers(page, { sharePreview: 1_000 });
  await page.locator('.share-panel [name=format][value=link]').check();
  assert.deepEqual(await ticked(), ALL, 'at once');
  await page.locator('.share-panel [name=redact][value=files]').uncheck();
  await h.quiet(page);
  const others = ALL.filter((id) => id !== 'files');
  assert.deepEqual(await ticked(), others);
  const asked = await page.evaluate(() => window.tap.requests.sharePreview.at(-1).args.request);
  assert.deepEqual([asked.format, asked.redact.toSorted()], ['link', others.toSorted()]);
  await choose(page, 'json');
  assert.deepEqual(await ticked(), ['secrets'], 'files keep their own choice');
  assert.deepEqual(faults, []);
  await close();
});

async function link(page) {
  await panel(page, 'link');
  await page.locator('.share-panel .primary').click();
  await page.locator('.share-panel input[readonly]:visible').waitFor();
  return page.locator('.share-panel input[readonly]').inputValue();
}

test('a link opens in a new page with the same numbers and everything private replaced, and no request contains it', async () => {
  const { page, close } = await open();
  const plain = JSON.parse((await h.exported(page, 'json')).body);
  const [fragment] = (await link(page)).match(/#report=.*/);
  await close();
  server.requests.length = 0;
  const fresh = await h.openPage(browser, server.origin, fragment);
  const asked = [];
  fresh.page.on('request', (request) => asked.push(`${request.url().split('#')[0]} ${JSON.stringify(request.headers())} ${request.postData() ?? ''}`));
  await h.settled(fresh.page);
  assert.equal(await fresh.page.locator('#chips .chip').innerText().then((text) => text.split('\n')[0]), 'Report from the link');
  const body = (await h.exported(fresh.page, 'json')).body.toString();
  assert.ok(!body.includes('zorblax'));
  assert.deepEqual(JSON.parse(body).runs[0].totals, plain.runs[0].totals);
  const piece = fragment.slice(40, 80);
  assert.ok([...server.requests, ...asked].every((request) => !request.includes(piece)), 'no request holds the report');
  // The view is in the address too: it changes, survives a reload, and Back works.
  await h.openTab(fresh.page, 'findings');
  await fresh.page.waitForFunction(() => location.hash.includes('tab=findings') && location.hash.includes('report='));
  await fresh.page.reload();
  await h.settled(fresh.page).catch(() => {});
  await fresh.page.locator('#tab-findings[aria-selected=true]').waitFor();
  await fresh.page.goBack();
  await fresh.page.locator('#tab-timeline[aria-selected=true]').waitFor();
  assert.equal(await fresh.page.locator('#chips .chip').count(), 1, 'opened once');
  // Closing the report removes it from the address.
  await fresh.page.locator('#chips .chip button').click();
  await fresh.page.waitForFunction(() => !location.hash.includes('report='));
  assert.deepEqual(fresh.faults, []);
  await fresh.close();
});

test('a link in a page with files is shown with them, and goes when the address goes back', async () => {
  const { page, faults, close } = await open();
  const address = await link(page);
  await page.evaluate((fragment) => { location.hash = fragment; }, address.slice(address.indexOf('#')));
  await page.locator('#chips .chip', { hasText: 'Report from the link' }).waitFor();
  assert.equal(await page.locator('#chips .chip').count(), 2);
  await page.goBack();
  await page.waitForFunction(() => document.querySelectorAll('#chips .chip').length === 1);
  assert.deepEqual(faults, []);
  await close();
});

test('a link that would be too long leaves out the long tables by itself and says so; with them it is refused with a remedy', async () => {
  const many = Array.from({ length: 3_000 }, (_, at) => [`void kernel_${at * 7919 % 100_003}<float, ${at * 104_729 % 99_991}>(int)`, at * 1_000, 300 + (at * 7) % 500]);
  const { page, faults, close } = await open(many);
  await panel(page, 'link');
  const slim = page.locator('.share-panel [name=slim]');
  assert.ok(await slim.isChecked());
  assert.ok(await page.locator('.share-panel .primary').isEnabled());
  assert.match(await page.locator('.share-preview').innerText(), /[\d,]+ of at most 32,000 characters\. The long tables are left out: with them the link would have [\d,]+\./);
  await slim.uncheck();
  await page.locator('.share-panel .primary:disabled').waitFor();
  const words = await page.locator('.share-preview').innerText();
  assert.match(words, /would have [\d,]+ characters, more than 32,000/);
  assert.match(words, /Leave out the long tables/);
  assert.equal(await slim.isChecked(), false, 'the choice of a person stays');
  await slim.check();
  await page.locator('.share-panel .primary:enabled').waitFor();
  assert.deepEqual(faults, []);
  await close();
});

test('a link that has room for the long tables keeps them', async () => {
  const { page, close } = await open([['gemm', 0, 1_000], ['void fmha(float*)', 2_000, 1_000]]);
  await panel(page, 'link');
  assert.equal(await page.locator('.share-panel [name=slim]').isChecked(), false);
  assert.doesNotMatch(await page.locator('.share-preview').innerText(), /left out/);
  await close();
});

test('links that are damaged, bombs or of another kind give a sentence; the page continues', async () => {
  const coded = (bytes) => `1.${deflateRawSync(bytes).toString('base64url')}`;
  const cases = [
    ['1.AAAA', /damaged/],
    ['%00<script>', /damaged/],
    ['7.AAAA', /later version of gpuprism/],
    [coded(Buffer.alloc(64 << 20, 32)), /more than 4 MiB/],
    [coded(Buffer.from('{"schema": "gpuprism-report/9"}')), /gpuprism-report\/9/],
  ];
  for (const [text, message] of cases) {
    const { page, faults, close } = await h.openPage(browser, server.origin, `#tab=findings&report=${text}`);
    const card = page.locator('.card.error');
    await card.waitFor();
    assert.match(await card.innerText(), message);
    await page.waitForFunction(() => location.hash === '#tab=findings');
    await h.drop(page, h.kineto('a.json', h.SERVER_OPS));
    await h.settled(page).catch(() => {});
    await page.locator('#results:not([hidden])').waitFor();
    assert.deepEqual(faults, []);
    await close();
  }
});
