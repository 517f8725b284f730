// The pivot worker: holds the runs' reports and the cubes of their traces, never a trace, and lays them out as asked.

const [{ default: init, Pivot }, { serve }] = await Promise.all([import('./pkg/gpuprism_full.js'), import('./worker-serve.js')]);

let wasm;
let pivot;

serve({
  async start({ module }) {
    wasm = await init({ module_or_path: module });
  },
  hold({ texts, cubes }) {
    pivot?.free();
    pivot = null;
    pivot = new Pivot(texts, cubes);
  },
  table: ({ shape, request }) => pivot.table(shape, request),
  csv: ({ shape, request }) => pivot.csv(shape, request),
}, () => wasm?.memory.buffer.byteLength ?? 0);
