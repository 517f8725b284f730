// The overview strips: what each device and stream of a trace did over time, and the window of it that all else shows.

import { picture, shapes } from './chart.js';
import { byId, el, svg } from './dom.js';

/** A drag of fewer pixels is a click. */
const DRAG = 4;

export class Strips {
  #pick;
  #handOver;
  #width = 0;
  #figures = new Map();

  /**
   * `pick(entry, window)` is called with the text of a window, or '' for the whole trace; `handOver(entry)` when Perfetto
   * is to show what is picked.
   */
  constructor(pick, handOver) {
    this.#pick = pick;
    this.#handOver = handOver;
  }

  /** Draws the strips of these entries, each of which has a reader that holds its trace, where they do not stand so already. */
  async show(entries, options, isResized) {
    const isMeasured = !isResized && entries.length === this.#figures.size;
    for (const [entry, figure] of this.#figures) {
      if (entries.includes(entry)) continue;
      figure.node.remove();
      this.#figures.delete(entry);
    }
    byId('strips').hidden = entries.length === 0;
    // Asked for its width, the browser lays out the page there and then.
    if (!isMeasured) this.#width = Math.max(240, Math.floor(byId('strips').clientWidth));
    await Promise.all(entries.map((entry) => this.#draw(entry, options(entry), entries.length > 1)));
  }

  async #draw(entry, options, isNamed) {
    const figure = this.#figure(entry);
    const key = JSON.stringify([options, this.#width, isNamed]);
    const isKnown = figure.reader === entry.reader;
    if (isKnown && figure.key === key) return;
    const [drawing] = await Promise.all([entry.reader.strips(options, this.#width, isKnown ? figure.turn : 0), this.#marks(entry, figure)]);
    if (this.#figures.get(entry) !== figure) return;
    figure.key = key;
    figure.node.hidden = drawing === null;
    if (drawing === null) return;
    figure.name.textContent = isNamed ? entry.file.name : '';
    if (document.activeElement !== figure.window) figure.window.value = entry.window;
    figure.parts.value = entry.window;
    if (figure.parts.selectedIndex < 0) figure.parts.value = '';
    figure.all.hidden = entry.window === '';
    const nodes = shapes(drawing.frame);
    const plot = nodes.pop();
    if (drawing.chart) {
      plot.addEventListener('pointerdown', (event) => this.#drag(entry, plot, event));
      figure.drawing.replaceChildren(picture(drawing.chart));
      figure.drawing.firstChild.append(plot);
    }
    figure.turn = drawing.turn;
    figure.frame.forEach((node) => node.remove());
    figure.frame = nodes;
    // What takes the pointer stays: it may be held down on it.
    figure.drawing.firstChild.lastChild.before(...nodes);
  }

  #figure(entry) {
    if (!this.#figures.has(entry)) {
      const pick = (window) => this.#pick(entry, window);
      const label = `of ${entry.file.name}`;
      const figure = {
        reader: null,
        key: '',
        turn: 0,
        frame: [],
        name: el('span', { class: 'run-label' }),
        parts: el('select', { 'aria-label': `Part ${label}`, change: ({ target }) => pick(target.value) }),
        window: el('input', { type: 'text', size: 22, placeholder: 'from-to', 'aria-label': `Window ${label}, from-to in seconds`, autocomplete: 'off', spellcheck: 'false', change: ({ target }) => pick(target.value.trim()) }),
        all: el('button', { type: 'button', class: 'small', click: () => pick('') }, 'Whole trace'),
        perfetto: el('button', { type: 'button', class: 'small', title: 'Hands the window to ui.perfetto.dev in a new tab, which reads it in your browser', click: () => this.#handOver(entry) }, 'Open in Perfetto'),
        drawing: el('div', { class: 'strip-drawing' }),
      };
      figure.partsLabel = el('label', { hidden: true }, 'Part ', figure.parts);
      figure.node = el('figure', {},
        el('figcaption', {}, 'Over time ', figure.name,
          el('span', { class: 'strip-tools' }, figure.partsLabel, el('label', {}, 'Window (s) ', figure.window), figure.all, figure.perfetto)),
        figure.drawing);
      byId('strips').append(figure.node);
      this.#figures.set(entry, figure);
    }
    return this.#figures.get(entry);
  }

  /** What can be picked by name does not change while one reader holds the trace. */
  async #marks(entry, figure) {
    if (figure.reader === entry.reader) return;
    figure.reader = entry.reader;
    const groups = await entry.reader.marks();
    figure.parts.replaceChildren(new Option('all', ''), ...groups.map(optionsOf));
    figure.partsLabel.hidden = groups.length === 0;
  }

  /** Follows the pointer with a frame; where it is let go, the window is asked of the reader. */
  #drag(entry, plot, { pointerId, button, clientX }) {
    if (button !== 0) return;
    const { left, width } = plot.getBoundingClientRect();
    const place = (x) => Math.min(Math.max(x - left, 0), width);
    const start = place(clientX);
    const frame = svg('rect', [['class', 'strip-window'], ['y', plot.getAttribute('y')], ['height', plot.getAttribute('height')]]);
    plot.before(frame);
    plot.setPointerCapture(pointerId);
    const move = (event) => {
      const [from, to] = [start, place(event.clientX)].sort((a, b) => a - b);
      frame.setAttribute('x', Number(plot.getAttribute('x')) + from);
      frame.setAttribute('width', to - from);
    };
    const end = async (event) => {
      plot.removeEventListener('pointermove', move);
      frame.remove();
      const stop = place(event.clientX);
      if (event.type === 'pointercancel') return;
      if (Math.abs(stop - start) < DRAG) {
        if (entry.window) this.#pick(entry, '');
        return;
      }
      this.#pick(entry, await entry.reader.window(start / width, stop / width));
    };
    plot.addEventListener('pointermove', move);
    plot.addEventListener('pointerup', end, { once: true });
    plot.addEventListener('pointercancel', end, { once: true });
  }
}

/** Steps, stages or ranges of one name. */
function optionsOf({ title, marks, more }) {
  return el('optgroup', { label: title }, ...marks.map((mark) => new Option(mark.title, mark.window)),
    more && Object.assign(new Option(`${more} more: drag over the strips`, '-'), { disabled: true }));
}
