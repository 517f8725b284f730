// The origins that may show files without a question: this one, and those that the person chose on this device.

const STORAGE_KEY = 'gpuprism:trusted-origins';

/** Origins that were chosen in this visit, for browsers that refuse storage. @type {Set<string>} */
const chosenNow = new Set();

/** `null`, the origin of sandboxed frames and local files, is never trusted. @param {string} origin */
export function isTrusted(origin) {
  return origin !== 'null' && (origin === location.origin || chosenNow.has(origin) || storedOrigins().includes(origin));
}

/** @param {string} origin */
export function trust(origin) {
  chosenNow.add(origin);
  try {
    localStorage.setItem(STORAGE_KEY, JSON.stringify([...new Set([...storedOrigins(), origin])]));
  } catch {
    // The next visit asks again.
  }
}

/** @returns {unknown[]} */
function storedOrigins() {
  try {
    const list = JSON.parse(localStorage.getItem(STORAGE_KEY) ?? '[]');
    return Array.isArray(list) ? list : [];
  } catch {
    return [];
  }
}
