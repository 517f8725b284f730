// The ways a file comes in: dropped anywhere on the window, chosen, or the example.

import { byId } from './dom.js';

/** `onFiles(files)` is called with each batch; `onProblem(title, message, severity)` when there is something to say of it. */
export function wireIntake(onFiles, onProblem) {
  wireDrop(onFiles, onProblem);
  const chooser = byId('files');
  for (const id of ['choose', 'add']) byId(id).addEventListener('click', () => chooser.click());
  chooser.addEventListener('change', () => {
    onFiles([...chooser.files]);
    chooser.value = '';
  });
  byId('example').addEventListener('click', async () => {
    try {
      onFiles([await fetchExample()]);
    } catch (problem) {
      onProblem('The example could not be loaded', problem.message);
    }
  });
}

function wireDrop(onFiles, onProblem) {
  // dragenter and dragleave fire for every element on the way, so they are counted.
  let depth = 0;
  const show = () => document.body.classList.toggle('dragging', depth > 0);
  const hasFiles = ({ dataTransfer }) => [...(dataTransfer?.types ?? [])].includes('Files');
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
    if (!hasFiles(event)) return;
    event.preventDefault();
    // The entries are gone once the event is over.
    const entries = [...event.dataTransfer.items].map((item) => item.webkitGetAsEntry?.());
    if (entries.some((entry) => entry?.isDirectory)) openFolders(entries.filter(Boolean), onFiles, onProblem);
    else onFiles([...event.dataTransfer.files]);
  });
}

async function openFolders(entries, onFiles, onProblem) {
  try {
    const { filesOf } = await import('./folder.js');
    onFiles(await filesOf(entries, (message) => onProblem('Of the folder', message, 'info')));
  } catch (problem) {
    onProblem('The folder could not be read', problem.message);
  }
}

async function fetchExample() {
  const name = 'example.json.gz';
  const response = await fetch(new URL(name, import.meta.url));
  if (!response.ok) throw new Error(`${name}: the server answered ${response.status}`);
  return new File([await response.blob()], name);
}
