// The ranks worker: has the logs of all open traces and no trace; compares the ranks of a job.

const [{ default: init, Ranks }, { serve }] = await Promise.all([import('./pkg/gpuprism_full.js'), import('./worker-serve.js')]);

/** @type {import('./pkg/gpuprism_full.js').InitOutput | undefined} */
let wasm;
/** @type {import('./pkg/gpuprism_full.js').Ranks | null} */
let ranks = null;

function loaded() {
  if (!ranks) throw new Error('the worker has no logs');
  return ranks;
}

/** @type {import('./types.js').Handlers<import('./types.js').RanksOperations>} */
const handlers = {
  async start({ module }) {
    wasm = await init({ module_or_path: module });
  },
  hold({ logs }) {
    // Freed first: the memory of both would be needed at once.
    ranks?.free();
    ranks = null;
    ranks = new Ranks(logs);
  },
  look({ parts }) {
    loaded().look(parts);
    return loaded().said();
  },
  windows: ({ at, window }) => loaded().windows(at, window),
  chart: ({ width }) => loaded().chart(width),
  table: ({ request }) => loaded().table(JSON.stringify(request)),
  csv: ({ request }) => loaded().csv(JSON.stringify(request)),
};

serve(handlers, () => wasm?.memory.buffer.byteLength ?? 0);
