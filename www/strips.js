// The overview strips: the activity of each device and stream of a trace over time, and in them the window of the results.

import { chartSvg, shapes } from './chart.js';
import { arrange, button, byId, el, setAttributes, svg } from './dom.js';

/** @import { Chart, Options, TraceEntry, WindowGroup } from './types.js' */

/** A drag of fewer pixels is a click. */
const MIN_DRAG_PX = 4;
/** A pointer that rests this long during a drag shows a preview of the window. */
const PREVIEW_AFTER_MS = 80;
const MIN_WIDTH = 240;

/** `preview` shows a window that may be picked next. An empty window is the whole trace.
 * @typedef {{
 *   pick(entry: TraceEntry, window: string): void,
 *   preview(entry: TraceEntry, window: string): void,
 *   openInPerfetto(entry: TraceEntry): void,
 *   attempt(step: () => unknown): void,
 * }} Actions */

/** @typedef {ReturnType<typeof newFigure>} StripFigure */

export class Strips {
  #actions;
  #width = 0;
  /** @type {Map<TraceEntry, StripFigure>} */
  #figures = new Map();

  /** @param {Actions} actions */
  constructor(actions) {
    this.#actions = actions;
  }

  /** Draws the strips, unless they are drawn like this already.
   * @param {TraceEntry[]} entries @param {(entry: TraceEntry) => Options} options @param {boolean} isResized */
  async show(entries, options, isResized) {
    const hasWidth = !isResized && entries.length === this.#figures.size;
    for (const entry of this.#figures.keys()) if (!entries.includes(entry)) this.#figures.delete(entry);
    arrange(byId('strips'), entries, (entry) => this.#figure(entry).node);
    byId('strips').hidden = entries.length === 0;
    // Reading the width makes the browser lay out the page at once.
    if (!hasWidth) this.#width = Math.max(MIN_WIDTH, Math.floor(byId('strips').clientWidth));
    await Promise.all(entries.map((entry) => this.#draw(entry, options(entry), entries.length > 1)));
  }

  /** @param {TraceEntry} entry @param {Options} options @param {boolean} hasName */
  async #draw(entry, options, hasName) {
    const figure = this.#figure(entry);
    // The reader may be replaced by another one of the same file, which draws the same strips.
    const chartKey = JSON.stringify([{ ...options, window: null }, this.#width, entry.gpuOnly]);
    const key = JSON.stringify([options, chartKey, hasName]);
    if (figure.key === key) return;
    figure.key = key;
    const drawing = await this.#request(entry, figure, { options, width: this.#width, hasChart: figure.chartKey === chartKey }).catch((thrown) => {
      // The next call tries again, for example with another reader.
      if (figure.key === key) figure.key = '';
      throw thrown;
    });
    // Other strips were requested meanwhile, or the trace was closed.
    if (this.#figures.get(entry) !== figure || figure.key !== key) return;
    figure.node.hidden = drawing === null;
    if (drawing === null) return;
    figure.name.textContent = hasName ? entry.file.name : '';
    if (document.activeElement !== figure.window) figure.window.value = entry.window;
    figure.parts.value = entry.window;
    if (figure.parts.selectedIndex < 0) figure.parts.value = '';
    figure.all.hidden = entry.window === '';
    const frame = shapes(drawing.frame);
    /** @type {SVGElement | undefined} */
    const plot = frame.pop();
    if (drawing.chart && plot) {
      plot.addEventListener('pointerdown', (event) => event.button === 0 && new Drag(entry, plot, event, this.#actions));
      figure.plot = plot;
      figure.drawing.replaceChildren(chartSvg(drawing.chart), frameLayer(drawing.chart, plot));
    }
    figure.chartKey = chartKey;
    figure.frame.forEach((node) => node.remove());
    figure.frame = frame;
    // The plot itself stays: a pointer may be captured by it.
    figure.plot?.before(...frame);
  }

  /** @param {TraceEntry} entry */
  #figure(entry) {
    const figure = this.#figures.get(entry) ?? newFigure(entry, this.#actions);
    this.#figures.set(entry, figure);
    return figure;
  }

  /** Resolves with the strips, and loads the windows that can be picked by name once.
   * @param {TraceEntry} entry @param {StripFigure} figure @param {{ options: Options, width: number, hasChart: boolean }} args */
  async #request({ reader }, figure, args) {
    const groups = figure.hasGroups ? null : reader.request('namedWindows', {});
    const [drawing, found] = await Promise.all([reader.request('strips', args), groups]);
    if (found && !figure.hasGroups) {
      figure.hasGroups = true;
      figure.parts.replaceChildren(new Option('all', ''), ...found.map(optionGroup));
      figure.partsLabel.hidden = found.length === 0;
    }
    return drawing;
  }
}

/** The figure of a trace, without strips. @param {TraceEntry} entry @param {Actions} actions */
function newFigure(entry, actions) {
  const pick = (/** @type {string} */ window) => actions.pick(entry, window);
  const label = `of ${entry.file.name}`;
  const name = el('span', { class: 'run-label' });
  const parts = el('select', { 'aria-label': `Part ${label}` });
  const window = el('input', {
    type: 'text', size: 22, placeholder: 'from-to', 'aria-label': `Window ${label}, from-to in seconds`, autocomplete: 'off', spellcheck: 'false',
  });
  parts.addEventListener('change', () => pick(parts.value));
  window.addEventListener('change', () => pick(window.value.trim()));
  const all = button('Whole trace', () => pick(''), { class: 'small' });
  const perfetto = button('Open in Perfetto', () => actions.openInPerfetto(entry), {
    class: 'small', title: 'Opens the window at ui.perfetto.dev in a new tab, which reads it in your browser',
  });
  const partsLabel = el('label', { hidden: true }, 'Part ', parts);
  const drawing = el('div', { class: 'strip-drawing' });
  const node = el('figure', {},
    el('figcaption', {}, 'Over time ', name, el('span', { class: 'strip-tools' }, partsLabel, el('label', {}, 'Window (s) ', window), all, perfetto)),
    drawing);
  return {
    node, name, parts, partsLabel, window, all, drawing,
    hasGroups: false,
    /** The options of the last request. */
    key: '',
    /** The options of the strips that are drawn, without the window. */
    chartKey: '',
    /** @type {SVGElement | null} The shape that takes the pointer. */
    plot: null,
    /** @type {SVGElement[]} The shapes that show the window. */
    frame: [],
  };
}

/** A separate layer for moving shapes, so that the browser does not repaint the strips with each move.
 * @param {Chart} chart @param {SVGElement} plot */
const frameLayer = ({ width, height }, plot) => svg('svg', [
  ['class', 'chart strip-frame'], ['viewBox', `0 0 ${width} ${height}`], ['width', width], ['height', height], ['aria-hidden', 'true'],
], plot);

/** A drag over the strips: draws a frame, previews the window while the pointer rests, picks it when the pointer is released. */
class Drag {
  #entry;
  #plot;
  #left;
  #width;
  #start;
  #end;
  #actions;
  #frame;
  #windowBefore;
  #previewTimer = 0;
  /** The last request, and the position of the pointer that it was made for.
   * @type {{ end: number, window: Promise<string> } | null} */
  #request = null;
  #finished = new AbortController();

  /** @param {TraceEntry} entry @param {SVGElement} plot @param {PointerEvent} event @param {Actions} actions */
  constructor(entry, plot, { pointerId, clientX }, actions) {
    const { left, width } = plot.getBoundingClientRect();
    this.#entry = entry;
    this.#windowBefore = entry.window;
    this.#plot = plot;
    this.#left = left;
    this.#width = width;
    this.#actions = actions;
    this.#start = this.#end = this.#position(clientX);
    this.#frame = svg('rect', [['class', 'strip-window strip-drag'], ['y', plot.getAttribute('y') ?? 0], ['height', plot.getAttribute('height') ?? 0]]);
    plot.before(this.#frame);
    plot.parentElement?.classList.add('dragged');
    plot.setPointerCapture(pointerId);
    /** @param {'pointermove' | 'pointerup' | 'pointercancel'} type @param {(event: PointerEvent) => void} listener */
    const on = (type, listener) => plot.addEventListener(type, listener, { signal: this.#finished.signal });
    on('pointermove', (event) => this.#move(event));
    on('pointerup', (event) => actions.attempt(() => this.#finish(event)));
    on('pointercancel', (event) => actions.attempt(() => this.#finish(event)));
  }

  /** @param {number} clientX */
  #position(clientX) {
    return Math.min(Math.max(clientX - this.#left, 0), this.#width);
  }

  get #isClick() {
    return Math.abs(this.#end - this.#start) < MIN_DRAG_PX;
  }

  /** @param {PointerEvent} event */
  #move({ clientX }) {
    clearTimeout(this.#previewTimer);
    this.#previewTimer = setTimeout(() => this.#preview(), PREVIEW_AFTER_MS);
    this.#end = this.#position(clientX);
    const from = Math.min(this.#start, this.#end);
    setAttributes(this.#frame, [['x', Number(this.#plot.getAttribute('x')) + from], ['width', Math.abs(this.#end - this.#start)]]);
    // Requested early: when the pointer is released, the browser's drawing would delay the answer.
    if (!this.#isClick) this.#window().catch(() => {});
  }

  /** The window from the start of the drag to the pointer, requested once for each position. */
  #window() {
    if (this.#request?.end !== this.#end) {
      const ends = { from: this.#start / this.#width, to: this.#end / this.#width };
      this.#request = { end: this.#end, window: this.#entry.reader.request('window', ends) };
    }
    return this.#request.window;
  }

  async #preview() {
    if (this.#isClick) return;
    // Problems are shown when the pointer is released.
    const window = await this.#window().catch(() => null);
    if (window !== null && !this.#finished.signal.aborted) this.#actions.preview(this.#entry, window);
  }

  /** @param {PointerEvent} event */
  async #finish({ type, clientX }) {
    clearTimeout(this.#previewTimer);
    this.#finished.abort();
    this.#frame.remove();
    this.#plot.parentElement?.classList.remove('dragged');
    this.#end = this.#position(clientX);
    const { preview, pick } = this.#actions;
    if (type === 'pointercancel') preview(this.#entry, this.#windowBefore);
    else if (!this.#isClick) pick(this.#entry, await this.#window());
    else if (this.#entry.window) pick(this.#entry, '');
  }
}

/** Steps, stages or ranges of one name. @param {WindowGroup} group */
function optionGroup({ title, windows, more }) {
  return el('optgroup', { label: title }, ...windows.map((named) => new Option(named.title, named.window)),
    more && Object.assign(new Option(`${more} more: drag over the strips`, '-'), { disabled: true }));
}
