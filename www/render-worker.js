// The render worker: holds the runs' reports, never a trace, and turns them into strings and shapes for the page.

const [{ default: init, Reports, build_info, palette_css, rule_sets }, { serve }] = await Promise.all([import('./pkg/gpuprism.js'), import('./worker-serve.js')]);

let wasm;
let reports;

serve({
  async start({ module }) {
    wasm = await init({ module_or_path: module });
    reports = new Reports();
    return { palette: palette_css(), build: build_info() };
  },
  set({ texts }) {
    reports.set(texts);
    return reports.overview();
  },
  chart: ({ width, hidden }) => reports.chart(width, hidden),
  table: ({ request }) => reports.table(request),
  ruleSets: ({ rules }) => rule_sets(JSON.stringify(rules)),
}, () => wasm?.memory.buffer.byteLength ?? 0);
