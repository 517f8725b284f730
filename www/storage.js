// Texts that stay in this browser. A browser can refuse storage to a page: then nothing is read or written.

/** @param {string} key */
export function readStored(key) {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

/** Stores a text, or removes it if it is empty. Returns false if storage is refused.
 * @param {string} key @param {string} text */
export function store(key, text) {
  try {
    if (text) localStorage.setItem(key, text);
    else localStorage.removeItem(key);
    return true;
  } catch {
    return false;
  }
}
