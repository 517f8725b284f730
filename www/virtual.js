// The rows of a long table: those on screen and a margin are in the page, the others come when they are scrolled to. It is
// fetched with the first long table.

import { PIECE_ROWS } from './table.js';

const ROW_PX = 28;
const MARGIN_ROWS = 12;
const PIECES_KEPT = 12;

/**
 * Fills `body`, inside the scrolling element `frame`, with rows of a fixed height. `draw(cells, index)` makes the row of
 * an index, of null while its cells are on their way; `ask(from)` resolves with the cells of the rows from there;
 * `onDrawn()` is called when other rows are in the page.
 */
export class VirtualRows {
  #frame;
  #body;
  #count;
  #draw;
  #ask;
  #onDrawn;
  /** Cells of rows by the index of the first, the oldest first; a promise where they are on their way. */
  #pieces;
  /** Rows in the page: {node, waits}, by index. */
  #shown = new Map();
  from = 0;
  to = 0;
  #pending = false;
  #printing = false;

  constructor({ frame, body, count, first, draw, ask, onDrawn }) {
    [this.#frame, this.#body, this.#count, this.#draw, this.#ask, this.#onDrawn] = [frame, body, count, draw, ask, onDrawn];
    this.#pieces = new Map([[0, first]]);
    frame.addEventListener('scroll', () => this.#soon(), { passive: true });
    new ResizeObserver(() => this.#soon()).observe(frame);
    this.#fill(0, Math.min(count, 40));
  }

  /** Before printing: the first rows stand one below the other. Returns how many. */
  unroll() {
    this.#printing = true;
    const all = Math.min(this.#count, PIECE_ROWS);
    this.#fill(0, all);
    return all;
  }

  /** After printing. */
  roll() {
    this.#printing = false;
    this.#update();
  }

  /** One redraw a frame, however many events. */
  #soon() {
    if (this.#pending) return;
    this.#pending = true;
    requestAnimationFrame(() => {
      this.#pending = false;
      if (!this.#printing && this.#body.isConnected) this.#update();
    });
  }

  #update() {
    const { scrollTop, clientHeight } = this.#frame;
    const from = Math.max(0, Math.floor(scrollTop / ROW_PX) - MARGIN_ROWS);
    const to = Math.min(this.#count, Math.floor((scrollTop + clientHeight) / ROW_PX) + 1 + MARGIN_ROWS);
    this.#fill(from, to);
  }

  #fill(from, to) {
    if (from === this.from && to === this.to && this.#shown.size === to - from) return;
    this.#keepFocus(from, to);
    for (const [index, row] of this.#shown) if (index < from || index >= to) this.#remove(index, row);
    let before = null;
    for (let index = from; index < to; index += 1) {
      const row = this.#shown.get(index) ?? this.#insert(index, before);
      before = row.node;
    }
    [this.from, this.to] = [from, to];
    this.#space();
    this.#onDrawn();
  }

  #insert(index, before) {
    const cells = this.#cells(index);
    const row = { node: this.#draw(cells, index), waits: cells === null };
    if (before) before.after(row.node);
    else this.#body.prepend(row.node);
    this.#shown.set(index, row);
    return row;
  }

  #remove(index, { node }) {
    node.remove();
    this.#shown.delete(index);
  }

  /** A focus inside a row that goes is kept by the table, so that the keys go on scrolling. */
  #keepFocus(from, to) {
    for (const [index, { node }] of this.#shown) {
      if (index >= from && index < to) continue;
      if (node.contains(document.activeElement)) this.#frame.focus({ preventScroll: true });
    }
  }

  /** What is not in the page is empty height above and below what is. */
  #space() {
    this.#body.style.setProperty('--above', `${this.from * ROW_PX}px`);
    this.#body.style.setProperty('--below', `${(this.#count - this.to) * ROW_PX}px`);
  }

  #cells(index) {
    const start = index - (index % PIECE_ROWS);
    const piece = this.#pieces.get(start);
    if (Array.isArray(piece)) return piece[index - start] ?? null;
    if (!piece) this.#pieces.set(start, this.#fetch(start));
    return null;
  }

  async #fetch(start) {
    try {
      this.#pieces.set(start, await this.#ask(start));
    } catch {
      // It is asked for again when it is scrolled to again.
      this.#pieces.delete(start);
      return;
    }
    this.#forgetOld(start);
    this.#redrawWaiting();
  }

  /** Row by row: were all taken out first, the browser would see a shorter table and scroll up. */
  #redrawWaiting() {
    for (const [index, row] of [...this.#shown]) {
      if (!row.waits || !this.#cells(index)) continue;
      const before = row.node.previousElementSibling;
      this.#remove(index, row);
      this.#insert(index, before);
    }
    this.#onDrawn();
  }

  #forgetOld(newest) {
    for (const start of this.#pieces.keys()) {
      if (this.#pieces.size <= PIECES_KEPT) return;
      if (start !== 0 && start !== newest) this.#pieces.delete(start);
    }
  }
}
