// The details of the selected bar, below the timeline.

import { button, copyButton, el, present } from './dom.js';
import { tableBlock } from './table.js';

/** @import { Moment, Place } from './types.js' */

/** @param {Moment} moment
 * @param {{ select(place: Place): void, fit(place: Place): void, openKernel(name: string): void, close(): void }} actions */
export function momentPanel(moment, { select, fit, openKernel, close }) {
  const { place, name, is_op: isOp, table, before, after, launch, same_before: sameBefore, same_after: sameAfter } = moment;
  const go = (/** @type {string} */ label, /** @type {Place | null} */ to, /** @type {string} */ title) => (
    to && button(label, () => select(to), { class: 'small', title }));
  const tools = present([
    go('← Previous', before, 'The bar before it in its lane (left arrow)'),
    go('Next →', after, 'The bar after it in its lane (right arrow)'),
    launch && button(launchLabel(moment), () => select(launch), { class: 'small' }),
    go('← Same kernel', sameBefore, 'Its launch before (N)'),
    go('Same kernel →', sameAfter, 'Its next launch (n)'),
    button('Zoom to it', () => fit(place), { class: 'small', title: 'Zoom to it (f)' }),
    isOp && button('All its launches', () => openKernel(name), { class: 'small' }),
    button('Close', close, { class: 'small', title: 'Close (Esc)' }),
  ]);
  return el('section', { class: 'moment', 'aria-label': 'Selected bar' },
    el('header', {}, el('h3', {}, name), copyButton(name), ...tools), tableBlock(table));
}

/** @param {Moment} moment */
const launchLabel = ({ is_op: isOp, name }) => (isOp ? 'Its launch' : name.startsWith('idle') ? 'The op after it' : 'What it launched');
