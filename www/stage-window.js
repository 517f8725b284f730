// Shows the window of a stage of serving in every trace, if the address names one (`stage=decode`), until the person picks a window.
// Loaded with the first such address.

/** @import { Page, TraceEntry } from './types.js' */

/** @param {Page} page */
export async function pickStages({ store, session, attempt }) {
  /** The traces that have been asked for the stage in the address. @type {WeakSet<TraceEntry>} */
  let asked = new WeakSet();
  const pick = () => {
    const { stage } = store.view;
    // Only a reader with sections knows the windows.
    for (const entry of stage ? session.liveTraces.filter(({ reader }) => reader.hasSections) : []) {
      if (asked.has(entry)) continue;
      asked.add(entry);
      if (!entry.window) attempt('The stage could not be picked', async () => show(entry, stage));
    }
  };
  /** @param {TraceEntry} entry @param {string} stage */
  const show = async (entry, stage) => {
    const groups = await entry.reader.request('namedWindows', {});
    const windows = groups.flatMap((group) => group.windows).filter((window) => window.stage !== '');
    const found = windows.find((window) => window.stage === stage);
    const known = windows.map((window) => window.stage).join(', ');
    if (!found) throw new Error(`${entry.file.name} has no stage ${stage}${known ? `: it has ${known}` : ', and no other'}`);
    // The person may have picked a window meanwhile.
    if (store.view.stage === stage && !entry.window) session.setWindow(entry, found.window);
  };
  store.subscribe(['view'], (next, previous) => {
    if (next.view.stage === previous.view.stage) return;
    asked = new WeakSet();
    pick();
  });
  store.subscribe(['reports', 'readers'], pick);
  pick();
}
