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
    const [from, begin] = colours === PALETTE ? [palette, 3 * rows[at]] : [rows, channels * at];
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
    const filter = bytes[y * (rowBytes + 1)];
    for (let x = 0; x < rowBytes; x += 1) {
      const at = y * rowBytes + x;
      const left = x >= channels ? rows[at - channels] : 0;
      const up = y > 0 ? rows[at - rowBytes] : 0;
      const corner = x >= channels && y > 0 ? rows[at - rowBytes - channels] : 0;
      rows[at] = bytes[y * (rowBytes + 1) + 1 + x] + [0, left, up, (left + up) >> 1, paeth(left, up, corner)][filter];
    }
  }
  return rows;
}

function paeth(left, up, corner) {
  const guess = left + up - corner;
  const [a, b, c] = [left, up, corner].map((value) => Math.abs(guess - value));
  if (a <= b && a <= c) return left;
  return b <= c ? up : corner;
}

/** The most frequent colours are kept exactly; the others, which smooth the edges of letters, become the nearest of them.
 * @param {Picture} picture @returns {Buffer} */
export function encode({ width, height, pixels }) {
  const counts = new Map();
  const colour = (at) => (pixels[3 * at] << 16) | (pixels[3 * at + 1] << 8) | pixels[3 * at + 2];
  for (let at = 0; at < width * height; at += 1) counts.set(colour(at), (counts.get(colour(at)) ?? 0) + 1);
  const byCount = [...counts].sort(([a, many], [b, more]) => more - many || a - b).map(([one]) => one);
  const palette = byCount.slice(0, MAX_COLOURS);
  const indices = new Map(byCount.map((one) => [one, nearest(palette, one)]));
  const rows = Buffer.alloc((width + 1) * height);
  for (let y = 0; y < height; y += 1) for (let x = 0; x < width; x += 1) rows[y * (width + 1) + 1 + x] = indices.get(colour(y * width + x));
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header.set([8, PALETTE, 0, 0, 0], 8);
  const colours = Buffer.from(palette.flatMap((one) => [one >> 16, (one >> 8) & 255, one & 255]));
  const parts = [chunk('IHDR', header), chunk('PLTE', colours), chunk('IDAT', deflateSync(rows, { level: 9, memLevel: 9 })), chunk('IEND', Buffer.alloc(0))];
  return Buffer.concat([SIGNATURE, ...parts]);
}

function nearest(palette, colour) {
  let [best, least] = [0, Infinity];
  for (const [index, one] of palette.entries()) {
    const distance = [16, 8, 0].reduce((sum, bits) => sum + (((one >> bits) & 255) - ((colour >> bits) & 255)) ** 2, 0);
    if (distance < least) [best, least] = [index, distance];
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
