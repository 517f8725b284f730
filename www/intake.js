// Opens files that are dropped or chosen, and the example.

import { showPageProblem } from './cards.js';
import { byId, present } from './dom.js';
import { asProblem } from './problem.js';

/** @import { Page } from './types.js' */

/** The handles of files, with which they can be opened again after a reload; null where the browser gives none.
 * @type {WeakMap<File, Promise<FileSystemHandle | null>>} */
export const handles = new WeakMap();

/** Files that are not the person's: the example and the report of a link. @type {WeakSet<File>} */
export const madeByPage = new WeakSet();

/** @param {Page} page */
export function wireIntake(page) {
  wireDrop(page);
  const chooser = byId('files');
  for (const id of ['choose', 'add']) byId(id).addEventListener('click', () => choose(page));
  chooser.addEventListener('change', () => {
    page.openFiles([...(chooser.files ?? [])]);
    chooser.value = '';
  });
  byId('example').addEventListener('click', async () => {
    try {
      page.openFiles([await fetchExample()]);
    } catch (problem) {
      showPageProblem('The example could not be loaded', asProblem(problem).message);
    }
  });
}

/** Lets the person choose files: with handles, where the browser has them. @param {Page} page */
export async function choose(page) {
  // While the person looks for a file. Then the module with all tables reads it, and the first, smaller one need not.
  page.session.prepare();
  try {
    if (!self.showOpenFilePicker) throw new Error('no handles');
    const chosen = await self.showOpenFilePicker({ multiple: true });
    const files = await Promise.all(chosen.map((handle) => handle.getFile()));
    files.forEach((file, index) => handles.set(file, Promise.resolve(chosen[index])));
    page.openFiles(files);
  } catch (problem) {
    // Nothing was chosen. A page in a frame of another one may not ask like this.
    if (!(problem instanceof DOMException) || problem.name !== 'AbortError') byId('files').click();
  }
}

/** @param {Page} page */
function wireDrop(page) {
  // dragenter and dragleave fire for every element that the pointer crosses, so they are counted.
  let depth = 0;
  const show = () => document.body.classList.toggle('dragging', depth > 0);
  const hasFiles = (/** @type {DragEvent} */ { dataTransfer }) => Boolean(dataTransfer?.types.includes('Files'));
  addEventListener('dragenter', (event) => {
    if (hasFiles(event)) {
      depth += 1;
      // As in `choose`: while the person moves the files.
      page.session.prepare();
    }
    show();
  });
  addEventListener('dragleave', (event) => {
    if (hasFiles(event)) depth = Math.max(0, depth - 1);
    show();
  });
  addEventListener('dragover', (event) => {
    if (hasFiles(event)) event.preventDefault();
  });
  addEventListener('drop', (event) => {
    depth = 0;
    show();
    const { dataTransfer } = event;
    // A part of the page may have taken the files.
    if (!dataTransfer || !hasFiles(event) || event.defaultPrevented) return;
    event.preventDefault();
    // The entries are gone after the event.
    const items = [...dataTransfer.items];
    const entries = present(items.map((item) => item.webkitGetAsEntry?.()));
    if (entries.some(({ isDirectory }) => isDirectory)) openFolders(entries, page);
    else {
      const files = [...dataTransfer.files];
      const ofFiles = items.filter(({ kind }) => kind === 'file');
      files.forEach((file, index) => handles.set(file, ofFiles[index]?.getAsFileSystemHandle?.().catch(() => null) ?? Promise.resolve(null)));
      page.openFiles(files);
    }
  });
}

/** @param {FileSystemEntry[]} entries @param {Page} page */
async function openFolders(entries, { openFiles, requestTool }) {
  try {
    const { chooseFiles } = await import('./folder.js');
    const { files, captures } = await chooseFiles(entries, requestTool, (message) => showPageProblem('Files of the folder', message, 'info'));
    openFiles(files, captures);
  } catch (problem) {
    showPageProblem('The folder could not be read', asProblem(problem).message);
  }
}

async function fetchExample() {
  const name = 'example.json.gz';
  const response = await fetch(new URL(name, import.meta.url));
  if (!response.ok) throw new Error(`${name}: the server answered ${response.status}`);
  const file = new File([await response.blob()], name);
  madeByPage.add(file);
  return file;
}
