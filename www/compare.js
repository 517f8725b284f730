// The comparison of runs: a line under the verdict, a word at each run, and the tab with its chart; its tables are drawn like
// all others. It is fetched when a second run is open.

import { drawing, saveMenu } from './chart.js';
import { byId, copyButton, el, latest, severityMark, words } from './dom.js';

/** Runs that the line under the verdict speaks of; the tab speaks of all. */
const RUNS_IN_LINE = 3;

/** A change in one glance; the words beside it say the same. */
const ARROWS = { slower: '▲', faster: '▼' };

export class Comparison {
  #openDesk;
  #on;
  #line = byId('comparison');
  #baseline = el('select');
  #said = el('ul', { class: 'notices' });
  #chart = el('div');
  #figure;
  #panel;
  /** What is shown: the place of the baseline, whether the tab is up, the categories left out and, of the ranks of one job, its verdict; and how wide a chart was asked for last. */
  #shown = [];
  #width = 0;

  /** `openDesk()` resolves with the desk; `on` has what is chosen: baseline(index), open() the tab, openRanks() theirs, pick(category); `markdown()` resolves with the text to copy. */
  constructor(openDesk, on) {
    this.#openDesk = openDesk;
    this.#on = on;
    this.#baseline.addEventListener('change', ({ target }) => on.baseline(target.value));
    this.#figure = el('figure', {}, el('figcaption', {}, 'What changed'),
      saveMenu(() => this.#chart.firstChild, 'gpuprism-changes'), this.#chart);
    this.#panel = el('section', { id: 'compare', 'aria-label': 'Comparison', hidden: true },
      el('label', {}, 'Compared with ', this.#baseline), copyButton(on.markdown, 'Copy comparison as Markdown'), this.#said, this.#figure);
    byId('panel').prepend(this.#panel);
    new ResizeObserver(() => {
      if (this.#chart.firstChild && !this.#panel.hidden && this.#chart.clientWidth !== this.#width) this.draw(...this.#shown);
    }).observe(this.#chart);
  }

  /** Shows how the runs stand to the one at `baseline`: in a line, and with a chart where the tab is up. */
  draw(...shown) {
    const [, isUp, , job] = this.#shown = shown;
    this.#panel.hidden = !isUp;
    if (job) this.#sayOfRanks(job);
    return this.#answer(job && !isUp ? null : shown).catch((problem) => this.#fail(problem));
  }

  /** Asked with nothing, what was asked before is not wanted any more. */
  #answer = latest((shown) => shown && this.#ask(...shown), (answer) => answer && this.#say(answer));

  async #ask(baseline, isUp, hidden, job) {
    const desk = await this.#openDesk();
    const compared = await desk.compare(baseline);
    const isPossible = compared.runs.some(({ outcome }) => !['baseline', 'not comparable'].includes(outcome));
    // Hidden, the chart's place would have no width.
    this.#figure.hidden = !isPossible;
    this.#width = this.#chart.clientWidth;
    return { ...compared, job, chart: isUp && isPossible ? await desk.chart(baseline, this.#width, hidden) : null };
  }

  #say({ runs, baseline, job, chart }) {
    this.#chart.replaceChildren(...(chart ? [drawing(chart, this.#on.pick)] : []));
    const others = runs.filter(({ verdict }) => verdict);
    if (!job) this.#sayOfRuns(runs, others);
    this.#baseline.replaceChildren(...runs.map(({ label }, at) => new Option(label, String(at), at === baseline, at === baseline)));
    this.#said.replaceChildren(...others.flatMap((run) => sentences(run, others.length > 1)));
  }

  #sayOfRuns(runs, others) {
    const line = others.slice(0, RUNS_IN_LINE).map(({ verdict, outcome }) => el('p', {}, mark(outcome), verdict));
    const more = others.length > RUNS_IN_LINE ? `All ${runs.length} runs compared` : 'Comparison in full';
    this.#line.replaceChildren(...line, el('button', { type: 'button', class: 'small', click: this.#on.open }, more));
    [...byId('runs').children].forEach((item, at) => markRun(item, runs[at]));
  }

  /** Ranks of one job share its work: which of them is slower than another says less than who waits for whom. */
  #sayOfRanks(verdict) {
    this.#unmark();
    this.#line.replaceChildren(...verdict.map((text) => el('p', { class: 'of-job' }, text)), el('button', { type: 'button', class: 'small', click: this.#on.openRanks }, 'Ranks in full'));
  }

  /** The runs cannot be compared now: nothing stays that was said before. */
  #fail({ message }) {
    this.hide();
    this.#line.replaceChildren(el('p', { class: 'note' }, `The runs were not compared: ${message}`));
  }

  /** There is nothing to compare, or not yet. */
  hide() {
    this.#answer(null);
    this.#line.replaceChildren();
    this.#panel.hidden = true;
    this.#shown = [];
    this.#chart.replaceChildren();
    this.#unmark();
  }

  #unmark() {
    byId('runs').querySelectorAll('.run-change').forEach((word) => word.remove());
  }
}

const mark = (outcome) => ARROWS[outcome] && el('span', { class: `change ${outcome}`, 'aria-hidden': 'true' }, ARROWS[outcome]);

function sentences({ label, outcome, verdict, warnings }, several) {
  const item = (severity, text, run) => el('li', { class: 'notice' }, severityMark(severity), el('span', { class: 'notice-text' }, run && el('span', { class: 'run-label' }, run), ...words(text)));
  const refused = outcome === 'not comparable';
  const first = refused ? item('warning', verdict) : el('li', { class: 'compared' }, mark(outcome), verdict);
  return [first, ...warnings.map((text) => item('info', text, several && label))];
}

function markRun(item, run) {
  item.querySelector('.run-change')?.remove();
  if (run) item.firstChild.after(el('span', { class: 'run-change' }, mark(run.outcome), run.in_short));
}
