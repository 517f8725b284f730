// The origins whose files are shown without a question: that of the page, and those that the person chose on this device.

import { readStored, store } from './storage.js';

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
  store(STORAGE_KEY, JSON.stringify([...new Set([...storedOrigins(), origin])]));
}

/** @returns {unknown[]} */
function storedOrigins() {
  try {
    const list = JSON.parse(readStored(STORAGE_KEY) ?? '[]');
    return Array.isArray(list) ? list : [];
  } catch {
    return [];
  }
}
