// The approved pictures of the page in `docs/pictures`: how they are taken, and how a picture is compared with its approved one.
//
// Two measures, in one pass over the pixels each. The mean colour of blocks of 32 pixels differs where something is missing or has moved,
// and hardly where letters have other edges. The colours of flat areas, in which all neighbours of a pixel are equal, have no edges of
// letters at all, so they differ only where something has another colour.

import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { gunzipSync, gzipSync } from 'node:zlib';
import * as h from './harness.mjs';
import { reduced } from './png.mjs';

export const folder = join(h.root, 'docs/pictures');
/** The widths of texts in the font of the approved pictures. */
export const fontFile = join(folder, 'font.json');

const TABS = ['timeline', 'kernels', 'host', 'communication', 'compare'];
const SIZES = [{ width: 1440, height: 900 }, { width: 390, height: 844 }];
const SCHEMES = ['light', 'dark'];
/** The time on the page's clock. */
const NOW = new Date('2026-01-15T12:00:00Z');

export const PICTURES = TABS.flatMap((tab) => SIZES.flatMap((size) => SCHEMES.map((scheme) => ({ tab, size, scheme, name: `${tab}-${size.width}-${scheme}.png` }))));

/** The project's own example, or two of it if a tab compares: the second one takes a tenth less. */
async function files(tab) {
  const body = await readFile(join(h.dist, 'example.json.gz'));
  if (tab !== 'compare') return [{ name: 'example.json.gz', body }];
  const trace = JSON.parse(gunzipSync(body));
  for (const event of trace.traceEvents) for (const time of ['ts', 'dur']) if (time in event) event[time] *= 0.9;
  return [{ name: 'before.json.gz', body }, { name: 'after.json.gz', body: gzipSync(JSON.stringify(trace), { level: 1 }) }];
}

/** Opens the page as in a picture. `change(page)` may change it before the picture is taken. Resolves with the PNG file.
 * @param {import('playwright-core').Browser} browser */
export async function take(browser, origin, { tab, size, scheme }, change = async () => {}) {
  const { page, faults, close } = await h.openPage(browser, origin);
  await page.clock.setFixedTime(NOW);
  await page.emulateMedia({ colorScheme: scheme, reducedMotion: 'reduce' });
  await page.setViewportSize(size);
  await h.drop(page, ...await files(tab));
  await h.settled(page);
  await page.locator('.timeline[data-state=drawn]').first().waitFor();
  await h.openTab(page, tab);
  await page.mouse.move(0, 0);
  await still(page);
  // On a phone, the head of the page takes most of the screen.
  if (size.width < 600 && tab !== TABS[0]) await page.locator('[role=tablist]').evaluate((tabs) => tabs.scrollIntoView({ block: 'start', behavior: 'instant' }));
  await change(page);
  await still(page);
  const picture = await page.screenshot({ animations: 'disabled', caret: 'hide' });
  if (faults.length > 0) throw new Error(`${tab}: ${faults.join('\n')}`);
  await close();
  return picture;
}

/** Waits until nothing is being computed and two pictures in a row are the same. */
async function still(page) {
  let before = null;
  for (let times = 0; times < 20; times += 1) {
    await h.quiet(page);
    const now = await page.screenshot();
    if (before?.equals(now)) return;
    before = now;
  }
  throw new Error('the page does not come to rest');
}

/** Why pictures of this browser cannot be compared with the approved ones, or false. Another font breaks lines at other words. */
export async function lacksFont(browser) {
  if (!existsSync(fontFile)) return 'no approved pictures';
  const approved = JSON.parse(await readFile(fontFile, 'utf8'));
  const own = await fontWidths(browser);
  const other = Object.keys(approved).filter((font) => Math.abs(own[font] / approved[font] - 1) > 0.01);
  return other.length > 0 && `another font than in the approved pictures: ${other.join()} is ${other.map((font) => `${own[font]} instead of ${approved[font]}`)} px wide`;
}

/** The width of a text in the fonts of the page. */
export async function fontWidths(browser) {
  const page = await browser.newPage();
  const widths = await page.evaluate(() => Object.fromEntries(['system-ui', 'monospace'].map((font) => {
    const context = document.createElement('canvas').getContext('2d');
    context.font = `100px ${font}`;
    return [font, Math.round(context.measureText('The quick brown fox 0123456789 %').width)];
  })));
  await page.close();
  return widths;
}

const BLOCK_PX = 32;
/** A block differs if the mean of a colour channel, 0 to 255, differs by more. */
const MAX_MEAN = 10;
/** Of all blocks, this share may differ. */
const MAX_BLOCKS = 0.01;
/** A colour of at least so many flat pixels must be in the other picture: the square of a category in a legend has 64. */
const MIN_FLAT_PX = 48;
/** Colours are the same if no channel differs by more: a palette does not have all. */
const SAME_COLOUR = 4;

/** What differs between two pictures, in sentences. @param {import('./png.mjs').Picture} approved with a palette
 * @param {import('./png.mjs').Picture} taken */
export function differences(approved, taken) {
  if (approved.width !== taken.width || approved.height !== taken.height) {
    return [`the picture is ${taken.width} x ${taken.height}, not ${approved.width} x ${approved.height}`];
  }
  const [before, after] = [flatColours(approved), flatColours(taken)];
  const gone = missing(before, after);
  const added = missing(after, before);
  // A palette makes flat areas of similar colours, which are not missing in a picture without one, and drops the rarest colours.
  const palette = gone.length + added.length > 0 ? flatColours(reduced(taken)) : after;
  const [stillGone, dropped] = [missing(before, palette), missing(after, palette)];
  const isGone = gone.filter((line) => stillGone.includes(line)).map((line) => `${line} is gone`);
  const isNew = added.filter((line) => !dropped.includes(line)).map((line) => `${line} is new`);
  return [...blockDifferences(approved, taken), ...isGone, ...isNew];
}

function blockDifferences(approved, taken) {
  const [before, after] = [blockMeans(approved), blockMeans(taken)];
  const columns = Math.ceil(approved.width / BLOCK_PX);
  const places = before.flatMap((mean, at) => {
    const differs = mean.some((value, channel) => Math.abs(value - after[at][channel]) > MAX_MEAN);
    return differs ? [`${BLOCK_PX * (at % columns)},${BLOCK_PX * Math.floor(at / columns)}`] : [];
  });
  const share = places.length / before.length;
  return share > MAX_BLOCKS ? [`${places.length} of ${before.length} blocks differ, at ${places.slice(0, 8).join(' ')}`] : [];
}

function blockMeans({ width, height, pixels }) {
  const columns = Math.ceil(width / BLOCK_PX);
  const sums = new Float64Array(4 * columns * Math.ceil(height / BLOCK_PX));
  for (let y = 0; y < height; y += 1) {
    for (let x = 0; x < width; x += 1) {
      const to = 4 * (Math.floor(y / BLOCK_PX) * columns + Math.floor(x / BLOCK_PX));
      const from = 3 * (y * width + x);
      for (let channel = 0; channel < 3; channel += 1) sums[to + channel] += pixels[from + channel];
      sums[to + 3] += 1;
    }
  }
  return Array.from({ length: sums.length / 4 }, (_, at) => [0, 1, 2].map((channel) => sums[4 * at + channel] / sums[4 * at + 3]));
}

/** Flat colours that another picture has less than half as much of. @param {Map<number, number>} own @param {Map<number, number>} others */
function missing(own, others) {
  const isNear = (a, b) => [16, 8, 0].every((bits) => Math.abs(((a >> bits) & 255) - ((b >> bits) & 255)) <= SAME_COLOUR);
  const near = (colours, colour) => [...colours].reduce((sum, [one, count]) => sum + (isNear(one, colour) ? count : 0), 0);
  const isMissing = ([colour, count]) => count >= MIN_FLAT_PX && near(others, colour) < near(own, colour) / 2;
  return [...own].filter(isMissing).map(([colour, count]) => `the colour #${colour.toString(16).padStart(6, '0')} of ${count} flat pixels`);
}

/** The colours of pixels with eight equal neighbours, and their numbers. */
function flatColours({ width, height, pixels }) {
  const colours = new Uint32Array(width * height);
  for (let at = 0; at < colours.length; at += 1) colours[at] = (pixels[3 * at] << 16) | (pixels[3 * at + 1] << 8) | pixels[3 * at + 2];
  const counts = new Map();
  for (let y = 1; y < height - 1; y += 1) {
    for (let x = 1; x < width - 1; x += 1) {
      const at = y * width + x;
      const own = colours[at];
      const isFlat = colours[at - 1] === own && colours[at + 1] === own
        && colours[at - width - 1] === own && colours[at - width] === own && colours[at - width + 1] === own
        && colours[at + width - 1] === own && colours[at + width] === own && colours[at + width + 1] === own;
      if (isFlat) counts.set(own, (counts.get(own) ?? 0) + 1);
    }
  }
  return counts;
}
