// The desk worker: holds the runs' reports, never a trace, writes the files that a person saves and compares the runs. It is
// fetched when a person first wants a file, or opens a second run.

const [{ default: init, Desk }, { serve }] = await Promise.all([import('./pkg/gpuprism_full.js'), import('./worker-serve.js')]);

let wasm;
let desk;

serve({
  async start({ module }) {
    wasm = await init({ module_or_path: module });
    desk = new Desk();
  },
  set: ({ texts }) => desk.set(texts),
  translate: ({ label, text }) => desk.translate(label, text),
  export: ({ format, table, baseline }) => desk.export(format, table, baseline),
  compare: ({ baseline }) => desk.compare(baseline),
  chart: ({ baseline, width, hidden }) => desk.chart(baseline, width, hidden),
  table: ({ baseline, request }) => desk.table(baseline, request),
  dashboard: ({ wish }) => desk.dashboard(JSON.stringify(wish)),
  dashboardCss: () => Desk.dashboard_css(),
  share: ({ what, wish }) => desk[`share_${what}`](JSON.stringify(wish)),
  workbench: ({ choices, request }) => desk.workbench(JSON.stringify(choices), JSON.stringify(request)),
  workbenchCsv: ({ choices, request }) => desk.workbench_csv(JSON.stringify(choices), JSON.stringify(request)),
  rulesJson({ choices }) {
    const [name, text] = desk.rules_json(JSON.stringify(choices));
    return { name, text };
  },
  checkRules: ({ file, text }) => desk.check_rules(file, text),
  ruleForKernel: ({ choices, file, text, kernel }) => desk.rule_for_kernel(JSON.stringify(choices), file, text, kernel),
  ruleToEdit: ({ choices, file, text, regex }) => desk.rule_to_edit(JSON.stringify(choices), file, text, regex),
  openLink: ({ text }) => desk.open_link(text),
}, () => wasm?.memory.buffer.byteLength ?? 0);
