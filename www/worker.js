// The trace worker: reads one file through a wasm reader and keeps what it imported for every later analysis.

const [gpuprism, { demangle, looks, memoryBytes, readWhole, start }, { serve }] = await Promise.all([
  import('./pkg/gpuprism.js'), import('./reading.js'), import('./worker-serve.js'),
]);

let imported;

serve({ open, openDatabase, demangle: ({ module }) => demangle(imported, module), analyze, ...looks(() => imported) }, memoryBytes);

/** Resolves with what the file is; a `database` is not read yet. */
async function open({ module, isFast, file, gpuOnly }, progress) {
  const built = isFast ? await import('./pkg/gpuprism_sqlite.js') : gpuprism;
  await start(built, module);
  const reader = gpuOnly ? built.TraceReader.gpu_ops_only(file.name) : new built.TraceReader(file.name);
  const what = await readWhole(reader, file, progress);
  return what ? opened(what) : { kind: 'database' };
}

/** Reads a file by offset, through the module that has SQLite; what it imports is used like any other. */
async function openDatabase({ module, file, gpuOnly }, progress) {
  const sqlite = await import('./pkg/gpuprism_sqlite.js');
  await start(sqlite, module);
  progress({ rows: 0, doing: 'reading' });
  return opened(sqlite.read_database(file, file.name, gpuOnly, (rows) => progress({ rows, doing: 'reading' })));
}

function opened(what) {
  imported = what;
  const kind = imported.kind();
  const mangled = imported.mangled().length > 0;
  return { kind, mangled, torch: imported.can_triage(), ranks: imported.ranks(), text: kind === 'trace' ? null : imported.text(), memory: memoryBytes() };
}

function analyze({ options }) {
  return { text: imported.analyze(options), memory: memoryBytes() };
}
