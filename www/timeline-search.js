// The GPU ops of a timeline that the text of the filter is found in: how many, which one the keys lead to, and where those in view are.
// The worker of the trace finds them. Loaded with the timelines.

/** @import { TraceEntry, Place, TimelineView } from './types.js' */
/** @import { View } from './timeline-view.js' */

/** A lane and the begin and end of a hit, or of several that are too near to be told apart. @typedef {[lane: number, from: number, to: number]} HitSpan */

export class TimelineSearch {
  #entry;
  #draw;
  #attempt;
  #text = '';
  /** What the spans are of. */
  #key = '';
  #isAsking = false;
  /** The place that the last step led to. @type {Place | null} */
  #place = null;
  /** Where the hits in view are. @type {HitSpan[]} */
  spans = [];

  /** @param {TraceEntry} entry @param {() => void} draw is called when there are other spans @param {(step: () => unknown) => void} attempt */
  constructor(entry, draw, attempt) {
    this.#entry = entry;
    this.#draw = draw;
    this.#attempt = attempt;
  }

  get isOpen() {
    return this.#text !== '';
  }

  /** Looks for another text, or for none, and resolves with the words for it; null if a later text was set. @param {string} text @param {TimelineView} timeline */
  async setText(text, timeline) {
    this.#text = text.trim();
    this.#place = null;
    if (!this.isOpen) {
      this.#show('', []);
      return '';
    }
    const searched = this.#text;
    this.#draw();
    const found = await this.#request(timeline, null, '');
    return searched === this.#text ? `${found?.text ?? ''} with “${searched}”` : null;
  }

  /** The next or previous hit from a row of an op, or the first or last; null without hits.
   * @param {TimelineView} timeline @param {number | null} row @param {'next' | 'previous'} toward */
  async step(timeline, row, toward) {
    const searched = this.#text;
    const found = this.isOpen ? await this.#request(timeline, row, toward) : null;
    if (!found?.place || searched !== this.#text) return null;
    this.#place = found.place;
    return { place: found.place, text: `${found.text} with “${searched}”` };
  }

  /** True if the keys of the next bar lead to the next hit: the selected bar is one that they led to. @param {Place | undefined} selected */
  leadsFrom(selected) {
    return this.isOpen && this.#place !== null && selected?.lane === this.#place.lane && selected.row === this.#place.row;
  }

  /** @param {TimelineView} timeline @param {number | null} row @param {'next' | 'previous' | ''} toward */
  #request({ window, from, to }, row, toward) {
    const [start, end] = window ?? [from, to];
    return this.#entry.reader.request('search', { text: this.#text, from: start, to: end, row, toward });
  }

  /** Asks where the hits in view are, if it has changed; while the answer is on its way, not again. Called with each frame.
   * @param {View} view @param {number} width of the bars in pixels */
  look({ from, to, length }, width) {
    const key = this.isOpen ? `${this.#text} ${from} ${to} ${width}` : '';
    if (key === this.#key || !this.isOpen || this.#isAsking) return;
    this.#isAsking = true;
    this.#attempt(async () => {
      try {
        const numbers = await this.#entry.reader.request('hits', { text: this.#text, from, to, least: length / width });
        this.#isAsking = false;
        this.#show(key, this.isOpen ? triples(numbers) : []);
      } finally {
        this.#isAsking = false;
      }
    });
  }

  /** @param {string} key @param {HitSpan[]} spans */
  #show(key, spans) {
    this.#key = key;
    this.spans = spans;
    this.#draw();
  }
}

/** @param {Float64Array} numbers @returns {HitSpan[]} */
const triples = (numbers) => Array.from({ length: numbers.length / 3 }, (_, index) => [numbers[3 * index], numbers[3 * index + 1], numbers[3 * index + 2]]);
