// Hands files from open.html, which may reach the network, to the analysing page, which may not. They wait in the
// browser's database while one page leaves and the other comes: a frame or an opener would leave the analysing page
// a window that may fetch from anywhere. A Blob is kept on disk, so that files of gigabytes pass.

const DATABASE = 'gpuprism-handover';
const STORE = 'files';

/** A file that nobody came for is not kept longer. */
const KEPT_MS = 3_600_000;

/** Leaves the files for the page that is told the id; `from` is the address that loads them again. */
export async function leave(files, from) {
  const id = crypto.getRandomValues(new Uint32Array(4)).join('-');
  await inStore((store) => store.put({ files, from, at: Date.now() }, id));
  return id;
}

/** The analysing page's end: opens what was left under the id, and makes the address one that can be loaded again. */
export async function receive(id, openFiles) {
  const left = await take(id);
  if (!left) throw new Error('It is no longer kept. Open the link again, or drop the file here.');
  history.replaceState(null, '', left.from + location.hash);
  openFiles(left.files);
}

/** Takes what was left, {files, from}; undefined if it is gone. Whatever is too old goes, too. */
async function take(id) {
  return inStore((store) => {
    const asked = store.get(id);
    store.delete(id);
    store.openCursor().onsuccess = ({ target: { result: cursor } }) => {
      if (!cursor) return;
      if (Date.now() - cursor.value.at > KEPT_MS) cursor.delete();
      cursor.continue();
    };
    return asked;
  });
}

/** Resolves with the result of the request that `ask` makes, once all of it is done. */
async function inStore(ask) {
  const opening = indexedDB.open(DATABASE);
  opening.onupgradeneeded = () => opening.result.createObjectStore(STORE);
  const database = await ended(opening, 'success');
  try {
    const transaction = database.transaction(STORE, 'readwrite');
    const request = ask(transaction.objectStore(STORE));
    await ended(transaction, 'complete');
    return request.result;
  } finally {
    database.close();
  }
}

function ended(what, event) {
  return new Promise((done, failed) => {
    what.addEventListener(event, () => done(what.result));
    for (const bad of ['error', 'abort', 'blocked']) what.addEventListener(bad, () => failed(what.error ?? new Error('the browser keeps nothing here')));
  });
}
