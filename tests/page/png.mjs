// Reads and writes PNG files (https://www.w3.org/TR/png-3/) as far as pictures of a page need it: 8 bits a channel, not interlaced.
// Written pictures have a palette of at most 256 colours and take about a third of a browser's.

import { crc32, deflateSync, inflateSync } from 'node:zlib';

const SIGNATURE = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);
const [RGB, PALETTE, RGBA] = [2, 3, 6];
const CHANNELS = { [RGB]: 3, [PALETTE]: 1, [RGBA]: 4 };
const MAX_COLOURS = 256;

/** @typedef {{ width: number, height: number, pixels: Uint8Array }} Picture three bytes a pixel, in rows from the top */

/** @param {Buffer} file @returns {Picture} */
export function decode(file) {
  if (!file.subarray(0, 8).equals(SIGNATURE)) throw new Error('this is no PNG file');
  const chunks = [...chunksOf(file)];
  const of = (type) => Buffer.concat(chunks.filter((chunk) => chunk.type === type).map(({ data }) => data));
  const header = of('IHDR');
  const [width, height, depth, colours, interlaced] = [header.readUInt32BE(0), header.readUInt32BE(4), header[8], header[9], header[12]];
  if (depth !== 8 || !(colours in CHANNELS) || interlaced) throw new Error(`a PNG file of ${depth} bits, kind ${colours}, interlaced ${interlaced}`);
  const channels = CHANNELS[colours];
  const rows = unfiltered(inflateSync(of('IDAT')), width * channels, height, channels);
  const palette = of('PLTE');
  const pixels = new Uint8Array(width * height * 3);
  for (let at = 0; at < width * height; at += 1) {
    const from = colours === PALETTE ? palette : rows;
    const begin = colours === PALETTE ? 3 * rows[at] : channels * at;
    for (let channel = 0; channel < 3; channel += 1) pixels[3 * at + channel] = from[begin + channel];
  }
  return { width, height, pixels };
}

function* chunksOf(file) {
  for (let at = 8; at < file.length;) {
    const length = file.readUInt32BE(at);
    yield { type: file.toString('latin1', at + 4, at + 8), data: file.subarray(at + 8, at + 8 + length) };
    at += 12 + length;
  }
}

/** The bytes of the rows: each row says how it was derived from its left and upper neighbours. */
function unfiltered(bytes, rowBytes, height, channels) {
  const rows = new Uint8Array(rowBytes * height);
  for (let y = 0; y < height; y += 1) {
    const [from, to] = [y * (rowBytes + 1) + 1, y * rowBytes];
    const predict = PREDICTORS[bytes[from - 1]];
    for (let x = 0; x < rowBytes; x += 1) {
      const at = to + x;
      const left = x >= channels ? rows[at - channels] : 0;
      const up = y > 0 ? rows[at - rowBytes] : 0;
      const corner = x >= channels && y > 0 ? rows[at - rowBytes - channels] : 0;
      rows[at] = bytes[from + x] + predict(left, up, corner);
    }
  }
  return rows;
}

/** What each kind of filter derives a byte from. */
const PREDICTORS = [() => 0, (left) => left, (left, up) => up, (left, up) => (left + up) >> 1, paeth];

function paeth(left, up, corner) {
  const guess = left + up - corner;
  const [a, b, c] = [Math.abs(guess - left), Math.abs(guess - up), Math.abs(guess - corner)];
  if (a <= b && a <= c) return left;
  return b <= c ? up : corner;
}

/** The colours of a picture that a file keeps, and for each pixel which of them it has. The most frequent ones are kept exactly; the others,
 * which smooth the edges of letters, become the nearest of them. @param {Picture} picture */
function indexed({ width, height, pixels }) {
  const colours = new Uint32Array(width * height);
  const counts = new Map();
  for (let at = 0; at < colours.length; at += 1) {
    colours[at] = (pixels[3 * at] << 16) | (pixels[3 * at + 1] << 8) | pixels[3 * at + 2];
    counts.set(colours[at], (counts.get(colours[at]) ?? 0) + 1);
  }
  const byCount = [...counts].sort(([a, many], [b, more]) => more - many || a - b).map(([one]) => one);
  const palette = byCount.slice(0, MAX_COLOURS);
  const indices = new Map(byCount.map((one) => [one, nearest(palette, one)]));
  return { palette, indices: Uint8Array.from(colours, (colour) => indices.get(colour)) };
}

/** The picture as it would be in a file. @param {Picture} picture @returns {Picture} */
export function reduced({ width, height, pixels }) {
  const { palette, indices } = indexed({ width, height, pixels });
  const kept = new Uint8Array(pixels.length);
  for (let at = 0; at < indices.length; at += 1) {
    const colour = palette[indices[at]];
    kept[3 * at] = colour >> 16;
    kept[3 * at + 1] = (colour >> 8) & 255;
    kept[3 * at + 2] = colour & 255;
  }
  return { width, height, pixels: kept };
}

/** @param {Picture} picture @returns {Buffer} */
export function encode({ width, height, pixels }) {
  const { palette, indices } = indexed({ width, height, pixels });
  const rows = Buffer.alloc((width + 1) * height);
  for (let y = 0; y < height; y += 1) rows.set(indices.subarray(y * width, (y + 1) * width), y * (width + 1) + 1);
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header.set([8, PALETTE, 0, 0, 0], 8);
  const colours = Buffer.from(palette.flatMap((one) => [one >> 16, (one >> 8) & 255, one & 255]));
  const parts = [chunk('IHDR', header), chunk('PLTE', colours), chunk('IDAT', deflateSync(rows, { level: 9, memLevel: 9 })), chunk('IEND', Buffer.alloc(0))];
  return Buffer.concat([SIGNATURE, ...parts]);
}

function nearest(palette, colour) {
  let best = 0;
  let least = Infinity;
  for (let index = 0; index < palette.length; index += 1) {
    const red = (palette[index] >> 16) - (colour >> 16);
    const green = ((palette[index] >> 8) & 255) - ((colour >> 8) & 255);
    const blue = (palette[index] & 255) - (colour & 255);
    const distance = red * red + green * green + blue * blue;
    if (distance < least) {
      best = index;
      least = distance;
    }
  }
  return best;
}

function chunk(type, data) {
  const body = Buffer.concat([Buffer.from(type, 'latin1'), data]);
  const frame = Buffer.alloc(8);
  frame.writeUInt32BE(data.length, 0);
  frame.writeUInt32BE(crc32(body), 4);
  return Buffer.concat([frame.subarray(0, 4), body, frame.subarray(4)]);
}
