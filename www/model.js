// Above the tables of steps, layers and model: sentences, and charts of one run. A worker lays out the charts. A click on a
// step picks its window. Loaded when these tables are first shown.

import { el, latest, loadStyleSheet, targetWithin, words } from './dom.js';
import { loadChartStyle, panelFigure } from './panel.js';

/** @import { ModelView, Page } from './types.js' */

export class Model {
  #page;
  #openTable;
  #isOpen = false;
  #styleSheet = loadStyleSheet('dashboard.css');
  #width = 0;
  #lines = el('div', { class: 'model-lines' });
  #panels = el('div', { class: 'panels' });
  node;

  /** `openTable(id)` scrolls to the table of a chart. @param {Page} page @param {(table: string) => void} openTable */
  constructor(page, openTable) {
    this.#page = page;
    this.#openTable = openTable;
    this.node = el('section', { id: 'model', class: 'dashboard', 'aria-label': 'Steps, layers and model' }, this.#lines, this.#panels);
    this.#panels.addEventListener('click', (event) => this.#pickStep(event));
    new ResizeObserver(() => {
      const width = this.#panels.clientWidth;
      if (this.#isOpen && width > 0 && width !== this.#width) this.#draw();
    }).observe(this.#panels);
  }

  /** @param {boolean} isOpen */
  async show(isOpen) {
    this.#isOpen = isOpen;
    // A node that is not in the page yet has no width; it is drawn when it gets one.
    if (isOpen && this.node.isConnected) await this.#draw();
  }

  /** The run of the charts. */
  get #run() {
    return this.#page.store.run ?? 0;
  }

  /** The trace of that run; undefined for a report without a trace. */
  get #trace() {
    return this.#page.session.liveTraceOf(this.#run);
  }

  #draw = latest(
    async () => {
      const { requestTool, store } = this.#page;
      // The width of the panels depends on the style sheet.
      await Promise.all([this.#styleSheet, loadChartStyle(requestTool)]);
      this.#width = this.#panels.clientWidth;
      return requestTool('model', { run: this.#run, width: this.#width, hidden: store.view.hide });
    },
    (/** @type {ModelView} */ { label, lines, panels }) => {
      this.#lines.replaceChildren(...lines.map((line) => el('p', {}, ...words(line))));
      const heading = label && panels.length > 0 ? [el('p', { class: 'note' }, `Charts of ${label}`)] : [];
      this.#panels.replaceChildren(...heading, ...panels.map((panel) => panelFigure(panel, this.#openTable)));
      // Without the trace there is no window to pick.
      if (!this.#trace) this.#panels.querySelectorAll('[data-window]').forEach((step) => step.removeAttribute('data-window'));
    },
  );

  /** @param {MouseEvent} event */
  #pickStep(event) {
    const step = targetWithin(event, '[data-window]');
    const window = step instanceof SVGElement && step.dataset.window;
    const trace = this.#trace;
    if (window && trace) this.#page.windows.pick(trace, window);
  }
}
