// The pivot that a person shapes: a small form above the tab's tables, cubes from the workers that hold the traces, and
// the worker that makes tables of them. It is fetched when a person first opens the tab.

import { byId, el } from './dom.js';
import { WorkerLink, compiledModule } from './worker-link.js';

const AXES = ['category', 'kernel', 'stage', 'step', 'device', 'stream', 'process', 'run'];
const VALUES = [['elapsed', 'elapsed time'], ['duration', 'duration'], ['exclusive', 'exclusive time'], ['count', 'count'], ['mean', 'mean duration']];
const PARTS = [['', 'values'], ['row', '% of row'], ['column', '% of column'], ['all', '% of all']];
const TOPS = ['', '10', '20', '50', '100'];

/** What the address calls a pivot: rows, columns, values, per cent of, rows shown. */
const PLAIN = ['category', 'run', 'elapsed', '', ''];

export class Pivot {
  #session;
  /** The choices that are the report's own pivot. */
  plain = PLAIN;
  #form;
  /** A promise of the worker that holds the reports and cubes of `#held`. */
  #link = null;
  #held = null;

  /** `choose(pivot)` is called with the five choices in their order; with none for the report's own pivot. */
  constructor(session, choose) {
    this.#session = session;
    const axes = AXES.map((axis) => [axis, axis]);
    const fields = [
      field('Rows', 'rows', axes), field('Columns', 'columns', [...axes, ['none', 'none']]), field('Values', 'values', VALUES),
      field('Show', 'percent', PARTS), field('Rows shown', 'top', TOPS.map((top) => [top, top ? `the largest ${top}` : 'all'])),
    ];
    const change = () => {
      const chosen = fields.map((one) => one.querySelector('select').value);
      choose(chosen.every((value, at) => value === PLAIN[at]) ? [] : chosen);
    };
    this.#form = el('form', { id: 'pivot', class: 'settings', 'aria-label': 'Pivot', change, submit: (event) => event.preventDefault() }, ...fields);
    byId('blocks').before(this.#form);
  }

  show(isUp, [rows, columns, values, percent, top]) {
    this.#form.hidden = !isUp;
    const { elements } = this.#form;
    Object.entries({ rows, columns, values, percent, top }).forEach(([name, value]) => void (elements[name].value = value));
    for (const option of elements.columns.options) option.disabled = option.value === rows;
    for (const option of elements.rows.options) option.disabled = option.value === columns;
    // A mean is no part of a sum.
    elements.percent.disabled = values === 'mean';
    elements.values.querySelector('[value=mean]').disabled = percent !== '';
  }

  /** Resolves with the table, as strings. */
  table = (pivot, request) => this.#ask('table', pivot, request);
  /** Resolves with the text of a CSV of the same rows. */
  csv = (pivot, request) => this.#ask('csv', pivot, request);

  async #ask(op, [rows, columns, values, percent, top], request) {
    const chosen = columns === 'none' ? null : columns;
    const shape = { rows, columns: chosen, values, percent: percent || null, top: Number(top) };
    const link = await this.#holding([rows, chosen].filter((axis) => AXES.slice(2, 7).includes(axis)));
    return link.request(op, { shape: JSON.stringify(shape), request: JSON.stringify(request) });
  }

  /** The worker with the reports of now and cubes that tell these axes. */
  #holding(axes) {
    const wanted = [axes.toSorted().join(), ...this.#session.reports];
    if (!this.#held || wanted.length !== this.#held.length || wanted.some((text, at) => text !== this.#held[at])) {
      this.#held = wanted;
      this.#link = this.#fill(this.#link, axes, this.#session.reports);
      this.#link.catch(() => void (this.#held = null));
    }
    return this.#link;
  }

  async #fill(before, axes, texts) {
    const cubes = await this.#session.cubes(axes);
    let link = await before?.catch(() => null);
    // A worker that met a fault has ended.
    if (!link?.alive) {
      link = new WorkerLink('pivot-worker.js');
      await link.request('start', { module: await compiledModule('gpuprism_full') });
    }
    await link.request('hold', { texts, cubes });
    return link;
  }
}

function field(label, name, options) {
  return el('label', {}, `${label} `, el('select', { name }, ...options.map(([value, text]) => new Option(text, value))));
}
