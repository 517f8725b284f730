// The render worker: turns the reports of all runs into the strings and shapes that the page shows. It has no trace.

const [{ default: init, Reports, build_info: buildInfo, palette_css: paletteCss, rule_sets: ruleSets }, { serve }] = await Promise.all([
  import('./pkg/gpuprism.js'), import('./worker-serve.js'),
]);

/** @type {import('./pkg/gpuprism.js').InitOutput | undefined} */
let wasm;
/** @type {import('./pkg/gpuprism.js').Reports} */
let reports;

/** @type {import('./types.js').Handlers<import('./types.js').RenderOperations>} */
const handlers = {
  async start({ module }) {
    wasm = await init({ module_or_path: module });
    reports = new Reports();
    return { palette: paletteCss(), build: buildInfo() };
  },
  set({ texts }) {
    reports.set(texts);
    return reports.overview();
  },
  async rehearse({ text }) {
    const { rehearseReports } = await import('./rehearsal.js');
    const others = new Reports();
    rehearseReports(others, text);
    others.free();
  },
  chart: ({ width, hidden }) => reports.chart(width, hidden),
  table: ({ request }) => reports.table(request),
  ruleSets: ({ rules }) => ruleSets(JSON.stringify(rules)),
};

serve(handlers, () => wasm?.memory.buffer.byteLength ?? 0);
