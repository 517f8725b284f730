// The ranks worker: holds the logs of all open traces, never a trace, and says how the ranks of a job stand to each other.

const [{ default: init, Ranks }, { serve }] = await Promise.all([import('./pkg/gpuprism_full.js'), import('./worker-serve.js')]);

let wasm;
let ranks;

serve({
  async start({ module }) {
    wasm = await init({ module_or_path: module });
  },
  hold({ logs }) {
    ranks?.free();
    ranks = null;
    ranks = new Ranks(logs);
  },
  look({ parts }) {
    ranks.look(parts);
    return ranks.said();
  },
  windows: ({ at, window }) => ranks.windows(at, window),
  chart: ({ width }) => ranks.chart(width),
  table: ({ request }) => ranks.table(JSON.stringify(request)),
  csv: ({ request }) => ranks.csv(JSON.stringify(request)),
}, () => wasm?.memory.buffer.byteLength ?? 0);
