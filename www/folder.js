// Chooses the traces and settings to open in a dropped folder. Loaded when a person first drops a folder.

/** @import { Page } from './types.js' */

/** Limits for a home folder that is dropped by mistake. No profile folder reaches them. */
const MAX_FILES = 5000;
const MAX_DEPTH = 8;

/** Files to open if a folder has no torch trace. */
const OTHER_FILES = /\.(sqlite|csv|json)(\.gz)?$/i;

/** Resolves with the files to open, and the captures of graphs beside them. `onNote(message)` is called with the files that are not opened, and the reason.
 * @param {FileSystemEntry[]} entries @param {Page['requestTool']} requestTool @param {(message: string) => void} onNote */
export async function chooseFiles(entries, requestTool, onNote) {
  /** @type {File[]} */
  const files = [];
  const isComplete = await collectFiles(entries, files, 0);
  if (!isComplete) onNote(`only ${MAX_FILES} files were searched, ${MAX_DEPTH} folders deep.`);
  const listed = files.map(({ name, size, lastModified }) => ({ path: name, bytes: size, modified: lastModified }));
  const { open, captures, aside } = await requestTool('chooseFiles', { entries: listed });
  if (open.length === 0) return { files: otherFiles(files), captures: [] };
  if (aside.length > 0) onNote(`set aside: ${aside.join('; ')}. Drop a file by itself to open it.`);
  const chosen = (/** @type {number[]} */ indices) => indices.map((index) => files[index]);
  return { files: chosen(open), captures: chosen(captures) };
}

/** @param {File[]} files */
function otherFiles(files) {
  const open = files.filter(({ name }) => OTHER_FILES.test(name));
  if (open.length === 0) throw new Error('it has no trace, report or export of one.');
  return open;
}

/** Adds the files in these folders, each under its path. Resolves with false if a limit was reached.
 * @param {FileSystemEntry[]} entries @param {File[]} files @param {number} depth @returns {Promise<boolean>} */
async function collectFiles(entries, files, depth) {
  let isComplete = true;
  for (const entry of entries) {
    if (files.length >= MAX_FILES || depth > MAX_DEPTH) return false;
    if (entry.isFile) files.push(await fileWithPath(/** @type {FileSystemFileEntry} */ (entry)));
    else isComplete = await collectFiles(await children(/** @type {FileSystemDirectoryEntry} */ (entry)), files, depth + 1) && isComplete;
  }
  return isComplete;
}

/** @param {FileSystemFileEntry} entry */
async function fileWithPath(entry) {
  /** @type {File} */
  const file = await new Promise((resolve, reject) => entry.file(resolve, reject));
  return new File([file], entry.fullPath.replace(/^\//, ''), { lastModified: file.lastModified });
}

/** The browser returns about a hundred entries at a time. @param {FileSystemDirectoryEntry} folder */
async function children(folder) {
  const reader = folder.createReader();
  const all = [];
  for (;;) {
    /** @type {FileSystemEntry[]} */
    const batch = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
    if (batch.length === 0) return all;
    all.push(...batch);
  }
}
