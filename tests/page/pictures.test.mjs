// The five tabs look as in the approved pictures, in light and dark, wide and narrow. A deliberate change of the page is approved with
//
//   GPUPRISM_WRITE_PICTURES=1 node --test tests/page/pictures.test.mjs
//
// which takes all pictures again. Look at them before they are committed.

import assert from 'node:assert/strict';
import { mkdir, readFile, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import * as h from './harness.mjs';
import { PICTURES, differences, folder, fontFile, fontWidths, lacksFont, take } from './pictures.mjs';
import { decode, encode } from './png.mjs';

const { browser, server } = await h.lend();
const isWriting = process.env.GPUPRISM_WRITE_PICTURES === '1';
const skip = isWriting ? false : await lacksFont(browser);
/** The repository should stay small. */
const MAX_BYTES = 2_000_000;

if (isWriting) {
  await rm(folder, { recursive: true, force: true });
  await mkdir(folder, { recursive: true });
  await writeFile(fontFile, `${JSON.stringify(await fontWidths(browser))}\n`);
}

const approved = async (name) => decode(await readFile(join(folder, name)));

for (const picture of PICTURES) {
  const { name } = picture;
  test(`${name} looks as approved`, { skip }, async () => {
    const file = await take(browser, server.origin, picture);
    if (isWriting) await writeFile(join(folder, name), encode(decode(file)));
    const problems = differences(await approved(name), decode(file));
    assert.deepEqual(problems, [], `if this is as it should be: GPUPRISM_WRITE_PICTURES=1 node --test tests/page/pictures.test.mjs`);
  });
}

test('the folder has these pictures only, and they are small', { skip }, async () => {
  const names = (await readdir(folder)).filter((name) => name.endsWith('.png'));
  assert.deepEqual(names.sort(), PICTURES.map(({ name }) => name).sort());
  const sizes = await Promise.all(names.map(async (name) => (await stat(join(folder, name))).size));
  const sum = sizes.reduce((total, size) => total + size, 0);
  assert.ok(sum < MAX_BYTES, `${sum} bytes`);
});

/** Adds a style sheet. The policy of the page forbids one in its text. */
const style = (text) => (page) => page.evaluate((text) => {
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(text);
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
}, text);

test('another rasteriser passes; another colour, and a block or column that is missing or has moved, do not', { skip }, async () => {
  const [picture] = PICTURES;
  const whole = decode(encode(decode(await take(browser, server.origin, picture))));
  const compared = async (change, by = browser) => differences(whole, decode(await take(by, server.origin, picture, change)));
  assert.deepEqual(await compared(), []);
  const unhinted = await h.launch('--font-render-hinting=none', '--disable-lcd-text', '--disable-font-subpixel-positioning');
  const smooth = decode(await take(unhinted, server.origin, picture));
  await unhinted.close();
  assert.deepEqual(differences(whole, smooth), []);
  assert.ok(smooth.pixels.filter((value, at) => Math.abs(value - whole.pixels[at]) > 24).length > 20_000, 'the letters do have other edges');
  assert.match((await compared(style('.cat-sampling { --fill: #00aa88 !important }'))).join(), /colour/, 'the colour of a small category');
  for (const [what, text] of Object.entries({
    'a missing block': '.block:first-child { display: none !important }',
    'a missing timeline': '.timeline { visibility: hidden }',
    'a moved panel': '#panel { position: relative; top: 12px }',
  })) {
    assert.match((await compared(style(text))).join(), /blocks differ/, what);
  }
  // In the tab of the timeline the tables are below the window.
  const kernels = PICTURES.find(({ tab }) => tab === 'kernels');
  const table = decode(encode(decode(await take(browser, server.origin, kernels))));
  const withoutColumn = decode(await take(browser, server.origin, kernels, style('.block td:last-child, .block th:last-child { visibility: hidden }')));
  assert.match(differences(table, withoutColumn).join(), /blocks differ/, 'a missing column');
});

test('a picture has the same pixels after it was written with a palette and read', () => {
  const pixels = Uint8Array.from({ length: 5 * 7 * 3 }, (_, at) => (at * 37) % 256);
  const { width, height, pixels: read } = decode(encode({ width: 5, height: 7, pixels }));
  assert.deepEqual([width, height, [...read]], [5, 7, [...pixels]]);
});
