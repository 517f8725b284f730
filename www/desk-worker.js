// The desk worker: has the reports of all runs and no trace; compares runs and writes the files that a person saves. Loaded when a
// person first saves a file or opens a second run.

const [{ default: init, Tools }, { serve }] = await Promise.all([import('./pkg/gpuprism_full.js'), import('./worker-serve.js')]);

/** @type {import('./pkg/gpuprism_full.js').InitOutput | undefined} */
let wasm;
/** @type {import('./pkg/gpuprism_full.js').Tools} */
let desk;

/** @type {import('./types.js').Handlers<import('./types.js').DeskOperations>} */
const handlers = {
  async start({ module }) {
    wasm = await init({ module_or_path: module });
    desk = new Tools();
  },
  set: ({ texts }) => desk.set(texts),
  translate: ({ label, text }) => desk.translate(label, text),
  export: ({ format, table, baseline }) => desk.export(format, table, baseline),
  compare: ({ baseline }) => desk.compare(baseline),
  chart: ({ baseline, width, hidden }) => desk.chart(baseline, width, hidden),
  table: ({ baseline, request }) => desk.table(baseline, request),
  dashboard: ({ request }) => desk.dashboard(JSON.stringify(request)),
  dashboardCss: () => Tools.dashboard_css(),
  sharePreview: ({ request }) => desk.share_preview(JSON.stringify(request)),
  shareRedactions: () => desk.share_redactions(),
  shareFile: ({ request }) => /** @type {Uint8Array<ArrayBuffer>} */ (desk.share_file(JSON.stringify(request))),
  shareLink: ({ request }) => desk.share_link(JSON.stringify(request)),
  openLink: ({ text }) => desk.open_link(text),
  workbench: ({ options, request }) => desk.workbench(JSON.stringify(options), JSON.stringify(request)),
  workbenchCsv: ({ options, request }) => desk.workbench_csv(JSON.stringify(options), JSON.stringify(request)),
  rulesJson({ options }) {
    const [name, text] = desk.rules_json(JSON.stringify(options));
    return { name, text };
  },
  checkRules: ({ file, text }) => desk.check_rules(file, text),
  ruleForKernel: ({ options, file, text, kernel }) => desk.rule_for_kernel(JSON.stringify(options), file, text, kernel),
  ruleToEdit: ({ options, file, text, regex }) => desk.rule_to_edit(JSON.stringify(options), file, text, regex),
};

serve(handlers, () => wasm?.memory.buffer.byteLength ?? 0);
