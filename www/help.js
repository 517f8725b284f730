// The help: which keys there are and which files the page takes. It is fetched when it is first asked for.

import { el, styled } from './dom.js';

styled('help.css');

const KEYS = [
  ['?', 'this help'],
  ['/', 'filter the rows of the table'],
  ['1 to 9', 'the first to the ninth tab'],
  ['[ and ]', 'the tab before, the tab after'],
  ['← →, Home, End', 'other tabs, while a tab has the focus'],
  ['o', 'open files'],
  ['e', 'the export menu'],
  ['t', 'theme: as the system, light, dark'],
  ['Esc', 'close a menu or this help, leave a field'],
];

const FILES = [
  ['.json, .json.gz', 'a trace of torch.profiler from SGLang, vLLM, TensorRT-LLM or PyTorch'],
  ['.sqlite', 'the export of an Nsight Systems report: nsys export --type sqlite'],
  ['.csv', 'the table of nsys stats -r cuda_gpu_trace --format csv'],
  ['report', 'the JSON of gpuprism or of nsys-llm-explainer, with its nvlink_timeseries.csv'],
  ['rules, phases', 'JSON files of rules for categories, or a map of phases'],
  ['server_args.json', 'the arguments of an SGLang server, beside its traces'],
  ['a folder', 'the traces in it'],
];

let panel = null;

/** The panel is native: Esc closes it, and the focus goes back to where it was. */
export function toggleHelp() {
  panel ??= build();
  if (panel.open) panel.close();
  else panel.showModal();
}

function build() {
  const dialog = el('dialog', { id: 'help-panel', 'aria-labelledby': 'help-title' },
    el('header', {}, el('h2', { id: 'help-title' }, 'Keys and files'), el('button', { type: 'button', autofocus: true, click: () => dialog.close() }, 'Close')),
    el('h3', {}, 'Keys'), pairs(KEYS, 'kbd'),
    el('h3', {}, 'Files, dropped anywhere, several at once'), pairs(FILES, 'span'),
    el('p', { class: 'note' }, 'Everything is read in this tab; nothing is sent anywhere.'));
  // What is behind the panel is its own backdrop: a click there closes it.
  dialog.addEventListener('click', ({ target }) => target === dialog && dialog.close());
  document.body.append(dialog);
  return dialog;
}

function pairs(lines, tag) {
  return el('dl', {}, ...lines.map(([what, does]) => el('div', {}, el('dt', {}, el(tag, {}, what)), el('dd', {}, does))));
}
