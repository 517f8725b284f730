// A folder that was dropped: its files, and of a profile's the traces and settings that are worth opening. It is fetched
// when a person first drops a folder.

import { WorkerLink, compiledModule } from './worker-link.js';

/** More than any profile has; a home folder dropped by mistake ends here. */
const MOST_FILES = 5000;
const DEEPEST = 8;

/** Files that open by themselves, where a folder holds no torch trace. */
const OTHERS = /\.(sqlite|csv|json)(\.gz)?$/i;

/** The files to open of these entries of folders and files; `tell(message)` hears what was not opened, and why. */
export async function filesOf(entries, tell) {
  const files = [];
  const whole = await gather(entries, files, 0);
  if (!whole) tell(`only ${MOST_FILES} files were looked at, ${DEEPEST} folders deep.`);
  const { open, aside } = await choose(files);
  if (open.length === 0) return others(files);
  if (aside.length > 0) tell(`set aside: ${aside.join('; ')}. Drop a file by itself to open it.`);
  return open.map((at) => files[at]);
}

function others(files) {
  const open = files.filter(({ name }) => OTHERS.test(name));
  if (open.length === 0) throw new Error('there is no trace in it, and no report or export of one.');
  return open;
}

/** Adds the files below, each under its path; resolves with false where there are more. */
async function gather(entries, files, depth) {
  let whole = true;
  for (const entry of entries) {
    if (files.length >= MOST_FILES || depth > DEEPEST) return false;
    if (entry.isFile) files.push(await named(entry));
    else whole = await gather(await children(entry), files, depth + 1) && whole;
  }
  return whole;
}

async function named(entry) {
  const file = await new Promise((done, failed) => entry.file(done, failed));
  return new File([file], entry.fullPath.replace(/^\//, ''), { lastModified: file.lastModified });
}

/** A reader hands over a hundred at a time. */
async function children(folder) {
  const reader = folder.createReader();
  const all = [];
  for (;;) {
    const some = await new Promise((done, failed) => reader.readEntries(done, failed));
    if (some.length === 0) return all;
    all.push(...some);
  }
}

async function choose(files) {
  const link = new WorkerLink('triage-worker.js');
  try {
    const entries = files.map(({ name, size, lastModified }) => ({ path: name, bytes: size, modified: lastModified }));
    return await link.request('choose', { module: await compiledModule('gpuprism_full'), entries });
  } finally {
    link.close();
  }
}
