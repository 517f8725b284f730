// The part of the timeline that is in view: its times, and how they map to pixels. Times are nanoseconds since the first GPU op.

const MIN_LENGTH_NS = 200;
/** The events before the first op and after the last can be panned to; beyond them is this share of the view. */
const MARGIN = 0.5;

export class View {
  /** @param {{ from: number, to: number }} bounds of all events */
  constructor({ from, to }) {
    this.bounds = { from, to };
    /** A view that moves with others may leave the bounds. */
    this.isLinked = false;
    this.from = from;
    this.to = to;
  }

  get length() {
    return this.to - this.from;
  }

  /** @param {number} from @param {number} to */
  show(from, to) {
    const { bounds } = this;
    if (this.isLinked) {
      [this.from, this.to] = [from, Math.max(to, from + MIN_LENGTH_NS)];
      return;
    }
    const length = Math.min(Math.max(to - from, MIN_LENGTH_NS), (bounds.to - bounds.from) * (1 + MARGIN));
    const middle = (from + to) / 2;
    const slack = length * MARGIN;
    const start = Math.min(Math.max(middle - length / 2, bounds.from - slack), Math.max(bounds.to + slack - length, bounds.from - slack));
    this.from = start;
    this.to = start + length;
  }

  /** @param {number} factor below 1 to see less @param {number} at the time that stays where it is */
  zoom(factor, at) {
    const share = (at - this.from) / this.length;
    const length = Math.max(this.length * factor, MIN_LENGTH_NS);
    this.show(at - share * length, at + (1 - share) * length);
  }

  /** @param {number} ns */
  pan(ns) {
    this.show(this.from + ns, this.to + ns);
  }

  /** Shows a bar with some room around it. @param {{ from: number, to: number }} place */
  fit({ from, to }) {
    const room = Math.max(to - from, 1) * 0.6;
    this.show(from - room, to + room);
  }

  /** Moves as little as possible to show a bar. @param {{ from: number, to: number }} place */
  reveal({ from, to }) {
    if (to >= this.from && from <= this.to) return;
    const middle = (from + to) / 2;
    this.show(middle - this.length / 2, middle + this.length / 2);
  }
}
