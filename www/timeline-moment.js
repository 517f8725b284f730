// The details of the selected bar, below the timeline.

import { button, copyButton, el, present } from './dom.js';
import { figureList, tableBlock } from './table.js';

/** @import { Moment, NamedPlace, Place } from './types.js' */

/** A finding about a bar, or the table that has the numbers of such bars. `open` shows the table.
 * @typedef {{ kind: string, title: string, table: string, open(): void }} Proof */

/** @param {Moment} moment @param {Proof[]} proofs
 * @param {{ select(place: Place): void, fit(place: Place): void, openKernel(name: string): void, close(): void }} actions */
export function momentPanel(moment, proofs, { select, fit, openKernel, close }) {
  const { place, name, is_op: isOp, table, before, after, links, same_before: sameBefore, same_after: sameAfter } = moment;
  const go = (/** @type {NamedPlace | null} */ to, /** @type {(text: string) => string} */ label, /** @type {string} */ title) => (
    to && button(label(to.text), () => select(to), { class: 'small', title }));
  const tools = present([
    go(before, (text) => `← Previous: ${text}`, 'The bar before it in its lane (left arrow)'),
    go(after, (text) => `Next: ${text} →`, 'The bar after it in its lane (right arrow)'),
    ...links.map((link) => button(link.text, () => select(link), { class: 'small' })),
    go(sameBefore, () => '← Same kernel', `Its launch before (N): ${sameBefore?.text}`),
    go(sameAfter, () => 'Same kernel →', `Its next launch (n): ${sameAfter?.text}`),
    button('Zoom to it', () => fit(place), { class: 'small', title: 'Zoom to it (f)' }),
    isOp && button('All its launches', () => openKernel(name), { class: 'small' }),
    button('Close', close, { class: 'small', title: 'Close (Esc)' }),
  ]);
  return el('section', { class: 'moment', 'aria-label': 'Selected bar' },
    el('header', {}, el('h3', {}, name), copyButton(name), ...tools), ...proofs.map(proofLine),
    ...table.figures.map(figureList), table.grid && tableBlock({ ...table, figures: [] }));
}

/** @param {Proof} proof */
function proofLine({ kind, title, table, open }) {
  const click = (/** @type {Event} */ event) => {
    event.preventDefault();
    open();
  };
  return el('p', { class: 'note' }, kind, el('a', { href: `#tab=${table}`, class: 'table-link', click }, title));
}
