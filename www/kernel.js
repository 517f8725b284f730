// One kernel in detail, above the tables: figures, durations, launches over time, callers and neighbours in each run at hand.
// It is fetched when a kernel's name is first pressed.

import { drawing, saveMenu } from './chart.js';
import { byId, copyButton, el, latest } from './dom.js';
import { block } from './table.js';

const CHARTS = [['How long its launches take', 'gpuprism-kernel-durations'], ['Its launches over time', 'gpuprism-kernel-launches']];

export class KernelPanel {
  #ask;
  #panel;
  #title = el('h2', { id: 'kernel-title', tabindex: '-1' });
  #copy = el('span');
  #runs;
  #name = '';
  #width = 0;

  /**
   * `ask(name, width)` resolves with each run's {label, kernel}, where kernel is null for a run without a trace; `open(name)`
   * leads to another kernel, '' to none.
   */
  constructor(ask, open) {
    this.#ask = ask;
    const close = () => open('');
    this.#runs = el('div', { class: 'blocks', click: ({ target }) => {
      const neighbour = target.closest('button.kernel')?.parentElement.title;
      if (neighbour) open(neighbour);
    } });
    this.#panel = el('section', { id: 'kernel', 'aria-labelledby': 'kernel-title', hidden: true },
      el('header', {}, this.#title, this.#copy, el('button', { type: 'button', class: 'small', title: 'Close (Esc)', click: close }, 'Close')),
      this.#runs);
    byId('tabs').before(this.#panel);
    // Before the page's own Escape, which would take the focus from what it is given back to.
    addEventListener('keydown', (event) => {
      const isElsewhere = document.querySelector('dialog[open], details.menu[open]') || event.target.closest?.('input, select, textarea');
      if (event.key !== 'Escape' || !this.#name || isElsewhere) return;
      event.stopPropagation();
      close();
    }, { capture: true });
    new ResizeObserver(() => {
      if (this.#name && this.#wide() !== this.#width) this.show(this.#name);
    }).observe(this.#panel);
  }

  #wide = () => Math.max(280, Math.min(960, Math.floor(this.#panel.clientWidth)));

  /** Shows the kernel of this name; '' takes the panel away and gives the focus back. */
  show = latest(
    (name) => {
      const before = this.#name;
      this.#name = name;
      this.#panel.hidden = !name;
      if (before && !name) this.#back(before);
      if (!name) return [];
      if (name !== before) this.#open(name);
      this.#width = this.#wide();
      return this.#ask(name, this.#width);
    },
    (runs) => this.#runs.replaceChildren(...runs.flatMap((run) => this.#run(run, runs.length > 1))),
  );

  #open(name) {
    this.#title.textContent = name;
    this.#copy.replaceChildren(copyButton(name));
    this.#runs.replaceChildren(el('p', { class: 'note', role: 'status' }, 'Looking at its launches'));
    this.#panel.scrollIntoView({ block: 'start' });
    this.#title.focus({ preventScroll: true });
  }

  #back(name) {
    const opener = [...byId('blocks').querySelectorAll('td.kernel')].find(({ title }) => title === name);
    opener?.scrollIntoView({ block: 'nearest' });
    opener?.querySelector('button').focus({ preventScroll: true });
  }

  #run({ label, kernel }, isNamed) {
    const head = isNamed && el('h3', { class: 'run-label' }, label);
    const why = 'This run is a report opened again, which holds sums and no launches. Open its trace to see the kernel in detail.';
    if (!kernel) return [head, el('p', { class: 'gap' }, why)].filter(Boolean);
    const { found, charts, tables } = kernel;
    const [lanes, ...others] = tables;
    const drawn = found ? charts.map(figure) : [];
    return [head, block(lanes), ...drawn, ...(found ? others.map((view) => block(view)) : [])].filter(Boolean);
  }
}

function figure(chart, at) {
  const [title, file] = CHARTS[at];
  const picture = drawing(chart, () => {});
  return el('figure', {}, el('figcaption', {}, title), saveMenu(() => picture, file), picture);
}
