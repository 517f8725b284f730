// The pivot worker: has the reports of all runs and the aggregates of their traces, and no trace; makes the tables of a pivot.

const [{ default: init, Pivot }, { serve }] = await Promise.all([import('./pkg/gpuprism_full.js'), import('./worker-serve.js')]);

/** @type {import('./pkg/gpuprism_full.js').InitOutput | undefined} */
let wasm;
/** @type {import('./pkg/gpuprism_full.js').Pivot | null} */
let pivot = null;

function loaded() {
  if (!pivot) throw new Error('the pivot has no reports');
  return pivot;
}

/** @type {import('./types.js').Handlers<import('./types.js').PivotOperations>} */
const handlers = {
  async start({ module }) {
    wasm = await init({ module_or_path: module });
  },
  hold({ texts, cubes }) {
    // Freed first: the memory of both would be needed at once.
    pivot?.free();
    pivot = null;
    pivot = new Pivot(texts, cubes);
  },
  table: ({ shape, request }) => loaded().table(shape, request),
  csv: ({ shape, request }) => loaded().csv(shape, request),
};

serve(handlers, () => wasm?.memory.buffer.byteLength ?? 0);
