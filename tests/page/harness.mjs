// Shared by the page tests: a static server for the built page, a browser, ways to drop files, and the command line, whose results the page
// must equal.

import { execFile } from 'node:child_process';
import { createServer } from 'node:http';
import { existsSync } from 'node:fs';
import { mkdtemp, readFile, readdir, rm, writeFile } from 'node:fs/promises';
import { after } from 'node:test';
import { tmpdir } from 'node:os';
import { dirname, extname, join, normalize, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { chromium, firefox } from 'playwright-core';

export const root = resolve(fileURLToPath(import.meta.url), '../../..');
export const dist = resolve(root, process.env.GPUPRISM_DIST ?? 'dist');
const recorded = resolve(root, '../shared/traces');
export const traces = join(recorded, 'torch');
export const nsysExports = join(recorded, 'nsys');
/** Why tests of recorded traces are skipped, or false. If the folder is there, a missing file is a failure. */
export const noTraces = !existsSync(recorded) && 'no recorded traces';

const MIME = {
  '.html': 'text/html; charset=utf-8', '.js': 'text/javascript; charset=utf-8', '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml', '.wasm': 'application/wasm', '.gz': 'application/gzip', '.json': 'application/json',
};

/**
 * Serves the built page like a static host, at the root or under a path. `requests` lists the requested paths, and `sent` the method,
 * query and body size of each request.
 */
export async function servePage({ under = '', folder = dist, port = 0 } = {}) {
  if (!existsSync(join(folder, 'index.html'))) throw new Error(`no page in ${folder}: build it, or name it in GPUPRISM_DIST`);
  const requests = [];
  const sent = [];
  const server = createServer(async (request, response) => {
    const { pathname, search } = new URL(request.url, 'http://host');
    const path = normalize(decodeURIComponent(pathname)).replace(/\/$/, '/index.html');
    requests.push(path);
    const heard = { path, method: request.method, search, body: 0 };
    sent.push(heard);
    request.on('data', (chunk) => void (heard.body += chunk.length));
    try {
      if (!path.startsWith(under)) throw new Error('elsewhere');
      const body = await readFile(join(folder, path.slice(under.length)));
      response.writeHead(200, { 'content-type': MIME[extname(path)] ?? 'application/octet-stream' });
      response.end(body);
    } catch {
      response.writeHead(404).end();
    }
  });
  return { ...(await listen(server, port)), requests, sent };
}

/** The paths of all files of the built page, such as `/results.js`: what it may ask its server for. */
export const filesOfPage = async () => new Set((await readdir(dist, { recursive: true })).map((name) => `/${name}`));

/** Another origin that answers all requests and records them. */
export async function serveForeign() {
  const requests = [];
  const server = createServer(({ url }, response) => {
    requests.push(url);
    response.writeHead(200, { 'access-control-allow-origin': '*', 'content-type': 'text/javascript' });
    response.end('export default 1;');
  });
  return { ...(await listen(server)), requests };
}

export async function listen(server, port = 0) {
  await new Promise((done) => server.listen(port, '127.0.0.1', done));
  const close = () => new Promise((done) => {
    server.close(done);
    server.closeAllConnections();
  });
  return { origin: `http://127.0.0.1:${server.address().port}`, close };
}

export function launch(...more) {
  return chromium.launch({
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    // All pages of a context share a process, and with it the compiled WebAssembly: see `lendContext`.
    args: ['--no-sandbox', '--disable-gpu', '--disable-background-networking', '--process-per-site', ...more],
  });
}

/** The path of Firefox, if there is one. */
export const firefoxPath = [process.env.FIREFOX, '/usr/bin/firefox-esr', '/usr/bin/firefox', '/Applications/Firefox.app/Contents/MacOS/firefox'].find((path) => path && existsSync(path));

/** Why tests cannot run in Firefox, or false. */
export const lacksFirefox = !firefoxPath && 'no Firefox: name it in FIREFOX';

/** The folders into which Firefoxes save: a stock Firefox does not tell Playwright of a download. */
const firefoxDownloads = new WeakMap();

/** A stock Firefox, driven by WebDriver BiDi. */
export async function launchFirefox() {
  const downloadsPath = await mkdtemp(join(tmpdir(), 'gpuprism-downloads-'));
  const browser = await firefox.launch({
    channel: 'moz-firefox',
    executablePath: firefoxPath,
    downloadsPath,
  });
  firefoxDownloads.set(browser, downloadsPath);
  // Playwright sends every new context a command that Firefox up to 153 does not know, even if no colour scheme is asked for.
  const session = browser._connection.toImpl(browser)._browserSession;
  const send = session.send.bind(session);
  session.send = (method, params) => (method === 'emulation.setMediaFeaturesOverride' ? Promise.resolve({}) : send(method, params));
  return browser;
}

/** The engine that drives the tests of a file: Chromium, or Firefox if GPUPRISM_ENGINE names it. */
export const isFirefox = process.env.GPUPRISM_ENGINE === 'firefox';

/** @type {Promise<import('playwright-core').Browser> | null} */
let shared = null;

/** The browser of all test files of this process. It ends with the last test. */
export function lendBrowser() {
  if (shared) return shared;
  shared = isFirefox ? launchFirefox() : launch();
  after(async () => {
    const browser = await shared;
    await browser.close();
    if (isFirefox) await rm(firefoxDownloads.get(browser), { recursive: true, force: true });
  });
  return shared;
}

/** A browser and a server of the built page (or of `folder`) for all tests of a file; both end with the last test. */
export async function lend(options) {
  const [browser, server] = await Promise.all([lendBrowser(), servePage(options)]);
  after(() => server.close());
  return { browser, server };
}

/** False for what Firefox reports as an error and Chromium does not: the style of Playwright's pictures, which the page's policy blocks, and a
 * resize observer that delivers in the next frame. */
const isOwnFault = (text) => !(isFirefox && /inline style|ResizeObserver loop/.test(text));

/** Browser contexts that no test uses now, by browser. */
const idleContexts = new WeakMap();

/**
 * A browser context without stored data that no other test uses now. `giveBack` closes its pages and deletes what they stored, so that the
 * next test finds it as new. A hidden page stays open in it and holds the modules: what a browser compiles of a module is used again by all
 * pages of the process, which halves the time until results are shown.
 */
async function lendContext(browser, origin) {
  const idle = idleContexts.get(browser) ?? [];
  idleContexts.set(browser, idle);
  const context = idle.pop() ?? await newContext(browser, origin);
  const [keeper] = context.pages();
  const origins = new Set([origin]);
  const note = (frame) => /^http/.test(frame.url()) && origins.add(new URL(frame.url()).origin);
  const watch = (page) => page.on('framenavigated', note);
  context.on('page', watch);
  return { context, async giveBack() {
    context.off('page', watch);
    await Promise.all(context.pages().filter((page) => page !== keeper).map((page) => page.close()));
    await Promise.all([context.clearPermissions(), context.clearCookies(), context.unrouteAll({ behavior: 'ignoreErrors' })]);
    context.removeAllListeners('request');
    const session = await context.newCDPSession(keeper);
    for (const origin of origins) await session.send('Storage.clearDataForOrigin', { origin, storageTypes: 'all' });
    await session.detach();
    idle.push(context);
  } };
}

const CONTEXT = { acceptDownloads: true, serviceWorkers: 'block', viewport: { width: 1280, height: 900 } };

async function newContext(browser, origin) {
  const context = await browser.newContext(CONTEXT);
  await context.addInitScript(countRequests);
  const keeper = await context.newPage();
  await keeper.route('**/*', async (route) => {
    const { pathname } = new URL(route.request().url());
    const isModule = pathname.endsWith('.wasm');
    await route.fulfill(isModule ? { contentType: MIME['.wasm'], body: await readFile(join(dist, pathname)) } : { contentType: MIME['.html'], body: '' });
  });
  await keeper.goto(`${origin}/keeper`);
  await keeper.evaluate(async () => {
    const modules = ['gpuprism', 'gpuprism_full'].map((stem) => WebAssembly.compileStreaming(fetch(`/pkg/${stem}_bg.wasm`)));
    window.kept = await Promise.all(modules);
  });
  return context;
}

/** A page without stored data, ready for files; `faults` collects its errors and dialogs. */
export async function openPage(browser, origin, fragment = '') {
  const { context, giveBack } = isFirefox ? await ownContext(browser) : await lendContext(browser, origin);
  const page = await context.newPage();
  watchLoads(page);
  const faults = [];
  page.on('pageerror', (error) => isOwnFault(String(error)) && faults.push(String(error)));
  page.on('dialog', (dialog) => {
    faults.push(`dialog: ${dialog.message()}`);
    dialog.dismiss();
  });
  await page.goto(`${origin}/${fragment}`);
  await page.locator('html[data-simd]').waitFor({ state: 'attached' });
  // The hidden frame that registers a service worker has been removed.
  await page.locator('meta[content="frame-src \'none\'"]').waitFor({ state: 'attached' });
  return { page, faults, close: giveBack };
}

/** A new context for every page: Firefox shares nothing between them. */
async function ownContext(browser) {
  const context = await browser.newContext(CONTEXT);
  return { context, giveBack: () => context.close() };
}

/** In the page: counts the requests to its workers that have no answer yet, in `window.unanswered`. */
function countRequests() {
  if (window.unanswered) return;
  const unanswered = new Map();
  window.unanswered = unanswered;
  const { postMessage, terminate } = Worker.prototype;
  Worker.prototype.postMessage = function counted(message, ...more) {
    // A rehearsal runs until a file is there.
    if (message?.id && message.op !== 'rehearse') {
      if (!unanswered.has(this)) {
        unanswered.set(this, new Set());
        this.addEventListener('message', ({ data }) => data.progress === undefined && unanswered.get(this)?.delete(data.id));
        this.addEventListener('error', () => unanswered.delete(this));
      }
      unanswered.get(this).add(message.id);
    }
    return postMessage.call(this, message, ...more);
  };
  Worker.prototype.terminate = function counted() {
    unanswered.delete(this);
    return terminate.call(this);
  };
}

/** The scripts, styles and modules that a page is loading. */
const loading = new WeakMap();

function watchLoads(page) {
  const requests = new Set();
  loading.set(page, requests);
  const isCode = (request) => ['script', 'stylesheet'].includes(request.resourceType()) || request.url().endsWith('.wasm');
  page.on('request', (request) => isCode(request) && requests.add(request));
  for (const end of ['requestfinished', 'requestfailed']) page.on(end, (request) => requests.delete(request));
  page.on('framenavigated', (frame) => frame === page.mainFrame() && requests.clear());
}

/**
 * Waits until the page has nothing left to do: no request to a worker is unanswered, no script is being loaded, and frames were drawn since.
 * Not for a page in which something waits for a time to pass.
 */
export async function quiet(page) {
  await page.evaluate(countRequests);
  for (const end = Date.now() + 60_000; Date.now() < end;) {
    await page.evaluate(() => void (window.calmFrames = 0));
    await page.waitForFunction(() => {
      const open = [...window.unanswered.values()].some((ids) => ids.size > 0) || window.tap?.isHolding > 0;
      window.calmFrames = open ? 0 : window.calmFrames + 1;
      return window.calmFrames > 3;
    });
    if ((loading.get(page)?.size ?? 0) === 0) return;
  }
  throw new Error(`still loading ${[...loading.get(page)].map((request) => request.url())}`);
}

/** Waits until the page has drawn what it has. */
export const frames = (page) => page.evaluate(() => new Promise((done) => {
  requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done)));
}));

/** Waits until a condition holds that no page can watch. @param {() => boolean | Promise<boolean>} isTrue */
export async function until(isTrue, what) {
  for (const end = Date.now() + 30_000; Date.now() < end;) {
    if (await isTrue()) return;
    await new Promise((done) => setTimeout(done, 50));
  }
  throw new Error(`not within 30 s: ${what}`);
}

/**
 * Intercepts the requests of the page to its workers, as `window.tap`. `requests[name]` has the requests {worker, args}; `delays[name]`
 * is a delay in milliseconds, Infinity until `release()` is called. The name is that of the operation; an analysis without sections is
 * `first`.
 */
export const tapWorkers = (page, delays = {}) => page.evaluate((delays) => {
  const { postMessage } = Worker.prototype;
  const tap = { requests: {}, delays, release() {}, isHolding: 0 };
  const nameOf = ({ op, args }) => (op === 'analyze' && args.isPartialFirst ? 'first' : op);
  Worker.prototype.postMessage = function tapped(message, ...more) {
    const name = nameOf(message);
    (tap.requests[name] ??= []).push({ worker: this, args: message.args });
    const send = () => postMessage.call(this, message, ...more);
    if (tap.delays[name] === Infinity) tap.release = send;
    else if (tap.delays[name]) {
      // `quiet` waits for it.
      tap.isHolding += 1;
      setTimeout(() => {
        tap.isHolding -= 1;
        send();
      }, tap.delays[name]);
    } else send();
  };
  window.tap = tap;
}, delays);

/** A sentence as the page shows it: without the backticks around commands, which it formats as code. */
export const unquoted = (text) => text.replaceAll('`', '');

/** The text of a message without the buttons that copy its commands. */
export const sentenceOf = (message) => message.evaluate((node) => {
  const copy = node.cloneNode(true);
  for (const button of copy.querySelectorAll('button')) button.remove();
  return copy.textContent.trim();
});

/** The figures in these nodes that are on another line than their unit at some width. */
export const brokenFigures = (page, selector) => page.locator(selector).evaluateAll((nodes) => nodes.flatMap((node) => {
  const places = [];
  const walker = document.createTreeWalker(node, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) places.push(...[...walker.currentNode.data].map((_, at) => [walker.currentNode, at]));
  const figures = [...node.textContent.matchAll(/\d[\d.,]* (?:%|[mun]?s|GB)(?![A-Za-z])/g)];
  const isBroken = ({ index, 0: { length } }) => {
    const range = document.createRange();
    range.setStart(...places[index]);
    range.setEnd(places[index + length - 1][0], places[index + length - 1][1] + 1);
    return new Set([...range.getClientRects()].map(({ top }) => Math.round(top))).size > 1;
  };
  const broken = new Set();
  for (let width = 160; width < 400; width += 4) {
    node.style.width = `${width}px`;
    figures.filter(isBroken).forEach(([figure]) => broken.add(figure));
  }
  node.style.width = '';
  return [...broken];
}));

/** Drops files, given as {name, body: Buffer}, together on the window. */
export async function drop(page, ...files) {
  const parts = files.map(({ name, body }) => ({ name, base64: Buffer.from(body).toString('base64') }));
  await page.evaluate((list) => {
    const dataTransfer = new DataTransfer();
    for (const { name, base64 } of list) {
      // Firefox before 133 and Chromium before 140 lack it. A call for each byte takes seconds for a recorded trace.
      const bytes = Uint8Array.fromBase64?.(base64) ?? Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
      dataTransfer.items.add(new File([bytes], name));
    }
    for (const type of ['dragenter', 'dragover', 'drop']) {
      document.body.dispatchEvent(new DragEvent(type, { dataTransfer, bubbles: true, cancelable: true }));
    }
  }, parts);
}

/** Closes every open file and every card, so that one page can be used for several cases. */
export async function clear(page) {
  for (const button of ['#chips button', '.card.error button:text("Dismiss")']) {
    while (await page.locator(button).count() > 0) await page.locator(button).first().click();
  }
}

/** Waits until no file is being read or analyzed, and the first table and all findings are drawn; if that does not happen, fails with what the page shows. */
export async function settled(page) {
  try {
    await page.waitForFunction(() => !document.querySelector('.card.reading')
      && !document.querySelector('#todo').textContent.includes('Being computed')
      && document.querySelector('#results:not([hidden])[aria-busy=false] :is(.block:first-child table, .without-work .missing)'), null, { timeout: 60_000 });
  } catch (problem) {
    throw new Error(`${problem.message}\n${await page.evaluate(shown)}`, { cause: problem });
  }
}

/** In the page: what it shows, and the scripts that it has loaded. */
const shown = () => JSON.stringify({
  cards: [...document.querySelectorAll('.card')].map((card) => `${card.className}: ${card.textContent}`),
  results: ['hidden', 'aria-busy'].map((name) => document.getElementById('results').getAttribute(name)),
  blocks: [...document.querySelectorAll('.block')].map((block) => block.textContent.slice(0, 80)),
  loaded: performance.getEntriesByType('resource').map(({ name, responseEnd }) => `${name.split('/').at(-1)} ${Math.round(responseEnd)}`),
}, null, 1);

/** The file that a button of the export menu saves; for CSV, the button of the first table. */
export async function exported(page, format) {
  if (format !== 'csv') await page.locator('#export summary').click();
  return download(page, page.locator(`:is(#export, .block:first-child) [data-format=${format}]`));
}

/** The file that a click on a button saves: {name, body: Buffer}. */
export async function download(page, button) {
  if (isFirefox) return downloadInFirefox(firefoxDownloads.get(page.context().browser()), button);
  const [file] = await Promise.all([page.waitForEvent('download'), button.click()]);
  return { name: file.suggestedFilename(), body: await readFile(await file.path()) };
}

/** The same in Firefox, which first writes beside an empty file of this name. */
async function downloadInFirefox(folder, button) {
  const before = new Set(await readdir(folder));
  await button.click();
  for (const end = Date.now() + 20_000; Date.now() < end;) {
    const names = (await readdir(folder)).filter((name) => !before.has(name));
    if (names.length === 1 && !names[0].endsWith('.part')) {
      const body = await readFile(join(folder, names[0]));
      if (body.length > 0) return { name: names[0], body };
    }
    await new Promise((done) => setTimeout(done, 50));
  }
  throw new Error(`Firefox saved no file: ${await readdir(folder)}`);
}

/** A table on screen, by default the first: its column keys, and for each row the full kernel name, if any, and the texts and titles of its cells. */
export function readTable(page, block = '.block:first-child') {
  return page.evaluate((place) => {
    const cells = (row) => [...row.cells].map((td) => ({ text: td.textContent, title: td.title }));
    const line = (row) => ({ name: row.querySelector('td.kernel')?.title, cells: cells(row) });
    const table = document.querySelector(`${place} table`);
    return {
      keys: [...table.querySelectorAll('thead button')].map((button) => button.dataset.key),
      sorts: [...table.querySelectorAll('thead th')].map((th) => th.getAttribute('aria-sort')),
      rows: [...table.tBodies[0].rows].filter((row) => !row.classList.contains('full')).map(line),
      totals: table.tFoot ? cells(table.tFoot.rows[0]) : null,
    };
  }, block);
}

const program = process.env.GPUPRISM_BIN
  ?? ['target/release/gpuprism', 'target/debug/gpuprism'].map((path) => join(root, path)).find(existsSync);

/** The path of the command line. */
export function programPath() {
  if (!program) throw new Error('no gpuprism in target/: build it, or name it in GPUPRISM_BIN');
  return resolve(root, program);
}

/** Writes the files and runs the command line on them: {status, stdout: Buffer, stderr: string}. */
export async function commandLine(args, files) {
  const path = programPath();
  const folder = await mkdtemp(join(tmpdir(), 'gpuprism-page-'));
  try {
    for (const { name, body } of files) await writeFile(join(folder, name), body);
    return await new Promise((done) => {
      execFile(path, args, { cwd: folder, encoding: 'buffer', maxBuffer: 1 << 28, timeout: 60_000 }, (error, stdout, stderr) => {
        done({ status: error ? error.code : 0, stdout, stderr: stderr.toString() });
      });
    });
  } finally {
    await rm(folder, { recursive: true });
  }
}

/** Writes a generated Nsight Systems export with this many million kernels, and as many calls and ranges. */
export function writeNsysExport(path, millions) {
  const generator = resolve(root, dirname(program), 'examples/nsys_export');
  return new Promise((done, fail) => {
    execFile(generator, [path, String(millions)], (error) => (error ? fail(error) : done()));
  });
}

/** The command line's JSON report of the files, as bytes. */
export async function jsonReport(...files) {
  const { status, stdout, stderr } = await commandLine(['report', ...files.map(({ name }) => name), '--format', 'json'], files);
  if (status !== 0) throw new Error(`the command line refused ${files.map(({ name }) => name)}: ${stderr}`);
  return stdout;
}

/** A small torch.profiler trace; ops are [name, start in ns, duration in ns, stream, device]. */
export function kineto(name, ops) {
  const micros = (ns) => Number((ns / 1000).toFixed(3));
  const events = ops.map(([op, start, duration, stream = 7, device = 0], at) => ({
    ph: 'X', cat: op.startsWith('Memcpy') ? 'gpu_memcpy' : 'kernel', name: op, pid: device, tid: stream, ts: micros(start), dur: micros(duration),
    args: { device, stream, correlation: at + 1, 'External id': at + 1 },
  }));
  const trace = { schemaVersion: 1, deviceProperties: [{ id: 0, name: 'NVIDIA H100' }], baseTimeNanoseconds: 1700000000000000000, traceEvents: events };
  return { name, body: Buffer.from(JSON.stringify(trace)) };
}

/** Ops of several families, with overlaps on a second stream and gaps. */
export const SERVER_OPS = [
  ['void cutlass::Kernel<cutlass_80_tensorop_bf16_s16816gemm_bf16_128x64_32x6_tn_align8>(Params)', 1_000, 9_500],
  ['ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)', 8_000, 6_250, 20],
  ['nvjet_tst_128x64_64x8_1x2_h_bz_coopA_NNT', 15_000, 4_321],
  ['void flash::flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128, 64, 128, 4>>(flash::Flash_fwd_params)', 20_001, 3_003],
  ['void vllm::rms_norm_kernel<c10::BFloat16>(c10::BFloat16*, int)', 30_000, 700],
  ['Memcpy HtoD (Pinned -> Device)', 31_000, 1_100],
  ['void vllm::rms_norm_kernel<c10::BFloat16>(c10::BFloat16*, int)', 33_000, 650],
];

/** Opens a tab, in the row or in the menu "More". */
export async function openTab(page, id) {
  if (await page.locator(`#tab-${id}`).count() === 0) await page.locator('#more > summary').click();
  await page.locator(`#tab-${id}, #more[open] #more-${id}`).first().click();
  await page.waitForFunction((id) => document.querySelector(`#tab-${id}`)?.getAttribute('aria-selected') === 'true', id);
}

/** Moves fingers over an element, each from a point to another one: real touches, or in Firefox, which takes no touches from a test, events of pointers. */
export async function touch(page, target, ...fingers) {
  const steps = 5;
  const at = (step) => fingers.map(({ from, to }, id) => ({ id, x: from.x + ((to.x - from.x) * step) / steps, y: from.y + ((to.y - from.y) * step) / steps }));
  const moves = Array.from({ length: steps }, (_, step) => ['Move', at(step + 1)]);
  const phases = [['Start', at(0)], ...moves, ['End', isFirefox ? at(steps) : []]];
  if (isFirefox) {
    const types = { Start: 'pointerdown', Move: 'pointermove', End: 'pointerup' };
    // An event that a script has made has no pointer to capture.
    await target.evaluate((node) => void (node.setPointerCapture = () => {}));
    for (const [phase, points] of phases) for (const { id, x, y } of points) await target.dispatchEvent(types[phase], { pointerId: 11 + id, pointerType: 'touch', button: 0, clientX: x, clientY: y, bubbles: true });
    return;
  }
  const session = await page.context().newCDPSession(page);
  await session.send('Emulation.setTouchEmulationEnabled', { enabled: true, maxTouchPoints: 2 });
  for (const [phase, touchPoints] of phases) await session.send('Input.dispatchTouchEvent', { type: `touch${phase}`, touchPoints });
}

/** The width of the titles of the timeline's lanes, in pixels. */
export const GUTTER_PX = 131;

/** The same of a timeline of this width. @param {number} width */
export const gutterPx = (width) => (width < 520 ? 76 : GUTTER_PX);

/** The part of the strips that the first timeline shows once it is drawn, as shares of their length; the whole length has no frame. */
export async function shareInView(page) {
  await page.locator('.timeline[data-state=drawn]').first().waitFor();
  await frames(page);
  const view = page.locator('.strip-view').first();
  if (await view.getAttribute('visibility') === 'hidden') return { from: 0, length: 1 };
  const [frame, plot] = await Promise.all([view.boundingBox(), page.locator('[data-key=plot]').first().boundingBox()]);
  return { from: (frame.x - plot.x) / plot.width, length: frame.width / plot.width };
}

/** Waits until a pressed cell of a table has led to the timeline, which takes the focus last. */
export const isLedToTimeline = (page) => page.waitForFunction(() => document.activeElement.classList.contains('timeline-canvas'));

/** Waits until the way back has led to the pressed cell, which takes the focus last. */
export const isLedBack = (page) => page.waitForFunction(() => document.activeElement.matches('[data-time], [data-example]'));

/** Waits until an act has changed the part of the strips that is in view. */
export async function viewChanges(page, act) {
  const frame = () => page.evaluate(() => ['x', 'width', 'visibility'].map((name) => document.querySelector('.strip-view').getAttribute(name)).join());
  const before = await frame();
  await act();
  await page.waitForFunction((text) => ['x', 'width', 'visibility'].map((name) => document.querySelector('.strip-view').getAttribute(name)).join() !== text, before);
}

/** Opens the menu of the settings, unless it is open. */
export async function openSettings(page) {
  if (await page.locator('#choices[open]').count() === 0) await page.locator('#choices > summary').click();
}

/** The colour of a class of the palette as [r, g, b]. */
export const fill = (page, name) => page.evaluate((text) => {
  const probe = document.createElement('span');
  probe.className = text;
  probe.style.color = 'var(--fill)';
  document.body.append(probe);
  const [r, g, b] = getComputedStyle(probe).color.match(/\d+/g).map(Number);
  probe.remove();
  return [r, g, b];
}, name);
