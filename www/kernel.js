// One kernel in detail, above the tables: a rule for it, callers, figures, durations, launches over time and neighbours in each run. Loaded
// when a kernel's name is first pressed.

import { chartSvg, saveMenu } from './chart.js';
import { button, byId, copyButton, el, latest, loadStyleSheet, present, targetWithin } from './dom.js';
import { KernelRule } from './kernel-rule.js';
import { tableBlock } from './table.js';

/** @import { Chart, Kernel, Page } from './types.js' */
/** @import { Rules } from './rules.js' */

/** @typedef {{ label: string, kernel: Kernel | null }} RunKernel */
/** What the panel does elsewhere: `request` resolves with the kernel in each run, null for a run without a trace; `open('')` closes the panel.
 * @typedef {{
 *   request(name: string, width: number): Promise<RunKernel[]>,
 *   open(name: string): void,
 *   showInTimeline(name: string): void,
 *   showLaunch: ShowLaunch,
 *   rules(): Promise<Rules>,
 *   openRules(): void,
 * }} Actions */
/** Shows a launch of a run, by the run's label and its pressed time in the table, in the timeline.
 * @typedef {(runLabel: string, pressed: HTMLElement) => void} ShowLaunch */

const CHARTS = [['Durations of its launches', 'gpuprism-kernel-durations'], ['Its launches over time', 'gpuprism-kernel-launches']];
const styles = loadStyleSheet('kernel.css');
const MIN_WIDTH = 280;
const MAX_WIDTH = 960;

export class KernelPanel {
  #actions;
  #store;
  #panel;
  #title = el('h2', { id: 'kernel-title', tabindex: '-1' });
  #copy = el('span');
  #rule;
  #runs;
  #name = '';
  #width = 0;

  /** The panel, once its styles apply. @param {Page} page @param {Actions} actions */
  static async make(page, actions) {
    await styles;
    return new KernelPanel(page, actions);
  }

  /** @param {Page} page @param {Actions} actions */
  constructor(page, actions) {
    const { open, showInTimeline } = this.#actions = actions;
    this.#store = page.store;
    this.#rule = new KernelRule(page, actions.rules, actions.openRules);
    const close = () => open('');
    this.#runs = el('div', { class: 'blocks', click: (event) => {
      const neighbour = targetWithin(event, 'button.kernel')?.parentElement?.title;
      if (neighbour) open(neighbour);
    } });
    this.#panel = el('section', { id: 'kernel', 'aria-labelledby': 'kernel-title', hidden: true },
      el('header', {}, this.#title, this.#copy, button('In the timeline', () => showInTimeline(this.#name), { class: 'small' }), button('Close', close, { class: 'small', title: 'Close (Esc)' })),
      this.#rule.node, this.#runs);
    byId('panel').before(this.#panel);
    // In the capture phase, before the Escape of keys.js, which would take the focus away from the row that gets it back.
    addEventListener('keydown', (event) => {
      const belongsElsewhere = document.querySelector('dialog[open], details.menu[open]') || targetWithin(event, 'input, select, textarea, .timeline');
      if (event.key !== 'Escape' || !this.#name || belongsElsewhere) return;
      event.stopPropagation();
      close();
    }, { capture: true });
    new ResizeObserver(() => {
      if (this.#name && this.#chartWidth() !== this.#width) this.show(this.#name);
    }).observe(this.#panel);
  }

  #chartWidth = () => Math.max(MIN_WIDTH, Math.min(MAX_WIDTH, Math.floor(this.#panel.clientWidth)));

  /** Shows the kernel of this name; an empty name closes the panel and returns the focus. */
  show = latest(
    (/** @type {string} */ name) => {
      const before = this.#name;
      this.#name = name;
      this.#panel.hidden = !name;
      if (before && !name) this.#returnFocus(before);
      if (!name) return [];
      if (name !== before) this.#open(name);
      this.#width = this.#chartWidth();
      this.#rule.show(name);
      return this.#actions.request(name, this.#width);
    },
    (runs) => {
      const { hide } = this.#store.view;
      this.#runs.replaceChildren(...runs.flatMap((run) => runNodes(run, runs.length > 1, hide, this.#actions.showLaunch)));
    },
  );

  /** @param {string} name */
  #open(name) {
    this.#title.textContent = name;
    this.#copy.replaceChildren(copyButton(name));
    this.#runs.replaceChildren(el('p', { class: 'note', role: 'status' }, 'Looking for its launches'));
    this.#panel.scrollIntoView({ block: 'start' });
    this.#title.focus({ preventScroll: true });
  }

  /** @param {string} name */
  #returnFocus(name) {
    const opener = [...byId('blocks').querySelectorAll('td.kernel')].find((cell) => cell.getAttribute('title') === name);
    opener?.scrollIntoView({ block: 'nearest' });
    opener?.querySelector('button')?.focus({ preventScroll: true });
  }
}

/** @param {RunKernel} run @param {boolean} hasHeading @param {string[]} hidden categories, whose charts are faint @param {ShowLaunch} showLaunch */
function runNodes({ label, kernel }, hasHeading, hidden, showLaunch) {
  const heading = hasHeading && el('h3', { class: 'run-label' }, label);
  if (!kernel) {
    const why = 'This run is a saved report, which contains no individual launches. Open its trace to see the kernel in detail.';
    return present([heading, el('p', { class: 'gap' }, why)]);
  }
  const [callers, lanes, ...others] = kernel.tables;
  const details = kernel.found ? [...kernel.charts.map((chart, index) => figure(chart, index, hidden.includes(kernel.category))), ...others.map((table) => tableBlock(table))] : [];
  for (const block of details) {
    block.addEventListener('click', (event) => {
      const launch = targetWithin(event, 'button.moment-link');
      if (launch) showLaunch(label, launch);
    });
  }
  return present([heading, kernel.found && tableBlock(callers), tableBlock(lanes), ...details]);
}

/** @param {Chart} chart @param {number} index @param {boolean} isFaint */
function figure(chart, index, isFaint) {
  const [title, file] = CHARTS[index];
  const picture = chartSvg(chart);
  picture.classList.toggle('faint', isFaint);
  return el('figure', {}, el('figcaption', {}, title), saveMenu(() => picture, file), picture);
}
