// The part of the timeline that is in view: its times, and the tiles that show it. Times are nanoseconds since the first GPU op. A tile
// has the bars of a layer in 1,024 units of 2^level ns.

/** @import { TileId } from './types.js' */

export const TILE_UNITS = 1024;
/** In the order of their requests. The first tile of `derived` takes a pass over all ops. */
export const LAYERS = ['device', 'host', 'code', 'derived'];

/** @param {number} level */
export const unitNs = (level) => 2 ** level;
/** @param {TileId} id */
export const tileKey = ({ layer, level, index }) => `${layer} ${level} ${index}`;

/** Traces of which none is shorter than this share of the longest are shown on one scale; others would be too small. */
const MIN_SHARE_OF_LONGEST = 0.25;

/** The time that all GPU ops take with the room after them. @param {number} gpuTo the end of the last one */
export const lengthOfAll = (gpuTo) => gpuTo * (1 + ROOM);

/** The time that the same width stands for in all of these traces, or 0 if each has its own scale. @param {number[]} lengths */
export function commonLength(lengths) {
  const longest = Math.max(...lengths);
  return lengths.length > 1 && lengths.every((length) => length >= MIN_SHARE_OF_LONGEST * longest) ? longest : 0;
}

const MIN_LENGTH_NS = 200;
/** Room on each side of a bar that fits the view, as a share of the bar. */
const FIT_ROOM = 0.125;
/** Room after the last GPU op, as a share of the time before. The first op is at the left edge, as in the strips. */
const ROOM = 0.005;
/** The events before the first op and after the last can be panned to; beyond them is this share of the view. */
const MARGIN = 0.5;

export class View {
  /** @param {{ from: number, to: number }} bounds of all events */
  constructor({ from, to }) {
    this.bounds = { from, to };
    /** A view that moves with others may leave the bounds. */
    this.isLinked = false;
    this.from = from;
    this.to = to;
  }

  get length() {
    return this.to - this.from;
  }

  /** Shows all GPU ops, with a little room. @param {number} gpuTo the end of the last one */
  showAll(gpuTo) {
    this.show(0, lengthOfAll(gpuTo));
  }

  /** Whether all GPU ops are in view from the left edge on. @param {number} gpuTo the end of the last one */
  isWhole(gpuTo) {
    return this.from === 0 && this.to > lengthOfAll(gpuTo) - 1;
  }

  /** Shows what a timeline opens with. @param {{ gpu_to: number, opens_at: [number, number] | null }} timeline */
  open({ gpu_to: gpuTo, opens_at: opensAt }) {
    if (opensAt) this.fit({ from: opensAt[0], to: opensAt[1] });
    else this.showAll(Math.max(gpuTo, 1));
  }

  /** The tiles of these layers that show the view `width` pixels wide. @param {number} width @param {string[]} layers */
  tiles(width, layers) {
    const level = Math.max(0, Math.floor(Math.log2(this.length / Math.max(width, 1))));
    const tileNs = TILE_UNITS * unitNs(level);
    /** @type {TileId[]} */
    const tiles = [];
    for (const layer of layers) {
      for (let index = Math.floor(this.from / tileNs); index * tileNs < this.to; index += 1) tiles.push({ layer, level, index });
    }
    return tiles;
  }

  /** @param {number} from @param {number} to */
  show(from, to) {
    const { bounds } = this;
    if (this.isLinked) {
      [this.from, this.to] = [from, Math.max(to, from + MIN_LENGTH_NS)];
      return;
    }
    const length = Math.min(Math.max(to - from, MIN_LENGTH_NS), (bounds.to - bounds.from) * (1 + MARGIN));
    const middle = (from + to) / 2;
    const slack = length * MARGIN;
    const start = Math.min(Math.max(middle - length / 2, bounds.from - slack), Math.max(bounds.to + slack - length, bounds.from - slack));
    this.from = start;
    this.to = start + length;
  }

  /** @param {number} factor below 1 to see less @param {number} at the time that stays where it is */
  zoom(factor, at) {
    const share = (at - this.from) / this.length;
    const length = Math.max(this.length * factor, MIN_LENGTH_NS);
    this.show(at - share * length, at + (1 - share) * length);
  }

  /** @param {number} ns */
  pan(ns) {
    this.show(this.from + ns, this.to + ns);
  }

  /** Shows a bar in the middle, 80 % of the width. @param {{ from: number, to: number }} place */
  fit({ from, to }) {
    const room = Math.max(to - from, 1) * FIT_ROOM;
    this.show(from - room, to + room);
  }

  /** Moves as little as possible to show a bar. @param {{ from: number, to: number }} place */
  reveal({ from, to }) {
    if (to >= this.from && from <= this.to) return;
    const middle = (from + to) / 2;
    this.show(middle - this.length / 2, middle + this.length / 2);
  }
}
