// The tab of the triage: reads torch traces once more with their code, says how far that is, takes another trace for the
// places in the code, and makes kernels and places in its tables act. It is fetched when a person first opens the tab.

import { progressWords, sentence, shellQuoted } from './cards.js';
import { byId, copyButton, el, severityMark } from './dom.js';
import { TraceHolder, WorkerLink, WorkerProblem, compiledModule } from './worker-link.js';

export class Triage {
  #session;
  #copy;
  #runs = el('div', { class: 'triage-runs' });
  #panel;
  /**
   * Of each torch trace: {reader, progress, problem, mapping, chosen}. mapping: the entries that tell its places in the
   * code; chosen: by the person.
   */
  #known = new Map();
  /** One trace is read at a time: each takes the memory of a whole trace. */
  #turn = Promise.resolve();

  /** `markdown()` resolves with the text to copy; `onKernel(name)` is called when a kernel of a table is picked. */
  constructor(session, markdown, onKernel) {
    this.#session = session;
    this.#copy = copyButton(markdown, 'Copy triage as Markdown');
    this.#panel = el('section', { id: 'triage', 'aria-label': 'Triage' }, this.#runs, this.#copy);
    byId('blocks').before(this.#panel);
    byId('blocks').addEventListener('click', (event) => pick(event, onKernel), { capture: true });
  }

  /** The tab came up or went, or the files changed. Traces that were not read with their code yet are read while it is up. */
  show(isUp, hasTables) {
    this.#panel.hidden = !isUp;
    this.#copy.hidden = !hasTables;
    if (!isUp) return;
    for (const entry of this.#traces) if (!this.#known.has(entry)) this.#open(entry);
    this.#draw();
  }

  get #traces() {
    return this.#session.traces.filter(({ torch, text, status }) => torch && text !== null && status !== 'failed');
  }

  /** Drops what was known of files that are gone or were read anew; who took places from one has its own again. */
  forget() {
    const gone = (entry) => !this.#session.entries.includes(entry);
    for (const [entry, { reader }] of this.#known) {
      if (!gone(entry) && !reader?.closed) continue;
      reader?.close();
      this.#known.delete(entry);
    }
    for (const [entry, { mapping }] of this.#known) if (mapping.some(gone)) this.#map(entry, mapping.filter((other) => !gone(other)));
  }

  #open(entry) {
    const state = { reader: new CodeReader(this.#session, entry), progress: null, problem: null, mapping: [], chosen: false };
    this.#known.set(entry, state);
    return this.#step(state, async (progress) => {
      const start = performance.now();
      await state.reader.open(entry.file, progress);
      await this.#borrow(entry, progress);
      await this.#session.hand(entry, state.reader);
      performance.measure('gpuprism:triage', { start, end: performance.now(), detail: { wasm_memory_bytes: entry.memory } });
      if (state.reader.capture) this.#offer();
    });
  }

  /** Traces of graphs being captured tell the others where their kernels come from. */
  #captures(entry) {
    if (this.#known.get(entry).reader.capture) return [];
    return this.#traces.filter((other) => other !== entry && this.#known.get(other)?.reader.capture);
  }

  async #borrow(entry, progress) {
    const state = this.#known.get(entry);
    state.mapping = this.#captures(entry);
    if (state.mapping.length > 0) await state.reader.map(state.mapping, progress);
  }

  /** A capture came after traces that could have used it. */
  #offer() {
    for (const entry of this.#traces) {
      const { chosen, mapping, reader } = this.#known.get(entry) ?? { chosen: true };
      if (!chosen && reader.opened && this.#captures(entry).some((other) => !mapping.includes(other))) this.#map(entry, this.#captures(entry));
    }
  }

  /** Of a trace that failed, the reading begins anew. */
  #again(entry) {
    this.#known.get(entry).reader.close();
    this.#known.delete(entry);
    this.#open(entry);
  }

  #map(entry, mapping) {
    const state = this.#known.get(entry);
    state.mapping = mapping;
    return this.#step(state, async (progress) => {
      await state.reader.map(mapping, progress);
      await this.#session.analyse(entry);
    });
  }

  /** Runs, when its turn comes, what reads a file; how far it is and how it failed stand in the trace's line. */
  #step(state, work) {
    const began = { since: performance.now() };
    const tell = (progress) => {
      state.progress = { ...progress, ...began };
      this.#draw();
    };
    tell({ doing: 'waiting' });
    state.problem = null;
    this.#turn = this.#turn.then(async () => {
      began.since = performance.now();
      try {
        await work(tell);
      } catch (problem) {
        if (problem.kind !== 'cancelled') state.problem = problem;
      }
      state.progress = null;
      this.#draw();
    });
    return this.#turn;
  }

  #draw() {
    const traces = this.#traces.filter((entry) => this.#known.has(entry));
    this.#runs.replaceChildren(...traces.flatMap((entry) => this.#lines(entry, traces)));
  }

  #lines(entry, traces) {
    const { progress, problem, mapping } = this.#known.get(entry);
    const { file } = entry;
    const others = traces.filter((other) => other !== entry);
    const name = el('span', { class: 'run-label', title: file.name }, file.name);
    if (problem) return [this.#problem(entry, problem)];
    if (progress) {
      const bar = el('progress', { max: file.size || 1, value: progress.read ?? 0, 'aria-label': `Reading ${file.name} with its code` });
      return [el('div', { class: 'triage-run reading' }, name, bar, el('span', { class: 'note figures' }, progressWords(progress, file.size)))];
    }
    if (others.length === 0) return [];
    const several = mapping.length > 1 && new Option('the captures of graphs', '', false, true);
    const choose = () => {
      this.#known.get(entry).chosen = true;
      this.#map(entry, others.filter((_, at) => String(at) === choice.value));
    };
    const choice = el('select', { change: choose },
      several, new Option('this trace', 'own', false, mapping.length === 0), ...others.map((other, at) => new Option(other.file.name, String(at), false, !several && mapping.includes(other))));
    return [el('div', { class: 'triage-run' }, name, el('label', {}, 'Places in the code from ', choice))];
  }

  #problem(entry, problem) {
    const command = `gpuprism triage --input ${shellQuoted(entry.file.name)}`;
    return el('article', { class: 'card error', role: 'alert' },
      el('h2', { class: 'file' }, severityMark('error'), `${entry.file.name}: no triage`),
      el('p', { class: 'message' }, sentence(problem)),
      el('p', { class: 'note' }, 'What was known without it still stands. The command line reads the same file without the limits of a tab:'),
      el('p', { class: 'command' }, el('code', {}, command), copyButton(command)),
      el('p', { class: 'actions' }, el('button', { type: 'button', click: () => this.#again(entry) }, 'Try again')));
  }
}

/** One trace's worker that keeps its code; the session uses it like the reader that it replaces. */
class CodeReader extends TraceHolder {
  /** The command that does the same in a terminal. */
  command = 'triage --input';
  opened = false;
  /** Is it a trace of graphs being captured? */
  capture = false;
  #session;
  #entry;

  constructor(session, entry) {
    super();
    this.#session = session;
    this.#entry = entry;
  }

  async open(file, onProgress) {
    onProgress({ doing: 'reading' });
    const module = await compiledModule('gpuprism_full');
    if (this.closed) throw new WorkerProblem({ kind: 'cancelled', message: 'cancelled' });
    this.link = new WorkerLink('triage-worker.js');
    const { capture } = await this.link.request('open', { module, file }, onProgress);
    Object.assign(this, { opened: true, capture });
  }

  map(entries, onProgress) {
    return this.link.request('map', { files: entries.map(({ file }) => file) }, onProgress);
  }

  /** The report's JSON text under these options, the triage among its sections: {text, memory}. */
  analyze(options) {
    return this.link.request('analyze', { options: JSON.stringify(options), beside: JSON.stringify({ server: this.#session.server(this.#entry) }) });
  }
}

/** A kernel leads to its row among all kernels; of a place in the code, path and line are copied. */
async function pick(event, onKernel) {
  const table = event.target.closest('.block')?.dataset.table ?? '';
  const button = event.target.closest('button.kernel, button.place');
  if (!button || !table.startsWith('triage_')) return;
  event.stopPropagation();
  if (button.matches('.place')) return void await copyPlace(button);
  // Time without any kernel is a row, too.
  const name = button.parentElement.title;
  if (name !== '(GPU idle)') onKernel(name);
}

async function copyPlace(button) {
  const [place] = button.textContent.match(/\S+:\d+/) ?? [button.textContent];
  try {
    await navigator.clipboard.writeText(place);
    button.dataset.said = 'Copied';
  } catch {
    button.dataset.said = 'Copy was refused';
  }
  setTimeout(() => delete button.dataset.said, 1500);
}
