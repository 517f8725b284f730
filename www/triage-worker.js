// The triage worker: reads a torch trace again with the code that launched its work, and keeps it for all later analyses. It also
// chooses the files of a folder that are worth opening. Loaded when a person first opens the triage or drops a folder.

const [gpuprism, { memoryBytes, readWhole, start, traceHandlers }, { serve }] = await Promise.all([
  import('./pkg/gpuprism_full.js'), import('./reading.js'), import('./worker-serve.js'),
]);

/** @type {import('./pkg/gpuprism_full.js').Imported | null} */
let imported = null;
/** @type {import('./pkg/gpuprism_full.js').Triage | null} */
let triage = null;

function trace() {
  if (!imported) throw new Error('the worker has no trace');
  return imported;
}

function openedTriage() {
  if (!triage) throw new Error('the worker has no triage');
  return triage;
}

/** @param {File} file @param {(progress: import('./types.js').Progress) => void} progress */
async function read(file, progress) {
  const result = await readWhole(gpuprism.TraceReader.with_code(file.name), file, progress);
  if (!result) throw new Error(`${file.name} is a database`);
  return result;
}

/** @type {import('./types.js').Handlers<import('./types.js').TriageOperations>} */
const handlers = {
  async open({ module, file }, progress) {
    await start(gpuprism, module);
    imported = await read(file, progress);
    triage = new gpuprism.Triage();
    return { capture: gpuprism.is_capture(imported) };
  },
  /** Takes the traces that have the source lines of graph replays; without any, the trace's own are used. */
  async map({ files }, progress) {
    // The previous ones are freed first: the memory of both would be needed at once.
    openedTriage().forget_mapping();
    for (const file of files) openedTriage().add_mapping(await read(file, progress));
  },
  analyze: ({ options, context }) => ({ text: openedTriage().report(trace(), context, options), memory: memoryBytes() }),
  async choose({ module, entries }) {
    await start(gpuprism, module);
    return JSON.parse(gpuprism.choose_files(JSON.stringify(entries)));
  },
  ...traceHandlers(trace),
};

serve(handlers, memoryBytes);
