// What a reload of the page closed, opened again: from copies, if the person agreed to keep them (kept-files.js); else a button that asks
// the browser for the files, where it gave handles of them; else one line that says what was closed. The names are kept as long as the
// tab, the handles in the browser's database. Loaded with the first file, and after a reload.

import { actions } from './cards.js';
import { inStore, deleteOlder } from './database.js';
import { CallCounter, button, byId, el, note } from './dom.js';
import { handles, madeByPage } from './intake.js';
import { canKeep, deleteAll, forget, isKeeping, keep, keptFiles, setKeeping } from './kept-files.js';

/** @import { Entry, Page } from './types.js' */

/** `id` is that of the tab. @typedef {{ id: string, names: string[] }} OpenFiles */

/** In the storage of the tab. */
const KEY = 'gpuprism:open';
const DATABASE = 'gpuprism-open-files';
const STORE = 'handles';
/** Handles of a tab that was closed are deleted after this time. */
const MAX_AGE_MS = 86_400_000;

export class Reopening {
  #page;
  /** What was open before the reload; null once it is settled. @type {OpenFiles | null} */
  #before = readList();
  /** The key of this tab's handles and copies. A reload keeps it. */
  #id = this.#before?.id ?? crypto.getRandomValues(new Uint32Array(4)).join('-');
  /** The files that are remembered, by their entries' ids. */
  #remembered = '';
  #copies = new CallCounter();
  /** The entries that have a copy. */
  #copied = '';
  /** @type {HTMLElement | null} */
  #offer = null;

  /** @param {Page} page */
  constructor(page) {
    this.#page = page;
    // A copy that could not be deleted when the setting was switched off.
    if (canKeep() && !isKeeping()) deleteAll().catch(() => {});
    wireSetting(byId('keep'), () => {
      this.#copied = '';
      this.#copies.start();
      this.remember();
    });
  }

  /** Remembers the open files, and copies them if the person agreed. */
  remember() {
    const entries = this.#page.session.entries.filter(isOwnFile);
    if (entries.length > 0) this.#settle();
    // Until the person has decided, the files of before the reload stay remembered.
    if (this.#before) return;
    const key = entries.map(({ id }) => id).join();
    const files = entries.map(({ file }) => /** @type {File} */ (file));
    if (key !== this.#remembered) {
      this.#remembered = key;
      if (files.length > 0) writeList({ id: this.#id, names: files.map(({ name }) => name) });
      else this.#forget();
      this.#storeHandles(files).catch(() => {});
    }
    if (isKeeping() && entries.every(({ status }) => status === 'open') && key !== this.#copied) this.#copy(key, files);
  }

  /** Handles cannot be stored everywhere; the names are enough then. @param {File[]} files */
  async #storeHandles(files) {
    const found = await Promise.all(files.map((file) => handles.get(file) ?? null));
    await inStore(DATABASE, STORE, (stored) => {
      deleteOlder(stored, Date.now() - MAX_AGE_MS);
      return stored.put({ handles: found, at: Date.now() }, this.#id);
    });
  }

  /** @param {string} key @param {File[]} files */
  #copy(key, files) {
    this.#copied = key;
    this.#page.attempt('The files could not be kept for a reload', () => keep(this.#id, files, this.#copies.start()));
  }

  /** Opens what the reload closed, or offers to. */
  async offer() {
    const before = this.#before;
    if (!before) return;
    if (before.names.length === 0) {
      this.#settle();
      writeList(null);
      if (canKeep()) await forget(before.id);
      return;
    }
    const kept = isKeeping() ? await keptFiles(before.id, before.names) : null;
    const found = kept ? [] : await storedHandles(before.id).catch(() => []);
    // Files were opened in the meantime.
    if (this.#before !== before) return;
    if (kept) this.#page.openFiles(kept);
    else this.#show(before, found);
  }

  /** @param {OpenFiles} before @param {(FileSystemHandle | null)[]} found */
  #show({ names }, found) {
    const known = names.flatMap((_, index) => found[index] ?? []);
    const lost = names.filter((_, index) => !found[index]);
    const again = button(`Open ${known.length > 1 ? `${known.length} files` : known[0]?.name} again`, () => this.#reopen(known), { class: 'primary' });
    this.#offer = el('article', { class: 'card reopen', role: 'status' },
      known.length > 0 && el('p', {}, `Reloading the page closed ${list(known.map(({ name }) => name))}. The browser asks you before the page reads ${known.length > 1 ? 'them' : 'it'} again.`),
      lost.length > 0 && el('p', {}, `Reloading the page closed ${list(lost)}: choose or drop ${lost.length > 1 ? 'them' : 'it'} again.`),
      canKeep() && note('A copy in this browser would survive a reload: see Settings once a file is open.'),
      actions(known.length > 0 && again, button('Dismiss', () => this.#dismiss())));
    byId('cards').append(this.#offer);
  }

  /** @param {FileSystemHandle[]} known */
  #reopen(known) {
    this.#page.attempt('Not all files could be opened again', async () => {
      /** @type {File[]} */
      const files = [];
      const problems = [];
      for (const handle of known) {
        const isGranted = await handle.requestPermission?.() === 'granted';
        const file = isGranted ? await /** @type {FileSystemFileHandle} */ (handle).getFile().catch(() => null) : null;
        if (file) handles.set(file, Promise.resolve(handle));
        if (file) files.push(file);
        else problems.push(`${handle.name} ${isGranted ? 'was moved or deleted' : 'was not allowed'}`);
      }
      if (files.length > 0) this.#page.openFiles(files);
      if (problems.length > 0) throw new Error(`${problems.join(', ')}: choose or drop it again.`);
    });
  }

  #dismiss() {
    this.#settle();
    this.#forget();
  }

  /** Remembers no file. If there may be copies, the next load deletes them. */
  #forget() {
    writeList(isKeeping() ? { id: this.#id, names: [] } : null);
  }

  /** Forgets what was open before the reload. */
  #settle() {
    this.#offer?.remove();
    this.#before = null;
  }
}

/** Whether an entry is a file of the person's machine. @param {Entry} entry */
const isOwnFile = ({ file, isOwnRules, status }) => file instanceof File && !madeByPage.has(file) && !isOwnRules && status !== 'failed';

/** @param {string[]} names */
const list = (names) => (names.length > 3 ? `${names.slice(0, 2).join(', ')} and ${names.length - 2} more files` : names.join(', '));

/** @param {string} id @returns {Promise<(FileSystemHandle | null)[]>} */
async function storedHandles(id) {
  return (await inStore(DATABASE, STORE, (stored) => stored.get(id)))?.handles ?? [];
}

/** @returns {OpenFiles | null} */
function readList() {
  try {
    return JSON.parse(sessionStorage.getItem(KEY) ?? 'null');
  } catch {
    return null;
  }
}

/** @param {OpenFiles | null} open */
function writeList(open) {
  try {
    if (open) sessionStorage.setItem(KEY, JSON.stringify(open));
    else sessionStorage.removeItem(KEY);
  } catch {
    // Without storage a reload says nothing.
  }
}

/** The setting that keeps copies. @param {HTMLElement} label @param {() => void} onChange */
function wireSetting(label, onChange) {
  const box = /** @type {HTMLInputElement} */ (label.querySelector('input'));
  label.hidden = !canKeep();
  box.checked = isKeeping();
  box.addEventListener('change', async () => {
    box.checked = await setKeeping(box.checked) && box.checked;
    onChange();
  });
}
