// Below the verdict: the critical path as one bar, the largest saving with what to do next, and the layers of the model. A tools worker
// computes them from the complete report of a trace; a report without its trace does without that module. Loaded with the first results.

import { Causes } from './causes.js';
import { chartSvg } from './chart.js';
import { button, byId, el, latest, loadStyleSheet, note, present, words } from './dom.js';
import { asProblem } from './problem.js';

/** @import { HeadlineView, Page } from './types.js' */
/** @import { Examples } from './overview.js' */

/** With more runs the comparison or the job is the headline. */
const MAX_RUNS = 1;
/** Below this width the title of the bar is above it. */
const NARROW = matchMedia('(max-width: 900px)');
const TITLE_PX = 210;

export class Headline {
  #page;
  #examples;
  #causes;
  /** What a step takes without the causes that are switched off. */
  #simulated = el('p', { class: 'saving simulated', hidden: true });
  #styleSheet = loadStyleSheet('headline.css');
  /** What is on screen was made for these reports and this width. */
  #key = '';

  /** @param {Page} page @param {Examples} examples */
  constructor(page, examples) {
    this.#page = page;
    this.#examples = examples;
    this.#causes = new Causes(page, this.#showSimulated);
    new ResizeObserver(() => this.#page.store.overview && this.show()).observe(byId('headline'));
  }

  /** Shows the lines of the reports once they are complete; until then those of the reports before stay, and are faint. */
  show() {
    const { session, store } = this.#page;
    const node = byId('headline');
    node.hidden = store.runs.length + session.beingRead.length > MAX_RUNS || !store.overview?.has_work || !session.liveTraceOf(0);
    node.setAttribute('aria-busy', String(session.isPartial));
    byId('verdict').classList.toggle('told-below', !node.hidden);
    byId('causes').hidden = node.hidden;
    // In other tabs it has no width.
    if (node.hidden || session.isPartial || node.clientWidth === 0) return;
    const key = JSON.stringify([session.reportsKey, node.clientWidth]);
    if (key === this.#key) return;
    this.#key = key;
    // What is missing is said here: a card for it would repeat that of the module that could not be loaded.
    this.#draw(key).catch((thrown) => {
      if (this.#key !== key) return;
      this.#key = '';
      byId('verdict').classList.remove('told-below');
      this.#causes.show([], 'The causes could not be computed.');
      node.replaceChildren(note(`The critical path could not be shown: ${asProblem(thrown).message}`));
    });
  }

  #draw = latest(
    async (/** @type {string} */ key) => {
      await this.#styleSheet;
      const width = byId('headline').clientWidth - (NARROW.matches ? 0 : TITLE_PX);
      return { key, view: await this.#page.requestTool('headline', { width }) };
    },
    ({ key, view }) => {
      if (key !== this.#key) return;
      byId('headline').replaceChildren(...present([this.#path(view), this.#simulated, this.#saving(view), this.#layers(view)]));
      this.#causes.show(view.causes, view.note);
    },
  );

  /** Takes the place of the largest saving while causes are switched off. @param {string} text */
  #showSimulated = (text) => {
    this.#simulated.replaceChildren(...words(text));
    this.#simulated.hidden = text === '';
    byId('headline').classList.toggle('is-simulated', text !== '');
  };

  /** @param {string} table */
  #open = (table) => this.#examples.prove(table, 0, null);

  /** The bar, or why there is none. A click leads to its table. @param {HeadlineView} view */
  #path({ title, path, note: why }) {
    if (!path) return why && el('p', { class: 'note headline-note' }, 'No critical path: ', ...words(why));
    const bar = el('div', { class: 'path-bar', click: () => this.#open('critical_path') }, chartSvg(path));
    return el('figure', { class: 'path' },
      el('figcaption', { title: why }, el('a', { href: '#tab=critical_path', class: 'table-link', click: (/** @type {Event} */ event) => {
        event.preventDefault();
        this.#open('critical_path');
      } }, ...words(title)), why && el('span', { class: 'note' }, ' Uncertain')), bar);
  }

  /** @param {HeadlineView} view */
  #saving({ saving }) {
    if (!saving) return null;
    const { finding: { text, table, example }, saves, place, action } = saving;
    /** @param {Event} event */
    const open = (event) => {
      event.preventDefault();
      this.#examples.prove(table, 0, example);
    };
    return el('p', { class: 'saving', title: action }, 'Largest saving: ', el('a', { href: `#tab=${table}`, class: 'table-link', click: open }, ...words(text)),
      ', ', ...words(saves), ...(place ? [', most in ', el('code', {}, place)] : []),
      ...(action ? [el('span', { class: 'next' }, ' → ', ...words(action))] : []));
  }

  /** @param {HeadlineView} view */
  #layers({ layers }) {
    return layers && el('p', { class: 'layers-line', title: layers.text },
      button('Layers', () => this.#examples.prove(layers.table, 0, layers.example), { class: 'small' }), ' ', ...words(layers.text));
  }
}
