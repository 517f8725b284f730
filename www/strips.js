// The overview strips: what each device and stream of a trace did over time, and the window of it that all else shows.

import { picture, shapes } from './chart.js';
import { byId, el, svg } from './dom.js';

/** A drag of fewer pixels is a click. */
const DRAG = 4;
/** A pointer that is held so many milliseconds in one place asks what is there, before it is let go. */
const REST = 80;

export class Strips {
  #pick;
  #peek;
  #handOver;
  #attempt;
  #width = 0;
  #figures = new Map();

  /**
   * `pick(entry, window)` is called with the text of a window, or '' for the whole trace; `peek(entry, window)` with what may
   * be picked in a moment; `handOver(entry)` when Perfetto is to show what is picked. `attempt(step)` runs what may fail.
   */
  constructor({ pick, peek, handOver, attempt }) {
    [this.#pick, this.#peek, this.#handOver, this.#attempt] = [pick, peek, handOver, attempt];
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
    if (figure.reader === entry.reader && figure.key === key) return;
    figure.key = key;
    // Before the strips: a new reader knows none of the turns of the one before.
    const marked = this.#marks(entry, figure);
    const [drawing] = await Promise.all([entry.reader.strips(options, this.#width, figure.turn), marked]);
    // Other strips were asked for meanwhile, or none.
    if (this.#figures.get(entry) !== figure || figure.key !== key) return;
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
      figure.drawing.replaceChildren(picture(drawing.chart), frameOver(drawing.chart, plot));
    }
    figure.turn = drawing.turn;
    figure.frame.forEach((node) => node.remove());
    figure.frame = nodes;
    // What takes the pointer stays: it may be held down on it.
    figure.drawing.lastChild.lastChild.before(...nodes);
  }

  #figure(entry) {
    if (!this.#figures.has(entry)) {
      const pick = (window) => this.#pick(entry, window);
      const label = `of ${entry.file.name}`;
      const figure = {
        reader: null,
        // What was asked for last, and the turn of the strips that are drawn.
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
    figure.turn = 0;
    const groups = await entry.reader.marks();
    figure.parts.replaceChildren(new Option('all', ''), ...groups.map(optionsOf));
    figure.partsLabel.hidden = groups.length === 0;
  }

  #drag(entry, plot, event) {
    if (event.button !== 0) return;
    const before = entry.window;
    new Drag(plot, event, {
      ask: (from, to) => entry.reader.window(from, to),
      peek: (window) => this.#peek(entry, window),
      pick: (window) => this.#pick(entry, window),
      click: () => entry.window && this.#pick(entry, ''),
      cancel: () => this.#peek(entry, before),
      attempt: this.#attempt,
    });
  }
}

/** A layer of its own for what moves: the strips below it, thousands of marks, are not painted with each move. */
const frameOver = ({ width, height }, plot) => svg('svg', [
  ['class', 'chart strip-frame'], ['viewBox', `0 0 ${width} ${height}`], ['width', width], ['height', height], ['aria-hidden', 'true'],
], plot);

/** A pointer held down over the strips, followed with a frame; where it rests or is let go, the window is asked for. */
class Drag {
  #plot;
  #left;
  #width;
  #start;
  #stop;
  #follow;
  #frame;
  #resting = 0;
  /** What was asked last, and where the pointer was: `{stop, window}`. */
  #asked = {};
  #isOver = new AbortController();

  /** `follow` says what is asked, and told: `{ask(from, to), peek(window), pick(window), click(), cancel(), attempt(step)}`. */
  constructor(plot, { pointerId, clientX }, follow) {
    const { left, width } = plot.getBoundingClientRect();
    [this.#plot, this.#left, this.#width, this.#follow] = [plot, left, width, follow];
    this.#start = this.#stop = this.#place(clientX);
    this.#frame = svg('rect', [['class', 'strip-window strip-drag'], ['y', plot.getAttribute('y')], ['height', plot.getAttribute('height')]]);
    plot.before(this.#frame);
    plot.parentNode.classList.add('dragged');
    plot.setPointerCapture(pointerId);
    const on = (type, hear) => plot.addEventListener(type, hear, { signal: this.#isOver.signal });
    on('pointermove', (event) => this.#move(event));
    on('pointerup', (event) => this.#follow.attempt(() => this.#end(event)));
    on('pointercancel', (event) => this.#follow.attempt(() => this.#end(event)));
  }

  #place(x) {
    return Math.min(Math.max(x - this.#left, 0), this.#width);
  }

  get #isClick() {
    return Math.abs(this.#stop - this.#start) < DRAG;
  }

  #move({ clientX }) {
    clearTimeout(this.#resting);
    this.#resting = setTimeout(() => this.#rest(), REST);
    this.#stop = this.#place(clientX);
    const [from, to] = [this.#start, this.#stop].sort((a, b) => a - b);
    this.#frame.setAttribute('x', Number(this.#plot.getAttribute('x')) + from);
    this.#frame.setAttribute('width', to - from);
    // Known when the pointer is let go: its answer would wait for the browser's drawing then.
    if (!this.#isClick) this.#window().catch(() => {});
  }

  /** The window from where the pointer was held down to where it is; asked once for each place. */
  #window() {
    if (this.#asked.stop !== this.#stop) {
      this.#asked = { stop: this.#stop, window: this.#follow.ask(this.#start / this.#width, this.#stop / this.#width) };
    }
    return this.#asked.window;
  }

  async #rest() {
    if (this.#isClick) return;
    // What is wrong is said when the pointer is let go.
    const window = await this.#window().catch(() => null);
    if (window !== null && !this.#isOver.signal.aborted) this.#follow.peek(window);
  }

  async #end({ type, clientX }) {
    clearTimeout(this.#resting);
    this.#isOver.abort();
    this.#frame.remove();
    this.#plot.parentNode.classList.remove('dragged');
    this.#stop = this.#place(clientX);
    if (type === 'pointercancel') this.#follow.cancel();
    else if (this.#isClick) this.#follow.click();
    else this.#follow.pick(await this.#window());
  }
}

/** Steps, stages or ranges of one name. */
function optionsOf({ title, marks, more }) {
  return el('optgroup', { label: title }, ...marks.map((mark) => new Option(mark.title, mark.window)),
    more && Object.assign(new Option(`${more} more: drag over the strips`, '-'), { disabled: true }));
}
