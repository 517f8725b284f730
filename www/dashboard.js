// The dashboard: the charts of one run, beside a baseline where there is one, and what can be chosen for them. The desk draws
// them; this file lays them out. It is fetched when its tab is first opened.

import { drawing, saveMenu } from './chart.js';
import { byId, copyButton, el, latest, styled } from './dom.js';

/** From this width on, in pixels, two of the smaller charts stand side by side. */
const TWO_COLUMNS = 1000;
const COLUMN_GAP = 28;

export class Dashboard {
  #page;
  #openTable;
  #isUp = false;
  #width = 0;
  #said = el('p', { class: 'note', role: 'status' });
  #panels = el('div', { class: 'panels' });
  #hardware = el('select', { name: 'gpu' });
  #threshold = el('input', { type: 'range', name: 'above', min: '0', step: '0.5' });
  #thresholdSaid = el('output');
  #communication = el('input', { type: 'checkbox', name: 'comm' });
  #baseline = el('select', { name: 'base' });
  #baselineLabel = el('label', {}, 'Beside ', this.#baseline);
  #node;

  /** `page` is what app.js lends its parts; `openTable(id)` shows the table of a panel's numbers. */
  constructor(page, openTable) {
    this.#page = page;
    this.#openTable = openTable;
    const chooses = (control, change) => control.addEventListener('change', () => page.look(change(control)));
    chooses(this.#hardware, ({ value }) => ({ gpu: value }));
    chooses(this.#threshold, ({ value }) => ({ above: value === '0' ? '' : value }));
    chooses(this.#communication, ({ checked }) => ({ comm: checked ? '' : 'off' }));
    chooses(this.#baseline, ({ value }) => ({ base: value }));
    this.#threshold.addEventListener('input', () => void (this.#thresholdSaid.value = `${this.#threshold.value} ms`));
    this.#node = el('section', { id: 'dashboard', class: 'dashboard', 'aria-label': 'Dashboard', hidden: true },
      el('form', { 'aria-label': 'What the dashboard shows' },
        el('label', {}, 'Kernels from ', this.#threshold, this.#thresholdSaid),
        el('label', {}, 'Hardware ', this.#hardware),
        el('label', {}, this.#communication, 'Communication'),
        this.#baselineLabel),
      this.#said, this.#panels);
    this.#panels.addEventListener('click', ({ target }) => target.dataset?.kernel && page.openKernel(target.dataset.kernel));
    styled('dashboard.css');
    byId('blocks').before(this.#node);
    new ResizeObserver(() => {
      if (this.#isUp && this.#panels.clientWidth !== this.#width && this.#width > 0) this.#draw();
    }).observe(this.#panels);
  }

  async show(isUp) {
    this.#isUp = isUp;
    this.#node.hidden = !isUp;
    byId('filter').hidden = isUp;
    if (isUp) await this.#draw();
  }

  #draw = latest(
    async () => {
      const { view, openDesk, baseline, runIndex, overview } = this.#page;
      await this.#dressed();
      const width = (this.#width = this.#panels.clientWidth);
      const column = width >= TWO_COLUMNS ? Math.floor((width - COLUMN_GAP) / 2) : width;
      const desk = await openDesk();
      const shown = await desk.dashboard({
        run: runIndex(), baseline: baseline(), hardware: view.gpu || null, threshold_ms: Number.parseFloat(view.above) || 0,
        communication: view.comm !== 'off', width, column_width: column,
      });
      return { ...shown, isWide: column < width, labels: overview.runs.map(({ label }) => label), view: { ...view }, at: baseline() };
    },
    (shown) => {
      this.#showChoices(shown);
      this.#panels.classList.toggle('columns', shown.isWide);
      this.#panels.replaceChildren(...shown.panels.map((panel) => this.#panel(panel)));
    },
  );

  /** The look of the charts' insides is the desk's. */
  async #dressed() {
    this.#sheet ??= (async () => {
      const sheet = new CSSStyleSheet();
      sheet.replaceSync(await (await this.#page.openDesk()).dashboardCss());
      document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
    })();
    try {
      await this.#sheet;
    } catch (problem) {
      this.#sheet = null;
      throw problem;
    }
  }
  #sheet = null;

  #showChoices({ label, baseline, hardware, by_name, threshold, threshold_ms, highest_threshold_ms, labels, view, at }) {
    const own = by_name ? `by its name: ${by_name}` : 'not known by its name';
    const known = hardware.map(({ id, title }) => new Option(title, id));
    this.#hardware.replaceChildren(new Option(own, ''), ...known);
    this.#hardware.value = hardware.some(({ id }) => id === view.gpu) ? view.gpu : '';
    this.#threshold.max = highest_threshold_ms;
    this.#threshold.value = threshold_ms;
    this.#threshold.setAttribute('aria-valuetext', threshold);
    this.#thresholdSaid.value = threshold;
    this.#communication.checked = view.comm !== 'off';
    this.#baselineLabel.hidden = labels.length < 2;
    this.#baseline.replaceChildren(...labels.map((name, index) => new Option(name, String(index), index === at, index === at)));
    this.#said.textContent = labels.length < 2 ? '' : baseline ? `${label}, beside ${baseline}` : `${label}, which is the baseline: pick another run to see both`;
  }

  #panel({ id, title, note, chart, gap, table, is_wide }) {
    const place = el('div', {}, chart && drawing(chart, () => {}));
    const [why, recapture] = gap ?? [];
    const toTable = el('button', { type: 'button', class: 'small', 'aria-label': `${title}: show the table`, click: () => this.#openTable(table) }, 'Table');
    return el('figure', { 'data-panel': id, class: is_wide ? 'wide' : '' },
      el('figcaption', {}, el('span', {}, title), toTable, chart && saveMenu(() => place.firstChild, `gpuprism-${id}`)),
      note && el('p', { class: 'note' }, note),
      gap && el('div', { class: 'gap' }, el('p', {}, why), recapture && el('code', {}, recapture), recapture && el('div', {}, copyButton(recapture, 'Copy command'))),
      place);
  }
}
