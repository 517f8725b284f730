// The dashboard: charts of one run, next to a baseline if there is one, and their options. A worker lays out the charts; this
// file arranges them. Loaded when its tab is first opened.

import { byId, el, latest, loadStyleSheet, runOptions, targetWithin } from './dom.js';
import { loadChartStyle, panelFigure } from './panel.js';

/** @import { DashboardView, Page, View } from './types.js' */

/** From this width on, in pixels, the smaller charts have two columns. */
const TWO_COLUMNS_WIDTH = 1000;
const COLUMN_GAP = 28;

export class Dashboard {
  #page;
  #openTable;
  #isOpen = false;
  #styleSheet = loadStyleSheet('dashboard.css');
  #width = 0;
  #status = el('p', { class: 'note', role: 'status' });
  #panels = el('div', { class: 'panels' });
  #hardware = el('select', { name: 'gpu' });
  #threshold = el('input', { type: 'range', name: 'above', min: '0', step: '0.5' });
  #thresholdText = el('output');
  #communication = el('input', { type: 'checkbox', name: 'comm' });
  #baseline = el('select', { name: 'base' });
  #baselineLabel = el('label', {}, 'Next to ', this.#baseline);
  #node;

  /** `openTable(id)` opens the table of a panel. @param {Page} page @param {(table: string) => void} openTable */
  constructor(page, openTable) {
    this.#page = page;
    this.#openTable = openTable;
    this.#lookOnChange(this.#hardware, () => ({ gpu: this.#hardware.value }));
    this.#lookOnChange(this.#threshold, () => ({ above: this.#threshold.value === '0' ? '' : this.#threshold.value }));
    this.#lookOnChange(this.#communication, () => ({ comm: this.#communication.checked ? '' : 'off' }));
    this.#lookOnChange(this.#baseline, () => ({ base: this.#baseline.value }));
    this.#threshold.addEventListener('input', () => void (this.#thresholdText.value = `${this.#threshold.value} ms`));
    this.#node = el('section', { id: 'dashboard', class: 'dashboard', 'aria-label': 'Dashboard', hidden: true },
      el('form', { 'aria-label': 'Options of the dashboard' },
        el('label', {}, 'Kernels from ', this.#threshold, this.#thresholdText),
        el('label', {}, 'Hardware ', this.#hardware),
        el('label', {}, this.#communication, 'Communication'),
        this.#baselineLabel),
      this.#status, this.#panels);
    this.#panels.addEventListener('click', (event) => {
      const kernel = targetWithin(event, '[data-kernel]')?.dataset.kernel;
      if (kernel) page.look({ kernel });
    });
    byId('blocks').before(this.#node);
    new ResizeObserver(() => {
      if (this.#isOpen && this.#panels.clientWidth !== this.#width && this.#width > 0) this.#draw();
    }).observe(this.#panels);
  }

  /** @param {HTMLElement} control @param {() => Partial<View>} change */
  #lookOnChange(control, change) {
    control.addEventListener('change', () => this.#page.look(change()));
  }

  /** @param {boolean} isOpen */
  async show(isOpen) {
    this.#isOpen = isOpen;
    this.#node.hidden = !isOpen;
    byId('filter').hidden = isOpen;
    if (isOpen) await this.#draw();
  }

  #draw = latest(
    async () => {
      const { store, requestTool } = this.#page;
      // The width of the panels depends on the style sheet.
      await Promise.all([this.#styleSheet, loadChartStyle(requestTool)]);
      this.#width = this.#panels.clientWidth;
      const hasColumns = this.#width >= TWO_COLUMNS_WIDTH;
      const { view, run, baseline } = store;
      const dashboard = await requestTool('dashboard', { request: {
        run, baseline, hardware: view.gpu || null, threshold_ms: Number.parseFloat(view.above) || 0, communication: view.comm !== 'off', hidden: view.hide,
        width: this.#width, column_width: hasColumns ? Math.floor((this.#width - COLUMN_GAP) / 2) : this.#width,
      } });
      return { dashboard, hasColumns };
    },
    ({ dashboard, hasColumns }) => {
      this.#showOptions(dashboard);
      this.#panels.classList.toggle('columns', hasColumns);
      this.#panels.replaceChildren(...dashboard.panels.map((panel) => panelFigure(panel, this.#openTable)));
    },
  );

  /** @param {DashboardView} dashboard */
  #showOptions({ label, baseline, hardware, by_name: byName, threshold, threshold_ms: thresholdMs, highest_threshold_ms: maxThresholdMs }) {
    const { view, runs, baseline: baselineIndex } = this.#page.store;
    const automatic = byName ? `from its name: ${byName}` : 'unknown from its name';
    this.#hardware.replaceChildren(new Option(automatic, ''), ...hardware.map(({ id, title }) => new Option(title, id)));
    this.#hardware.value = hardware.some(({ id }) => id === view.gpu) ? view.gpu : '';
    this.#threshold.max = String(maxThresholdMs);
    this.#threshold.value = String(thresholdMs);
    this.#threshold.setAttribute('aria-valuetext', threshold);
    this.#thresholdText.value = threshold;
    this.#communication.checked = view.comm !== 'off';
    this.#baselineLabel.hidden = runs.length < 2;
    this.#baseline.replaceChildren(...runOptions(runs.map((run) => run.label), baselineIndex));
    const pair = baseline ? `${label}, next to ${baseline}` : `${label}, which is the baseline: choose another run to see both`;
    this.#status.textContent = runs.length < 2 ? '' : pair;
  }
}
