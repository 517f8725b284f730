// Timelines below each other with one moment of each at the same place, whose views move together: runs at their first step, their median
// one, a mark or a collective, or the median and the slowest step of one run. Loaded with the timelines.

import { el } from './dom.js';
import { commonLength, lengthOfAll } from './timeline-view.js';

/** @import { Timeline } from './timeline.js' */
/** @import { TraceEntry, Wait } from './types.js' */

/** @typedef {'none' | 'first' | 'first_step' | 'step' | 'mark' | 'collective'} Kind */
/** A moment of a timeline and what it is, for a rank when it waited, and for whole traces the view that shows all of them.
 * @typedef {{ timeline: Timeline, at: number, text: string, waits?: Wait[], all?: { from: number, to: number } }} Anchor */
/** Of the ranks of a job: the same moment in several traces, and when each rank waited for another.
 * @typedef {{ hasJob(): boolean, moments(entry: TraceEntry, at: number): Promise<Map<TraceEntry, number>>, waits(): Promise<Map<TraceEntry, Wait[]>> }} Job */

/** @type {[Kind, string][]} */
const KINDS = [
  ['none', 'Not aligned'],
  ['first', 'Align: first GPU op'],
  ['first_step', 'Align: first step'],
  ['step', 'Align: median step'],
  ['mark', 'Align: first mark'],
  ['collective', 'Align: collective'],
];
/** Where the anchor is in the view, as a share of its length; the first op is at the left edge. */
const ANCHOR_SHARE = 0.1;
/** Anchors, the length of what is shown, and the share of it before them.
 * @typedef {{ anchors: Anchor[], length: number, share?: number }} Aligned */

export class Alignment {
  #job;
  #attempt;
  /** @type {Timeline[]} */
  #timelines = [];
  /** @type {Anchor[]} */
  #anchors = [];
  /** The view that each aligned timeline had when it was last moved: one that differs was moved by the person.
   * @type {Map<Timeline, { from: number, length: number }>} */
  #seen = new Map();
  #call = 0;
  /** The same for the alignment that nobody chose. @type {Map<Timeline, { from: number, length: number }>} */
  #opened = new Map();
  /** Whether a person chose how these timelines are aligned. */
  #isChosen = false;
  select = el('select', { class: 'small', 'aria-label': 'Alignment of the timelines' });

  /** @param {Job} job @param {(step: () => unknown) => void} attempt */
  constructor(job, attempt) {
    this.#job = job;
    this.#attempt = attempt;
    this.select.addEventListener('change', () => (this.#isChosen = true));
    this.select.addEventListener('change', () => this.#attempt(() => this.#align(/** @type {Kind} */ (this.select.value))));
  }

  /** Offers the alignments that these timelines may have. A timeline that was closed ends the alignment. @param {Timeline[]} timelines */
  offer(timelines) {
    const isSame = timelines.length === this.#timelines.length && timelines.every((timeline, index) => timeline === this.#timelines[index]);
    this.#timelines = timelines;
    this.select.hidden = timelines.length < 2;
    const kinds = KINDS.filter(([kind]) => kind !== 'collective' || this.#job.hasJob());
    if (this.select.options.length !== kinds.length) this.select.replaceChildren(...kinds.map(([kind, text]) => el('option', { value: kind }, text)));
    if (isSame) return;
    this.#isChosen = false;
    const asOpened = [...this.#opened.keys()].filter((timeline) => this.isAsOpened(timeline));
    this.release();
    for (const timeline of asOpened) timeline.showAll();
  }

  /** Whether a timeline shows what it opened with: all ops, or where the alignment that nobody chose put it. @param {Timeline} timeline */
  isAsOpened(timeline) {
    const opened = this.#opened.get(timeline);
    return timeline.isWhole || (opened?.from === timeline.view.from && opened.length === timeline.view.length);
  }

  /** Shows whole traces of similar lengths on one scale, so that the longer one looks longer: from their first GPU op on, and once the first
   * steps are known, with these below each other. */
  async alignWhole() {
    const timelines = this.#timelines;
    if (this.#isChosen || this.select.value !== 'none' || !timelines.every(({ isWhole }) => isWhole)) return;
    if (commonLength(timelines.map(({ gpuTo }) => gpuTo)) === 0) return;
    this.select.value = 'first';
    this.#open(this.#firstOps());
    const call = this.#call;
    const aligned = await this.#firstSteps();
    if (!aligned || call !== this.#call || this.#isChosen || !timelines.every((timeline) => this.isAsOpened(timeline))) return;
    this.select.value = 'first_step';
    this.#open(aligned);
  }

  /** @param {Aligned} aligned that nobody chose */
  #open(aligned) {
    this.align(aligned);
    this.#opened = new Map(this.#seen);
  }

  /** Lets each timeline move on its own. */
  release() {
    this.#call += 1;
    this.select.value = 'none';
    this.#set([]);
  }

  /** Shows the anchors at the same place, and `length` ns. @param {Aligned} aligned */
  align({ anchors, length, share = ANCHOR_SHARE }) {
    this.#set(anchors);
    for (const { timeline, at } of anchors) {
      const from = at - length * share;
      this.#move(timeline, from, length);
    }
  }

  /** @param {Timeline} timeline @param {number} from @param {number} length */
  #move(timeline, from, length) {
    const { view } = timeline;
    view.show(from, from + length);
    this.#seen.set(timeline, { from: view.from, length: view.length });
    timeline.draw();
  }

  /** @param {Anchor[]} anchors */
  #set(anchors) {
    for (const { timeline } of this.#anchors) timeline.setAnchor(null);
    this.#anchors = anchors;
    this.#seen.clear();
    this.#opened.clear();
    for (const { timeline, at, text, waits, all } of anchors) timeline.setAnchor({ at, text, all }, waits ?? []);
  }

  /** Moves the others like an aligned timeline that the person moved. Called with every frame of a timeline. @param {Timeline} leader */
  follow(leader) {
    const anchor = this.#anchors.find(({ timeline }) => timeline === leader);
    const { from, length } = leader.view;
    const seen = this.#seen.get(leader);
    if (!anchor || (seen?.from === from && seen.length === length)) return;
    this.#seen.set(leader, { from, length });
    for (const { timeline, at } of this.#anchors) if (timeline !== leader) this.#move(timeline, at + from - anchor.at, length);
  }

  /** @param {Kind} kind */
  async #align(kind) {
    this.#call += 1;
    const call = this.#call;
    try {
      const aligned = await this.#anchorsOf(kind);
      if (call !== this.#call) return;
      if (aligned) this.align(aligned);
      else this.#set([]);
    } catch (thrown) {
      this.release();
      throw thrown;
    }
  }

  /** @returns {Aligned} */
  #firstOps() {
    return wholes(this.#timelines.map((timeline) => ({ timeline, at: 0, text: 'first GPU op' })));
  }

  /** The first step of each, of the stage with the most time that all have, with all ops in view. Null if they have no stage in common.
   * @returns {Promise<Aligned | null>} */
  async #firstSteps() {
    const timelines = this.#timelines;
    const steps = await Promise.all(timelines.map((timeline) => timeline.firstSteps()));
    const ofStage = (/** @type {string} */ stage) => steps.map((ofOne) => ofOne.find((step) => step.stage === stage));
    const shared = steps[0].map(({ stage }) => ofStage(stage)).find((ofAll) => ofAll.every((step) => step !== undefined));
    if (!shared) return null;
    return wholes(timelines.flatMap((timeline, index) => {
      const step = shared[index];
      return step ? [{ timeline, at: step.place.from, text: step.title }] : [];
    }));
  }

  /** @param {Kind} kind @returns {Promise<Aligned | null>} */
  async #anchorsOf(kind) {
    const timelines = this.#timelines;
    if (kind === 'first') return this.#firstOps();
    if (kind === 'first_step') {
      const aligned = await this.#firstSteps();
      if (!aligned) throw new Error('The timelines have no steps of one stage to align at.');
      return aligned;
    }
    if (kind === 'step') return this.#medianSteps();
    if (kind === 'mark') return { anchors: timelines.map(markOf), length: timelines[0].view.length };
    if (kind === 'collective') return this.#collective();
    return null;
  }

  async #medianSteps() {
    const steps = await Promise.all(this.#timelines.map((timeline) => timeline.medianStep()));
    const anchors = this.#timelines.map((timeline, index) => {
      const step = steps[index];
      if (!step) throw new Error(`${timeline.fileName} has no steps to align at.`);
      return { timeline, at: step.place.from, text: step.title };
    });
    return { anchors, length: 1.25 * longest(steps.map((step) => (step ? step.place.to - step.place.from : 0))) };
  }

  /** Aligns at the selected bar of a timeline, else at the middle of the first view: at the end of the nearest collective, all ranks are
   * at the same moment. Shades the time in which a rank waited. */
  async #collective() {
    const leader = this.#timelines.find(({ selected }) => selected) ?? this.#timelines[0];
    const at = Math.round(leader.selected?.place.from ?? (leader.view.from + leader.view.to) / 2);
    const [moments, waits] = await Promise.all([this.#job.moments(leader.entry, at), this.#job.waits()]);
    const anchors = this.#timelines.map((timeline) => {
      const moment = moments.get(timeline.entry);
      if (moment === undefined) throw new Error(`${timeline.fileName} has no collective in common with ${leader.fileName}.`);
      return { timeline, at: moment, text: 'same moment', waits: waits.get(timeline.entry) };
    });
    return { anchors, length: leader.view.length };
  }
}

/** Whole traces with their anchors at one place. @param {Anchor[]} anchors @returns {Aligned} */
function wholes(anchors) {
  const before = longest(anchors.map(({ at }) => at));
  const after = longest(anchors.map(({ timeline, at }) => lengthOfAll(timeline.gpuTo) - at));
  const all = anchors.map((anchor) => ({ ...anchor, all: { from: anchor.at - before, to: anchor.at + after } }));
  return { anchors: all, length: before + after, share: before / (before + after) };
}

/** @param {number[]} lengths */
const longest = (lengths) => Math.max(...lengths);

/** @param {Timeline} timeline @returns {Anchor} */
function markOf(timeline) {
  const at = timeline.firstMark;
  if (at === null) throw new Error(`${timeline.fileName} has no mark: point at a moment of its timeline and press M.`);
  return { timeline, at, text: 'mark 1' };
}
