// The overview strips: the activity of each device and stream of a trace over time, and in them the window of the results.

import { chartSvg, shapes } from './chart.js';
import { arrange, button, byId, el, present, setAttributes, svg } from './dom.js';
import { commonLength } from './timeline-view.js';

/** @import { Chart, Options, TraceEntry, WindowGroup } from './types.js' */

/** A drag of fewer pixels is a click. */
const MIN_DRAG_PX = 4;
/** A pointer that rests this long during a drag shows a preview of the window. */
const PREVIEW_AFTER_MS = 80;
const MIN_WIDTH = 240;
/** The last windows of the trail that are shown, besides the whole trace. */
const MAX_STEPS = 3;
/** A frame of a very short part stays visible and can be dragged. */
const MIN_VIEW_PX = 6;
const MAX_FRAMED_SHARE = 0.97;

/** `preview` shows a window that may be picked next. An empty window is the whole trace. `panTo` moves the timeline, so that it begins at a
 * share of the trace. `hidden` has the categories that the reader has hidden; `fadeHidden` applies them.
 * @typedef {{
 *   pick(entry: TraceEntry, window: string): void,
 *   panTo(entry: TraceEntry, share: number): void,
 *   preview(entry: TraceEntry, window: string): void,
 *   openInPerfetto(entry: TraceEntry): void,
 *   hidden(): string[],
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

  /** Draws the strips, unless they are drawn like this already. Those of files that are still being read have their room. Traces of similar
   * lengths have one scale. @param {TraceEntry[]} entries @param {(entry: TraceEntry) => Options} options @param {boolean} isResized */
  async show(entries, options, isResized) {
    const hasWidth = !isResized && entries.length === this.#figures.size;
    for (const entry of this.#figures.keys()) if (!entries.includes(entry)) this.#figures.delete(entry);
    arrange(byId('strips'), entries, (entry) => this.#figure(entry).node);
    byId('strips').hidden = entries.length === 0;
    // Reading the width makes the browser lay out the page at once.
    if (!hasWidth) this.#width = Math.max(MIN_WIDTH, Math.floor(byId('strips').clientWidth));
    const read = entries.filter(({ text }) => text !== null);
    const lengths = read.length > 1 ? await Promise.all(read.map(({ reader }) => reader.request('gpuLength', {}))) : [];
    const scale = commonLength(lengths);
    await Promise.all(read.map((entry) => this.#draw(entry, options(entry), scale, entries.length > 1)));
  }

  /** @param {TraceEntry} entry @param {Options} options @param {number} scale the time that the width stands for; 0 for that of the trace @param {boolean} hasName */
  async #draw(entry, options, scale, hasName) {
    const figure = this.#figure(entry);
    // The reader may be replaced by another one of the same file, which draws the same strips.
    const chartKey = JSON.stringify([{ ...options, window: null }, this.#width, scale, entry.leftOut]);
    const key = JSON.stringify([options, chartKey, hasName]);
    if (figure.key === key) return;
    figure.key = key;
    const { window } = entry;
    const drawing = await entry.reader.request('strips', { options, width: this.#width, hasChart: figure.chartKey === chartKey, scale }).catch((thrown) => {
      // The next call tries again, for example with another reader.
      if (figure.key === key) figure.key = '';
      throw thrown;
    });
    // Other strips were requested meanwhile, or the trace was closed.
    if (this.#figures.get(entry) !== figure || figure.key !== key) return;
    figure.node.hidden = drawing === null;
    if (drawing === null) return;
    figure.name.textContent = hasName ? entry.file.name : '';
    this.#actions.attempt(() => this.#showParts(entry, figure));
    if (document.activeElement !== figure.window) figure.window.value = entry.window;
    showChosenPart(figure, entry.window);
    figure.trail.show(window, drawing.caption);
    const frame = shapes(drawing.frame);
    /** @type {SVGElement | undefined} */
    const plot = frame.pop();
    if (drawing.chart && drawing.axis && plot) {
      plot.addEventListener('pointerdown', (event) => event.button === 0 && new Drag(entry, plot, event, figure.trail, this.#actions));
      figure.plot = plot;
      figure.view.draw(plot);
      const axis = chartSvg(drawing.axis);
      // The strips are the picture that is named.
      for (const name of ['role', 'aria-label']) axis.removeAttribute(name);
      figure.axis.replaceChildren(axis);
      figure.drawing.replaceChildren(chartSvg(drawing.chart), frameLayer(drawing.chart, plot, figure.view.shape));
      this.#fade(figure);
    }
    figure.chartKey = chartKey;
    figure.frame.forEach((node) => node.remove());
    figure.frame = frame;
    // The plot itself stays: a pointer may be captured by it.
    figure.plot?.before(...frame);
  }

  /** Makes hidden categories faint in all strips. */
  fadeHidden() {
    for (const figure of this.#figures.values()) this.#fade(figure);
  }

  /** @param {StripFigure} figure */
  #fade({ drawing }) {
    const hidden = this.#actions.hidden();
    for (const shape of drawing.querySelectorAll('path.strip')) shape.classList.toggle('faint', hidden.includes(/** @type {SVGElement} */ (shape).dataset.key ?? ''));
  }

  /** Frames the part of the trace that the timeline shows: 0 is the begin of the strips, 1 their end.
   * @param {TraceEntry} entry @param {number} from @param {number} to */
  showView(entry, from, to) {
    this.#figures.get(entry)?.view.show(from, to);
  }

  /** The window that was picked before the one on screen. @param {TraceEntry} entry */
  windowBefore(entry) {
    return this.#figures.get(entry)?.trail.before ?? '';
  }

  /** @param {TraceEntry} entry */
  #figure(entry) {
    const figure = this.#figures.get(entry) ?? newFigure(entry, this.#actions);
    this.#figures.set(entry, figure);
    return figure;
  }

  /** Loads the windows that can be picked by name, once. @param {TraceEntry} entry @param {StripFigure} figure */
  async #showParts(entry, figure) {
    if (figure.hasGroups) return;
    figure.hasGroups = true;
    try {
      // The windows of many ops take the worker a second, and the bars of the timeline would come after them.
      if (entry.reader.hasSections) await entry.reader.whenTimelineIsDrawn();
      const groups = await entry.reader.request('namedWindows', {});
      figure.parts.replaceChildren(new Option('all', ''), ...groups.map(optionGroup));
      figure.parts.disabled = groups.length === 0;
      showChosenPart(figure, entry.window);
    } catch (problem) {
      figure.hasGroups = false;
      // That the second module could not be loaded is said where its results are missing.
      if (entry.reader.hasSections) throw problem;
    }
  }
}

/** @param {StripFigure} figure @param {string} window */
function showChosenPart({ parts }, window) {
  parts.value = window;
  if (parts.selectedIndex < 0) parts.value = '';
}

/** The figure of a trace, without strips. @param {TraceEntry} entry @param {Actions} actions */
function newFigure(entry, actions) {
  const pick = (/** @type {string} */ window) => actions.pick(entry, window);
  const label = `of ${entry.file.name}`;
  const name = el('span', { class: 'run-label' });
  const parts = el('select', { 'aria-label': `Part ${label}`, disabled: true }, new Option('all', ''));
  const window = el('input', {
    type: 'text', size: 22, placeholder: 'from-to', 'aria-label': `Window ${label}, from-to in seconds`, autocomplete: 'off', spellcheck: 'false',
  });
  parts.addEventListener('change', () => pick(parts.value));
  window.addEventListener('change', () => pick(window.value.trim()));
  const trail = new Trail(pick);
  const perfetto = button('Open in Perfetto', () => actions.openInPerfetto(entry), {
    class: 'small', title: 'Opens the window at ui.perfetto.dev in a new tab, which reads it in your browser',
  });
  const drawing = el('div', { class: 'strip-drawing' });
  const axis = el('div', { class: 'strip-axis', 'aria-hidden': 'true' });
  const node = el('figure', {},
    el('figcaption', {}, 'Over time ', name, trail.node, el('span', { class: 'strip-tools' }, el('label', {}, 'Part ', parts), el('label', {}, 'Window (s) ', window), perfetto)),
    drawing, axis);
  return {
    node, name, parts, window, trail, drawing, axis,
    view: new ViewFrame((share) => actions.panTo(entry, share)),
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
 * @param {Chart} chart @param {SVGElement[]} shapes */
const frameLayer = ({ width, height }, ...shapes) => svg('svg', [
  ['class', 'chart strip-frame'], ['viewBox', `0 0 ${width} ${height}`], ['width', width], ['height', height], ['aria-hidden', 'true'],
], ...shapes);

/** The windows that were picked, from the whole trace to the one on screen. A click goes back to one. */
class Trail {
  #pick;
  /** @type {{ window: string, caption: string }[]} */
  #steps = [];
  /** True during a drag: the windows that it previews are not in the trail. */
  isPreview = false;
  node = el('nav', { class: 'trail', 'aria-label': 'Windows' });

  /** @param {(window: string) => void} pick */
  constructor(pick) {
    this.#pick = pick;
  }

  /** @param {string} window the one on screen @param {string} caption */
  show(window, caption) {
    const known = this.#steps.findIndex((step) => step.window === window);
    const before = known < 0 ? this.#steps : this.#steps.slice(0, known);
    const picked = window ? [...before, { window, caption: caption || window }] : [];
    // A window without a caption was refused.
    if (!this.isPreview && (caption || !window)) this.#steps = picked;
    const steps = picked.length > 0 ? [{ window: '', caption: 'Whole trace' }, ...picked] : [];
    const left = Math.max(steps.length - MAX_STEPS, 1);
    const shown = steps.filter((_, index) => index === 0 || index >= left);
    this.node.replaceChildren(...shown.flatMap((step, index) => present([
      index > 0 && el('span', { 'aria-hidden': 'true' }, index === 1 && left > 1 ? '› … ›' : '›'),
      index < shown.length - 1
        ? button(step.caption, () => this.#pick(step.window), { class: 'small', title: `Back to ${step.window || 'the whole trace'}` })
        : el('span', { class: 'note', 'aria-current': 'step' }, step.caption),
    ])));
  }

  /** The window before the one on screen; empty for the whole trace. */
  get before() {
    return this.#steps.at(-2)?.window ?? '';
  }
}

/** The frame of what the timeline shows. A drag of it pans the timeline. It is hidden while the timeline shows nearly all. */
class ViewFrame {
  #panTo;
  #from = 0;
  #to = 1;
  /** @type {SVGElement | null} */
  #plot = null;
  /** The pointer that drags it, and the share of the trace between pointer and begin. @type {{ id: number, ahead: number } | null} */
  #drag = null;
  shape = svg('rect', [['class', 'strip-view']]);

  /** @param {(share: number) => void} panTo */
  constructor(panTo) {
    this.#panTo = panTo;
    this.shape.append(svg('title', [], 'What the timeline shows: drag to pan'));
    this.shape.addEventListener('pointerdown', (event) => this.#grab(event));
    this.shape.addEventListener('pointermove', (event) => this.#move(event));
    for (const end of /** @type {const} */ (['pointerup', 'pointercancel'])) this.shape.addEventListener(end, () => (this.#drag = null));
  }

  /** @param {number} from @param {number} to */
  show(from, to) {
    this.#from = Math.max(from, 0);
    this.#to = Math.min(to, 1);
    this.draw(this.#plot);
  }

  /** @param {SVGElement | null} plot the area of the strips */
  draw(plot) {
    this.#plot = plot;
    if (!plot) return;
    const [left, top, width, height] = ['x', 'y', 'width', 'height'].map((name) => Number(plot.getAttribute(name)));
    const room = this.#to - this.#from;
    const shown = Math.max(room * width, MIN_VIEW_PX);
    const start = Math.min(left + this.#from * width - (shown - room * width) / 2, left + width - shown);
    setAttributes(this.shape, [['x', Math.max(start, left)], ['y', top], ['width', shown], ['height', height],
      ['visibility', room > 0 && room < MAX_FRAMED_SHARE ? 'visible' : 'hidden']]);
  }

  /** The share of the trace at a horizontal position. @param {number} clientX */
  #shareAt(clientX) {
    const { left, width } = /** @type {SVGElement} */ (this.#plot).getBoundingClientRect();
    return (clientX - left) / width;
  }

  /** With Shift, a window is picked inside of the frame. @param {PointerEvent} event */
  #grab(event) {
    if (event.button !== 0 || !this.#plot) return;
    if (event.shiftKey) {
      this.#plot.dispatchEvent(new PointerEvent('pointerdown', event));
      return;
    }
    this.shape.setPointerCapture(event.pointerId);
    this.#drag = { id: event.pointerId, ahead: this.#shareAt(event.clientX) - this.#from };
  }

  /** @param {PointerEvent} event */
  #move({ pointerId, clientX }) {
    if (this.#drag?.id === pointerId) this.#panTo(this.#shareAt(clientX) - this.#drag.ahead);
  }
}

/** A drag over the strips: draws a frame, previews the window while the pointer rests, picks it when the pointer is released. */
class Drag {
  #entry;
  #plot;
  #left;
  #width;
  #start;
  #end;
  #actions;
  #trail;
  #frame;
  #windowBefore;
  #previewTimer = 0;
  /** The last request, and the position of the pointer that it was made for.
   * @type {{ end: number, window: Promise<string> } | null} */
  #request = null;
  #finished = new AbortController();

  /** @param {TraceEntry} entry @param {SVGElement} plot @param {PointerEvent} event @param {Trail} trail @param {Actions} actions */
  constructor(entry, plot, { pointerId, clientX }, trail, actions) {
    const { left, width } = plot.getBoundingClientRect();
    this.#entry = entry;
    this.#windowBefore = entry.window;
    this.#plot = plot;
    this.#left = left;
    this.#width = width;
    this.#actions = actions;
    this.#trail = trail;
    trail.isPreview = true;
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
    this.#trail.isPreview = false;
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
