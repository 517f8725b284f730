// Passes files from open.html, which may use the network, to the main page, which may not. The browser's database stores them while
// one page closes and the other opens: a frame or an opener would give the main page a window that can fetch from anywhere.
// The database stores a Blob on disk, so files of gigabytes are possible.

import { deleteOlder, inStore } from './database.js';

/** @typedef {{ files: File[], from: string, at: number }} StoredFiles */

const DATABASE = 'gpuprism-handover';
const STORE = 'files';

/** Files that no page has taken are deleted after this time. */
const MAX_AGE_MS = 3_600_000;

/** Stores files and resolves with their id. The address `from` loads them again.
 * @param {File[]} files @param {string} from */
export async function leave(files, from) {
  const id = crypto.getRandomValues(new Uint32Array(4)).join('-');
  await inStore(DATABASE, STORE, (store) => store.put({ files, from, at: Date.now() }, id));
  return id;
}

/** In the main page: opens the files, and sets the address that loads them again.
 * @param {string} id @param {(files: File[]) => unknown} openFiles */
export async function receive(id, openFiles) {
  const stored = await take(id);
  if (!stored) throw new Error('It is no longer stored. Open the link again, or drop the file here.');
  history.replaceState(null, '', stored.from + location.hash);
  openFiles(stored.files);
}

/** Removes and returns the files. Also deletes files that are too old.
 * @param {string} id @returns {Promise<StoredFiles | undefined>} */
function take(id) {
  return inStore(DATABASE, STORE, (store) => {
    const request = store.get(id);
    store.delete(id);
    deleteOlder(store, Date.now() - MAX_AGE_MS);
    return request;
  });
}
