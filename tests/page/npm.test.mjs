// The npm folder that `cargo xtask npm` writes, made from the built page: its README's example runs in a browser, its types hold, and its reports are those of the
// command line.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { copyFile, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { promisify } from 'node:util';
import * as h from './harness.mjs';

const run = promisify(execFile);

const folder = await mkdtemp(join(tmpdir(), 'gpuprism-npm-'));
after(() => rm(folder, { recursive: true }));
await install();
const { browser, server } = await h.lend({ folder });

/** Writes a page beside the package, as npm installs it. */
async function install() {
  const installed = join(folder, 'node_modules/gpuprism');
  await mkdir(installed, { recursive: true });
  const { files } = JSON.parse(await readFile(join(h.root, 'npm/package.json'), 'utf8'));
  for (const name of ['package.json', ...files]) {
    const source = name === 'LICENSE' ? h.root : join(h.root, 'npm');
    await copyFile(name.startsWith('gpuprism_full') ? join(h.dist, 'pkg', name) : join(source, name), join(installed, name));
  }
  const [, example] = /```html\n(.*?)```/s.exec(await readFile(join(h.root, 'npm/README.md'), 'utf8'));
  await writeFile(join(folder, 'index.html'), example);
}

/** The example's page with this file. */
async function opened(name, body) {
  const page = await browser.newPage();
  const faults = [];
  page.on('pageerror', (error) => faults.push(String(error)));
  await page.goto(`${server.origin}/`);
  await page.locator('#file').setInputFiles({ name, mimeType: 'application/octet-stream', buffer: Buffer.from(body) });
  return { page, faults };
}

test('the example of the README shows verdict and kernels of a trace', async () => {
  const { page, faults } = await opened('trace.json', h.kineto('x', h.SERVER_OPS).body);
  await page.locator('#kernels li').first().waitFor();
  assert.match(await page.locator('#verdict').textContent(), /\w+.*\./);
  const items = await page.locator('#kernels li').allTextContents();
  assert.ok(items.length > 0 && items.every((item) => /: \d+ launches, \d+ ns$/.test(item)), items.join('\n'));
  assert.deepEqual(faults, []);
  await page.close();
});

test('a file that is no trace is refused with a sentence', async () => {
  const { page, faults } = await opened('note.txt', 'no trace at all');
  await page.waitForFunction(() => /note\.txt/.test(document.querySelector('#verdict').textContent));
  assert.deepEqual(faults, []);
  await page.close();
});

test('the report is that of the command line, and a window is a part of it', async () => {
  const { body } = h.kineto('x', h.SERVER_OPS);
  const { page } = await opened('x.json', body);
  await writeFile(join(folder, 'x.json'), body);
  const [text, inWindow] = await page.evaluate(async () => {
    const { open } = await import('gpuprism');
    const trace = await open(document.querySelector('#file').files[0]);
    return [trace.json(), trace.report({ window: '0-0.00001' }).runs[0].window];
  });
  const { stdout } = await run(process.env.GPUPRISM_BIN ?? 'gpuprism', ['report', '--format', 'json', join(folder, 'x.json')], { maxBuffer: 1 << 28 });
  assert.deepEqual(JSON.parse(text), JSON.parse(stdout));
  assert.equal(inWindow.end_ns - inWindow.start_ns, 10_000);
  await page.close();
});

test('a worker reads a database', { skip: h.noTraces }, async () => {
  const body = await readFile(join(h.nsysExports, 'titan_rtx_nvtx_only.sqlite'));
  const { page } = await opened('run.sqlite', body);
  await page.waitForFunction(() => /read only in a worker/.test(document.querySelector('#verdict').textContent));
  const kind = await page.evaluate(async () => {
    const script = `const { open } = await import('${location.origin}/node_modules/gpuprism/index.js');
      onmessage = async ({ data }) => postMessage(await open(data, { name: 'run.sqlite' }).then((trace) => trace.kind, String)); postMessage('ready');`;
    const worker = new Worker(URL.createObjectURL(new Blob([script], { type: 'text/javascript' })), { type: 'module' });
    const answer = () => new Promise((done) => { worker.onmessage = ({ data }) => done(data); });
    await answer();
    worker.postMessage(document.querySelector('#file').files[0]);
    return answer();
  });
  assert.equal(kind, 'trace');
  await page.close();
});

test('the types hold and name what the package has', async () => {
  const use = `import { load, open, type Report, type Trace } from 'gpuprism';
    import { Reports } from 'gpuprism/module';
    const trace: Trace = await open(new Blob(), { name: 'a', onProgress: (done: number) => done });
    const report: Report = trace.report({ attribution: 'fair', window: '1-2' });
    const text: string = report.runs[0]!.verdict.text + (await load()).version + new Reports().overview();
    const shares: (number | null)[] = report.runs[0]!.kernels.map((kernel) => kernel.elapsed_share);
    export { text, shares };\n`;
  await writeFile(join(folder, 'right.mts'), use);
  await writeFile(join(folder, 'wrong.mts'), use.replace('const text: string', 'const text: number'));
  const check = (file) => run(process.execPath, [
    join(h.root, 'node_modules/typescript/bin/tsc'), '--noEmit', '--strict', '--target', 'es2023', '--module', 'esnext', '--moduleResolution', 'bundler',
    '--lib', 'es2023,esnext.disposable,dom', join(folder, file),
  ], { cwd: folder });
  await check('right.mts');
  await assert.rejects(check('wrong.mts'), ({ stdout }) => stdout.includes("not assignable to type 'number'"));
});

test('the types have exactly the fields of a report', async () => {
  const types = await readFile(join(h.root, 'npm/index.d.ts'), 'utf8');
  const fields = (name) => {
    const [, base, body] = new RegExp(`interface ${name} (?:extends (\\w+) )?{\n(.*?)\n}`, 's').exec(types);
    const own = [...body.matchAll(/^ {2}(\w+):/gm)].map(([, field]) => field);
    return [...own, ...(base ? fields(base) : [])].sort();
  };
  const { stdout } = await run(process.env.GPUPRISM_BIN ?? 'gpuprism', ['report', '--format', 'json', join(h.dist, 'example.json.gz')], { maxBuffer: 1 << 28 });
  const report = JSON.parse(stdout);
  const [of] = report.runs;
  const objects = { Report: report, Run: of, Kernel: of.kernels[0], Category: of.categories[0], Device: of.devices[0], Section: of.sections.steps };
  for (const [name, object] of Object.entries(objects)) assert.deepEqual(fields(name), Object.keys(object).sort(), name);
});
