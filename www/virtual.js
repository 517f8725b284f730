// The rows of a long table. Only the rows on screen and a margin are in the document. Others are requested when they are scrolled
// to. Loaded with the first long table.

import { ROWS_PER_REQUEST } from './table.js';

/** @import { Cell } from './types.js' */

/** Height of a row, as in style.css. */
export const ROW_PX = 28;
const MARGIN_ROWS = 12;
const CACHED_CHUNKS = 12;
/** Rows that are drawn before the height of the frame is measured. */
const FIRST_ROWS = 40;

/** @typedef {{ node: HTMLElement, isPending: boolean }} Row */

/** Fills a table body, inside a scrolling element, with rows of a fixed height. */
export class VirtualRows {
  #frame;
  #body;
  #count;
  #draw;
  #request;
  #onDrawn;
  /** Chunks of cells, or promises of them, by the index of the first row. @type {Map<number, Cell[][] | Promise<void>>} */
  #chunks;
  /** Rows in the page, by index. @type {Map<number, Row>} */
  #shown = new Map();
  from = 0;
  to = 0;
  #isUpdateScheduled = false;
  #isPrinting = false;

  /** `first` are the cells of the first rows. `draw(cells, index)` creates a row; cells are null until they arrive.
   * `request(from)` resolves with the cells of rows from an index on. `onDrawn()` is called after the rows have changed.
   * @param {{ frame: HTMLElement, body: HTMLElement, count: number, first: Cell[][],
   *   draw: (cells: Cell[] | null, index: number) => HTMLElement, request: (from: number) => Promise<Cell[][]>, onDrawn: () => void }} table */
  constructor({ frame, body, count, first, draw, request, onDrawn }) {
    this.#frame = frame;
    this.#body = body;
    this.#count = count;
    this.#draw = draw;
    this.#request = request;
    this.#onDrawn = onDrawn;
    this.#chunks = new Map([[0, first]]);
    frame.addEventListener('scroll', () => this.#scheduleUpdate(), { passive: true });
    new ResizeObserver(() => this.#scheduleUpdate()).observe(frame);
    this.#fill(0, Math.min(count, FIRST_ROWS));
  }

  /** Before printing: puts the first rows into the page. */
  expandForPrint() {
    this.#isPrinting = true;
    this.#fill(0, Math.min(this.#count, ROWS_PER_REQUEST));
  }

  /** After printing: back to the rows on screen. */
  collapse() {
    this.#isPrinting = false;
    this.#update();
  }

  /** One update per frame, however many events. */
  #scheduleUpdate() {
    if (this.#isUpdateScheduled) return;
    this.#isUpdateScheduled = true;
    requestAnimationFrame(() => {
      this.#isUpdateScheduled = false;
      if (!this.#isPrinting && this.#body.isConnected) this.#update();
    });
  }

  #update() {
    const { scrollTop, clientHeight } = this.#frame;
    const from = Math.max(0, Math.floor(scrollTop / ROW_PX) - MARGIN_ROWS);
    const to = Math.min(this.#count, Math.floor((scrollTop + clientHeight) / ROW_PX) + 1 + MARGIN_ROWS);
    this.#fill(from, to);
  }

  /** @param {number} from @param {number} to */
  #fill(from, to) {
    if (from === this.from && to === this.to && this.#shown.size === to - from) return;
    this.#keepFocus(from, to);
    for (const [index, row] of this.#shown) if (index < from || index >= to) this.#remove(index, row);
    /** @type {HTMLElement | null} */
    let before = null;
    for (let index = from; index < to; index += 1) {
      /** @type {Row} */
      const row = this.#shown.get(index) ?? this.#insert(index, before);
      before = row.node;
    }
    [this.from, this.to] = [from, to];
    this.#setPadding();
    this.#onDrawn();
  }

  /** @param {number} index @param {Element | null} before */
  #insert(index, before) {
    const cells = this.#cells(index);
    const row = { node: this.#draw(cells, index), isPending: cells === null };
    if (before) before.after(row.node);
    else this.#body.prepend(row.node);
    this.#shown.set(index, row);
    return row;
  }

  /** @param {number} index @param {Row} row */
  #remove(index, { node }) {
    node.remove();
    this.#shown.delete(index);
  }

  /** Moves the focus from a row that will be removed to the frame, so that keys still scroll.
   * @param {number} from @param {number} to */
  #keepFocus(from, to) {
    for (const [index, { node }] of this.#shown) {
      if (index >= from && index < to) continue;
      if (node.contains(document.activeElement)) this.#frame.focus({ preventScroll: true });
    }
  }

  /** Empty height above and below in place of the rows that are not in the page. */
  #setPadding() {
    this.#body.style.setProperty('--above', `${this.from * ROW_PX}px`);
    this.#body.style.setProperty('--below', `${(this.#count - this.to) * ROW_PX}px`);
  }

  /** The cells of a row; null if they have to be requested first. @param {number} index */
  #cells(index) {
    const start = index - (index % ROWS_PER_REQUEST);
    const chunk = this.#chunks.get(start);
    if (Array.isArray(chunk)) return chunk[index - start] ?? null;
    if (!chunk) this.#chunks.set(start, this.#load(start));
    return null;
  }

  /** @param {number} start */
  async #load(start) {
    try {
      this.#chunks.set(start, await this.#request(start));
    } catch {
      // It is requested again when it is scrolled to again.
      this.#chunks.delete(start);
      return;
    }
    this.#evictChunks(start);
    this.#redrawPending();
  }

  /** Replaces row by row: if all were removed first, the table would be shorter for a moment and the browser would scroll up. */
  #redrawPending() {
    for (const [index, row] of [...this.#shown]) {
      if (!row.isPending || !this.#cells(index)) continue;
      const before = row.node.previousElementSibling;
      this.#remove(index, row);
      this.#insert(index, before);
    }
    this.#onDrawn();
  }

  /** @param {number} newest */
  #evictChunks(newest) {
    for (const start of this.#chunks.keys()) {
      if (this.#chunks.size <= CACHED_CHUNKS) return;
      if (start !== 0 && start !== newest) this.#chunks.delete(start);
    }
  }
}
