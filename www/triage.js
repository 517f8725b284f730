// The triage tab: reads torch traces again with their code, shows the progress, lets the person choose the trace that provides the
// source lines of kernels, and makes kernels and source lines clickable. Loaded when the tab is first opened.

import { actions, problemText, progressText, shellQuoted } from './cards.js';
import { button, byId, commandLine, copyButton, el, note, present, severityMark, targetWithin } from './dom.js';
import { asProblem } from './problem.js';
import { Reader } from './reader-pool.js';
import { blockOf } from './table.js';
import { compiledModule } from './worker-link.js';

/** @import { Entry, Page, Problem, Progress } from './types.js' */

/** A torch trace in the triage. `mapping` are the traces that provide its source lines.
 * @typedef {{ reader: CodeReader, progress: Progress | null, problem: Problem | null, mapping: Entry[], isMappingChosen: boolean }} TriageState */

const SEVERAL = 'several';
const OWN = 'own';
const MESSAGE_MS = 1500;

export class Triage {
  #page;
  #session;
  #copy;
  #runs = el('div', { class: 'triage-runs' });
  #panel;
  /** @type {Map<Entry, TriageState>} */
  #states = new Map();
  /** The end of the queue: one trace is read at a time, because each takes the memory of a whole trace. */
  #queue = Promise.resolve();

  /** `markdown()` resolves with the text to copy; `onKernel(name)` is called when a kernel of a table is pressed.
   * @param {Page} page @param {() => Promise<string>} markdown @param {(name: string) => void} onKernel */
  constructor(page, markdown, onKernel) {
    this.#page = page;
    this.#session = page.session;
    page.store.subscribe(['entries'], () => this.#forgetClosed());
    this.#copy = copyButton(markdown, 'Copy triage as Markdown');
    this.#panel = el('section', { id: 'triage', 'aria-label': 'Triage' }, this.#runs, this.#copy);
    byId('blocks').before(this.#panel);
    byId('blocks').addEventListener('click', (event) => onTableClick(event, onKernel), { capture: true });
  }

  /** Shows or hides the panel. Reads new traces while it is shown. @param {boolean} isOpen @param {boolean} hasTables */
  show(isOpen, hasTables) {
    this.#panel.hidden = !isOpen;
    this.#copy.hidden = !hasTables;
    if (!isOpen) return;
    for (const entry of this.#traces) if (!this.#states.has(entry)) this.#open(entry);
    this.#draw();
  }

  get #traces() {
    return this.#session.traces.filter(({ torch, text, status }) => torch && text !== null && status !== 'failed');
  }

  /** Forgets files that were closed or read again. A trace with source lines from such a file uses its own again. */
  #forgetClosed() {
    const isClosed = (/** @type {Entry} */ entry) => !this.#session.entries.includes(entry);
    for (const [entry, { reader }] of this.#states) {
      if (!isClosed(entry) && !reader.isClosed) continue;
      reader.close();
      this.#states.delete(entry);
    }
    for (const [entry, state] of this.#states) {
      if (state.mapping.some(isClosed)) this.#setMapping(entry, state, state.mapping.filter((other) => !isClosed(other)));
    }
  }

  /** @param {Entry} entry */
  #open(entry) {
    /** @type {TriageState} */
    const state = { reader: new CodeReader(), progress: null, problem: null, mapping: [], isMappingChosen: false };
    this.#states.set(entry, state);
    return this.#enqueue(state, async (onProgress) => {
      const start = performance.now();
      await state.reader.open(entry.file, onProgress);
      state.mapping = this.#captures(entry);
      if (state.mapping.length > 0) await state.reader.map(state.mapping, onProgress);
      await this.#session.replaceReader(entry, state.reader);
      performance.measure('gpuprism:triage', { start, end: performance.now(), detail: { wasm_memory_bytes: entry.memory } });
      if (state.reader.isCapture) this.#offerCapture();
    });
  }

  /** The traces of graph captures that can provide source lines for this trace. @param {Entry} entry */
  #captures(entry) {
    if (this.#states.get(entry)?.reader.isCapture) return [];
    return this.#traces.filter((other) => other !== entry && this.#states.get(other)?.reader.isCapture);
  }

  /** After a graph capture was read: the traces that were read before it take their source lines from it. */
  #offerCapture() {
    for (const entry of this.#traces) {
      const state = this.#states.get(entry);
      if (!state?.reader.isOpened || state.isMappingChosen) continue;
      const captures = this.#captures(entry);
      if (captures.some((other) => !state.mapping.includes(other))) this.#setMapping(entry, state, captures);
    }
  }

  /** Reads a trace again after a failure. @param {Entry} entry */
  #retry(entry) {
    this.#states.get(entry)?.reader.close();
    this.#states.delete(entry);
    this.#open(entry);
  }

  /** @param {Entry} entry @param {TriageState} state @param {Entry[]} mapping */
  #setMapping(entry, state, mapping) {
    state.mapping = mapping;
    return this.#enqueue(state, async (onProgress) => {
      await state.reader.map(mapping, onProgress);
      await this.#session.analyzeAgain(entry);
    });
  }

  /** Queues a step that reads files. Shows its progress or problem in the trace's line.
   * @param {TriageState} state @param {(onProgress: (progress: Progress) => void) => Promise<void>} step */
  #enqueue(state, step) {
    let since = performance.now();
    const onProgress = (/** @type {Progress} */ progress) => {
      state.progress = { ...progress, since };
      this.#draw();
    };
    onProgress({ doing: 'waiting' });
    state.problem = null;
    this.#queue = this.#queue.then(async () => {
      since = performance.now();
      try {
        await step(onProgress);
      } catch (thrown) {
        const problem = asProblem(thrown);
        if (problem.kind !== 'cancelled') state.problem = problem;
      }
      state.progress = null;
      this.#draw();
    });
    return this.#queue;
  }

  #draw() {
    const traces = this.#traces.filter((entry) => this.#states.has(entry));
    this.#runs.replaceChildren(...present(traces.map((entry) => this.#line(entry, traces))));
  }

  /** A trace's problem, its progress, or the choice of its source lines. @param {Entry} entry @param {Entry[]} traces */
  #line(entry, traces) {
    const state = this.#states.get(entry);
    if (!state) return null;
    const { progress, problem } = state;
    const { file } = entry;
    const others = traces.filter((other) => other !== entry);
    const name = el('span', { class: 'run-label', title: file.name }, file.name);
    if (problem) return this.#problemCard(entry, problem);
    if (progress) {
      const bar = el('progress', { max: file.size || 1, value: progress.read ?? 0, 'aria-label': `Reading ${file.name} with its code` });
      return el('div', { class: 'triage-run reading' }, name, bar, el('span', { class: 'note figures' }, progressText(progress, file.size)));
    }
    const lacksLines = state.reader.replaysGraphs && !state.reader.isCapture && state.mapping.length + entry.captures.length === 0;
    if (others.length === 0 && !lacksLines) return null;
    return el('div', { class: 'triage-run' }, name,
      others.length > 0 && el('label', {}, 'Source lines from ', this.#mappingChoice(entry, state, others)),
      lacksLines && this.#mappingOffer(entry, state));
  }

  /** Takes a trace without graphs that is dropped or chosen. @param {Entry} entry @param {TriageState} state */
  #mappingOffer(entry, state) {
    const files = el('input', { type: 'file', hidden: true });
    const take = (/** @type {File[]} */ chosen) => this.#page.attempt('The trace could not be used', () => this.#mapWith(entry, state, chosen));
    files.addEventListener('change', () => take([...(files.files ?? [])]));
    /** @param {DragEvent} event */
    const drop = (event) => {
      const dropped = [...(event.dataTransfer?.files ?? [])];
      if (dropped.length === 0) return;
      // The page would open them without using their source lines.
      event.preventDefault();
      take(dropped);
    };
    return el('p', { class: 'mapping-offer', drop },
      'CUDA graphs launch these kernels, so they have no Python line of their own. Drop an eager capture of the same model here: each kernel shows the line that launches it there. ',
      button('Choose a capture', () => files.click(), { class: 'small' }), files);
  }

  /** Opens traces and takes the source lines of a trace from them. @param {Entry} entry @param {TriageState} state @param {File[]} files */
  async #mapWith(entry, state, files) {
    const opened = await this.#page.openFiles(files);
    const traces = opened.filter(({ torch }) => torch);
    if (traces.length === 0) throw new Error('Only a trace of torch.profiler has Python lines.');
    state.isMappingChosen = true;
    await this.#setMapping(entry, state, traces);
  }

  /** @param {Entry} entry @param {TriageState} state @param {Entry[]} others */
  #mappingChoice(entry, state, others) {
    const options = [new Option('this trace', OWN), ...others.map((other, index) => new Option(other.file.name, String(index)))];
    const hasSeveral = state.mapping.length > 1;
    if (hasSeveral) options.unshift(new Option('the captures of graphs', SEVERAL));
    const choice = el('select', {}, ...options);
    const [only] = state.mapping;
    choice.value = hasSeveral ? SEVERAL : only ? String(others.indexOf(only)) : OWN;
    choice.addEventListener('change', () => {
      state.isMappingChosen = true;
      this.#setMapping(entry, state, others.filter((_, index) => String(index) === choice.value));
    });
    return choice;
  }

  /** @param {Entry} entry @param {Problem} problem */
  #problemCard(entry, problem) {
    return el('article', { class: 'card error', role: 'alert' },
      el('h2', { class: 'file' }, severityMark('error'), `${entry.file.name}: no triage`),
      el('p', { class: 'message' }, problemText(problem)),
      note('The other results stay valid. The command line reads the same file without the memory limit of a tab:'),
      commandLine(`gpuprism triage --input ${shellQuoted(entry.file.name)}`),
      actions(button('Try again', () => this.#retry(entry))));
  }
}

/** The worker of a trace that was read with its code. It replaces the trace's first reader. */
class CodeReader extends Reader {
  command = 'triage --input';
  hasSections = true;
  isOpened = false;
  /** True for a trace of graphs being captured. */
  isCapture = false;
  /** True if graphs launched kernels of the trace. */
  replaysGraphs = false;

  /** @param {import('./types.js').SourceFile} file @param {(progress: Progress) => void} onProgress */
  async open(file, onProgress) {
    onProgress({ doing: 'reading' });
    const module = await compiledModule('gpuprism_full');
    this.start();
    const { isCapture, replaysGraphs } = await this.request('openWithCode', { module, file }, onProgress);
    this.isOpened = true;
    Object.assign(this, { isCapture, replaysGraphs });
  }

  /** Takes source lines from these traces. @param {Entry[]} entries @param {(progress: Progress) => void} onProgress */
  map(entries, onProgress) {
    return this.request('map', { files: entries.map(({ file }) => file) }, onProgress);
  }
}

/** In a table of the triage, a kernel opens its row among all kernels, and a source line is copied.
 * @param {Event} event @param {(name: string) => void} onKernel */
async function onTableClick(event, onKernel) {
  const pressed = targetWithin(event, 'button.kernel, button.place');
  if (!pressed || !blockOf(pressed)?.dataset.table?.startsWith('triage_')) return;
  event.stopPropagation();
  if (pressed.matches('.place')) {
    await copySourceLine(pressed);
    return;
  }
  const name = pressed.parentElement?.title;
  // Time without any kernel is a row too.
  if (name && name !== '(GPU idle)') onKernel(name);
}

/** Copies path and line, and shows the outcome for a moment. @param {HTMLElement} pressed */
async function copySourceLine(pressed) {
  const text = pressed.textContent ?? '';
  const [line] = text.match(/\S+:\d+/) ?? [text];
  try {
    await navigator.clipboard.writeText(line);
    pressed.dataset.message = 'Copied';
  } catch {
    pressed.dataset.message = 'Copy was refused';
  }
  setTimeout(() => delete pressed.dataset.message, MESSAGE_MS);
}
