// Which origins may show files without being asked about: this one, and those the person chose, on this device.

const REMEMBERED = 'gpuprism:trusted-origins';

/** Those of this visit, where the browser lends no storage. */
const now = new Set();

/** `null` is the origin of every sandboxed frame and local file alike, and never trusted, not even by a page that has it. */
export function isTrusted(origin) {
  return origin !== 'null' && (origin === location.origin || now.has(origin) || remembered().includes(origin));
}

export function trust(origin) {
  now.add(origin);
  try {
    localStorage.setItem(REMEMBERED, JSON.stringify([...new Set([...remembered(), origin])]));
  } catch {
    // Then it is asked again at the next visit.
  }
}

function remembered() {
  try {
    const list = JSON.parse(localStorage.getItem(REMEMBERED));
    return Array.isArray(list) ? list : [];
  } catch {
    return [];
  }
}
