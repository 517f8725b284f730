// The tools worker: all functions of the full module that need no trace. It compares runs, writes the files that a person saves,
// makes pivot tables and compares the ranks of a job. The page starts up to three: for pivot, for ranks, and for the rest.

const [{ default: init, Pivot, Ranks, Tools, choose_files: chooseFiles }, { serve }] = await Promise.all([
  import('./pkg/gpuprism_full.js'), import('./worker-serve.js'),
]);

/** @type {import('./pkg/gpuprism_full.js').InitOutput | undefined} */
let wasm;
/** @type {import('./pkg/gpuprism_full.js').Tools} */
let tools;
/** @type {import('./pkg/gpuprism_full.js').Pivot | null} */
let pivot = null;
/** @type {import('./pkg/gpuprism_full.js').Ranks | null} */
let ranks = null;

function loadedPivot() {
  if (!pivot) throw new Error('the pivot has no reports');
  return pivot;
}

function loadedRanks() {
  if (!ranks) throw new Error('the ranks have no logs');
  return ranks;
}

/** @type {import('./types.js').Handlers<import('./types.js').ToolsOperations>} */
const handlers = {
  async start({ module }) {
    wasm = await init({ module_or_path: module });
    tools = new Tools();
  },
  set: ({ texts }) => tools.set(texts),
  translate: ({ label, text }) => tools.translate(label, text),
  export: ({ format, table, baseline, strips }) => tools.export(format, table, baseline, strips ?? []),
  compare: ({ baseline }) => tools.compare(baseline),
  chart: ({ baseline, width, hidden }) => tools.chart(baseline, width, hidden),
  table: ({ baseline, request }) => tools.table(baseline, request),
  dashboard: ({ request }) => tools.dashboard(JSON.stringify(request)),
  headline: ({ width }) => tools.headline(width),
  simulated: ({ text }) => tools.simulated(text),
  model: ({ run, width, hidden }) => tools.model(run, width, hidden),
  dashboardCss: () => Tools.dashboard_css(),
  sharePreview: ({ request, strips }) => tools.share_preview(JSON.stringify(request), strips ?? []),
  shareRedactions: () => tools.share_redactions(),
  shareFile: ({ request, strips }) => /** @type {Uint8Array<ArrayBuffer>} */ (tools.share_file(JSON.stringify(request), strips ?? [])),
  shareLink: ({ request }) => tools.share_link(JSON.stringify(request)),
  openLink: ({ text }) => tools.open_link(text),
  chooseFiles: ({ entries }) => JSON.parse(chooseFiles(JSON.stringify(entries))),
  workbench: ({ options, request }) => tools.workbench(JSON.stringify(options), JSON.stringify(request)),
  workbenchCsv: ({ options, request }) => tools.workbench_csv(JSON.stringify(options), JSON.stringify(request)),
  rulesJson({ options }) {
    const [name, text] = tools.rules_json(JSON.stringify(options));
    return { name, text };
  },
  checkRules: ({ file, text }) => tools.check_rules(file, text),
  ruleForKernel: ({ options, file, text, kernel }) => tools.rule_for_kernel(JSON.stringify(options), file, text, kernel),
  ruleDraft: ({ options, file, text, kernel, regex, category }) => tools.rule_draft(JSON.stringify(options), file, text, kernel, regex, category),
  ruleToEdit: ({ options, file, text, regex }) => tools.rule_to_edit(JSON.stringify(options), file, text, regex),

  setPivotCells({ texts, cells }) {
    // Freed first, because both together may not fit into memory.
    pivot?.free();
    pivot = null;
    pivot = new Pivot(texts, cells);
  },
  pivotTable: ({ layout, request }) => loadedPivot().table(layout, JSON.stringify(request)),
  pivotCsv: ({ layout, request }) => loadedPivot().csv(layout, JSON.stringify(request)),

  setRankLogs({ logs }) {
    // Freed first, because both together may not fit into memory.
    ranks?.free();
    ranks = null;
    ranks = new Ranks(logs);
  },
  setRankWindows({ parts }) {
    loadedRanks().set_windows(parts);
    return loadedRanks().summary();
  },
  rankWindows: ({ index, window }) => loadedRanks().windows(index, window),
  rankMoments: ({ index, time }) => loadedRanks().moments(index, time),
  rankWaits: () => loadedRanks().waits(),
  rankChart: ({ width }) => loadedRanks().chart(width),
  rankTable: ({ request }) => loadedRanks().table(JSON.stringify(request)),
  rankCsv: ({ request }) => loadedRanks().csv(JSON.stringify(request)),
};

serve(handlers, () => wasm?.memory.buffer.byteLength ?? 0);
