// Runs all page tests, several files at once: `node tests/page/run.mjs`. A worker process runs one file after the other with one browser,
// which starts once and compiles the page's modules once, and takes the next file when it is done with one.
//
//   GPUPRISM_PAGE_WORKERS=1 node tests/page/run.mjs timeline view    runs these files with one worker
//   node --test tests/page/view.test.mjs                             runs a single file

import { fork } from 'node:child_process';
import { readdirSync, statSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath, pathToFileURL } from 'node:url';

const folder = dirname(fileURLToPath(import.meta.url));
/** Tests wait for the browser for part of the time. */
const WORKERS = Number(process.env.GPUPRISM_PAGE_WORKERS ?? Math.min(availableParallelism() + 1, 4));
/** It sets the engine for its whole process. */
const APART = ['firefox.test.mjs'];

if (process.send) work();
else await direct();

/** Hands out the files, the largest first, so that none is left over at the end. */
async function direct() {
  const names = process.argv.slice(2).map((name) => `${name}.test.mjs`);
  const all = readdirSync(folder).filter((name) => name.endsWith('.test.mjs'));
  const files = names.length > 0 ? names : all.sort((a, b) => statSync(join(folder, b)).size - statSync(join(folder, a)).size);
  const apart = files.filter((name) => APART.includes(name));
  const together = files.filter((name) => !APART.includes(name));
  const count = Math.min(WORKERS, together.length);
  const statuses = await Promise.all([...Array.from({ length: count }, () => startWorker(together)), ...apart.map((name) => startWorker([name]))]);
  if (statuses.some((status) => status !== 0)) process.exitCode = 1;
}

/** Starts a worker that takes files until there are none. Its output is printed at its end. What a failed test left open must not keep it.
 * @param {string[]} files */
function startWorker(files) {
  const child = fork(fileURLToPath(import.meta.url), [], { execArgv: ['--test-reporter=spec', '--test-force-exit'], silent: true });
  const output = [];
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (text) => output.push(text));
  const times = { file: '', since: 0 };
  child.on('message', () => {
    const now = performance.now();
    if (times.file) console.log(`${times.file}: ${((now - times.since) / 1000).toFixed(1)} s`);
    [times.file, times.since] = [files.shift() ?? '', now];
    child.send(times.file);
  });
  return new Promise((done) => {
    child.on('close', (status) => {
      console.log(Buffer.concat(output).toString());
      done(status);
    });
  });
}

/** Runs the files that the director sends. Between two files a test that waits for the next one keeps the run of the process open. */
function work() {
  let take = waitForNext('start');
  process.on('message', async (name) => {
    const go = take;
    if (name) {
      await import(pathToFileURL(join(folder, name)).href);
      take = waitForNext(`end of ${name}`);
    } else process.disconnect();
    go();
  });
}

/** Registers a test behind those of the files so far, which asks for the next file and ends when the returned function is called. */
function waitForNext(title) {
  let go;
  const isTaken = new Promise((done) => void (go = done));
  test(title, () => {
    process.send('next');
    return isTaken;
  });
  return go;
}
