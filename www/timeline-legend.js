// The line below the lanes that names the hatchings of idle time, and of time that is not traced: those that had a bar so far. Its room is
// kept.

import { el, svg } from './dom.js';
import { HATCHINGS, NUMBERS, PATCH_PX } from './timeline-paint.js';

/** @import { Hatching, Tile, TimelineStyle } from './types.js' */

/** The size of a sample, in patches. */
const SAMPLE = { across: 3, down: 2 };

export class TimelineLegend {
  node = el('div', { class: 'timeline-legend' });
  /** @type {TimelineStyle[]} */
  #styles = [];
  /** The hatched styles that had a bar, as indices. @type {Set<number>} */
  #found = new Set();

  /** Begins again, for the tiles of other options. @param {TimelineStyle[]} styles */
  clear(styles) {
    this.#styles = styles;
    this.#found.clear();
    this.node.replaceChildren();
  }

  /** Adds the causes of the bars of a tile. @param {Tile} tile */
  add({ bars }) {
    const before = this.#found.size;
    for (let at = 3; at < bars.length; at += NUMBERS) if (this.#styles[bars[at]]?.hatch) this.#found.add(bars[at]);
    if (this.#found.size === before) return;
    const found = this.#styles.filter((_, index) => this.#found.has(index));
    const [idle, others] = [found.filter(isIdle), found.filter((style) => !isIdle(style))];
    const causes = el('ul', { 'aria-label': 'Causes of idle time, each with its own hatching' }, ...idle.map(item));
    const notIdle = el('ul', { 'aria-label': 'Not idle' }, ...others.map(item));
    this.node.replaceChildren(...(idle.length > 0 ? ['Idle time:', causes] : []), ...(others.length > 0 ? [notIdle] : []));
  }
}

/** In front of the causes of idle time. Time of work that the trace lacks is hatched too, but is not idle. */
const IDLE = 'idle: ';

/** Whether bars of a style are idle time. @param {TimelineStyle} style */
export const isIdle = ({ title }) => title.startsWith(IDLE);

/** @param {TimelineStyle} style its title is `idle: host late` or `not traced` */
const item = ({ class: className, title, hatch }) => el('li', {}, hatch && sample(className, hatch), title.replace(IDLE, ''));

/** A few patches of a hatching. @param {string} className @param {Hatching} hatching */
function sample(className, hatching) {
  const [width, height] = [SAMPLE.across * PATCH_PX, SAMPLE.down * PATCH_PX];
  const places = Array.from({ length: SAMPLE.across * SAMPLE.down }, (_, at) => [at % SAMPLE.across, Math.floor(at / SAMPLE.across)]);
  const line = (/** @type {number[]} */ [x, y]) => HATCHINGS[hatching].map(([fromX, fromY, toX, toY]) => `M${(x + fromX) * PATCH_PX} ${(y + fromY) * PATCH_PX}L${(x + toX) * PATCH_PX} ${(y + toY) * PATCH_PX}`);
  return svg('svg', [['class', `${className} ${hatching}`], ['width', width], ['height', height], ['aria-hidden', 'true']], svg('path', [['d', places.flatMap(line).join('')]]));
}
