// Draws a timeline on a canvas: the axis, the lanes with their titles, the bars of the tiles in view, the selection, the chosen window and
// the launch of the selected op. Remembers where the bars are, to find the one under the pointer. Pinned lanes stay below the axis while the
// others are scrolled: what belongs to lanes is drawn once for each of the two.

import { LAYERS, TILE_UNITS, unitNs } from './timeline-view.js';

/** @import { Mark, Moment, Place, TimelineStyle, TimelineView, Wait } from './types.js' */
/** @import { LaneOrder } from './timeline-lanes.js' */
/** @import { HitSpan } from './timeline-search.js' */
/** @import { PlacedTile } from './timeline-tiles.js' */
/** @import { View } from './timeline-view.js' */

const AXIS_HEIGHT = 20;
/** The widths of the titles of the lanes, left of the bars: those of the labels of the strips (`left` in report/chart/strips.rs), so that
 * strips and timeline have one axis. */
const GUTTER = { narrow: 76, wide: 131 };
const NARROW_PX = 520;
const GROUP_HEIGHT = 17;
const ROW_HEIGHT = { device: 20, derived: 15, host: 14, code: 13, counter: 30 };
const LANE_GAP = 3;
/** The numbers of a bar in a tile. */
export const NUMBERS = 8;
/** The least height of a bar of several short items, as a share of the row. */
const MIN_FILLED = 0.2;
const LABEL_FONT = '11px ui-monospace, "Cascadia Mono", Menlo, Consolas, monospace';
const TITLE_FONT = '11px system-ui, sans-serif';
const LABEL_CHAR_PX = 6.7;
/** The opacity of hidden bars; `.faint` in the style sheet has the same. */
const FAINT = 0.2;
/** The height of the lines at an op that the filter finds, and their least width. */
const HIT_PX = 2;
/** The head of the arrow from a launch to its op, in pixels. */
const ARROW = { length: 8, halfWidth: 4 };

/** A lane on the canvas: its top and the height of each of its rows. @typedef {{ top: number, rowHeight: number, depth: number, title: string, isPinned: boolean }} LaneBox */
/** A bar under the pointer. @typedef {{ lane: number, row: number, count: number, from: number, to: number, style: number, label: string }} Hit */
/** What a frame shows. @typedef {{
 *   view: View, width: number, height: number, scrollTop: number, tiles: PlacedTile[], hits: HitSpan[], selected: Moment | null, hovered: Hit | null,
 *   window: [number, number] | null, marks: Mark[], picking: [number, number] | null, anchor: { at: number, text: string } | null, waits: Wait[], isPinned?: boolean,
 * }} Frame */

/** Where a lane is that is not on the canvas. */
const HIDDEN_TOP = -1e6;

/** The pinned lanes and where they end, the others with a heading for each group and a line for each note, and the height of all.
 * @param {TimelineView} timeline @param {LaneOrder} shown */
export function layOut({ lanes, notes }, { pinned, order, folded }) {
  const boxOf = (/** @type {number} */ index, /** @type {number} */ top, isPinned = false) => {
    const { layer, depth, title, group } = lanes[index];
    return { top, rowHeight: ROW_HEIGHT[layer], depth, title: isPinned ? `${title}, ${group}` : title, isPinned };
  };
  const boxes = lanes.map((_, index) => boxOf(index, HIDDEN_TOP));
  /** @type {{ top: number, text: string, group: string }[]} */
  const headings = [];
  let top = AXIS_HEIGHT;
  const add = (/** @type {number} */ index, isPinned = false) => {
    boxes[index] = boxOf(index, top, isPinned);
    top += boxes[index].rowHeight * boxes[index].depth + LANE_GAP;
  };
  for (const index of pinned) add(index, true);
  const pinnedTo = top;
  order.forEach((index, at) => {
    const { group } = lanes[index];
    const isFolded = folded.has(group);
    if (at === 0 || lanes[order[at - 1]].group !== group) {
      headings.push({ top, text: isFolded ? `▸ ${group}` : group, group });
      top += GROUP_HEIGHT;
    }
    if (!isFolded) add(index);
  });
  for (const text of notes) {
    headings.push({ top, text, group: '' });
    top += GROUP_HEIGHT;
  }
  const shown = [...pinned, ...order.filter((index) => !folded.has(lanes[index].group))];
  return { boxes, headings, pinnedTo, shown, height: top };
}

/** The colours of a theme. @typedef {{ fills: string[], inks: string[], hatches: (CanvasPattern | null)[], text: string, muted: string, line: string, surface: string, raised: string, accent: string }} Colours */

/** Reads the colours of all styles from the style sheet. All probes are in the page before the first one is read, so that the browser
 * computes styles once. @param {HTMLElement} parent @param {CanvasRenderingContext2D} context @param {TimelineStyle[]} styles
 * @returns {Colours} */
export function colours(parent, context, styles) {
  const probes = document.createElement('span');
  probes.hidden = true;
  const probe = (/** @type {string} */ className, /** @type {string} */ color, /** @type {string} */ backgroundColor) => {
    const span = document.createElement('span');
    span.className = className;
    Object.assign(span.style, { color, backgroundColor });
    probes.append(span);
    return span;
  };
  const ofStyles = styles.map((style) => probe(style.class, 'var(--fill)', 'var(--ink)'));
  const ofTheme = ['text', 'muted', 'line', 'surface', 'raised', 'accent'].map((name) => probe('', `var(--${name})`, ''));
  parent.append(probes);
  const pairs = ofStyles.map((span) => {
    const { color, backgroundColor } = getComputedStyle(span);
    return { fill: color, ink: backgroundColor };
  });
  const [text, muted, line, surface, raised, accent] = ofTheme.map((span) => getComputedStyle(span).color);
  probes.remove();
  const hatches = styles.map(({ hatch }, index) => (hatch === null ? null : hatched(context, pairs[index].fill, hatch)));
  return { fills: pairs.map(({ fill }) => fill), inks: pairs.map(({ ink }) => ink), hatches, text, muted, line, surface, raised, accent };
}

export const PATCH_PX = 6;
/** In each patch of a hatching: lines from a point to another one. @type {Record<import('./types.js').Hatching, [number, number, number, number][]>} */
export const HATCHINGS = {
  rising: [[-1, 1, 1, -1], [0, 1, 1, 0], [0, 2, 2, 0]],
  falling: [[-1, 0, 1, 2], [0, 0, 1, 1], [0, -1, 2, 1]],
  vertical: [[0.5, 0, 0.5, 1]],
  horizontal: [[0, 0.5, 1, 0.5]],
  squared: [[0.5, 0, 0.5, 1], [0, 0.5, 1, 0.5]],
  crossed: [[-1, 1, 1, -1], [0, 1, 1, 0], [0, 2, 2, 0], [-1, 0, 1, 2], [0, 0, 1, 1], [0, -1, 2, 1]],
  dashed: [[0, 0.5, 0.6, 0.5]],
  broken: [[0.5, 0, 0.5, 0.6]],
  stepped: [[0.2, 0.7, 0.7, 0.7], [0.7, 0.7, 0.7, 0.2]],
  dotted: [[0.35, 0.5, 0.65, 0.5]],
};

/** @param {CanvasRenderingContext2D} context @param {string} colour @param {import('./types.js').Hatching} hatching */
function hatched(context, colour, hatching) {
  const patch = new OffscreenCanvas(PATCH_PX, PATCH_PX);
  const lines = patch.getContext('2d');
  if (!lines) return null;
  lines.strokeStyle = colour;
  if (hatching === 'dotted') lines.lineWidth = 2;
  lines.beginPath();
  for (const [fromX, fromY, toX, toY] of HATCHINGS[hatching]) {
    lines.moveTo(fromX * PATCH_PX, fromY * PATCH_PX);
    lines.lineTo(toX * PATCH_PX, toY * PATCH_PX);
  }
  lines.stroke();
  return context.createPattern(patch, 'repeat');
}

export class Painter {
  #context;
  #timeline;
  #colours;
  /** The styles of hidden categories: their bars are faint and have no labels. */
  #hidden;
  #layout;

  /** @param {CanvasRenderingContext2D} context @param {TimelineView} timeline @param {LaneOrder} shown @param {Colours} palette @param {Set<number>} hidden styles */
  constructor(context, timeline, shown, palette, hidden) {
    this.#hidden = hidden;
    this.#context = context;
    this.#timeline = timeline;
    this.#colours = palette;
    this.#layout = layOut(timeline, shown);
  }

  /** The height of all lanes. */
  get height() {
    return this.#layout.height;
  }

  /** The layers with lanes in view or less than a screen away, so that what is scrolled to is mostly there. The ticks of the axis come
   * from the layer `device`. @param {number} scrollTop @param {number} height */
  layersNear(scrollTop, height) {
    const near = { scrollTop: scrollTop - height, height: 3 * height };
    const isNear = (/** @type {number} */ lane) => this.#layout.boxes[lane].isPinned || this.#isInView(lane, near);
    return LAYERS.filter((layer) => layer === 'device' || this.lanes.some((lane, index) => lane.layer === layer && isNear(index)));
  }

  /** The lanes of which something is in view, from top to bottom. @param {Frame} frame */
  lanesInView(frame) {
    return this.shown.filter((lane) => this.#layout.boxes[lane].isPinned || this.#isInView(lane, frame));
  }

  /** The lanes on the canvas, from top to bottom. */
  get shown() {
    return this.#layout.shown;
  }

  /** Whether a lane is on the canvas. @param {number} lane */
  isShown(lane) {
    return this.#layout.boxes[lane].top > HIDDEN_TOP;
  }

  /** Of the pinned lanes, or else of the others. @param {number} lane @param {{ scrollTop: number, height: number, isPinned?: boolean }} frame */
  #isInView(lane, { scrollTop, height, isPinned = false }) {
    const { top, rowHeight, depth, isPinned: isOfPinned } = this.#layout.boxes[lane];
    return isOfPinned === isPinned && top < scrollTop + height && top + rowHeight * depth > scrollTop;
  }

  /** @param {Frame} frame */
  draw(frame) {
    const { width, height } = frame;
    const { pinnedTo } = this.#layout;
    const context = this.#context;
    const ratio = devicePixelRatio || 1;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.fillStyle = this.#colours.surface;
    context.fillRect(0, 0, width, height);
    this.#clipped({ width, from: pinnedTo, to: height }, () => this.#drawBars(frame));
    if (pinnedTo > AXIS_HEIGHT) this.#clipped({ width, from: AXIS_HEIGHT, to: pinnedTo }, () => this.#drawBars({ ...frame, scrollTop: 0, isPinned: true }));
    this.#drawWaits(frame);
    this.#drawSelection(frame);
    this.#drawAxis(frame);
    this.#drawTitles(frame);
    this.#drawAnchor(frame);
    this.#drawMarks(frame);
  }

  /** Draws only between two heights. @param {{ width: number, from: number, to: number }} part @param {() => void} draw */
  #clipped({ width, from, to }, draw) {
    const context = this.#context;
    context.save();
    context.beginPath();
    context.rect(0, from, width, to - from);
    context.clip();
    draw();
    context.restore();
  }

  /** @param {Frame} frame */
  #drawBars(frame) {
    this.#drawLanes(frame);
    this.#drawShade(frame);
    for (const placed of frame.tiles) this.#drawTile(frame, placed);
    this.#drawHits(frame);
    this.#drawLabels(frame);
  }

  /** Where a time is on the canvas. @param {Frame} frame @param {number} ns */
  xAt({ view, width }, ns) {
    return gutter(width) + ((ns - view.from) / view.length) * plotWidth(width);
  }

  /** @param {Frame} frame */
  #drawLanes({ width, scrollTop, isPinned = false }) {
    this.#context.fillStyle = this.#colours.raised;
    for (const box of this.#layout.boxes) if (box.isPinned === isPinned) this.#context.fillRect(0, box.top - scrollTop, width, box.rowHeight * box.depth);
  }

  /** The time outside of the chosen window. @param {Frame} frame */
  #drawShade(frame) {
    if (!frame.window) return;
    const [from, to] = frame.window.map((ns) => this.xAt(frame, ns));
    this.#context.fillStyle = this.#colours.line;
    this.#context.globalAlpha = 0.55;
    if (from > gutter(frame.width)) this.#context.fillRect(gutter(frame.width), AXIS_HEIGHT, Math.min(from, frame.width) - gutter(frame.width), frame.height);
    if (to < frame.width) this.#context.fillRect(Math.max(to, gutter(frame.width)), AXIS_HEIGHT, frame.width, frame.height);
    this.#context.globalAlpha = 1;
  }

  /** The bars of a tile, each clipped to the part of the tile that is drawn. @param {Frame} frame @param {PlacedTile} placed */
  #drawTile(frame, placed) {
    const context = this.#context;
    const { fills, hatches } = this.#colours;
    // Whole pixels, so that a bar in two tiles shows no seam.
    const least = Math.max(Math.round(this.xAt(frame, placed.from)), gutter(frame.width));
    const most = Math.min(Math.round(this.xAt(frame, placed.to)), frame.width);
    const { origin, unit } = this.#scale(frame, placed);
    const { bars, ends } = placed.tile;
    let style = -1;
    for (let lane = 0, bar = 0; lane < ends.length; lane += 1) {
      if (!this.#isInView(lane, frame)) {
        bar = ends[lane];
        continue;
      }
      const { top, rowHeight } = this.#layout.boxes[lane];
      const y = top - frame.scrollTop;
      const isCounter = this.lanes[lane].layer === 'counter';
      for (; bar < ends[lane]; bar += 1) {
        const at = bar * NUMBERS;
        const left = Math.max(origin + bars[at] * unit, least);
        const end = origin + bars[at + 1] * unit;
        const right = Math.min(end, most);
        if (right <= left) continue;
        if (bars[at + 3] !== style) {
          style = bars[at + 3];
          context.fillStyle = hatches[style] ?? fills[style];
          context.globalAlpha = this.#hidden.has(style) ? FAINT : 1;
        }
        const full = rowHeight - 1;
        const height = bars[at + 5] > 1 || bars[at + 6] < 255 ? full * Math.max(bars[at + 6] / 255, isCounter ? 0 : MIN_FILLED) : full;
        // A gap of a pixel between bars that are wide enough for it.
        const room = right === end && right - left > 4 ? 1 : 0;
        context.fillRect(left, y + bars[at + 2] * rowHeight + full - height, right - left - room, height);
      }
    }
    context.globalAlpha = 1;
  }

  /** A line above and below each op that the filter finds. @param {Frame} frame */
  #drawHits(frame) {
    this.#context.fillStyle = this.#colours.text;
    for (const [lane, from, to] of frame.hits) {
      if (!this.#isInView(lane, frame)) continue;
      const { top, rowHeight } = this.#layout.boxes[lane];
      const left = Math.max(this.xAt(frame, from), gutter(frame.width));
      const width = Math.max(Math.min(this.xAt(frame, to), frame.width) - left, HIT_PX);
      const y = top - frame.scrollTop;
      for (const line of [y - 1, y + rowHeight - 2]) this.#context.fillRect(left, line, width, HIT_PX);
    }
  }

  /** Where unit 0 of a tile is, and how wide a unit is. @param {Frame} frame @param {PlacedTile} placed */
  #scale(frame, { level, index }) {
    const ns = unitNs(level);
    return { origin: this.xAt(frame, index * TILE_UNITS * ns), unit: (ns / frame.view.length) * plotWidth(frame.width) };
  }

  /** @param {Frame} frame */
  #drawLabels(frame) {
    const context = this.#context;
    context.font = LABEL_FONT;
    context.textBaseline = 'middle';
    context.textAlign = 'left';
    /** A bar in two tiles has one label. @type {Set<string>} */
    const drawn = new Set();
    for (const placed of frame.tiles) {
      const { bars, ends, labels } = placed.tile;
      if (labels.length === 0) continue;
      for (let lane = 0, bar = 0; lane < ends.length; lane += 1) {
        if (!this.#isInView(lane, frame)) {
          bar = ends[lane];
          continue;
        }
        const { top, rowHeight } = this.#layout.boxes[lane];
        for (; bar < ends[lane]; bar += 1) {
          const at = bar * NUMBERS;
          if (bars[at + 7] < 0 || this.#hidden.has(bars[at + 3])) continue;
          const [from, to] = this.#seenPart(frame, placed, lane, bar);
          const left = Math.max(from, gutter(frame.width));
          const right = Math.min(to, frame.width);
          const key = `${lane} ${bars[at + 4]}`;
          const text = fitted(labels[bars[at + 7]], right - left - 6);
          if (!text || drawn.has(key)) continue;
          drawn.add(key);
          const style = bars[at + 3];
          const y = top - frame.scrollTop + bars[at + 2] * rowHeight + rowHeight / 2;
          if (this.#colours.hatches[style]) this.#backdrop(left + 2, y, text.length * LABEL_CHAR_PX + 2, rowHeight - 4);
          context.fillStyle = this.#colours.inks[style];
          context.fillText(text, left + 3, y);
        }
      }
    }
  }

  /** The begin and end of the widest part of a bar that no later bar covers: ops of one stream may overlap. Calls and code that overlap are
   * in several rows. @param {Frame} frame @param {PlacedTile} placed @param {number} lane @param {number} bar */
  #seenPart(frame, placed, lane, bar) {
    const { origin, unit } = this.#scale(frame, placed);
    const [begin, end] = [0, 1].map((side) => origin + placed.tile.bars[bar * NUMBERS + side] * unit);
    if (this.#layout.boxes[lane].depth > 1) return [begin, end];
    let [free, widest] = [begin, [begin, begin]];
    const leave = (/** @type {number} */ until) => {
      if (until - free > widest[1] - widest[0]) widest = [free, until];
    };
    for (const [from, to] of this.#laterBars(frame, placed, lane, bar)) {
      if (from >= end) break;
      leave(from);
      free = Math.max(free, to);
    }
    leave(end);
    return widest;
  }

  /** The begins and ends of the bars of a lane after one, which are sorted by start. @param {Frame} frame @param {PlacedTile} placed @param {number} lane @param {number} bar */
  * #laterBars(frame, placed, lane, bar) {
    const tiles = frame.tiles.filter(({ layer, from }) => layer === placed.layer && from >= placed.from);
    for (const other of tiles) {
      const { origin, unit } = this.#scale(frame, other);
      const { bars, ends } = other.tile;
      const first = other === placed ? bar + 1 : ends[lane - 1] ?? 0;
      // What reaches into a tile was in the one before.
      const least = other === placed ? -Infinity : this.xAt(frame, other.from);
      for (let at = first * NUMBERS; at < ends[lane] * NUMBERS; at += NUMBERS) {
        const from = origin + bars[at] * unit;
        if (from >= least) yield [from, origin + bars[at + 1] * unit];
      }
    }
  }

  /** Makes text on hatching readable. @param {number} left @param {number} middle @param {number} width @param {number} height */
  #backdrop(left, middle, width, height) {
    this.#context.fillStyle = this.#colours.surface;
    this.#context.fillRect(left, middle - height / 2, width, height);
  }

  /** Titles of groups and lanes. @param {Frame} frame */
  #drawTitles({ width, height, scrollTop }) {
    const context = this.#context;
    const { pinnedTo, boxes, headings } = this.#layout;
    const drawBoxes = (/** @type {boolean} */ isPinned, /** @type {number} */ scrolled) => {
      context.fillStyle = this.#colours.text;
      for (const box of boxes) if (box.isPinned === isPinned) context.fillText(fitted(box.title, gutter(width)), 4, box.top - scrolled + box.rowHeight / 2);
    };
    context.font = TITLE_FONT;
    context.textBaseline = 'middle';
    this.#clipped({ width, from: AXIS_HEIGHT, to: height }, () => {
      context.fillStyle = this.#colours.surface;
      context.fillRect(0, 0, gutter(width), height);
    });
    this.#clipped({ width, from: pinnedTo, to: height }, () => {
      context.fillStyle = this.#colours.muted;
      for (const { top, text } of headings) context.fillText(fitted(text, width - 12), 4, top - scrollTop + GROUP_HEIGHT / 2);
      drawBoxes(false, scrollTop);
    });
    drawBoxes(true, 0);
    if (pinnedTo === AXIS_HEIGHT) return;
    context.fillStyle = this.#colours.line;
    context.fillRect(0, pinnedTo - 2, width, 1);
  }

  /** The hovered and the selected bar, and the arrow from a launch to its op. @param {Frame} frame */
  #drawSelection(frame) {
    const { selected, hovered, picking } = frame;
    const context = this.#context;
    context.strokeStyle = this.#colours.accent;
    if (hovered) this.#outline(frame, hovered, 1);
    if (selected) {
      this.#outline(frame, selected.place, 2);
      if (selected.launch) {
        this.#outline(frame, selected.launch, 1);
        // An op has a launch; a call or a gap has an op that follows.
        if (selected.is_op) this.#connect(frame, selected.launch, selected.place);
        else this.#connect(frame, selected.place, selected.launch);
      }
    }
    context.fillStyle = this.#colours.accent;
    if (!picking) return;
    const [from, to] = picking.map((ns) => this.xAt(frame, ns));
    context.globalAlpha = 0.2;
    context.fillRect(Math.min(from, to), AXIS_HEIGHT, Math.abs(to - from), frame.height);
    context.globalAlpha = 1;
  }

  /** Shades each wait of this rank until the last rank arrived, with a line there, and names that rank where it has room. @param {Frame} frame */
  #drawWaits(frame) {
    const context = this.#context;
    const { accent, text } = this.#colours;
    const y = frame.height - 10;
    let drawnTo = gutter(frame.width);
    for (const { from, to, rank } of frame.waits) {
      const [left, right] = [Math.max(this.xAt(frame, from), drawnTo), Math.min(this.xAt(frame, to), frame.width)];
      // Waits of less than a pixel are drawn together.
      if (right <= left) continue;
      context.fillStyle = accent;
      context.globalAlpha = 0.22;
      context.fillRect(left, AXIS_HEIGHT, Math.max(right - left, 1), frame.height);
      context.globalAlpha = 1;
      context.fillRect(Math.max(right - 1, left), AXIS_HEIGHT, 1, frame.height);
      const label = fitted(`waits for ${rank}`, right - left - 8);
      if (label.length > 8) this.#tag(label, left + 3, y, text);
      drawnTo = Math.max(right, left + 1);
    }
  }

  /** The line at which the timelines are aligned, unless it is at the left edge as that of whole traces. @param {Frame} frame */
  #drawAnchor(frame) {
    if (!frame.anchor) return;
    const x = Math.round(this.xAt(frame, frame.anchor.at));
    if (x <= gutter(frame.width) || x > frame.width) return;
    this.#context.fillStyle = this.#colours.accent;
    this.#context.fillRect(x, 0, 1, frame.height);
    this.#tag(frame.anchor.text, x + 3, AXIS_HEIGHT + GROUP_HEIGHT / 2, this.#colours.accent);
  }

  /** Text on the background colour. @param {string} text @param {number} left @param {number} middle @param {string} colour */
  #tag(text, left, middle, colour) {
    const context = this.#context;
    context.font = TITLE_FONT;
    context.textBaseline = 'middle';
    context.textAlign = 'left';
    this.#backdrop(left, middle, context.measureText(text).width + 6, 14);
    context.fillStyle = colour;
    context.fillText(text, left + 3, middle);
  }

  /** A line for each mark with its number, and between two of them their distance, where it has room. @param {Frame} frame */
  #drawMarks(frame) {
    const context = this.#context;
    const { accent, surface } = this.#colours;
    context.font = TITLE_FONT;
    context.textBaseline = 'middle';
    context.textAlign = 'center';
    let before = -Infinity;
    for (const { at, name, distance } of frame.marks) {
      const x = Math.round(this.xAt(frame, at));
      if (x >= gutter(frame.width) && x <= frame.width) {
        const half = context.measureText(name).width / 2 + 4;
        context.fillStyle = accent;
        context.fillRect(x, 0, 1, frame.height);
        context.fillRect(x - half, 0, 2 * half, AXIS_HEIGHT - 5);
        context.fillStyle = surface;
        context.fillText(name, x, (AXIS_HEIGHT - 5) / 2 + 0.5);
      }
      const [left, right] = [Math.max(before, gutter(frame.width)), Math.min(x, frame.width)];
      const half = context.measureText(distance).width / 2 + 4;
      if (distance && right - left > 2 * half + 16) {
        const [middle, y] = [(left + right) / 2, frame.height - 10];
        context.fillStyle = accent;
        context.fillRect(left, y, right - left, 1);
        context.fillStyle = surface;
        context.fillRect(middle - half, y - 8, 2 * half, 16);
        context.fillStyle = accent;
        context.fillText(distance, middle, y);
      }
      before = x;
    }
    context.textAlign = 'left';
  }

  /** @param {Frame} frame @param {Place | Hit} place @param {number} lineWidth */
  #outline(frame, place, lineWidth) {
    const { left, right, top, height } = this.#boxOf(frame, place);
    if (right < gutter(frame.width) || left > frame.width || top + height < this.#topOfLanes(place.lane)) return;
    const from = Math.max(left, gutter(frame.width));
    this.#context.lineWidth = lineWidth;
    this.#context.strokeRect(from, top, Math.max(Math.min(right, frame.width + 4) - from, 3), height);
  }

  /** Where lanes like this one begin: the others end there. @param {number} lane */
  #topOfLanes(lane) {
    return this.#layout.boxes[lane].isPinned ? AXIS_HEIGHT : this.#layout.pinnedTo;
  }

  /** How far a lane is scrolled. @param {Frame} frame @param {number} lane */
  #scrolled({ scrollTop }, lane) {
    return this.#layout.boxes[lane].isPinned ? 0 : scrollTop;
  }

  /** @param {Frame} frame @param {Place | Hit} place */
  #boxOf(frame, place) {
    const { top, rowHeight, depth } = this.#layout.boxes[place.lane];
    // The depth of a bar is known from a tile that has it.
    const row = depth > 1 ? this.#depthOf(frame, place) : 0;
    return { left: this.xAt(frame, place.from), right: this.xAt(frame, place.to), top: top - this.#scrolled(frame, place.lane) + row * rowHeight, height: rowHeight - 1 };
  }

  /** @param {Frame} frame @param {Place | Hit} place */
  #depthOf({ tiles }, { lane, row }) {
    for (const { tile: { bars, ends } } of tiles) {
      for (let bar = lane > 0 ? ends[lane - 1] : 0; bar < (ends[lane] ?? 0); bar += 1) {
        if (bars[bar * NUMBERS + 4] === row) return bars[bar * NUMBERS + 2];
      }
    }
    return 0;
  }

  /** An arrow from the begin of a bar to the begin of another one. @param {Frame} frame @param {Place} from @param {Place} to */
  #connect(frame, from, to) {
    if (![from, to].every(({ lane }) => this.isShown(lane))) return;
    const [start, end] = [from, to].map((place) => this.#boxOf(frame, place)).map(({ left, top, height }) => ({ x: left, y: top + height / 2 }));
    const context = this.#context;
    const bow = Math.max(Math.abs(end.x - start.x) / 2, 2 * ARROW.length);
    const neck = end.x - ARROW.length;
    context.lineWidth = 1;
    context.beginPath();
    context.moveTo(start.x, start.y);
    context.bezierCurveTo(start.x + bow, start.y, neck - bow, end.y, neck, end.y);
    context.stroke();
    context.fillStyle = this.#colours.accent;
    context.beginPath();
    context.moveTo(end.x, end.y);
    context.lineTo(neck, end.y - ARROW.halfWidth);
    context.lineTo(neck, end.y + ARROW.halfWidth);
    context.fill();
  }

  /** @param {Frame} frame */
  #drawAxis(frame) {
    const context = this.#context;
    context.fillStyle = this.#colours.surface;
    context.fillRect(0, 0, frame.width, AXIS_HEIGHT);
    context.fillStyle = this.#colours.line;
    context.fillRect(0, AXIS_HEIGHT - 1, frame.width, 1);
    context.font = TITLE_FONT;
    context.textBaseline = 'middle';
    // All layers have the same ticks, and a substitute has those of another level.
    const tiles = frame.tiles.filter(({ layer }) => layer === 'device');
    const finest = Math.min(...tiles.map(({ level }) => level));
    let free = -Infinity;
    for (const placed of tiles.filter(({ level }) => level === finest)) {
      const { origin, unit } = this.#scale(frame, placed);
      for (const tick of placed.tile.ticks) {
        const x = Math.round(origin + tick.unit * unit);
        if (x < Math.max(free, gutter(frame.width)) || x > frame.width) continue;
        context.fillStyle = this.#colours.line;
        context.fillRect(x, AXIS_HEIGHT - 6, 1, 6);
        const end = x + 4 + context.measureText(tick.text).width;
        free = end + 8;
        if (end > frame.width) continue;
        context.fillStyle = this.#colours.muted;
        context.fillText(tick.text, x + 4, AXIS_HEIGHT / 2 - 1);
      }
    }
  }

  /** The bar at a point of the canvas; of nested ones the one of this row. @param {Frame} frame @param {number} x @param {number} y @returns {Hit | null} */
  hit(frame, x, y) {
    const lane = this.laneAt(frame, y);
    if (lane < 0) return null;
    const { top, rowHeight } = this.#layout.boxes[lane];
    return this.barAt(frame, lane, x, Math.floor((y - top + this.#scrolled(frame, lane)) / rowHeight));
  }

  /** The lane at a height of the canvas; -1 without one. @param {Frame} frame @param {number} y */
  laneAt(frame, y) {
    return this.#layout.boxes.findIndex(({ top, rowHeight, depth }, lane) => {
      const begin = top - this.#scrolled(frame, lane);
      return y >= Math.max(begin, this.#topOfLanes(lane)) && y < begin + rowHeight * depth;
    });
  }

  /** The group whose heading is at a height of the canvas; empty without one. @param {Frame} frame @param {number} y */
  headingAt({ scrollTop }, y) {
    if (y < this.#layout.pinnedTo) return '';
    return this.#layout.headings.find(({ top }) => y >= top - scrollTop && y < top - scrollTop + GROUP_HEIGHT)?.group ?? '';
  }

  /** The nearest bar of a row of a lane. @param {Frame} frame @param {number} lane @param {number} x @param {number} depth
   * @param {number} [maxDistance] in pixels @returns {Hit | null} */
  barAt(frame, lane, x, depth, maxDistance = 2) {
    /** @type {{ distance: number, hit: Hit } | null} */
    let best = null;
    for (const placed of frame.tiles) {
      const { bars, ends, labels } = placed.tile;
      const { origin, unit } = this.#scale(frame, placed);
      const start = placed.index * TILE_UNITS * unitNs(placed.level);
      for (let bar = lane > 0 ? ends[lane - 1] : 0; bar < (ends[lane] ?? 0); bar += 1) {
        const at = bar * NUMBERS;
        if (bars[at + 2] !== depth) continue;
        const [left, right] = [origin + bars[at] * unit, origin + bars[at + 1] * unit];
        const distance = Math.max(left - x, x - right, 0);
        if (distance > maxDistance || (best && distance >= best.distance)) continue;
        const ns = unitNs(placed.level);
        best = { distance, hit: {
          lane, row: bars[at + 4], count: bars[at + 5], from: start + bars[at] * ns, to: start + bars[at + 1] * ns,
          style: bars[at + 3], label: bars[at + 7] < 0 ? '' : labels[bars[at + 7]],
        } };
      }
    }
    return best?.hit ?? null;
  }

  /** Where a lane is, to scroll to it; null if it is always in sight. @param {number} lane */
  topOf(lane) {
    const { top, isPinned } = this.#layout.boxes[lane];
    return isPinned ? null : top;
  }

  /** The height that the lanes that are scrolled do not have. */
  get pinnedTo() {
    return this.#layout.pinnedTo;
  }

  get lanes() {
    return this.#timeline.lanes;
  }
}

/** The width of the titles on a canvas. @param {number} width */
const gutter = (width) => (width < NARROW_PX ? GUTTER.narrow : GUTTER.wide);

/** The width of the bars' part of a canvas. @param {number} width */
export const plotWidth = (width) => Math.max(width - gutter(width), 1);

/** The position on the canvas as a share of the view, 0 at its begin. @param {number} x @param {number} width */
export const shareAt = (x, width) => (x - gutter(width)) / plotWidth(width);

/** The text if it fits, else its begin and end: names differ at both. Empty if there is no room. @param {string} text @param {number} width */
function fitted(text, width) {
  const room = Math.floor(width / LABEL_CHAR_PX);
  if (text.length <= room) return text;
  if (room < 4) return '';
  const tail = room > 12 ? Math.floor((room - 1) / 3) : 0;
  return `${text.slice(0, room - 1 - tail)}…${tail ? text.slice(-tail) : ''}`;
}
