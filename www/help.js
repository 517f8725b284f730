// The help: the keys, and the files that the page opens. Loaded on the first use.

import { button, el, loadStyleSheet, note } from './dom.js';

loadStyleSheet('help.css');

const KEYS = [
  ['?', 'this help'],
  ['/', 'filter the rows of the table'],
  ['1 to 9', 'the first to the ninth tab'],
  ['[ and ]', 'the previous and the next tab'],
  ['← →, Home, End', 'other tabs, while a tab has the focus'],
  ['o', 'open files'],
  ['e', 'the export menu'],
  ['t', 'theme: as the system, light, dark'],
  ['Esc', 'close a menu or this help, leave a field'],
];

const TIMELINE_KEYS = [
  ['w s', 'zoom in and out'],
  ['a d', 'pan'],
  ['← → ↑ ↓', 'other bars of the lane, other lanes'],
  ['n N', 'the next launch of the same kernel, the one before'],
  ['f', 'zoom to the selected bar'],
  ['m', 'mark its start'],
  ['Shift and a drag', 'pick a window for all tables'],
  ['Esc', 'close the selection, then the window'],
];

const FILES = [
  ['.json, .json.gz', 'a trace of torch.profiler from SGLang, vLLM, TensorRT-LLM or PyTorch'],
  ['.sqlite', 'the export of an Nsight Systems report: nsys export --type sqlite'],
  ['.csv', 'the table of nsys stats -r cuda_gpu_trace --format csv'],
  ['report', 'the JSON of gpuprism or of nsys-llm-explainer, with its nvlink_timeseries.csv'],
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
