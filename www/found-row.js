// Shows a row of a table that was looked for: scrolls to it, marks it and focuses it. Loaded when a row is first looked for.

import { ROW_PX } from './virtual.js';
import { whenDrawn } from './way-back.js';

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
function drawnRow(block, index) {
  const frame = block.querySelector('.scroll.long');
  return whenDrawn(() => {
    if (!frame) return block.querySelector('tbody')?.rows[index] ?? null;
    /** @type {HTMLTableRowElement | null} */
    const row = block.querySelector(`tbody tr[aria-rowindex="${index + 2}"]:not([aria-busy])`);
    if (!row) frame.scrollTo({ top: Math.max(0, index * ROW_PX - frame.clientHeight / 2), behavior: 'instant' });
    return row;
  });
}
