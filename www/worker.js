// The trace worker: reads one file through a wasm reader and keeps what it imported for every later analysis.

const [gpuprism, { looks, memoryBytes, readWhole, start }, { serve }] = await Promise.all([
  import('./pkg/gpuprism.js'), import('./reading.js'), import('./worker-serve.js'),
]);

let imported;
/** Is the trace large, and was no window of it rehearsed yet? */
let isUnrehearsed = false;

serve({ open, openDatabase, analyze, ...looks(() => imported) }, memoryBytes);

/** Resolves with what the file is; a `database` is not read yet. */
async function open({ module, isFast, file, gpuOnly }, progress) {
  isUnrehearsed = isFast;
  const built = isFast ? await import('./pkg/gpuprism_full.js') : gpuprism;
  await start(built, module);
  const reader = gpuOnly ? built.TraceReader.gpu_ops_only(file.name) : new built.TraceReader(file.name);
  const what = await readWhole(reader, file, progress);
  return what ? opened(what) : { kind: 'database' };
}

/** Reads a file by offset, through the module that has SQLite; what it imports is used like any other. */
async function openDatabase({ module, file, gpuOnly }, progress) {
  const sqlite = await import('./pkg/gpuprism_full.js');
  await start(sqlite, module);
  isUnrehearsed = true;
  progress({ rows: 0, doing: 'reading' });
  return opened(sqlite.read_database(file, file.name, gpuOnly, (rows) => progress({ rows, doing: 'reading' })));
}

function opened(what) {
  imported = what;
  const kind = imported.kind();
  return { kind, torch: imported.can_triage(), ranks: imported.ranks(), text: kind === 'trace' ? null : imported.text(), memory: memoryBytes() };
}

/** Of many ops what is known before their sections, where that is wanted soon: then `isPartial`. */
function analyze({ options, soon }) {
  const isPartial = soon && imported.takes_a_while(options);
  const text = imported.analyze(isPartial ? JSON.stringify({ ...JSON.parse(options), without_sections: true }) : options);
  if (isUnrehearsed) rehearse(JSON.parse(options));
  isUnrehearsed = false;
  return { text, isPartial, memory: memoryBytes() };
}

/**
 * A browser compiles WebAssembly quickly first, and well only once it has run a while. What cuts a large trace would run for the
 * first time when a person picks a window: it runs a few times before that, on a little of the trace, while nothing is asked. The
 * first time the pieces are summed up that all windows are put together from.
 */
function rehearse(options, times = 6) {
  const window = imported.window(0.48, 0.52);
  if (!window || times === 0) return;
  setTimeout(() => {
    try {
      for (const without_sections of [true, false]) imported.analyze(JSON.stringify({ ...options, window, without_sections }));
      rehearse(options, times - 1);
    } catch {
      // What is wrong with these options is said where they are asked for.
    }
  }, 200);
}
