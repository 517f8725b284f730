// The pivot: a form above its table. The workers of the traces compute aggregates, and a tools worker makes the table.
// Loaded when its tab is first opened.

import { el } from './dom.js';
import { ToolsWorker } from './tools.js';

/** @import { Page, TableRequest } from './types.js' */

const AXES = ['category', 'kernel', 'stage', 'step', 'device', 'stream', 'process', 'run'];
/** Axes that a report does not have: they need the trace. */
const TRACE_AXES = ['stage', 'step', 'device', 'stream', 'process'];
/** @type {[value: string, label: string][]} */
const VALUES = [['elapsed', 'elapsed time'], ['duration', 'duration'], ['exclusive', 'exclusive time'], ['count', 'count'], ['mean', 'mean duration']];
/** @type {[value: string, label: string][]} */
const PERCENTAGES = [['', 'values'], ['row', '% of row'], ['column', '% of column'], ['all', '% of all']];
const ROW_LIMITS = ['', '10', '20', '50', '100'];

/** The layout of the report's own pivot, as in the address: rows, columns, values, percentage, number of rows. */
const DEFAULT_LAYOUT = ['category', 'run', 'elapsed', '', ''];

export class Pivot {
  #page;
  #rows;
  #columns;
  #values = select('values', VALUES);
  #percent = select('percent', PERCENTAGES);
  #top = select('top', ROW_LIMITS.map((top) => [top, top ? `the largest ${top}` : 'all']));
  node;
  #worker = new ToolsWorker();

  /** @param {Page} page */
  constructor(page) {
    this.#page = page;
    /** @type {[string, string][]} */
    const axes = AXES.map((axis) => [axis, axis]);
    this.#rows = select('rows', axes);
    this.#columns = select('columns', [...axes, ['none', 'none']]);
    const change = () => {
      const layout = this.#selects.map(({ value }) => value);
      const isDefault = layout.every((value, index) => value === DEFAULT_LAYOUT[index]);
      page.look({ pivot: isDefault ? [] : layout, of: '', sort: '' });
    };
    const labels = ['Rows', 'Columns', 'Values', 'Show', 'Rows shown'];
    this.node = el('form', { id: 'pivot', class: 'settings', 'aria-label': 'Pivot', change, submit: (event) => event.preventDefault() },
      ...this.#selects.map((node, index) => el('label', {}, `${labels[index]} `, node)));
  }

  get #layout() {
    const { pivot } = this.#page.store.view;
    return pivot.length === DEFAULT_LAYOUT.length ? pivot : DEFAULT_LAYOUT;
  }

  get #selects() {
    return [this.#rows, this.#columns, this.#values, this.#percent, this.#top];
  }

  /** @param {boolean} isOpen */
  show(isOpen) {
    if (!isOpen) return;
    const layout = this.#layout;
    this.#selects.forEach((node, index) => void (node.value = layout[index]));
    const [rows, columns, values, percent] = layout;
    for (const option of this.#columns.options) option.disabled = option.value === rows;
    for (const option of this.#rows.options) option.disabled = option.value === columns;
    // A mean has no share of a sum.
    this.#percent.disabled = values === 'mean';
    for (const option of this.#values.options) option.disabled = option.value === 'mean' && percent !== '';
  }

  /** @param {TableRequest} request */
  async table(request) {
    const { link, args } = await this.#prepare(request);
    return link.request('pivotTable', args);
  }

  /** @param {TableRequest} request */
  async csv(request) {
    const { link, args } = await this.#prepare(request);
    return link.request('pivotCsv', args);
  }

  /** @param {TableRequest} request */
  async #prepare(request) {
    const [rows, columns, values, percent, top] = this.#layout;
    const axes = columns === 'none' ? [rows] : [rows, columns];
    const layout = { rows, columns: columns === 'none' ? null : columns, values, percent: percent || null, top: Number(top) };
    const traceAxes = axes.filter((axis) => TRACE_AXES.includes(axis));
    const { session } = this.#page;
    const data = async () => ({ texts: session.reports, cells: await session.pivotCells(traceAxes) });
    const link = await this.#worker.load([traceAxes.toSorted().join(), ...session.reports], 'setPivotCells', data);
    return { link, args: { layout: JSON.stringify(layout), request } };
  }
}

/** @param {string} name @param {[value: string, label: string][]} options */
const select = (name, options) => el('select', { name }, ...options.map(([value, label]) => new Option(label, value)));
