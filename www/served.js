// Files that the server of the page offers: `gpuprism view` says so in the page. Named files are opened at once; the traces of a
// folder are listed in a menu, where new ones appear. Loaded only with such a server.

import { bytes } from './cards.js';
import { arrange, byId, el, loadStyleSheet, note } from './dom.js';

/** @import { Page, ServedFile, ServedList, ServedListItem } from './types.js' */

const POLL_MS = 2000;

/** Opens the named files, and lists those of a folder. @param {Page} page @param {string} address */
export async function openServed(page, address) {
  const list = await load(address);
  const named = list.files.filter(({ is_named: isNamed }) => isNamed);
  if (named.length > 0) page.openFiles(named.map((item) => servedFile(item, address)));
  if (list.can_capture) await (await import('./capture.js')).showCapture(page, new URL('capture', address).href, (item) => servedFile(item, address));
  if (list.folder === null) return;
  await loadStyleSheet('served.css');
  watch(page, address, list);
}

/** @param {string} address @returns {Promise<ServedList>} */
async function load(address) {
  const response = await fetch(address).catch(() => null);
  if (!response?.ok) throw new Error('gpuprism view has ended: start it again, and open the address that it prints.');
  return response.json();
}

/** @param {ServedListItem} item @param {string} address @returns {ServedFile} */
const servedFile = ({ id, name, size }, address) => ({ name, size, url: new URL(`file/${id}`, address).href });

/** @param {Page} page @param {string} address @param {ServedList} first */
function watch(page, address, first) {
  const rows = el('div', { class: 'served-files', role: 'group', 'aria-label': `Traces in ${first.folder}` });
  const state = note('');
  const title = el('summary', { class: 'button' });
  const menu = el('details', { class: 'menu', id: 'served', open: true }, title, el('div', { class: 'menu-items' }, rows, state));
  byId('add').after(menu);
  /** @type {Map<string, ServedListItem>} */
  let items = new Map();
  const open = (/** @type {string} */ key) => {
    const item = items.get(key);
    menu.open = false;
    if (item) page.openFiles([servedFile(item, address)]);
  };
  const show = (/** @type {ServedList} */ { folder, files, is_complete: isComplete }) => {
    const traces = files.filter(({ is_named: isNamed }) => !isNamed);
    items = new Map(traces.map((item) => [`${item.id} ${item.size} ${item.modified_ms}`, item]));
    title.textContent = `Traces in ${folder} (${items.size})`;
    arrange(rows, [...items.keys()], (key) => row(/** @type {ServedListItem} */ (items.get(key)), () => open(key)));
    state.textContent = [items.size === 0 && 'No traces yet: they appear here.', !isComplete && 'The folder has more files than are listed.'].filter(Boolean).join(' ');
  };
  show(first);
  poll(address, show, (problem) => {
    state.textContent = problem;
  });
}

/** @param {ServedListItem} item @param {() => void} open */
function row({ name, size, modified_ms: modified }, open) {
  const details = `${bytes(size)} · ${new Date(modified).toLocaleString()}`;
  return el('button', { type: 'button', title: `${name}, ${details}`, click: open }, el('span', { class: 'name' }, name), el('span', { class: 'note' }, details));
}

/** Loads the list again and again while the page is visible.
 * @param {string} address @param {(list: ServedList) => void} show @param {(problem: string) => void} onProblem */
function poll(address, show, onProblem) {
  setTimeout(async () => {
    try {
      if (!document.hidden) show(await load(address));
    } catch (problem) {
      onProblem(/** @type {Error} */ (problem).message);
    }
    poll(address, show, onProblem);
  }, POLL_MS);
}
