// Opens files that are dropped or chosen, and the example.

import { showPageProblem } from './cards.js';
import { byId, present } from './dom.js';
import { asProblem } from './problem.js';

/** @import { Page } from './types.js' */

/** @param {Page} page */
export function wireIntake(page) {
  wireDrop(page);
  const chooser = byId('files');
  for (const id of ['choose', 'add']) byId(id).addEventListener('click', () => chooser.click());
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

/** @param {Page} page */
function wireDrop(page) {
  // dragenter and dragleave fire for every element that the pointer crosses, so they are counted.
  let depth = 0;
  const show = () => document.body.classList.toggle('dragging', depth > 0);
  const hasFiles = (/** @type {DragEvent} */ { dataTransfer }) => Boolean(dataTransfer?.types.includes('Files'));
  addEventListener('dragenter', (event) => {
    if (hasFiles(event)) depth += 1;
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
    if (!dataTransfer || !hasFiles(event)) return;
    event.preventDefault();
    // The entries are gone after the event.
    const entries = present([...dataTransfer.items].map((item) => item.webkitGetAsEntry?.()));
    if (entries.some(({ isDirectory }) => isDirectory)) openFolders(entries, page);
    else page.openFiles([...dataTransfer.files]);
  });
}

/** @param {FileSystemEntry[]} entries @param {Page} page */
async function openFolders(entries, { openFiles, requestTool }) {
  try {
    const { chooseFiles } = await import('./folder.js');
    openFiles(await chooseFiles(entries, requestTool, (message) => showPageProblem('Files of the folder', message, 'info')));
  } catch (problem) {
    showPageProblem('The folder could not be read', asProblem(problem).message);
  }
}

async function fetchExample() {
  const name = 'example.json.gz';
  const response = await fetch(new URL(name, import.meta.url));
  if (!response.ok) throw new Error(`${name}: the server answered ${response.status}`);
  return new File([await response.blob()], name);
}
