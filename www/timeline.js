// The timeline below the overview strips: every op, call, range, step and idle gap of a trace at any zoom. A worker computes the bars of
// what is in view; this draws them and takes pointer and keys. Loaded with the first trace.

import { arrange, button, byId, el, loadStyleSheet, present, setAttributes, svg } from './dom.js';
import { Alignment } from './timeline-align.js';
import { LaneChoice, LaneMenu, laneKeys } from './timeline-lanes.js';
import { TimelineLegend, isIdle } from './timeline-legend.js';
import { momentPanel } from './timeline-moment.js';
import { Painter, colours, plotWidth, shareAt } from './timeline-paint.js';
import { Tiles } from './timeline-tiles.js';
import { TimelineInput } from './timeline-input.js';
import { TimelineSearch } from './timeline-search.js';
import { LAYERS, View } from './timeline-view.js';
import { TIMELINES_AT_ONCE } from './windows.js';

/** @import { Mark, Moment, Options, Place, TimelineStyle, TimelineView, TraceEntry, Wait } from './types.js' */
/** @import { Job } from './timeline-align.js' */
/** @import { Frame, Hit } from './timeline-paint.js' */
/** @import { Reader } from './reader-pool.js' */
/** @import { WayBack } from './way-back.js' */

/** `lanes` has what the reader did to the lanes, and keeps it. `filter` has the text that the reader filters by. `onView` is told which part of the trace is in view: 0 is its first GPU op, 1 the end of its last. `goBack` shows the window before.
 * `hidden` has the categories that the reader has hidden; `readColours` applies them.
 * @typedef {{
 *   pick(entry: TraceEntry, window: string): void,
 *   goBack(entry: TraceEntry): void,
 *   onView(entry: TraceEntry, from: number, to: number): void,
 *   openKernel(name: string): void,
 *   hidden(): string[],
 *   lanes: import('./timeline-lanes.js').Kept,
 *   filter(): string,
 *   attempt(step: () => unknown): void,
 *   job: Job,
 *   proofs(entry: TraceEntry, moment: Moment): import('./timeline-moment.js').Proof[],
 * }} Actions */
/** What the page's parts around a timeline do: `onDraw` follows each frame, `toggleSteps` shows or hides the slowest step below the median.
 * @typedef {Actions & { onDraw(timeline: Timeline): void, toggleSteps(timeline: Timeline): void, choice: LaneChoice }} TimelineActions */

/** The times of a row of a table, the one to show first, and the way back to it.
 * @typedef {{ table: string, times: number[], wayBack: WayBack }} RowTime */
/** How a case is shown. `wayBack` leads to the table whose cell it is. @typedef {{ scrolls: boolean, wayBack?: WayBack }} ExampleOptions */

/** Between the card of a bar and the edges of the window. */
const CARD_MARGIN_PX = 6;

export class Timelines {
  #actions;
  #alignment;
  /** @type {Map<TraceEntry, Timeline>} */
  #timelines = new Map();
  /** The traces whose timelines come first. @type {TraceEntry[]} */
  #leading = [];
  /** Further traces whose timelines were asked for. @type {Set<TraceEntry>} */
  #asked = new Set();
  /** A second view of a trace, below its first: the slowest step. @type {Timeline | null} */
  #second = null;
  /** Counts presses of the button for it: the last one counts. */
  #toggles = 0;
  /** What was shown last. @type {{ entries: TraceEntry[], options: (entry: TraceEntry) => Options }} */
  #shown = { entries: [], options: () => { throw new Error('no timeline is open'); } };
  #more = el('p', { class: 'timeline-more' });
  #styleSheet = loadStyleSheet('timeline.css');

  /** @param {Actions} actions */
  constructor(actions) {
    this.#alignment = new Alignment(actions.job, actions.attempt);
    this.#actions = {
      ...actions,
      choice: new LaneChoice(actions.lanes),
      onDraw: (/** @type {Timeline} */ timeline) => this.#alignment.follow(timeline),
      toggleSteps: (/** @type {Timeline} */ timeline) => actions.attempt(() => this.#toggleSteps(timeline)),
    };
    new MutationObserver(this.readColours).observe(document.documentElement, { attributes: true, attributeFilter: ['data-theme'] });
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', this.readColours);
  }

  /** Draws all timelines with the colours of the theme, and without those of hidden categories. */
  readColours = () => this.#all.forEach((timeline) => timeline.readColours());

  /** Shows the lanes that the reader has chosen. */
  readLanes() {
    for (const timeline of this.#all) timeline.readLanes();
  }

  /** Shows which ops the text of the filter is found in. */
  search() {
    for (const timeline of this.#all) timeline.search();
  }

  /** Goes to the first op that the filter finds, or to the next one, in the first timeline that has one. */
  async showHit() {
    for (const timeline of this.#made.map((entry) => this.#timeline(entry))) if (await timeline.showHit('next')) return;
  }

  /** Shows the timelines of these traces. Those of files that are still being read are made too, and keep their room.
   * @param {TraceEntry[]} entries @param {(entry: TraceEntry) => Options} options */
  async show(entries, options) {
    this.#shown = { entries: [...new Set([...this.#leading.filter((entry) => entries.includes(entry)), ...entries])], options };
    await this.#styleSheet;
    const made = this.#made;
    for (const [entry, timeline] of this.#timelines) {
      if (made.includes(entry)) continue;
      timeline.close();
      this.#timelines.delete(entry);
      this.#asked.delete(entry);
    }
    if (this.#second && !made.includes(this.#second.entry)) this.#closeSecond();
    this.#arrange();
    byId('timelines').hidden = entries.length === 0;
    for (const timeline of this.#all) timeline.setName(entries.length > 1);
    await Promise.all(this.#all.filter(({ entry }) => isRead(entry)).map((timeline) => timeline.open(options(timeline.entry))));
    if (!this.#second) this.#actions.attempt(() => this.#alignment.alignWhole());
  }

  /** Shows the timelines of these traces first, the others in the order of the files. All are made again in their places, so that nothing
   * moves. Once a person has moved one, they stay as they are. @param {TraceEntry[]} entries */
  async leadWith(entries) {
    const isSame = entries.length === this.#leading.length && entries.every((entry, index) => entry === this.#leading[index]);
    if (isSame || this.#second || !this.#all.every((timeline) => this.#alignment.isAsOpened(timeline) && !timeline.selected)) return;
    this.#leading = entries;
    for (const timeline of this.#timelines.values()) timeline.close();
    this.#timelines.clear();
    await this.show(this.#shown.entries, this.#shown.options);
  }

  /** The traces that have a timeline, in their order. */
  get #made() {
    return this.#shown.entries.filter((entry, index) => index < TIMELINES_AT_ONCE || this.#asked.has(entry));
  }

  /** All timelines from top to bottom. */
  get #all() {
    const second = this.#second;
    return this.#made.map((entry) => this.#timeline(entry)).flatMap((timeline) => (second?.entry === timeline.entry ? [timeline, second] : [timeline]));
  }

  #arrange() {
    const made = this.#made;
    const others = this.#shown.entries.filter((entry) => !made.includes(entry) && isRead(entry));
    this.#more.replaceChildren('Also: ', ...others.map((entry) => button(entry.file.name, () => this.#ask(entry), { class: 'small', title: `Show the timeline of ${entry.file.name}` })));
    arrange(byId('timelines'), [...this.#all.map(({ node }) => node), ...(others.length > 0 ? [this.#more] : [])], (node) => node);
    const timelines = made.filter(isRead).map((entry) => this.#timeline(entry));
    timelines[0]?.offerAlignment(this.#alignment.select);
    this.#alignment.offer(timelines);
  }

  /** Shows the slowest step of a stage below the median one, or closes it. @param {Timeline} timeline */
  async #toggleSteps(timeline) {
    if (this.#second) {
      const isOfThis = this.#second.entry === timeline.entry;
      this.#closeSecond();
      this.#arrange();
      if (isOfThis) return;
    }
    this.#toggles += 1;
    const call = this.#toggles;
    const pair = await timeline.stepPair();
    if (call !== this.#toggles) return;
    if (!pair) {
      timeline.refusePair('no stage has three steps of different length');
      return;
    }
    const second = new Timeline(timeline.entry, /** @type {TimelineActions} */ (this.#actions));
    this.#second = second;
    this.#arrange();
    await second.openLike(timeline);
    // Closed in the meantime.
    if (this.#second !== second) return;
    const { titles, median, slowest } = pair;
    timeline.setPair(titles[0]);
    second.setPair(titles[1]);
    this.#alignment.release();
    this.#alignment.align({
      anchors: [{ timeline, at: median.from, text: 'median step' }, { timeline: second, at: slowest.from, text: 'slowest step' }],
      length: 1.25 * (slowest.to - slowest.from),
    });
    timeline.scrollTo(median.lane);
    second.scrollTo(slowest.lane);
  }

  #closeSecond() {
    if (!this.#second) return;
    this.#alignment.release();
    this.#timelines.get(this.#second.entry)?.setPair('');
    this.#second.close();
    this.#second = null;
  }

  /** Makes the timeline of a trace that has none yet, and shows it. @param {TraceEntry} entry */
  #ask(entry) {
    this.#actions.attempt(async () => (await this.#open(entry)).comeIntoView());
  }

  /** Shows a launch of a kernel in the first timeline that has one. @param {string} name */
  async showKernel(name) {
    for (const timeline of this.#timelines.values()) if (await timeline.showKernel(name)) return;
  }

  /** Shows a time of a row of a table in the timeline of a trace. @param {TraceEntry} entry @param {RowTime} time */
  async showTime(entry, time) {
    for (const timeline of this.#timelines.values()) timeline.setWayBack(null);
    await (await this.#open(entry)).showTime(time);
  }

  /** Shows a case of a clause, finding or row. @param {TraceEntry} entry @param {string} example @param {ExampleOptions} options */
  async showExample(entry, example, options) {
    await (await this.#open(entry)).showExample(example, options);
  }

  /** Moves the timeline of a trace, if it has one, without zooming. @param {TraceEntry} entry @param {number} share of the trace where it begins */
  panTo(entry, share) {
    this.#timelines.get(entry)?.panTo(share);
  }

  /** The timeline of a trace, which is made if there is none. @param {TraceEntry} entry */
  async #open(entry) {
    const { entries, options } = this.#shown;
    if (!this.#made.includes(entry) && entries.includes(entry)) {
      this.#asked.add(entry);
      await this.show(entries, options);
    }
    const timeline = this.#timelines.get(entry);
    if (!timeline) throw new Error(`${entry.file.name} has no timeline yet: try again in a moment.`);
    return timeline;
  }

  /** @param {TraceEntry} entry */
  #timeline(entry) {
    const timeline = this.#timelines.get(entry) ?? new Timeline(entry, /** @type {TimelineActions} */ (this.#actions));
    this.#timelines.set(entry, timeline);
    return timeline;
  }
}

/** Whether a trace has been read. It may have no results yet. @param {TraceEntry} entry */
const isRead = ({ kind }) => kind === 'trace';

/** The category of idle time. */
const IDLE = 'CPU (non-GPU)';

/** The styles of these categories, as indices. Categories come first in the list; other styles may have the same title. The causes of idle
 * time are one category.
 * @param {TimelineStyle[]} styles @param {string[]} categories */
function stylesOf(styles, categories) {
  const indices = new Set(categories.map((name) => styles.findIndex(({ title }) => title === name)));
  if (categories.includes(IDLE)) styles.forEach((style, index) => isIdle(style) && indices.add(index));
  return indices;
}

/** @param {{ from: number, to: number }} range */
const middleOf = ({ from, to }) => (from + to) / 2;

/** The timeline of one trace. */
export class Timeline {
  #entry;
  #actions;
  /** The options of the open timeline. */
  #key = '';
  /** The options of the tiles at hand, which do not depend on the window, and their reader.
   * @type {{ key: string, reader: Reader | null }} */
  #tilesOf = { key: '', reader: null };
  /** @type {Reader | null} */
  #reader = null;
  /** Resolves when the last opening is done. @type {Promise<void>} */
  #opened = Promise.resolve();
  /** Those of the last opening. @type {Options | null} */
  #options = null;
  #name = el('span', { class: 'run-label' });
  /** Which step this timeline was opened for. */
  #pair = el('span', { class: 'run-label' });
  #steps = button('Median and slowest step', () => this.#actions.toggleSteps(this), { class: 'small', 'aria-pressed': 'false', title: 'Show the slowest step below the median one' });
  #tools;
  #canvas = el('canvas', { class: 'timeline-canvas', tabindex: '0', role: 'application' });
  /** Lets the lanes scroll below the canvas. Its height is an attribute, because the page has no inline styles. */
  #room = svg('svg', [['width', 1], ['height', 0], ['class', 'timeline-room'], ['aria-hidden', 'true']]);
  #scroll;
  #spoken = el('p', { class: 'visually-hidden', role: 'status' });
  #card = el('div', { class: 'timeline-card', hidden: true });
  #panel = el('div');
  /** What the canvas says below the lanes, for screen readers. */
  #notes = el('p', { class: 'visually-hidden' });
  #legend = new TimelineLegend();
  #context = /** @type {CanvasRenderingContext2D} */ (this.#canvas.getContext('2d', { alpha: false }));
  /** @type {TimelineView | null} */
  #data = null;
  /** @type {Painter | null} */
  #painter = null;
  /** @type {Tiles | null} */
  #tiles = null;
  /** @type {Frame | null} What is on the canvas. */
  #frame = null;
  #isScheduled = false;
  #resized = new ResizeObserver(() => this.draw());
  /** @type {Hit | null} */
  #hovered = null;
  /** Where the pointer rests on it, in the window. */
  #restsAt = { x: 0, y: 0 };
  /** @type {Moment | null} */
  #selected = null;
  /** @type {Mark[]} */
  #marks = [];
  /** Their times, also of those whose texts are being computed. @type {number[]} */
  #markTimes = [];
  /** In place of the hint, so that nothing moves. */
  #markList = el('ol', { class: 'timeline-marks', 'aria-label': 'Marks', hidden: true });
  #hint = el('span', { class: 'note' }, matchMedia('(pointer: coarse)').matches
    ? 'Pinch: zoom · drag: pan · tap: details'
    : 'Wheel: zoom · drag: pan · Shift + drag: pick a window · click: details');
  /** What the filter finds, in place of the hint. */
  #found = el('span', { class: 'note', hidden: true });
  #search;
  #laneMenu;
  /** Where the page was scrolled to before the timeline filled the window. */
  #scrolledBefore = 0;
  /** Leads back to the table that led here, in place of the hint. */
  #back = button('', () => this.#goBack(), { class: 'small', hidden: true });
  /** @type {WayBack | null} */
  #wayBack = null;
  /** What the way led to. @type {Moment | null} */
  #led = null;
  /** The moment at which the timelines are aligned, and for whole traces the view that shows all of them.
   * @type {{ at: number, text: string, all?: { from: number, to: number } } | null} */
  #anchor = null;
  /** @type {Wait[]} */
  #waits = [];
  /** The bounds of a drag that picks a window. @type {[number, number] | null} */
  picking = null;
  view = new View({ from: 0, to: 1 });
  /** Resolves when the bar that was asked for last is selected. @type {Promise<void>} */
  #selecting = Promise.resolve();
  /** Resolves when the acts on the selection are done. @type {Promise<void>} */
  #acts = Promise.resolve();
  /** What was in view before each jump, for the way back. @type {{ from: number, to: number }[]} */
  #viewsBefore = [];

  /** @param {TraceEntry} entry @param {TimelineActions} actions */
  constructor(entry, actions) {
    this.#entry = entry;
    this.#actions = actions;
    this.#search = new TimelineSearch(entry, () => this.draw(), actions.attempt);
    this.#scroll = el('div', { class: 'timeline-scroll' }, this.#canvas, this.#room);
    this.#laneMenu = new LaneMenu(actions.choice, () => this.#data?.lanes ?? []);
    this.#tools = el('span', { class: 'timeline-tools' }, this.#steps, this.#laneMenu.node,
      button('Show all', () => this.#showMore(), { class: 'small', title: 'Show all GPU ops; again: with the events of the host before and after them' }),
      button('−', () => this.zoom(2), { class: 'small', 'aria-label': 'Zoom out', title: 'Zoom out (s)' }),
      button('+', () => this.zoom(0.5), { class: 'small', 'aria-label': 'Zoom in', title: 'Zoom in (w)' }));
    this.#canvas.setAttribute('aria-label',
      `Timeline of ${entry.file.name}. W and S zoom, A and D pan, arrows go from bar to bar, F fits the selected bar, M marks it, P pins its lane, C folds its group, Shift and up or down moves its lane, Z fills the window, Escape goes back.`);
    this.node = el('figure', { class: 'timeline' },
      el('figcaption', {}, 'Timeline ', this.#name, this.#pair,
        this.#back, this.#hint, this.#found, this.#markList, this.#tools),
      this.#scroll, this.#legend.node, this.#notes, this.#spoken, this.#panel, this.#card);
    new TimelineInput(this, this.#canvas, this.#scroll);
    this.#panel.addEventListener('keydown', (event) => {
      if (event.key !== 'Escape') return;
      event.stopPropagation();
      this.#canvas.focus({ preventScroll: true });
      this.back();
    });
    this.#scroll.addEventListener('scroll', () => this.draw());
    this.#resized.observe(this.#scroll);
  }

  close() {
    this.#resized.disconnect();
    this.#showInPanel();
    this.node.remove();
  }

  /** @param {boolean} isShown */
  setName(isShown) {
    this.#name.textContent = isShown ? this.fileName : '';
  }

  /** Opens the timeline of the entry's reader unless it is open with these options. @param {Options} options */
  async open(options) {
    this.#options = options;
    const { reader } = this.#entry;
    const key = JSON.stringify(options);
    const tilesKey = JSON.stringify({ ...options, window: null });
    // Its second module could not be loaded.
    if (!reader.hasSections && this.#entry.status === 'open') this.node.hidden = true;
    const isOpening = key === this.#key && reader === this.#reader;
    if (reader.hasSections && !isOpening) {
      [this.#key, this.#reader] = [key, reader];
      this.#opened = this.#load(reader, options, key, tilesKey);
    }
    await this.#opened;
    // It failed before the analysis, which may have succeeded since.
    if (isOpening && this.#key === '') await this.open(options);
  }

  /** @param {Reader} reader @param {Options} options @param {string} key @param {string} tilesKey @returns {Promise<void>} */
  async #load(reader, options, key, tilesKey) {
    const data = await reader.timeline(options).catch((thrown) => {
      // The next call tries again.
      if (this.#key === key) this.#key = '';
      this.node.hidden = this.#data === null;
      // What is wrong with the options of a first analysis is shown by the analysis.
      if (this.#entry.text !== null) throw thrown;
    });
    if (data === undefined || this.#key !== key || this.#reader !== reader) return;
    this.node.hidden = data === null;
    if (!data) return;
    const hasTiles = tilesKey === this.#tilesOf.key && reader === this.#tilesOf.reader;
    this.#tilesOf = { key: tilesKey, reader };
    this.#show(data, hasTiles);
  }

  /** Opens what another timeline shows. @param {Timeline} other */
  async openLike(other) {
    this.#name.textContent = other.#name.textContent;
    if (other.#options) await this.open(other.#options);
  }

  /** @param {TimelineView} data @param {boolean} hasTiles */
  #show(data, hasTiles) {
    const isNew = this.#data === null;
    this.#data = data;
    this.#notes.textContent = data.notes.join(' ');
    if (!hasTiles) this.#makeTiles(data);
    if (isNew) {
      this.view = new View(data);
      this.view.isLinked = this.#anchor !== null;
      this.view.open(data);
      this.#steps.hidden = !data.lanes.some(({ title }) => title === 'steps');
    }
    this.#makePainter();
    if (isNew || !hasTiles) this.search();
    // At once: the first bars come with the first results, and the other tiles are asked for before other things.
    if (hasTiles) this.draw();
    else this.#paint();
  }

  /** @param {TimelineView} data */
  #makeTiles({ firstTiles, styles }) {
    this.#legend.clear(styles);
    for (const { tile } of firstTiles) this.#legend.add(tile);
    let hasBars = firstTiles.some(({ tile }) => tile.bars.length > 0);
    this.#tiles = new Tiles(this.#entry, firstTiles, (tile) => {
      if (tile) this.#legend.add(tile);
      if (hasBars || !tile?.bars.length) this.draw();
      // The first bars come with the frame that shows the first results, which takes long.
      else this.#paint();
      hasBars ||= Boolean(tile?.bars.length);
    });
  }

  /** Shows the lanes that the reader has chosen. */
  readLanes() {
    this.#makePainter();
    this.#laneMenu.draw();
    this.draw();
  }

  /** Reads the colours of the theme and draws. */
  readColours() {
    this.#makePainter();
    this.draw();
  }

  #makePainter() {
    if (!this.#data) return;
    const { styles } = this.#data;
    this.#painter = new Painter(this.#context, this.#data, this.#actions.choice.order(this.#data.lanes), colours(this.node, this.#context, styles), stylesOf(styles, this.#actions.hidden()));
  }

  get entry() {
    return this.#entry;
  }

  get fileName() {
    return this.#entry.file.name;
  }

  /** @param {HTMLElement} select */
  offerAlignment(select) {
    if (select.parentElement !== this.#tools) this.#tools.prepend(select);
  }

  /** Says which step is shown; empty without a second view. @param {string} text */
  setPair(text) {
    this.#pair.textContent = text;
    this.#steps.setAttribute('aria-pressed', String(text !== ''));
  }

  /** Says why this trace has no slow step to show; its button stays off. @param {string} reason */
  refusePair(reason) {
    this.#pair.textContent = reason;
    this.#spoken.textContent = reason;
    this.#steps.disabled = true;
  }

  /** Draws a line at the moment at which the timelines are aligned; null lets this one move on its own.
   * @param {{ at: number, text: string, all?: { from: number, to: number } } | null} anchor @param {Wait[]} [waits] when this rank waited for another one: it is shaded */
  setAnchor(anchor, waits = []) {
    this.#anchor = anchor;
    this.#waits = waits;
    this.view.isLinked = anchor !== null;
    if (!anchor) this.view.show(this.view.from, this.view.to);
    this.draw();
  }

  /** The first mark; null without marks. */
  get firstMark() {
    return this.#markTimes.length > 0 ? Math.min(...this.#markTimes) : null;
  }

  /** The median step of the stage that takes the most time, else that of all steps; null without steps.
   * @returns {Promise<{ place: Place, title: string } | null>} */
  async medianStep() {
    if (!this.#data) throw new Error(`The timeline of ${this.fileName} is not drawn yet: try again in a moment.`);
    const { from, to } = this.#data;
    const pair = await this.stepPair();
    if (pair) return { place: pair.median, title: pair.titles[0] };
    const place = await this.#entry.reader.request('example', { of: 'step ', from, to });
    return place && { place, title: 'median step' };
  }

  /** The first step of each stage, that of the stage with the most time first. */
  async firstSteps() {
    return await this.#entry.reader.request('firstSteps', {}) ?? [];
  }

  stepPair() {
    return this.#entry.reader.request('stepPair', {});
  }

  /** The end of the last GPU op. */
  get gpuTo() {
    return Math.max(this.#data?.gpu_to ?? 1, 1);
  }

  /** Whether it is drawn and shows all ops of its trace, as when it was opened. */
  get isWhole() {
    return this.#data !== null && this.view.isWhole(this.gpuTo);
  }

  /** The ops of the trace. */
  showAll() {
    this.#viewsBefore = [];
    const all = this.#anchor?.all;
    if (all) this.view.show(all.from, all.to);
    else this.view.showAll(this.gpuTo);
    this.draw();
  }

  /** Shows the ops of the trace, or if they are what is in view, also the events before and after them. */
  #showMore() {
    const { from, to, bounds } = this.view;
    this.showAll();
    if (this.view.from !== from || this.view.to !== to) return;
    this.view.show(bounds.from, bounds.to);
    this.draw();
  }

  /** Moves the view to another place in one step, from which Escape leads back. @param {() => void} move */
  #jump(move) {
    const { from, to } = this.view;
    move();
    if (this.view.from !== from || this.view.to !== to) this.#viewsBefore.push({ from, to });
    this.draw();
  }

  /** Shows again what was in view before the last jump. */
  #returnFromJump() {
    const before = this.#viewsBefore.pop();
    if (before) this.view.show(before.from, before.to);
    this.draw();
  }

  /** Moves the view without zooming, so that it begins at this share of the trace. @param {number} share */
  panTo(share) {
    this.view.pan(share * this.gpuTo - this.view.from);
    this.draw();
  }

  /** Zooms at a time, else at the middle of the selected bar if it is in view, else at that of the view.
   * @param {number} factor below 1 to see less @param {number | null} [at] */
  zoom(factor, at = null) {
    const selected = middleOf(this.#selected?.place ?? this.view);
    const isInView = selected >= this.view.from && selected <= this.view.to;
    this.view.zoom(factor, at ?? (isInView ? selected : middleOf(this.view)));
    this.draw();
  }

  /** Draws with the next frame of the browser. */
  draw() {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    requestAnimationFrame(() => {
      this.#isScheduled = false;
      this.#paint();
    });
  }

  #paint() {
    if (!this.#painter || !this.#tiles || !this.#data) return;
    const [width, height] = [this.#scroll.clientWidth, this.#scroll.clientHeight];
    if (width === 0) {
      // In a tab that is not shown: nothing has to wait for it.
      this.#entry.reader.timelineIsDrawn();
      return;
    }
    const ratio = devicePixelRatio || 1;
    const [pixels, lines] = [Math.round(width * ratio), Math.round(height * ratio)];
    if (this.#canvas.width !== pixels || this.#canvas.height !== lines) Object.assign(this.#canvas, { width: pixels, height: lines });
    setAttributes(this.#room, [['height', Math.max(this.#painter.height - height, 0)]]);
    this.#frame = {
      view: this.view, width, height, scrollTop: this.#scroll.scrollTop, hits: this.#search.spans,
      tiles: this.#tiles.inView(this.view, plotWidth(width), this.#layers(height)),
      selected: this.#selected, hovered: this.#hovered, window: this.#data.window, marks: this.#marks, picking: this.picking,
      anchor: this.#anchor, waits: this.#waits,
    };
    this.#painter.draw(this.#frame);
    this.#search.look(this.view, plotWidth(width));
    const { view, gpuTo } = this;
    this.#actions.onView(this.#entry, view.from / gpuTo, view.to / gpuTo);
    this.#actions.onDraw(this);
    this.node.dataset.state = this.#tiles.isLoading ? 'loading' : 'drawn';
    if (!this.#tiles.isLoading) this.#entry.reader.timelineIsDrawn();
  }

  /** The layers to draw. With a selection all, because a key selects the next lane with a bar, however far away. @param {number} height */
  #layers(height) {
    return this.#selected ? LAYERS : this.#painter?.layersNear(this.#scroll.scrollTop, height) ?? LAYERS;
  }

  /** Moves the view by this many pixels. @param {number} pixels */
  panBy(pixels) {
    this.view.pan((pixels * this.view.length) / plotWidth(this.#scroll.clientWidth));
    this.draw();
  }

  /** The time at a horizontal position on the canvas. @param {number} x */
  timeAt(x) {
    return this.view.from + shareAt(x, this.#scroll.clientWidth) * this.view.length;
  }

  /** The bar at a point. @param {number} x @param {number} y */
  hit(x, y) {
    return this.#frame && this.#painter ? this.#painter.hit(this.#frame, x, y) : null;
  }

  /** Folds the group whose heading is at a height of the canvas, or shows its lanes. False without a heading there. @param {number} y */
  foldAt(y) {
    const group = this.#frame && this.#painter ? this.#painter.headingAt(this.#frame, y) : '';
    if (group) this.#actions.choice.toggle('fold', group);
    return group !== '';
  }

  /** What a key does with the lane of the selected bar, else with the one at a height of the canvas. @param {string} key @param {number | null} y */
  actOnLane(key, y) {
    if (!this.#frame || !this.#painter || !this.#data) return;
    const lane = this.#selected?.place.lane ?? (y === null ? -1 : this.#painter.laneAt(this.#frame, y));
    if (lane >= 0) laneKeys(this.#actions.choice, this.#data.lanes[lane], this.#data.lanes)[key]();
  }

  /** Outlines a bar and shows its card; null ends that. @param {Hit | null} hit @param {{ clientX: number, clientY: number }} [point] of the pointer */
  hover(hit, { clientX, clientY } = { clientX: 0, clientY: 0 }) {
    const isSame = hit?.lane === this.#hovered?.lane && hit?.row === this.#hovered?.row;
    this.#hovered = hit;
    this.#restsAt = { x: clientX, y: clientY };
    if (!isSame) this.draw();
    if (!hit) this.#card.hidden = true;
    else if (isSame) this.#placeCard();
    else this.#fillCard(hit);
  }

  /** Right below the pointer; at the edges of the window further to the left, or above the pointer. */
  #placeCard() {
    const { x, y } = this.#restsAt;
    const { clientWidth, clientHeight } = document.documentElement;
    const { offsetWidth, offsetHeight } = this.#card;
    const left = Math.max(Math.min(x + 14, clientWidth - offsetWidth - CARD_MARGIN_PX), CARD_MARGIN_PX);
    const below = y + 18;
    const top = below + offsetHeight + CARD_MARGIN_PX <= clientHeight ? below : Math.max(y - 10 - offsetHeight, CARD_MARGIN_PX);
    // As a transform it is no shift of the layout when the card follows the pointer.
    this.#card.style.transform = `translate(${Math.round(left)}px, ${Math.round(top)}px)`;
  }

  /** @param {Hit} hit */
  #fillCard(hit) {
    const style = this.#data?.styles[hit.style].title ?? '';
    this.#actions.attempt(async () => {
      const moment = await this.#moment(hit);
      if (this.#hovered !== hit && (this.#hovered?.lane !== hit.lane || this.#hovered?.row !== hit.row)) return;
      if (!moment) return;
      const figure = (/** @type {string} */ title) => moment.table.figures[0]?.figures.find((one) => one.title === title);
      const facts = ['Starts after first op', 'Duration', 'Median'].map(figure).filter((one) => one !== undefined);
      const several = hit.count > 1 ? [el('div', {}, 'Several bars are too short to be drawn here. The longest:')] : [];
      this.#card.replaceChildren(...several, el('strong', {}, moment.name), el('div', { class: 'note' }, style),
        el('div', {}, facts.map(({ title, text }) => `${title} ${text}`).join(' · ')));
      this.#card.hidden = false;
      this.#placeCard();
    });
  }

  /** @param {{ lane: number, row: number }} place @returns {Promise<Moment | null>} */
  #moment({ lane, row }) {
    return this.#entry.reader.request('moment', { lane, row });
  }

  /** Selects a bar: outlines it, shows its details below and says its name. @param {{ lane: number, row: number } | null} place @param {{ reveals?: boolean, fits?: boolean }} [options] */
  select(place, options = {}) {
    if (place) {
      const selecting = this.#select(place, options);
      this.#selecting = selecting.catch(() => {});
      this.#actions.attempt(() => selecting);
      return;
    }
    this.#selected = null;
    this.#showInPanel();
    this.draw();
  }

  /** Acts on the selection once the bar that was asked for last is selected: the details of a bar come from the worker, and the next key may be faster.
   * @param {() => void} act */
  afterSelecting(act) {
    this.#acts = this.#acts.then(() => this.#selecting).then(() => void this.#actions.attempt(act));
  }

  /** Classes say which timelines have details: `:has` would restyle the page with each change in it. @param {Node[]} moment the details of a bar, or nothing */
  #showInPanel(...moment) {
    this.#panel.replaceChildren(...moment);
    this.node.classList.toggle('with-moment', moment.length > 0);
    const all = this.node.parentElement;
    all?.classList.toggle('with-moment', [...all.children].some((timeline) => timeline.classList.contains('with-moment')));
  }

  /** @param {{ lane: number, row: number }} place @param {{ reveals?: boolean, fits?: boolean }} options */
  async #select(place, { reveals = false, fits = false }) {
    const moment = await this.#moment(place);
    if (!moment) return;
    this.#selected = moment;
    if (!this.#search.isOpen) this.#showFound('', '');
    if (fits) this.#jump(() => this.view.fit(moment.place));
    else if (reveals) this.view.reveal(moment.place);
    if (reveals || fits) this.#showLane(moment.place.lane);
    this.#spoken.textContent = moment.spoken;
    this.#showInPanel(momentPanel(moment, this.#actions.proofs(this.#entry, moment), {
      select: (other) => this.select(other, { reveals: true }),
      fit: (other) => this.select(other, { fits: true }),
      openKernel: this.#actions.openKernel,
      close: () => this.select(null),
    }));
    this.draw();
  }

  /** Selects the first launch of a kernel in view, or another one. Resolves with false if there is none. @param {string} name */
  async showKernel(name) {
    if (!this.#data) return false;
    const place = await this.#entry.reader.request('launchOf', { name, from: Math.round(this.view.from) });
    if (!place) return false;
    this.setWayBack(null);
    this.select(place, { reveals: true });
    this.comeIntoView();
    return true;
  }

  /** Selects the bar that the first time of a row belongs to. Without such a bar, marks the times of the row. @param {RowTime} row */
  async showTime({ table, times, wayBack }) {
    if (!this.#data) return;
    this.setWayBack(wayBack);
    const place = await this.#entry.reader.request('itemOfRow', { table, times });
    if (place) await this.#select(place, { fits: true });
    else this.#markRow({ from: Math.min(...times), to: Math.max(...times) });
    this.#led = this.#selected;
    this.comeIntoView();
  }

  /** @param {{ from: number, to: number }} row */
  #markRow(row) {
    this.select(null);
    this.#jump(() => (row.from < row.to ? this.view.fit(row) : this.view.reveal(row)));
    this.#setMarks([...new Set([...this.#markTimes, row.from, row.to])], row.from);
    this.#showInPanel(el('p', { class: 'note' }, 'The timeline has no bar for this row of the table. Marks show its times.'));
  }

  /** Offers the way back to a table, or none. @param {WayBack | null} wayBack */
  setWayBack(wayBack) {
    [this.#wayBack, this.#led] = [wayBack, null];
    this.#back.hidden = wayBack === null;
    this.#showHint();
    if (!wayBack) return;
    this.#back.textContent = `← ${wayBack.title}`;
    this.#back.title = `Back to ${wayBack.title} (Esc)`;
  }

  #goBack() {
    const wayBack = this.#wayBack;
    this.setWayBack(null);
    this.#viewsBefore = [];
    if (wayBack) this.#actions.attempt(() => wayBack.go());
  }

  #showHint() {
    this.#found.hidden = this.#found.textContent === '';
    this.#hint.hidden = this.#marks.length > 0 || this.#wayBack !== null || !this.#found.hidden;
  }

  /** Looks for the text of the filter. */
  search() {
    const data = this.#data;
    if (!data) return;
    this.#actions.attempt(async () => {
      const found = await this.#search.setText(this.#actions.filter(), data);
      if (found !== null) this.#showFound(found, 'Enter: the first');
    });
  }

  /** @param {string} found empty to show the hint again @param {string} keys what leads on */
  #showFound(found, keys) {
    this.#found.textContent = found && `${found} · ${keys}`;
    this.#showHint();
  }

  /** Selects the next or previous op that the filter finds, or the first if none is selected. Resolves with false if there is none.
   * @param {'next' | 'previous'} toward */
  async showHit(toward) {
    if (!this.#data || !this.#search.isOpen) return false;
    const { selected } = this;
    const hit = await this.#search.step(this.#data, selected?.is_op ? selected.place.row : null, toward);
    if (!hit) return false;
    this.setWayBack(null);
    this.#showFound(hit.text, 'n: next, N: previous');
    this.select(hit.place, { reveals: true });
    this.comeIntoView();
    return true;
  }

  /** Goes to another launch of the same kernel, or says that there is none. @param {'same_before' | 'same_after'} side */
  #stepSame(side) {
    const { selected } = this;
    if (!selected?.is_op || selected[side]) this.step(side);
    else this.#showFound(side === 'same_after' ? 'The last launch of this kernel' : 'The first launch of this kernel', 'n: next, N: previous');
  }

  /** Goes to the next op that the filter finds if that led here, else to the next launch of the same kernel. @param {'next' | 'previous'} toward */
  stepAlike(toward) {
    if (!this.#search.leadsFrom(this.selected?.place)) {
      this.#stepSame(toward === 'next' ? 'same_after' : 'same_before');
      return;
    }
    const showing = this.showHit(toward);
    this.#selecting = showing.then(() => {}, () => {});
    this.#actions.attempt(() => showing);
  }

  /** Selects a case of a clause, finding or row, in the chosen window if there is one.
   * @param {string} of @param {ExampleOptions} options */
  async showExample(of, { scrolls, wayBack }) {
    if (!this.#data) return;
    this.setWayBack(wayBack ?? null);
    const [from, to] = this.#data.window ?? [this.#data.from, this.#data.to];
    const place = await this.#entry.reader.request('example', { of, from, to });
    if (place) await this.#select(place, { fits: true });
    if (wayBack) this.#led = this.#selected;
    if (scrolls) this.comeIntoView();
    if (!place && wayBack) throw new Error('The timeline has no bar for this cell: it is outside of the chosen window, or on a lane that was left out.');
  }

  comeIntoView() {
    // In a tab that was not shown before: a hidden canvas takes no focus.
    if (!this.node.dataset.state) this.#paint();
    this.node.scrollIntoView({ block: 'start' });
    this.#canvas.focus({ preventScroll: true });
  }

  /** Shows a lane also if it was hidden. @param {number} lane */
  #showLane(lane) {
    if (this.#data && this.#painter?.isShown(lane) === false) this.#actions.choice.show(this.#data.lanes[lane]);
    this.scrollTo(lane);
  }

  /** Scrolls a lane into view. @param {number} lane */
  scrollTo(lane) {
    const top = this.#painter?.topOf(lane) ?? null;
    if (top === null) return;
    const { scrollTop, clientHeight } = this.#scroll;
    if (top < scrollTop + 10 + (this.#painter?.pinnedTo ?? 0) || top > scrollTop + clientHeight - 30) this.#scroll.scrollTop = top - clientHeight / 2;
  }

  get selected() {
    return this.#selected;
  }

  /** Selects the bar before or after the selected one, or the first op in view. @param {'before' | 'after' | 'same_before' | 'same_after'} side */
  step(side) {
    const { selected } = this;
    if (selected?.[side]) this.select(selected[side], { reveals: true });
    else if (!selected) this.#selectInView(this.#painter?.shown.findIndex((lane) => this.#data?.lanes[lane].layer === 'device') ?? 0, 1, this.view.from);
  }

  /** Selects the bar at the same time in the next lane that has one; without a selection, in the first or last lane in view.
   * @param {-1 | 1} direction */
  changeLane(direction) {
    if (!this.#frame || !this.#painter) return;
    const { from, to } = this.#selected?.place ?? this.view;
    const time = middleOf({ from: Math.max(from, this.view.from), to: Math.min(to, this.view.to) });
    const { shown } = this.#painter;
    const inView = this.#painter.lanesInView(this.#frame).at(direction > 0 ? 0 : -1) ?? 0;
    const first = this.#selected ? shown.indexOf(this.#selected.place.lane) + direction : shown.indexOf(inView);
    this.#selectInView(first, direction, time);
  }

  /** Selects the bar nearest to a time in the first lane that has one, from a place among those on the canvas on.
   * @param {number} first @param {-1 | 1} direction @param {number} time */
  #selectInView(first, direction, time) {
    if (!this.#frame || !this.#painter) return;
    const x = this.#painter.xAt(this.#frame, time);
    const { shown } = this.#painter;
    for (let at = first; at >= 0 && at < shown.length; at += direction) {
      const lane = shown[at];
      for (let depth = 0; depth < this.#painter.lanes[lane].depth; depth += 1) {
        const hit = this.#painter.barAt(this.#frame, lane, x, depth, Infinity);
        if (hit) {
          this.select(hit, { reveals: true });
          return;
        }
      }
    }
  }

  /** Fills the window with the lanes, or gives them their usual height again and scrolls the page back. */
  toggleHeight() {
    const isTall = this.node.classList.toggle('tall');
    if (isTall) {
      this.#scrolledBefore = scrollY;
      this.node.scrollIntoView({ block: 'start' });
    } else scrollTo({ top: this.#scrolledBefore, behavior: 'instant' });
  }

  fitSelected() {
    const { selected } = this;
    if (selected) this.#jump(() => this.view.fit(selected.place));
  }

  /** Marks the begin of the selected bar, else a time, else the middle of the view; again removes the mark. @param {number | null} time */
  mark(time) {
    const at = Math.round(this.#selected?.place.from ?? time ?? middleOf(this.view));
    const others = this.#markTimes.filter((other) => other !== at);
    this.#setMarks(others.length < this.#markTimes.length ? others : [...others, at], at);
  }

  /** @param {number[]} times @param {number} [added] the one to be spoken */
  #setMarks(times, added) {
    this.#markTimes = times;
    this.#actions.attempt(async () => {
      const marks = await this.#entry.reader.request('marks', { times });
      if (this.#markTimes !== times) return;
      this.#marks = marks;
      this.#spoken.textContent = marks.find(({ at }) => at === added)?.spoken ?? 'Mark removed';
      this.#showHint();
      this.#markList.hidden = marks.length === 0;
      this.#markList.replaceChildren(...marks.flatMap(({ at, name, text, exact, distance }) => present([
        distance && el('li', { class: 'distance', title: 'Distance of the marks' }, `↔ ${distance}`),
        el('li', {}, button(`${name}: ${text}`, () => this.#showMark(at), { class: 'small', title: `${exact}: show it` })),
      ])), el('li', {}, button('Remove marks', () => this.#removeMarks(), { class: 'small' })));
      this.draw();
    });
  }

  #removeMarks() {
    this.#canvas.focus({ preventScroll: true });
    this.#setMarks([]);
  }

  /** @param {number} at */
  #showMark(at) {
    this.#jump(() => this.view.reveal({ from: at, to: at }));
  }

  /** Picks the window between two times. @param {number} from @param {number} to */
  pick(from, to) {
    const { gpuTo } = this;
    this.#actions.attempt(async () => {
      const window = await this.#entry.reader.request('window', { from: from / gpuTo, to: to / gpuTo });
      this.#actions.pick(this.#entry, window);
    });
  }

  /** Goes back a step: to the table that led to the selection, to the view before a jump, from the selection, from the window that the timeline fills,
   * then to the window before, then to the whole trace. */
  back() {
    if (this.#wayBack && this.#selected === this.#led) this.#goBack();
    else if (this.#viewsBefore.length > 0) this.#returnFromJump();
    else if (this.#selected) this.select(null);
    else if (this.node.classList.contains('tall')) this.toggleHeight();
    else if (this.#entry.window) this.#actions.goBack(this.#entry);
    else this.showAll();
  }
}
