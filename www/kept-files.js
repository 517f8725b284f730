// Copies of the open files in the browser's own file system (OPFS), which a reload opens again. Only if the person agreed, which is off by
// default; without that all copies are deleted. Each tab has a folder. An open file may have been read from its copy, so the copy of a
// closed file is deleted after the next reload, also if it was the last one.

import { readStored, store } from './storage.js';

/** A copy: the name of the file, and of its copy in the folder. @typedef {{ name: string, place: string }} Copy */

const AGREED_KEY = 'gpuprism:keep-files';
const FOLDER = 'gpuprism-open-files';
/** The list of the copies. It is written last, so that an incomplete copy is never used. */
const LIST = 'list.json';
/** The copies of a tab that was closed are deleted after this time. */
const MAX_AGE_MS = 7 * 86_400_000;

/** Where the copy of a file is. @type {WeakMap<File, string>} */
let places = new WeakMap();

/** Whether the browser can keep copies. */
export const canKeep = () => typeof navigator.storage?.getDirectory === 'function' && 'createWritable' in FileSystemFileHandle.prototype;

export const isKeeping = () => canKeep() && readStored(AGREED_KEY) !== null;

/** Agrees, or deletes all copies. Resolves with false if the browser refuses. @param {boolean} isAgreed */
export async function setKeeping(isAgreed) {
  const isStored = store(AGREED_KEY, isAgreed ? 'yes' : '');
  if (!isAgreed) await deleteAll();
  return isStored;
}

/** Deletes all copies. One that is being written is deleted when its writing has ended, see `keep`. */
export async function deleteAll() {
  places = new WeakMap();
  await (await navigator.storage.getDirectory()).removeEntry(FOLDER, { recursive: true }).catch(() => {});
}

/** Deletes the copies of a tab. @param {string} tab */
export async function forget(tab) {
  await (await allFolders()).removeEntry(tab, { recursive: true }).catch(() => {});
}

const allFolders = async () => (await navigator.storage.getDirectory()).getDirectoryHandle(FOLDER, { create: true });

/** Copies the files of a tab that have no copy. Stops when `isCurrent()` is false. @param {string} tab @param {File[]} files @param {() => boolean} isCurrent */
export async function keep(tab, files, isCurrent) {
  const folders = await allFolders();
  await removeOld(folders, tab);
  const folder = await folders.getDirectoryHandle(tab, { create: true });
  for (const file of files) {
    if (places.has(file)) continue;
    const place = crypto.getRandomValues(new Uint32Array(4)).join('-');
    await write(folder, place, file);
    if (!isKeeping()) return deleteAll();
    places.set(file, place);
    if (!isCurrent()) return;
  }
  const copies = files.map((file) => ({ name: file.name, place: places.get(file) }));
  await write(folder, LIST, new Blob([JSON.stringify(copies)]));
}

/** @param {FileSystemDirectoryHandle} folder @param {string} name @param {Blob} content */
async function write(folder, name, content) {
  const writable = await (await folder.getFileHandle(name, { create: true })).createWritable();
  await content.stream().pipeTo(writable);
}

/** @param {FileSystemDirectoryHandle} folder @param {string} name */
const read = async (folder, name) => (await folder.getFileHandle(name)).getFile();

/** Deletes the copies of tabs that were closed long ago. @param {FileSystemDirectoryHandle} folders @param {string} own */
async function removeOld(folders, own) {
  for (const name of await namesIn(folders)) {
    const list = name === own ? null : await read(await folders.getDirectoryHandle(name), LIST).catch(() => ({ lastModified: 0 }));
    if (list && Date.now() - list.lastModified > MAX_AGE_MS) await folders.removeEntry(name, { recursive: true }).catch(() => {});
  }
}

/** @param {FileSystemDirectoryHandle} folder */
async function namesIn(folder) {
  const names = [];
  for await (const name of folder.keys()) names.push(name);
  return names;
}

/** The files of a tab, read from their copies; null if these are not the copies of files with these names. Deletes copies of other files.
 * @param {string} tab @param {string[]} names */
export async function keptFiles(tab, names) {
  try {
    const folder = await (await allFolders()).getDirectoryHandle(tab);
    /** @type {Copy[]} */
    const copies = JSON.parse(await (await read(folder, LIST)).text());
    const used = [LIST, ...copies.map(({ place }) => place)];
    for (const name of await namesIn(folder)) if (!used.includes(name)) await folder.removeEntry(name);
    if (copies.map(({ name }) => name).join('\n') !== names.join('\n')) return null;
    return await Promise.all(copies.map(async ({ name, place }) => {
      const file = new File([await read(folder, place)], name);
      places.set(file, place);
      return file;
    }));
  } catch {
    return null;
  }
}
