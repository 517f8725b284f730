// The tiles of a timeline: which are at hand, and the requests for the others to the worker.

import { TILE_UNITS, tileKey, unitNs } from './timeline-view.js';

/** @import { View } from './timeline-view.js' */
/** @import { Tile, TileId, TraceEntry } from './types.js' */

/** Tiles that are kept; about 50 KB each. */
const MAX_TILES = 300;
/** Requests that the worker has at once: enough that it need not wait while the page paints, and few, so that a new view does not wait long
 * behind an old one. */
const MAX_REQUESTS = 6;
/** Coarser levels that may stand in for a tile that is not there yet. */
const COARSER_LEVELS = 12;

/** A tile and where to draw it: only its part between two times. @typedef {TileId & { tile: Tile, from: number, to: number }} PlacedTile */

export class Tiles {
  #entry;
  #onTile;
  /** In the order of their last use. @type {Map<string, Tile | null>} */
  #tiles = new Map();
  /** @type {Map<string, TileId>} */
  #wanted = new Map();
  /** @type {Set<string>} */
  #requested = new Set();

  /** `onTile` is called when a tile has come; null for one that does not exist.
   * @param {TraceEntry} entry @param {{ id: TileId, tile: Tile }[]} firstTiles @param {(tile: Tile | null) => void} onTile */
  constructor(entry, firstTiles, onTile) {
    this.#entry = entry;
    this.#onTile = onTile;
    for (const { id, tile } of firstTiles) this.#tiles.set(tileKey(id), tile);
  }

  /** True while tiles of the last view are missing. */
  get isLoading() {
    return this.#wanted.size > 0 || this.#requested.size > 0;
  }

  /** What to draw of these layers for a view that is `width` pixels wide, and requests what is missing.
   * @param {View} view @param {number} width @param {string[]} layers @returns {PlacedTile[]} */
  inView(view, width, layers) {
    /** @type {PlacedTile[]} */
    const placed = [];
    this.#wanted.clear();
    for (const id of view.tiles(width, layers)) {
      const tile = this.#use(id);
      const tileNs = TILE_UNITS * unitNs(id.level);
      if (tile) placed.push({ ...id, tile, from: id.index * tileNs, to: (id.index + 1) * tileNs });
      if (tile !== undefined) continue;
      this.#wanted.set(tileKey(id), id);
      placed.push(...this.#substitutes(id));
    }
    this.#request();
    return placed;
  }

  /** Tiles of another level that cover the time of a missing one. @param {TileId} missing @returns {PlacedTile[]} */
  #substitutes({ layer, level, index }) {
    const tileNs = TILE_UNITS * unitNs(level);
    const range = { from: index * tileNs, to: (index + 1) * tileNs };
    for (let up = 1; up <= COARSER_LEVELS; up += 1) {
      const id = { layer, level: level + up, index: Math.floor(index / 2 ** up) };
      const tile = this.#tiles.get(tileKey(id));
      if (tile) return [{ ...id, tile, ...range }];
    }
    const finer = [2 * index, 2 * index + 1].map((half) => ({ layer, level: level - 1, index: half }));
    return finer.flatMap((id) => {
      const tile = this.#tiles.get(tileKey(id));
      return tile ? [{ ...id, tile, from: (id.index * tileNs) / 2, to: ((id.index + 1) * tileNs) / 2 }] : [];
    });
  }

  /** @param {TileId} id */
  #use(id) {
    const key = tileKey(id);
    const tile = this.#tiles.get(key);
    if (tile === undefined) return undefined;
    this.#tiles.delete(key);
    this.#tiles.set(key, tile);
    return tile;
  }

  /** Asks for the wanted tiles, a few at a time. */
  #request() {
    for (const [key, id] of this.#wanted) {
      if (this.#requested.size >= MAX_REQUESTS) return;
      if (this.#requested.has(key)) continue;
      this.#requested.add(key);
      this.#entry.reader.request('tile', id).then((tile) => this.#keep(key, tile), () => this.#requested.delete(key));
    }
  }

  /** @param {string} key @param {Tile | null} tile */
  #keep(key, tile) {
    this.#requested.delete(key);
    this.#wanted.delete(key);
    this.#tiles.set(key, tile);
    for (const oldest of this.#tiles.keys()) {
      if (this.#tiles.size <= MAX_TILES) break;
      this.#tiles.delete(oldest);
    }
    this.#onTile(tile);
    this.#request();
  }
}
