// The browser's database (IndexedDB), as stores of values by key. A browser can refuse it to a page.

/** Resolves with the result of the request that `start` returns, once the whole transaction is complete.
 * @template Result @param {string} name @param {string} storeName @param {(store: IDBObjectStore) => IDBRequest<Result>} start */
export async function inStore(name, storeName, start) {
  const opening = indexedDB.open(name);
  opening.onupgradeneeded = () => opening.result.createObjectStore(storeName);
  await ended(opening, 'success');
  const database = opening.result;
  try {
    const transaction = database.transaction(storeName, 'readwrite');
    const request = start(transaction.objectStore(storeName));
    await ended(transaction, 'complete');
    return request.result;
  } finally {
    database.close();
  }
}

/** Deletes the values of a store that were put there before a time, by their member `at`. @param {IDBObjectStore} store @param {number} time */
export function deleteOlder(store, time) {
  const cursors = store.openCursor();
  cursors.onsuccess = () => {
    const cursor = cursors.result;
    if (!cursor) return;
    if (cursor.value.at < time) cursor.delete();
    cursor.continue();
  };
}

/** @param {IDBRequest | IDBTransaction} operation @param {string} event @returns {Promise<void>} */
function ended(operation, event) {
  return new Promise((resolve, reject) => {
    operation.addEventListener(event, () => resolve());
    const fail = () => reject(operation.error ?? new Error('the browser has no storage for this page'));
    for (const failure of ['error', 'abort', 'blocked']) operation.addEventListener(failure, fail);
  });
}
