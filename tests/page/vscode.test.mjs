// The extension for VS Code, unpacked from its package: its editor shows a trace in the page, in the HTML that it gives the webview, with all
// requests on this machine; its server gives out the page and the opened file and nothing else.

import assert from 'node:assert/strict';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { request } from 'node:http';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, test } from 'node:test';
import { inflateRawSync } from 'node:zlib';
import * as h from './harness.mjs';

const package_ = process.env.GPUPRISM_VSIX;
/** `cargo xtask test page` packs it. */
const skip = !package_ && 'no package: name it in GPUPRISM_VSIX';

const folder = await mkdtemp(join(tmpdir(), 'gpuprism-vscode-'));
after(() => rm(folder, { recursive: true }));

/** The files of a ZIP archive by name, from its directory. */
function unpacked(archive) {
  const files = new Map();
  const end = archive.lastIndexOf(Buffer.from('PK\x05\x06', 'latin1'));
  let at = archive.readUInt32LE(end + 16);
  for (let count = archive.readUInt16LE(end + 10); count > 0; count -= 1) {
    const [deflated, size, nameLength] = [archive.readUInt32LE(at + 20), archive.readUInt32LE(at + 24), archive.readUInt16LE(at + 28)];
    const name = archive.toString('utf8', at + 46, at + 46 + nameLength);
    const header = archive.readUInt32LE(at + 42);
    const start = header + 30 + archive.readUInt16LE(header + 26) + archive.readUInt16LE(header + 28);
    const bytes = inflateRawSync(archive.subarray(start, start + deflated));
    assert.equal(bytes.length, size, name);
    files.set(name, bytes);
    at += 46 + nameLength + archive.readUInt16LE(at + 30) + archive.readUInt16LE(at + 32);
  }
  return files;
}

/** What the extension uses of VS Code. `commands` are those that it registered, `run` those that it ran. */
const VSCODE = `
const registered = { commands: {}, run: [], editors: {} };
module.exports = {
  registered,
  Uri: { parse: (text) => ({ toString: () => text }) },
  env: { asExternalUri: async (uri) => uri },
  window: {
    registerCustomEditorProvider: (type, editor, options) => { registered.editors[type] = { editor, options }; return { dispose() {} }; },
    showInformationMessage: (text) => registered.run.push(['message', text]),
  },
  commands: {
    registerCommand: (name, act) => { registered.commands[name] = act; return { dispose() {} }; },
    executeCommand: (...args) => registered.run.push(args),
  },
};`;

/** Unpacks the extension beside a stand-in of VS Code, and starts it. */
async function started() {
  const files = unpacked(await readFile(package_));
  for (const [name, bytes] of files) {
    await mkdir(dirname(join(folder, name)), { recursive: true });
    await writeFile(join(folder, name), bytes);
  }
  await mkdir(join(folder, 'node_modules/vscode'), { recursive: true });
  await writeFile(join(folder, 'node_modules/vscode/index.js'), VSCODE);
  const require = createRequire(join(folder, 'extension/extension.js'));
  const context = { subscriptions: [] };
  require('./extension.js').activate(context);
  after(() => context.subscriptions.forEach((one) => one.dispose()));
  return { files, manifest: JSON.parse(files.get('extension/package.json')), registered: require('vscode').registered };
}

const extension = skip ? null : await started();
const trace = join(folder, 'server.json');
if (!skip) await writeFile(trace, h.kineto('server.json', h.SERVER_OPS).body);

/** An editor of a file: the HTML of its webview, and how to close it. */
async function editorOf(path) {
  const { editor } = extension.registered.editors['gpuprism.trace'];
  const closing = [];
  const panel = { webview: { options: {}, html: '' }, onDidDispose: (act) => closing.push(act) };
  await editor.resolveCustomEditor(editor.openCustomDocument({ fsPath: path }), panel);
  const [, address] = /<iframe src="([^"]+)"/.exec(panel.webview.html);
  return { panel, address, close: () => closing.forEach((act) => act()) };
}

/** The status and the text of an answer; fetch would resolve the dots of a path. */
const ask = (address, path, options = {}) => new Promise((done, fail) => {
  const { hostname, port } = new URL(address);
  request({ hostname, port, path, ...options }, (response) => {
    const parts = [];
    response.on('data', (part) => parts.push(part));
    response.on('end', () => done({ status: response.statusCode, text: Buffer.concat(parts).toString(), headers: response.headers }));
  }).on('error', fail).end();
});

test('the package has a manifest, a command, and an editor that takes no file over', { skip }, () => {
  const { files, manifest, registered } = extension;
  assert.match(files.get('extension.vsixmanifest').toString(), new RegExp(`Version="${manifest.version.replaceAll('.', '\\.')}"`));
  assert.ok(files.has('[Content_Types].xml') && files.has('extension/page/index.html') && files.has('extension/README.md'));
  const [{ viewType, priority, selector }] = manifest.contributes.customEditors;
  assert.equal(priority, 'option');
  const patterns = selector.map(({ filenamePattern }) => filenamePattern);
  for (const wanted of ['*.json', '*.json.gz', '*.sqlite', '*.pftrace', '*.pb']) assert.ok(patterns.includes(wanted), wanted);
  assert.deepEqual(Object.keys(registered.editors), [viewType]);
  const [{ command }] = manifest.contributes.commands;
  registered.commands[command]({ fsPath: trace });
  assert.deepEqual(registered.run.at(-1).map((part) => part.fsPath ?? part), ['vscode.openWith', trace, viewType]);
});

test('the webview shows the trace in the page, and all requests stay on this machine', { skip }, async () => {
  const { panel, address, close } = await editorOf(trace);
  assert.deepEqual(panel.webview.options, { enableScripts: true, localResourceRoots: [] });
  const webview = join(folder, 'webview');
  await mkdir(webview, { recursive: true });
  await writeFile(join(webview, 'index.html'), panel.webview.html);
  const { browser, server } = await h.lend({ folder: webview });
  const page = await browser.newPage();
  const [faults, origins] = [[], new Set()];
  page.on('pageerror', (error) => faults.push(String(error)));
  page.on('console', (message) => message.type() === 'error' && faults.push(message.text()));
  page.on('request', (heard) => heard.url().startsWith('http') && origins.add(new URL(heard.url()).origin));
  await page.goto(`${server.origin}/`);
  const frame = page.frameLocator('iframe');
  await frame.locator('#results[aria-busy=false] .block table').first().waitFor({ timeout: 60_000 });
  assert.match(await frame.locator('#chips').innerText(), /server\.json/);
  assert.ok(await frame.locator('.timeline[data-state=drawn]').count() > 0, 'the timeline is there');
  assert.deepEqual([...origins].sort(), [server.origin, new URL(address).origin].sort());
  assert.deepEqual(faults.filter((text) => !text.includes('favicon')), []);
  await page.close();
  close();
});

test('the server gives out the page and the opened file alone, and nothing after the editor is closed', { skip }, async () => {
  const { address, close } = await editorOf(trace);
  const { pathname } = new URL(address);
  assert.match(pathname, /^\/[0-9a-f]{32}\/$/);
  const { files: [file] } = JSON.parse((await ask(address, `${pathname}served`)).text);
  assert.deepEqual([file.name, file.is_named], ['server.json', true]);
  const part = await ask(address, `${pathname}file/0`, { headers: { range: 'bytes=0-9' } });
  assert.deepEqual([part.status, part.text.length, part.headers['content-range']], [206, 10, `bytes 0-9/${file.size}`]);
  for (const path of ['file/1', '../extension.js', '..%2fextension.js', '%2e%2e/package.json', 'no-such-file.js']) {
    assert.equal((await ask(address, pathname + path)).status, 404, path);
  }
  for (const path of ['/', '/served', `/${'0'.repeat(32)}/index.html`]) assert.equal((await ask(address, path)).status, 404, path);
  assert.equal((await ask(address, pathname, { method: 'POST' })).status, 405);
  assert.equal((await ask(address, `${pathname}file/0`, { headers: { range: `bytes=${file.size}-` } })).status, 416);
  close();
  assert.equal((await ask(address, pathname)).status, 404);
});
