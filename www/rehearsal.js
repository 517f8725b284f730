// Runs what a trace's worker and the render worker run first, on a made-up trace, while a person looks for a file or a large file
// is read. A browser compiles a WebAssembly function when it is first called, quickly, and again, well, after it has run for a
// while. Workers share the code, so the first results, bars and windows of the file come as fast as later ones.

// A static import in a worker script is blocked by the policy in Firefox.
const { LAYERS } = await import('./timeline-view.js');

/** @import { TableRequest } from './types.js' */

const STEPS = 40;
const OPS_A_STEP = 100;
const RENDERINGS = 20;
const WIDTH = 1_000;
const LEVELS = 16;
/** Tables of the first results. */
const TABLES = ['top_kernels', 'categories', 'devices', 'findings'];

/** @typedef {import('./pkg/gpuprism_full.js').Imported} Imported */

/** The made-up trace, read. @param {typeof import('./pkg/gpuprism_full.js')} wasm @returns {Imported} */
export function openMadeUp({ TraceReader }) {
  const reader = new TraceReader('rehearsal.json');
  reader.feed(new TextEncoder().encode(madeUpTrace()));
  return reader.finish();
}

/** Makes what a page asks for first, and returns the report. @param {Imported} trace */
export function rehearseTrace(trace) {
  const text = trace.analyze('{}');
  for (const window of [null, trace.window(0.4, 0.5), trace.window(0.1, 0.9)]) {
    for (const without of [true, false]) trace.analyze(JSON.stringify({ window, without_sections: without }));
  }
  trace.strips('{}', WIDTH, false, 0);
  const view = trace.timeline('{}');
  for (const layer of LAYERS) for (let level = 0; level < LEVELS; level += 1) trace.timeline_tile(layer, level, 0);
  for (let lane = 0; lane < view.lanes.length; lane += 1) trace.timeline_moment(lane, 1);
  return text;
}

/** @param {import('./pkg/gpuprism.js').Reports} reports @param {string} text */
export function rehearseReports(reports, text) {
  for (let round = 0; round < RENDERINGS; round += 1) {
    reports.set([text]);
    reports.overview();
    reports.chart(WIDTH, []);
    for (const id of TABLES) reports.table(firstRows(id));
  }
}

/** @param {string} id @returns {TableRequest} */
const firstRows = (id) => ({
  id, run: 0, sort: null, descending: false, filter: '', hidden_categories: [], from: 0, count: 50, short: true, name_chars: 60, find: [],
});

/** A trace of torch.profiler: decode steps with kernels, copies, launches, CPU ops and Python frames. No number in it was measured. */
function madeUpTrace() {
  /** @type {object[]} */
  const traceEvents = [];
  const add = (/** @type {string} */ cat, /** @type {string} */ name, /** @type {number[]} */ [ts, dur], /** @type {object} */ args, [pid, tid] = [9, 9]) => {
    traceEvents.push({ ph: 'X', cat, name, pid, tid, ts, dur, args });
  };
  const kernels = ['gemm_kernel<128, 64>', 'flash_attention', 'rms_norm', 'ncclDevKernel_AllReduce_Sum_bf16_RING_LL', 'elementwise_kernel<4>'];
  for (let step = 0; step < STEPS; step += 1) {
    const begin = step * OPS_A_STEP * 12;
    add('user_annotation', `decode bs=${step % 4}`, [begin, OPS_A_STEP * 11], {});
    add('python_function', 'engine/runner.py(12): execute_model', [begin, OPS_A_STEP * 11], { 'Python id': step + 1, 'Python parent id': null });
    for (let op = 0; op < OPS_A_STEP; op += 1) {
      const [at, correlation, isCopy] = [begin + op * 10, step * OPS_A_STEP + op + 1, op % 25 === 24];
      const ids = { correlation, 'External id': correlation };
      add('cpu_op', `aten::op${op % 7}`, [at, 9], { 'External id': correlation });
      add('python_function', `model/layer.py(${op % 20}): forward`, [at, 9.5], { 'Python id': 10_000 + correlation, 'Python parent id': step + 1 });
      add('cuda_runtime', isCopy ? 'cudaMemcpyAsync' : 'cudaLaunchKernel', [at + 2, 4], ids);
      const [cat, name] = isCopy ? ['gpu_memcpy', 'Memcpy DtoH (Device -> Pinned)'] : ['kernel', kernels[op % kernels.length] ?? ''];
      add(cat, name, [at + 8, 5 + (op % 9)], { ...ids, device: 0, stream: 7 + (op % 2) }, [0, 7]);
    }
    add('cuda_runtime', 'cudaStreamSynchronize', [begin + OPS_A_STEP * 10, 40], {});
  }
  return JSON.stringify({ schemaVersion: 1, deviceProperties: [{ id: 0, name: 'NVIDIA H100' }], traceEvents });
}
