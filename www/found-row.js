// Shows a row of a table that was looked for: scrolls to it, marks it and focuses it. Loaded when a row is first looked for.

import { ROW_PX } from './virtual.js';

/** How long a row may take to be drawn. */
const DRAWN_WITHIN_MS = 5_000;

/** @param {HTMLElement} block the table with its heading @param {number} index of the row */
export async function showRow(block, index) {
  const row = await drawnRow(block, index);
  if (!row) return;
  block.querySelectorAll('tr.found').forEach((other) => other.classList.remove('found'));
  row.classList.add('found');
  row.tabIndex = -1;
  row.focus({ preventScroll: true });
  row.scrollIntoView({ block: 'nearest' });
}

/** The row once it is in the page: that of a long table has to be scrolled to first. @param {HTMLElement} block @param {number} index */
async function drawnRow(block, index) {
  const frame = block.querySelector('.scroll.long');
  /** @type {() => HTMLTableRowElement | null} */
  const find = () => (frame
    ? block.querySelector(`tbody tr[aria-rowindex="${index + 2}"]:not([aria-busy])`)
    : block.querySelector('tbody')?.rows[index] ?? null);
  for (const end = performance.now() + DRAWN_WITHIN_MS; !find() && performance.now() < end;) {
    frame?.scrollTo({ top: Math.max(0, index * ROW_PX - frame.clientHeight / 2), behavior: 'instant' });
    await new Promise((resolve) => {
      requestAnimationFrame(resolve);
    });
  }
  return find();
}
