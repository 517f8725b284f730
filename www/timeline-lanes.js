// Which lanes of the timelines a person shows, in which order, and which stay in sight: one choice for all timelines, by the names of the
// lanes, kept in the address. Also the menu of a timeline that changes it. Loaded with the timelines.

import { button, el } from './dom.js';

/** @import { TimelineLane } from './types.js' */

/** `pin` keeps a lane at the top, `hide` takes one away, `fold` leaves only the heading of a group, `move` puts a lane or group before another one
 * of its kind, or last.
 * @typedef {'pin' | 'hide' | 'fold' | 'move'} Kind */
/** Indices of lanes: those at the top, and the others with headings. @typedef {{ pinned: number[], order: number[], folded: Set<string> }} LaneOrder */
/** The texts of the choice, one for each act. @typedef {{ read(): string[], write(texts: string[]): void }} Kept */

/** Between the parts of a text. */
const SEPARATOR = '\n';

/** @param {{ group: string, title: string }} lane */
const nameOf = ({ group, title }) => `${group} / ${title}`;

export class LaneChoice {
  #kept;

  /** @param {Kept} kept */
  constructor(kept) {
    this.#kept = kept;
  }

  /** @param {Kind} kind @param {string} name */
  has(kind, name) {
    return this.#kept.read().includes(`${kind}${SEPARATOR}${name}`);
  }

  /** @param {Kind} kind @param {string} name */
  toggle(kind, name) {
    const text = `${kind}${SEPARATOR}${name}`;
    if (this.has(kind, name)) this.#without([text]);
    else this.#kept.write([...this.#kept.read(), text]);
  }

  /** @param {string[]} texts */
  #without(texts) {
    this.#kept.write(this.#kept.read().filter((text) => !texts.includes(text)));
  }

  /** @param {string[]} names */
  hide(names) {
    this.#kept.write([...new Set([...this.#kept.read(), ...names.map((name) => `hide${SEPARATOR}${name}`)])]);
  }

  reset() {
    this.#kept.write([]);
  }

  /** Shows a lane that was hidden or whose group was folded. @param {TimelineLane} lane */
  show(lane) {
    this.#without([`hide${SEPARATOR}${nameOf(lane)}`, `fold${SEPARATOR}${lane.group}`]);
  }

  /** Moves a lane among those of its group, or a group among the groups. @param {TimelineLane[]} lanes @param {string} name @param {-1 | 1} direction */
  move(lanes, name, direction) {
    const [, siblings] = this.#lists(lanes).find(([, names]) => names.includes(name)) ?? [name, []];
    const at = siblings.indexOf(name);
    const to = at + direction;
    if (at < 0 || to < 0 || to >= siblings.length) return;
    const target = direction < 0 ? siblings[to] : siblings[to + 1] ?? '';
    const start = `move${SEPARATOR}${name}${SEPARATOR}`;
    this.#kept.write([...this.#kept.read().filter((text) => !text.startsWith(start)), start + target]);
  }

  /** The groups in their order, then for each the names of its lanes. @param {TimelineLane[]} lanes @returns {[group: string, names: string[]][]} */
  #lists(lanes) {
    const moves = this.#kept.read().map((text) => text.split(SEPARATOR)).filter(([kind]) => kind === 'move');
    const groups = moved([...new Set(lanes.map(({ group }) => group))], moves);
    const ofGroup = (/** @type {string} */ group) => moved([...new Set(lanes.filter((lane) => lane.group === group).map(nameOf))], moves);
    return [['', groups], ...groups.map((group) => /** @type {[string, string[]]} */ ([group, ofGroup(group)]))];
  }

  /** The lanes from top to bottom, also hidden ones. @param {TimelineLane[]} lanes */
  sorted(lanes) {
    const names = this.#lists(lanes).slice(1).flatMap(([, list]) => list);
    return lanes.map((lane, index) => ({ lane, index, name: nameOf(lane) })).sort((a, b) => names.indexOf(a.name) - names.indexOf(b.name) || a.index - b.index);
  }

  /** What the canvas shows. @param {TimelineLane[]} lanes @returns {LaneOrder} */
  order(lanes) {
    const sorted = this.sorted(lanes);
    const isPinned = (/** @type {{ name: string }} */ { name }) => this.has('pin', name);
    const others = sorted.filter((lane) => !isPinned(lane) && !this.has('hide', lane.name));
    return {
      pinned: sorted.filter(isPinned).map(({ index }) => index),
      order: others.map(({ index }) => index),
      folded: new Set(lanes.map(({ group }) => group).filter((group) => this.has('fold', group))),
    };
  }
}

/** @param {string[]} names @param {string[][]} moves */
function moved(names, moves) {
  return moves.reduce((list, [, name, target]) => {
    if (!list.includes(name) || (target && !list.includes(target))) return list;
    const others = list.filter((other) => other !== name);
    const at = target ? others.indexOf(target) : others.length;
    return [...others.slice(0, at), name, ...others.slice(at)];
  }, names);
}

/** The menu above a timeline: what it changes holds for all timelines. */
export class LaneMenu {
  #choice;
  #lanes;
  #filter = el('input', { type: 'search', placeholder: 'Filter lanes', 'aria-label': 'Filter lanes', input: () => this.draw() });
  #only = button('Show only these', () => this.#choice.hide(this.#others), { class: 'small' });
  #list = el('ul', {});

  /** @param {LaneChoice} choice @param {() => TimelineLane[]} lanes */
  constructor(choice, lanes) {
    this.#choice = choice;
    this.#lanes = lanes;
    const reset = button('Reset lanes', () => choice.reset(), { class: 'small' });
    this.node = el('details', { class: 'menu lane-menu', toggle: () => this.draw() }, el('summary', { class: 'button', title: 'Pin, fold, hide and move lanes' }, 'Lanes'),
      el('div', { class: 'menu-items' }, this.#filter, el('span', { class: 'lane-acts' }, this.#only, reset), this.#list));
  }

  /** @param {string} name */
  #isFound(name) {
    return name.toLowerCase().includes(this.#filter.value.trim().toLowerCase());
  }

  /** The lanes that the filter does not find. */
  get #others() {
    return this.#lanes().map(nameOf).filter((name) => !this.#isFound(name));
  }

  /** Draws the list if the menu is open. The button that has the focus keeps it. */
  draw() {
    if (!this.node.open) return;
    const focused = document.activeElement?.closest('.lane-menu') === this.node ? document.activeElement.getAttribute('aria-label') : null;
    this.#only.disabled = this.#filter.value.trim() === '';
    const found = this.#choice.sorted(this.#lanes()).filter(({ name }) => this.#isFound(name));
    this.#list.replaceChildren(...found.flatMap((row, at) => [...(found[at - 1]?.lane.group === row.lane.group ? [] : [this.#group(row.lane.group)]), this.#lane(row)]));
    if (!focused) return;
    const again = [this.#filter, ...this.#list.querySelectorAll('button, input')].find((node) => node.getAttribute('aria-label') === focused);
    if (again instanceof HTMLElement) again.focus();
  }

  /** @param {string} group */
  #group(group) {
    const isOpen = !this.#choice.has('fold', group);
    return el('li', { class: 'lane-group' },
      button(`${isOpen ? '▾' : '▸'} ${group}`, () => this.#choice.toggle('fold', group), { class: 'quiet', 'aria-expanded': String(isOpen), 'aria-label': `Fold ${group}` }),
      ...this.#movers(group, group));
  }

  /** @param {{ lane: TimelineLane, name: string }} row */
  #lane({ lane: { title }, name }) {
    const isPinned = this.#choice.has('pin', name);
    const box = el('input', { type: 'checkbox', 'aria-label': `Show ${name}`, change: () => this.#choice.toggle('hide', name) });
    box.checked = !this.#choice.has('hide', name);
    return el('li', {}, el('label', {}, box, title),
      button('Pin', () => this.#choice.toggle('pin', name), { class: 'small', 'aria-pressed': String(isPinned), 'aria-label': `Pin ${name}`, title: 'Keep in sight at the top (p)' }),
      ...this.#movers(name, name));
  }

  /** @param {string} name @param {string} words */
  #movers(name, words) {
    const move = (/** @type {string} */ text, /** @type {string} */ way, /** @type {-1 | 1} */ direction) =>
      button(text, () => this.#choice.move(this.#lanes(), name, direction), { class: 'small', 'aria-label': `Move ${words} ${way}`, title: `Move ${way}` });
    return [move('↑', 'up', -1), move('↓', 'down', 1)];
  }
}

/** @param {LaneChoice} choice @param {TimelineLane} lane @param {TimelineLane[]} lanes @returns {Record<string, () => void>} what keys do with a lane */
export const laneKeys = (choice, lane, lanes) => ({
  p: () => choice.toggle('pin', nameOf(lane)),
  c: () => choice.toggle('fold', lane.group),
  ArrowUp: () => choice.move(lanes, nameOf(lane), -1),
  ArrowDown: () => choice.move(lanes, nameOf(lane), 1),
});
