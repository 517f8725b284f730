// Offers to open a closed file again, next to the open files, until another file is opened or closed. Loaded when a file is closed.

import { button, byId, el } from './dom.js';

/** @import { Entry, Page, TraceEntry } from './types.js' */

/** @param {Entry} closed @param {number} place its place among the files @param {Page} page */
export async function offerUndo(closed, place, { session, store, windows, attempt }) {
  const { name } = closed.file;
  const others = session.entries;
  const undo = () => attempt(`${name} could not be opened again`, async () => {
    const entry = await session.reopen(closed, place);
    if (closed.window && entry.text !== null) windows.pick(/** @type {TraceEntry} */ (entry), closed.window);
  });
  /** @type {HTMLElement} */
  const offer = el('span', { class: 'chip undo', title: name },
    button('Undo', undo), el('span', { class: 'chip-name' }, `closing ${name}`),
    button('×', () => void offer.remove(), { 'aria-label': `Leave ${name} closed` }));
  byId('chips').after(offer);
  const hasOthers = () => session.entries.length !== others.length || session.entries.some((entry) => !others.includes(entry));
  await store.when(hasOthers);
  offer.remove();
}
