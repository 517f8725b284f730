// The triage worker: reads a torch trace once more, with the code that launched its work, and keeps it for every later
// analysis. It also says which files of a folder are worth opening. It is fetched when a person first opens the triage.

const [gpuprism, { looks, memoryBytes, readWhole, start }, { serve }] = await Promise.all([
  import('./pkg/gpuprism_full.js'), import('./reading.js'), import('./worker-serve.js'),
]);

let imported;
let triage;

serve({ open, map, analyze, choose, ...looks(() => imported) }, memoryBytes);

async function open({ module, file }, progress) {
  await start(gpuprism, module);
  imported = await read(file, progress);
  triage = new gpuprism.Triage();
  return { capture: gpuprism.is_capture(imported) };
}

const read = (file, progress) => readWhole(gpuprism.TraceReader.with_code(file.name), file, progress);

/** Takes the traces that tell where the kernels of graph replays come from; none: the trace tells for itself. */
async function map({ files }, progress) {
  // Those of before go first: the memory of both would be needed.
  triage.forget_mapping();
  for (const file of files) triage.add_mapping(await read(file, progress));
}

function analyze({ options, beside }) {
  return { text: triage.report(imported, beside, options), memory: memoryBytes() };
}

async function choose({ module, entries }) {
  await start(gpuprism, module);
  return JSON.parse(gpuprism.choose_files(JSON.stringify(entries)));
}
