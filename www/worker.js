// The trace worker: reads one file with a wasm reader and keeps the trace for all later analyses.

const [gpuprism, { memoryBytes, readWhole, start, traceHandlers }, { serve }] = await Promise.all([
  import('./pkg/gpuprism.js'), import('./reading.js'), import('./worker-serve.js'),
]);

/** @typedef {import('./pkg/gpuprism.js').Imported | import('./pkg/gpuprism_full.js').Imported} Imported */

/** @type {Imported | null} */
let imported = null;
/** True for a large trace until its window was rehearsed. */
let needsRehearsal = false;

function trace() {
  if (!imported) throw new Error('the worker has no trace');
  return imported;
}

/** @type {import('./types.js').Handlers<import('./types.js').ReaderOperations>} */
const handlers = {
  /** Resolves with the kind of the file; a database is not read yet. */
  async open({ module, isFast, file, gpuOnly }, progress) {
    needsRehearsal = isFast;
    const wasm = isFast ? await import('./pkg/gpuprism_full.js') : gpuprism;
    await start(wasm, module);
    const reader = gpuOnly ? wasm.TraceReader.gpu_ops_only(file.name) : new wasm.TraceReader(file.name);
    const read = await readWhole(/** @type {{ finish(): Imported } & typeof reader} */ (reader), file, progress);
    return read ? opened(read) : { kind: 'database' };
  },
  /** Reads a file by offset, with the module that has SQLite. */
  async openDatabase({ module, file, gpuOnly }, progress) {
    const sqlite = await import('./pkg/gpuprism_full.js');
    await start(sqlite, module);
    needsRehearsal = true;
    const onRows = (/** @type {number} */ rows) => progress({ rows, doing: 'reading' });
    onRows(0);
    return opened(sqlite.read_database(file, file.name, gpuOnly, onRows));
  },
  /** If `soon`, the report of a trace with many ops lacks its sections and is partial. */
  analyze({ options, soon }) {
    const isPartial = soon && trace().takes_a_while(options);
    const text = trace().analyze(isPartial ? JSON.stringify({ ...JSON.parse(options), without_sections: true }) : options);
    if (needsRehearsal) rehearse(JSON.parse(options));
    needsRehearsal = false;
    return { text, isPartial, memory: memoryBytes() };
  },
  ...traceHandlers(trace),
};

serve(handlers, memoryBytes);

/** @param {Imported} read @returns {import('./types.js').Opened} */
function opened(read) {
  imported = read;
  const kind = /** @type {import('./types.js').FileKind} */ (read.kind());
  const isTrace = kind === 'trace';
  return { kind, torch: read.can_triage(), ranks: read.ranks(), text: isTrace ? null : read.text(), memory: memoryBytes() };
}

const REHEARSALS = 6;
const REHEARSE_AFTER_MS = 200;

/**
 * Analyses a small window a few times while the worker is idle. A browser compiles WebAssembly quickly at first, and well only after
 * it has run for a while; without this, a person's first window of a large trace would be slow. The first run also computes the
 * aggregates that all windows use.
 * @param {object} options
 */
function rehearse(options, times = REHEARSALS) {
  const window = trace().window(0.48, 0.52);
  if (!window || times === 0) return;
  setTimeout(() => {
    try {
      for (const withoutSections of [true, false]) trace().analyze(JSON.stringify({ ...options, window, without_sections: withoutSections }));
      rehearse(options, times - 1);
    } catch {
      // A problem with these options is shown by the analysis that has them.
    }
  }, REHEARSE_AFTER_MS);
}
