// The histogram of launch latencies as a picture above its table. A worker lays it out. Loaded when the table is first shown.

import { el, latest, loadStyleSheet } from './dom.js';
import { loadChartStyle, panelFigure } from './panel.js';

/** @import { Page } from './types.js' */

/** The panel of the dashboard that is this picture. */
const PANEL = 'latency';

export class LatencyPicture {
  #page;
  #openTable;
  #styleSheet = loadStyleSheet('dashboard.css');
  #width = 0;
  /** The reports and the run that are on screen. */
  #shownKey = '';
  node = el('section', { class: 'dashboard panels latency-picture', 'aria-label': 'Launch latency' });

  /** `openTable(id)` scrolls to the table. @param {Page} page @param {(table: string) => void} openTable */
  constructor(page, openTable) {
    this.#page = page;
    this.#openTable = openTable;
    new ResizeObserver(() => {
      const width = this.node.clientWidth;
      if (width > 0 && width !== this.#width) page.attempt('The launch latencies could not be drawn', this.#draw);
    }).observe(this.node);
  }

  /** Draws it again if the reports have changed. A node that is not in the page yet is drawn when it gets a width. */
  show() {
    if (this.node.isConnected && this.#key !== this.#shownKey) this.#page.attempt('The launch latencies could not be drawn', this.#draw);
    return this.node;
  }

  get #key() {
    const { session, store } = this.#page;
    return JSON.stringify([session.reportsKey, session.isPartial, store.run, store.baseline]);
  }

  #draw = latest(
    async () => {
      const { requestTool, store: { run, baseline } } = this.#page;
      // The width depends on the style sheet.
      await Promise.all([this.#styleSheet, loadChartStyle(requestTool)]);
      this.#width = this.node.clientWidth;
      this.#shownKey = this.#key;
      const width = this.#width;
      return requestTool('dashboard', { request: { run: run ?? 0, baseline, hardware: null, threshold_ms: 0, communication: true, hidden: [], width, column_width: width } });
    },
    ({ panels }) => {
      const panel = panels.find(({ id, chart }) => id === PANEL && chart);
      this.node.replaceChildren(...(panel ? [panelFigure(panel, this.#openTable)] : []));
    },
  );
}
