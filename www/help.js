// The help: the keys, and the files that the page opens. Loaded on the first use.

import { button, el, loadStyleSheet, note } from './dom.js';

loadStyleSheet('help.css');

const KEYS = [
  ['?', 'this help'],
  ['/', 'filter the rows of the table, and find ops in the timeline: Enter goes to the first one, then n and N to the next and previous one'],
  ['1 to 9', 'the first to the ninth tab'],
  ['[ and ]', 'the previous and the next tab'],
  ['← →, Home, End', 'other tabs, while a tab has the focus'],
  ['o', 'open files'],
  ['e', 'the export menu'],
  ['t', 'theme: as the system, light, dark'],
  ['Esc', 'close a menu or this help, leave a field'],
];

const TIMELINE_KEYS = [
  ['w s', 'zoom in and out at the pointer, else at the selected bar'],
  ['a d', 'pan'],
  ['← → ↑ ↓', 'other bars of the lane, other lanes'],
  ['n N', 'the next launch of the same kernel, the one before'],
  ['f', 'zoom to the selected bar'],
  ['z', 'fill the window with the timeline, and back'],
  ['p c', 'pin the lane of the selected bar, else the one under the pointer; fold its group'],
  ['Shift ↑ ↓', 'move that lane within its group'],
  ['m', 'mark its start, else the time under the pointer'],
  ['Shift and a drag', 'pick a window for all tables'],
  ['Esc', 'a step back: to the table, to the view before a zoom to a bar, from the selection, from the filled window, to the window before, to the whole trace'],
];

const FILES = [
  ['torch.profiler', '.json, .json.gz from SGLang, vLLM, TensorRT-LLM, PyTorch on NVIDIA, AMD (ROCm) and Intel (XPU)'],
  ['Nsight Systems export', '.sqlite, .sqlite.gz; .nsys-rep with your nsys, and the folder of nsys export --type parquetdir (command line) from Nsight Systems'],
  ['nsys cuda_gpu_trace', '.csv from nsys stats -r cuda_gpu_trace'],
  ['Chrome JSON of an Nsight Systems export', '.json from nsys2json and similar scripts'],
  ['rocprofv3 CSV', '*_kernel_trace.csv; with *_hip_api_trace.csv, *_memory_copy_trace.csv, *_marker_api_trace.csv, *_agent_info.csv and others of the run, plain or gzipped, opened together or as a folder from rocprofv3 (ROCm 6.2 or later)'],
  ['rocprofv3 JSON', '*_results.json from rocprofv3 (ROCm 6.2 or later)'],
  ['rocpd database', '*_results.db from rocprofv3 (ROCm 7, its default)'],
  ['RPD database', '.rpd from rocmProfileData; SGLang with "activities": ["RPD"]'],
  ['RPD Chrome JSON', '.json, .json.gz from rpd2tracing.py of rocmProfileData; SGLang'],
  ['rocprof JSON', 'results.json from rocprof (ROCm before 6.2)'],
  ['rocprof CSV', 'results.csv from rocprof and rocprofv2 (ROCm before 6.2)'],
  ['rocprof database', 'results.db from rocprof (ROCm before 6.2)'],
  ['Ascend trace_view.json', 'trace_view.json, or the folder *_ascend_pt from torch_npu; vLLM-Ascend and SGLang on Ascend'],
  ['Ascend kernel_details.csv', 'kernel_details.csv, op_summary_*.csv, task_time_*.csv from torch_npu, msprof'],
  ['Ascend database', 'msprof_*.db, ascend_pytorch_profiler*.db from msprof, torch_npu'],
  ['Proton trace', '.json, .chrome_trace from Proton of Triton; vLLM with "profiler": "proton"'],
  ['Proton tree', '.hatchet from Proton of Triton'],
  ['XLA profile', '*.xplane.pb, .xplane.pb.gz from jax.profiler, TensorFlow, PyTorch/XLA on GPUs and TPUs'],
  ['XLA trace viewer JSON', '*.trace.json.gz, perfetto_trace.json.gz from jax.profiler, TensorFlow, XProf'],
  ['rocprofv3 Perfetto trace', '*_results.pftrace from rocprofv3 (ROCm 6.2 or later), rocpd2pftrace'],
  ['CUPTI monitor Perfetto trace', '.pftrace, .pftrace.gz from PyTorch (CUPTI monitor)'],
  ['unitrace Perfetto trace', '.pftrace, .perfetto-trace from unitrace (Intel PTI)'],
  ['unitrace JSON', '*.json from unitrace (Intel PTI)'],
  ['Proton Perfetto trace', '.pftrace from Proton of Triton'],
  ['nsys-llm-explainer report', 'report.json from nsys-llm-explainer'],
  ['report', 'the JSON of gpuprism'],
  ['rules, phases', 'JSON files of rules for categories, or a map of phases'],
  ['config.json', 'the dimensions of a model from Hugging Face, for the floor of its steps, together with its traces'],
  ['server_args.json', 'the arguments of an SGLang server, together with its traces'],
  ['a folder', 'the traces in it'],
];

/** @type {HTMLDialogElement | null} */
let panel = null;

/** Shows or hides the help. It is a native dialog: Esc closes it, and the focus returns to where it was. */
export function toggleHelp() {
  panel ??= build();
  if (panel.open) panel.close();
  else panel.showModal();
}

function build() {
  const dialog = el('dialog', { id: 'help-panel', 'aria-labelledby': 'help-title' });
  dialog.append(
    el('header', {}, el('h2', { id: 'help-title' }, 'Keys and files'), button('Close', () => dialog.close(), { autofocus: true })),
    el('h3', {}, 'Keys'), pairs(KEYS, 'kbd'),
    el('h3', {}, 'Keys of the timeline, while it has the focus'), pairs(TIMELINE_KEYS, 'kbd'),
    el('h3', {}, 'Files, dropped anywhere, several at once'), pairs(FILES, 'span'),
    note('Everything is read in this tab; nothing is sent anywhere.'),
    el('p', { class: 'note' }, el('a', { href: 'docs/index.html', target: '_blank', rel: 'noopener' }, 'Documentation')));
  // A click on the backdrop has the dialog itself as target.
  dialog.addEventListener('click', ({ target }) => target === dialog && dialog.close());
  document.body.append(dialog);
  return dialog;
}

/** @param {string[][]} lines @param {'kbd' | 'span'} tag */
function pairs(lines, tag) {
  return el('dl', {}, ...lines.map(([term, description]) => el('div', {}, el('dt', {}, el(tag, {}, term)), el('dd', {}, description))));
}
