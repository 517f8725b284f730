// Checks that all builds give the same results: the command line in debug and in release, and both modules of the page.
// `node tests/page/builds.mjs DEBUG RELEASE EXAMPLES DIST MAX_KB` fails with the first file and output that differ; larger files are left
// out and counted. If both programs are the same one, it runs once and is compared with the modules; then every second output of a recorded
// file is compared, and the others of the next file, because all files together have each output often.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join, resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const [debug, release, examples, dist] = process.argv.slice(2, 6).map((path) => resolve(path));
const maxBytes = Number(process.argv[6]) * 1000;
const traces = resolve(fileURLToPath(import.meta.url), '../../../../shared/traces');

/** The output of a program, or `refused` with its messages. */
const run = (program, folder, args) => new Promise((done, fail) => {
  execFile(program, args, { cwd: folder, maxBuffer: 1 << 28 }, (error, stdout, stderr) => {
    if (error && !(error.code > 0)) fail(error);
    else done(error && !stdout ? { refused: stderr } : { text: stdout });
  });
});

/** The same for a call of a module, which throws its message as a string. */
function call(compute) {
  try {
    return { text: compute() };
  } catch (error) {
    if (typeof error !== 'string') throw error;
    return { refused: error };
  }
}

/** Fails unless both outputs are equal. A module's message is only part of the command line's. */
function assertSame(name, expected, actual) {
  if (expected.text === undefined && actual.refused && expected.refused.includes(actual.refused)) return;
  if (expected.text !== undefined && expected.text === actual.text) return;
  const [left, right] = [expected, actual].map(({ text, refused }) => text ?? `refused: ${refused}`);
  let at = 0;
  while (at < left.length && left[at] === right[at]) at += 1;
  const near = (text) => JSON.stringify(text.slice(Math.max(0, at - 60), at + 60));
  throw new Error(`${name} differs at character ${at}:\n  ${near(left)} in release\n  ${near(right)}`);
}

/** Choices of the page, and the same for the command line. */
const CHOICES = {
  report: [{}, []],
  window: [{ window: '0.0001-0.004' }, ['--window', '0.0001-0.004']],
  merged: [{ attribution: 'first_come', merge_devices: true }, ['--attribution', 'first-come', '--merge-devices']],
};

/** The files that the examples write come first. */
const GENERATED = 2;
const LAYOUT = { rows: 'stage', columns: 'category', values: 'elapsed', percent: null, top: 0 };

/** The command lines to compare, by output. `previous` is another trace. The modules have no terminal, for example. */
function commands(file, previous) {
  const ofProgramsOnly = {
    terminal: ['report', file],
    triageJson: ['triage', file, '--format', 'json'],
    ranks: ['ranks', previous, file, '--format', 'csv'],
  };
  const all = {
    ...(debug === release ? {} : ofProgramsOnly),
    html: ['report', file, '--format', 'html'],
    markdown: ['report', file, '--format', 'markdown'],
    csv: ['report', file, '--format', 'csv'],
    redacted: ['report', file, '--format', 'json', '--redact'],
    redactedHtml: ['report', file, '--format', 'html', '--redact'],
    windowHtml: ['report', file, '--format', 'html', ...CHOICES.window[1]],
    pivot: ['pivot', file, '--format', 'csv', '--rows', LAYOUT.rows, '--columns', LAYOUT.columns],
    triage: ['triage', file, '--format', 'csv'],
    diff: ['diff', previous, file, '--format', 'csv'],
  };
  for (const [name, [, args]] of Object.entries(CHOICES)) all[name] = ['report', file, '--format', 'json', ...args];
  return all;
}

/** Whether the output with this number is compared for the file with this number. */
const isCompared = (file, output) => debug !== release || file < GENERATED || (file + output) % 2 === 0;

async function load(stem) {
  const module = await import(pathToFileURL(join(dist, 'pkg', `${stem}.js`)));
  await module.default({ module_or_path: readFileSync(join(dist, 'pkg', `${stem}_bg.wasm`)) });
  return module;
}

/** A file as `read_database` reads it in a browser's worker, with FileReaderSync. */
class MemoryFile {
  constructor(bytes) {
    Object.assign(this, { bytes, size: bytes.length });
  }

  slice(from, to) {
    return new MemoryFile(this.bytes.subarray(from, to));
  }
}
globalThis.FileReaderSync = class {
  readAsArrayBuffer({ bytes }) {
    return Uint8Array.from(bytes).buffer;
  }
};

/** The file as the module reads it; null for a database and the first module, which has no SQLite. */
function open(module, path, reader = new module.TraceReader(basename(path))) {
  const bytes = readFileSync(path);
  reader.feed(bytes);
  if (!reader.needs_another_reader()) return reader.finish();
  return module.read_database?.(new MemoryFile(bytes), basename(path), false, () => {}) ?? null;
}

/**
 * Calls `compare` with the module, the output and its result for each output of the modules that is in `wanted`. Returns what a comparison
 * with the next trace needs, or null if the file is no trace.
 */
function page([first, full], path, previous, wanted, compare) {
  const opened = call(() => open(full, path));
  const trace = opened.text;
  if (!trace) compare('full module', 'report', opened);
  if (trace?.kind() !== 'trace') return null;
  const tools = new full.Tools();
  const exported = (format, table = '', strips = []) => call(() => tools.export(format, table, 0, strips));
  const check = (name, compute) => {
    if (wanted(name)) compare('full module', name, compute());
  };
  const small = open(first, path);
  // The first module does not read the code around launches, which tells the category of some kernels.
  const withoutCode = small && open(full, path, full.TraceReader.without_code(basename(path)));
  for (const [name, [choices]] of Object.entries(CHOICES)) {
    if (!wanted(name) && !(name === 'window' && wanted('windowHtml'))) continue;
    const report = call(() => trace.analyze(JSON.stringify(choices)));
    if (report.text) tools.set([report.text]);
    check(name, () => (report.text ? exported('json') : report));
    if (name === 'window') check('windowHtml', () => (report.text ? exported('html', '', [trace.html_strips(JSON.stringify(choices))]) : report));
    const firstResults = (imported) => call(() => imported.analyze(JSON.stringify({ ...choices, without_sections: true })));
    if (small) assertSame(`${path}, ${name}, first results`, firstResults(withoutCode), firstResults(small));
  }
  const own = { path, report: trace.analyze('{}') };
  tools.set([own.report]);
  const strips = [trace.html_strips('{}')];
  check('markdown', () => exported('markdown'));
  check('html', () => exported('html', '', strips));
  check('savedHtml', () => exported('html'));
  check('csv', () => exported('csv', 'kernels'));
  const shared = (format) => call(() => {
    const request = { format, redact: tools.share_redactions(), slim: false };
    return new TextDecoder().decode(tools.share_file(JSON.stringify(request), strips));
  });
  check('redacted', () => shared('json'));
  check('redactedHtml', () => shared('html'));
  check('pivot', () => {
    const pivot = new full.Pivot([own.report], [trace.pivot_cells('{}', JSON.stringify([LAYOUT.rows]))]);
    return call(() => pivot.csv(JSON.stringify(LAYOUT), '{}'));
  });
  const other = previous ?? own;
  check('diff', () => {
    tools.set([other.report, own.report]);
    return exported('csv', 'compare_kernels');
  });
  if (trace.can_triage()) {
    check('triage', () => {
      tools.set([new full.Triage().report(open(full, path, full.TraceReader.with_code(basename(path))), '{}', '{}')]);
      return exported('csv', 'triage_kernels');
    });
  }
  return own;
}

function listFiles(folder) {
  if (!existsSync(folder)) return [];
  const paths = readdirSync(folder, { recursive: true }).map((name) => join(folder, name)).sort();
  return paths.filter((path) => /\.(json|gz|sqlite|rpd|csv)$/.test(path));
}

/** A copy in a folder of its own: the command line reads graph captures beside a trace, the module gets a single file. */
function copyAlone(path, folder) {
  mkdirSync(folder);
  const copy = join(folder, basename(path));
  copyFileSync(path, copy);
  return copy;
}

const generated = mkdtempSync(join(tmpdir(), 'gpuprism-builds-'));
try {
  await run(join(examples, 'serving_trace'), generated, ['serving.json.gz']);
  await run(join(examples, 'nsys_export'), generated, ['export.sqlite', '0.002']);
  assert.equal(listFiles(generated).length, 2);
  const modules = [await load('gpuprism'), await load('gpuprism_full')];
  const recorded = listFiles(traces);
  const small = recorded.filter((path) => statSync(path).size <= maxBytes);
  const files = [...listFiles(generated), ...small].map((path, index) => copyAlone(path, join(generated, `${index}`)));
  let previous = null;
  const programs = [...new Set([release, debug])];
  for (const [index, path] of files.entries()) {
    const outputs = {};
    const lines = Object.entries(commands(basename(path), previous?.path ?? path));
    const wanted = new Set(lines.map(([name]) => name).filter((_, output) => isCompared(index, output)));
    // Its refusal is that of all outputs, and its text that of a saved report.
    wanted.add('report');
    for (const [name, args] of lines.filter(([name]) => wanted.has(name))) {
      const [expected, actual = expected] = await Promise.all(programs.map((program) => run(program, dirname(path), args)));
      assertSame(`${path}, ${name}, debug`, expected, actual);
      outputs[name] = expected;
    }
    // That of a trace begins with its strips, that of a saved report cannot.
    if (outputs.report.text && wanted.has('html')) {
      writeFileSync(join(generated, 'saved.report'), outputs.report.text);
      outputs.savedHtml = await run(release, generated, ['report', 'saved.report', '--format', 'html']);
      wanted.add('savedHtml');
    }
    previous = page(modules, path, previous, (name) => wanted.has(name), (module, name, result) => {
      assertSame(`${path}, ${name}, ${module}`, outputs[name], result);
    }) ?? previous;
  }
  console.log(`${files.length} files: all builds give the same results; ${recorded.length - small.length} larger files were left out`);
  if (!existsSync(traces)) console.log(`skipped the traces of ${traces}: the folder is missing`);
} finally {
  rmSync(generated, { recursive: true });
}
