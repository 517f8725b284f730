// In Firefox and in WebKit (the engine of Safari) traces and exports are read and every tab has content. A page frames the built one,
// drops a file on it and reports what it shows. Without such a browser the tests are skipped. `firefox.test.mjs` has the gestures.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { cp, mkdtemp, readFile, readdir, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import * as h from './harness.mjs';

const first = (paths) => paths.find((path) => path && existsSync(path));
const webkit = first([process.env.WEBKIT_BROWSER, ...['4.1', '6.0'].map((version) => `/usr/lib/x86_64-linux-gnu/webkit2gtk-${version}/MiniBrowser`)]);
const screen = first(['/usr/bin/xvfb-run']);

/** The browsers: why one is missing, or how to start it with an empty `profile` at `address`. */
const ENGINES = {
  Firefox: {
    lacks: h.lacksFirefox,
    start: (profile, address) => spawn(h.firefoxPath, ['--headless', '--no-remote', '--profile', profile, address], { stdio: 'ignore' }),
  },
  WebKit: {
    lacks: !(webkit && screen) && 'no WebKit: install xvfb and a MiniBrowser, and name the latter in WEBKIT_BROWSER',
    // It has no headless mode, and its sandbox does not work for root.
    start: (profile, address) => spawn(screen, ['-a', webkit, '--private', address], {
      stdio: 'ignore',
      detached: true,
      env: { ...process.env, HOME: profile, WEBKIT_DISABLE_SANDBOX_THIS_IS_DANGEROUS: '1' },
    }),
  },
};

/** Runs in the browser: opens the page, drops the file and opens every tab. */
async function drive(name, reportTo) {
  const result = { verdict: '', facts: '', tabs: {}, errors: [] };
  const until = async (what, found) => {
    for (const end = Date.now() + 60_000; !found();) {
      if (Date.now() > end) throw new Error(`waited in vain for ${what}`);
      await new Promise((done) => setTimeout(done, 50));
    }
  };
  try {
    const frame = document.body.appendChild(document.createElement('iframe'));
    Object.assign(frame, { width: 1200, height: 800, src: 'index.html' });
    await until('the page', () => frame.contentDocument?.querySelector('html[data-simd]'));
    const [page, find] = [frame.contentWindow, (selector) => frame.contentDocument.querySelector(selector)];
    // A resize observer that cannot deliver in one frame delivers in the next. Browsers report this as an error, but it is none.
    page.addEventListener('error', ({ message }) => message.startsWith('ResizeObserver loop') || result.errors.push(message));
    const dataTransfer = new page.DataTransfer();
    dataTransfer.items.add(new page.File([await (await fetch(name)).arrayBuffer()], name));
    for (const type of ['dragenter', 'dragover', 'drop']) page.document.body.dispatchEvent(new page.DragEvent(type, { dataTransfer, bubbles: true, cancelable: true }));
    await until('results', () => find('#results[aria-busy=false]:not([hidden]) .block table') && find('#analyzing').textContent === '');
    // The complete results are drawn shortly after they arrive.
    let [verdict, since] = ['', 0];
    await until('a verdict that stays', () => {
      const now = find('#verdict').textContent;
      if (now !== verdict) [verdict, since] = [now, Date.now()];
      return Date.now() - since > 1_000;
    });
    Object.assign(result, { verdict: find('#verdict').textContent, facts: find('.run-facts').textContent });
    for (const { id } of [...page.document.querySelectorAll('[role=tab], #more button')]) {
      find(`#${id}`).click();
      const chosen = id.replace(/^more-/, 'tab-');
      await until(id, () => find(`#${chosen}[aria-selected=true]`) && find('#panel').innerText.trim() !== '');
      await new Promise((done) => setTimeout(done, 500));
      result.tabs[chosen] = find('#panel').innerText.length;
    }
    result.errors.push(...[...page.document.querySelectorAll('.card.error')].map((card) => card.innerText));
  } catch (error) {
    result.errors.push(String(error));
  }
  await fetch(reportTo, { method: 'POST', mode: 'no-cors', body: JSON.stringify(result) });
}

/** The content of the page in the browser: {verdict, facts, tabs, errors}. */
async function shownBy({ start }, { name, body }) {
  const folder = await mkdtemp(join(tmpdir(), 'gpuprism-engine-'));
  const profile = await mkdtemp(join(tmpdir(), 'gpuprism-profile-'));
  let hear;
  const heard = new Promise((done) => (hear = done));
  const ear = await h.listen(createServer(async (request, response) => {
    let text = '';
    for await (const chunk of request) text += chunk;
    response.end();
    hear(JSON.parse(text));
  }));
  await cp(h.dist, folder, { recursive: true });
  await writeFile(join(folder, name), body);
  await writeFile(join(folder, 'drive.html'), `<!doctype html><title>drive</title><body><script>(${drive})(${JSON.stringify(name)}, ${JSON.stringify(ear.origin)})</script>`);
  const server = await h.servePage({ folder });
  const running = start(profile, `${server.origin}/drive.html`);
  try {
    const late = new Promise((_, failed) => setTimeout(() => failed(new Error('no answer of the browser within two minutes')), 120_000).unref());
    return await Promise.race([heard, late]);
  } finally {
    end(running);
    await Promise.all([server.close(), ear.close(), rm(folder, { recursive: true })]);
    await rm(profile, { recursive: true, force: true, maxRetries: 5 });
  }
}

/** Kills the process and, if it leads a process group, the whole group. */
function end({ pid, spawnargs }) {
  process.kill(spawnargs[0] === screen ? -pid : pid, 'SIGKILL');
}

async function assertRead(engine, file) {
  const result = await shownBy(engine, file);
  const { stdout } = await h.commandLine(['report', file.name], [file]);
  const native = stdout.toString().replace(/\s+/g, ' ');
  assert.deepEqual(result.errors, []);
  assert.notEqual(result.verdict, '');
  assert.ok(native.startsWith(result.verdict), `${result.verdict} is not in the output of the command line`);
  assert.ok(native.includes(result.facts), result.facts);
  for (const tab of ['tab-timeline', 'tab-kernels', 'tab-host', 'tab-dashboard', 'tab-rules']) assert.ok(result.tabs[tab] > 0, `${tab} in ${JSON.stringify(result.tabs)}`);
}

for (const [name, engine] of Object.entries(ENGINES)) {
  test(`${name} reads a torch trace`, { skip: engine.lacks }, () => assertRead(engine, h.kineto('server.json', h.SERVER_OPS)));

  test(`${name} reads an Nsight Systems export`, { skip: engine.lacks }, async () => {
    const folder = await mkdtemp(join(tmpdir(), 'gpuprism-exports-'));
    await h.writeNsysExport(join(folder, 'small.sqlite'), 0.01);
    const body = await readFile(join(folder, 'small.sqlite'));
    await rm(folder, { recursive: true });
    await assertRead(engine, { name: 'small.sqlite', body });
  });
}

test('no script of a worker has a static import: worker-src forbids it in Firefox', async () => {
  const scripts = (await readdir(h.dist)).filter((name) => /(^|-)worker(-serve)?\.js$|^reading\.js$/.test(name) && name !== 'service-worker.js');
  assert.ok(scripts.includes('worker.js') && scripts.includes('tools-worker.js'), scripts.join());
  for (const name of scripts) assert.doesNotMatch(await readFile(join(h.dist, name), 'utf8'), /^(import|export)\b[^(]*\bfrom\b/m, name);
});
