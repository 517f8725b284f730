// The triage worker: reads a torch trace once more, with the code that launched its work, and keeps it for every later
// analysis. It is fetched when a person first opens the triage.

import * as gpuprism from './pkg/gpuprism_triage.js';
import { demangle, memoryBytes, readWhole, start } from './reading.js';
import { serve } from './worker-serve.js';

let imported;
let triage;

serve({ open, demangle: ({ module }) => demangle(imported, module), keep, map, analyze }, memoryBytes);

async function open({ module, file }, progress) {
  await start(gpuprism, module);
  imported = await read(file, progress);
  return { mangled: imported.mangled().length > 0 };
}

const read = (file, progress) => readWhole(gpuprism.TraceReader.with_code(file.name), file, progress);

/** The names are readable: from now on the trace belongs to the triage. */
function keep() {
  triage = new gpuprism.Triage(imported);
}

/** Takes the trace that tells where the kernels of graph replays come from; null: the trace tells for itself. */
async function map({ file }, progress) {
  // The earlier one goes first: two would need the memory of both.
  triage.use_mapping(undefined);
  if (file) triage.use_mapping(await read(file, progress));
}

function analyze({ options, beside }) {
  return { text: triage.report(beside, options), memory: memoryBytes() };
}
