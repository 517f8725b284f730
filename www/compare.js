// Shows the comparison of runs: a line under the verdict, a change next to each run, and the chart of the tab. tabs.js draws its
// tables. Ranks of one job are not compared; the tab then leads to that of the ranks. Loaded when a second run is open.

import { clickableChart, fileName, saveMenu } from './chart.js';
import { button, byId, copyButton, el, latest, note, noticeItem, present, runOptions, words } from './dom.js';
import { asProblem } from './problem.js';

/** @import { Chart, ComparedRun, Comparison as Compared, Page } from './types.js' */

/** Runs in the line under the verdict; the tab has all. */
const RUNS_IN_LINE = 3;

/** @type {Record<string, string>} */
const ARROWS = { slower: '▲', faster: '▼' };

/** `baseline` is the index of a run, `hidden` are categories, `jobVerdict` is set if all runs are ranks of one job.
 * @typedef {{ baseline: number, isOpen: boolean, hidden: string[], jobVerdict: string[] | null }} Shown */

/** @typedef {{
 *   baseline: (index: string) => void,
 *   open: () => void,
 *   openRanks: () => void,
 *   pick: (category: string) => void,
 *   markdown: () => Promise<string>,
 * }} Actions */

export class Comparison {
  #requestTool;
  #actions;
  #line = byId('comparison');
  #baseline = el('select');
  #verdicts = el('ul', { class: 'notices' });
  #chart = el('div');
  #figure;
  #panel;
  /** The panel for runs, and for the ranks of one job. */
  #ofRuns;
  #ofJob;
  /** @type {Shown | null} */
  #shown = null;
  /** The runs that are compared. @type {string[]} */
  #labels = [];
  /** The width of the last chart. */
  #width = 0;

  /** @param {Page['requestTool']} requestTool @param {Actions} actions */
  constructor(requestTool, actions) {
    this.#requestTool = requestTool;
    this.#actions = actions;
    this.#baseline.addEventListener('change', () => actions.baseline(this.#baseline.value));
    this.#figure = el('figure', {}, el('figcaption', {}, 'What changed'), saveMenu(() => this.#chart.querySelector('svg'), () => fileName('gpuprism-changes', this.#labels)), this.#chart);
    this.#ofRuns = [el('label', {}, 'Compared with ', this.#baseline), copyButton(actions.markdown, 'Copy comparison as Markdown'), this.#verdicts, this.#figure];
    this.#ofJob = [
      el('p', {}, 'The open files are ranks of one job. They share its work, so they are not compared like runs: “Communication and ranks” shows which rank waits for which.'),
      button('Communication and ranks', actions.openRanks),
    ];
    this.#panel = el('section', { id: 'compare', 'aria-label': 'Comparison', hidden: true });
    byId('blocks').before(this.#panel);
    new ResizeObserver(() => {
      const isVisible = this.#chart.firstChild && !this.#panel.hidden;
      if (this.#shown && isVisible && this.#chart.clientWidth !== this.#width) this.draw(this.#shown);
    }).observe(this.#chart);
  }

  /** Shows the comparison in a line, and as a chart if the tab is open. @param {Shown} shown */
  async draw(shown) {
    this.#shown = shown;
    const { isOpen, jobVerdict } = shown;
    this.#panel.hidden = !isOpen;
    this.#panel.replaceChildren(...(jobVerdict ? this.#ofJob : this.#ofRuns));
    if (jobVerdict) this.#showJob(jobVerdict);
    try {
      await this.#compare(jobVerdict ? null : shown);
    } catch (thrown) {
      this.hide();
      this.#line.replaceChildren(note(`The runs were not compared: ${asProblem(thrown).message}`));
    }
  }

  /** Requests and shows a comparison; null drops the answer of an earlier request. */
  #compare = latest(
    (/** @type {Shown | null} */ shown) => shown && this.#request(shown),
    (answer) => answer && this.#show(answer),
  );

  /** @param {Shown} shown */
  async #request({ baseline, isOpen, hidden }) {
    const compared = await this.#requestTool('compare', { baseline });
    const isPossible = compared.runs.some(({ outcome }) => !['baseline', 'not comparable'].includes(outcome));
    // Must precede the reading of the width, because a hidden figure has none.
    this.#figure.hidden = !isPossible;
    this.#width = this.#chart.clientWidth;
    const chart = isOpen && isPossible ? await this.#requestTool('chart', { baseline, width: this.#width, hidden }) : null;
    return { compared, chart };
  }

  /** @param {{ compared: Compared, chart: Chart | null }} answer */
  #show({ compared: { runs, baseline }, chart }) {
    this.#chart.replaceChildren(...(chart ? [clickableChart(chart, this.#actions.pick)] : []));
    this.#labels = runs.map(({ label }) => label);
    const others = runs.filter(({ verdict }) => verdict);
    this.#showRuns(runs, others);
    this.#baseline.replaceChildren(...runOptions(this.#labels, baseline));
    this.#verdicts.replaceChildren(...others.flatMap((run) => verdictItems(run, others.length > 1)));
  }

  /** @param {ComparedRun[]} runs @param {ComparedRun[]} others */
  #showRuns(runs, others) {
    const lines = others.slice(0, RUNS_IN_LINE).map(({ verdict, outcome }) => el('p', { title: verdict }, arrow(outcome), el('span', {}, ...words(verdict))));
    const more = others.length > RUNS_IN_LINE ? `All ${runs.length} runs compared` : 'Comparison in full';
    this.#line.replaceChildren(...lines, button(more, this.#actions.open, { class: 'small' }));
    byId('runs').querySelectorAll(':scope > li:not(.run-summary)').forEach((item, index) => markRun(item, runs[index]));
  }

  /** Ranks of one job share its work: the useful comparison is which rank waits for which. @param {string[]} verdict */
  #showJob(verdict) {
    unmarkRuns();
    this.#line.replaceChildren(el('p', { class: 'job-verdict', title: verdict.join(' ') }, ...verdict.flatMap((text) => [...words(text), ' '])), button('Ranks in full', this.#actions.openRanks, { class: 'small' }));
  }

  /** Removes the comparison: there is nothing to compare, or not yet. */
  hide() {
    this.#compare(null);
    this.#line.replaceChildren();
    this.#panel.hidden = true;
    this.#shown = null;
    this.#chart.replaceChildren();
    unmarkRuns();
  }
}

/** @param {string} outcome */
const arrow = (outcome) => ARROWS[outcome] && el('span', { class: `change ${outcome}`, 'aria-hidden': 'true' }, ARROWS[outcome]);

/** The verdict of a run and its warnings. @param {ComparedRun} run @param {boolean} hasLabel */
function verdictItems({ label, outcome, verdict, warnings }, hasLabel) {
  const first = outcome === 'not comparable' ? noticeItem('warning', verdict) : el('li', { class: 'compared' }, arrow(outcome), el('span', {}, ...words(verdict)));
  return [first, ...warnings.map((text) => noticeItem('info', hasLabel && el('span', { class: 'run-label' }, label), text))];
}

/** @param {Element} item @param {ComparedRun | undefined} run */
function markRun(item, run) {
  item.querySelector('.run-change')?.replaceChildren(...present(run ? [arrow(run.outcome), run.in_short] : []));
  item.querySelector('.run-change')?.setAttribute('title', run?.in_short ?? '');
}

function unmarkRuns() {
  byId('runs').querySelectorAll('.run-change').forEach((mark) => mark.replaceChildren());
}
