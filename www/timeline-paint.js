// Draws a timeline on a canvas: the axis, the lanes with their titles, the bars of the tiles in view, the selection, the chosen window and
// the launch of the selected op. Remembers where the bars are, to find the one under the pointer.

import { LAYERS, TILE_UNITS, unitNs } from './timeline-view.js';

/** @import { Mark, Moment, Place, TimelineStyle, TimelineView, Wait } from './types.js' */
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

/** A lane on the canvas: its top and the height of each of its rows. @typedef {{ top: number, rowHeight: number, depth: number, title: string }} LaneBox */
/** A bar under the pointer. @typedef {{ lane: number, row: number, count: number, from: number, to: number, style: number, label: string }} Hit */
/** What a frame shows. @typedef {{
 *   view: View, width: number, height: number, scrollTop: number, tiles: PlacedTile[], hits: HitSpan[], selected: Moment | null, hovered: Hit | null,
 *   window: [number, number] | null, marks: Mark[], picking: [number, number] | null, anchor: { at: number, text: string } | null, waits: Wait[],
 * }} Frame */

/** The lanes from top to bottom, a heading for each group and a line for each note, and the height of all. @param {TimelineView} timeline */
export function layOut({ lanes, notes }) {
  /** @type {LaneBox[]} */
  const boxes = [];
  /** @type {{ top: number, text: string }[]} */
  const headings = [];
  let top = AXIS_HEIGHT;
  lanes.forEach((lane, index) => {
    if (index === 0 || lanes[index - 1].group !== lane.group) {
      headings.push({ top, text: lane.group });
      top += GROUP_HEIGHT;
    }
    const rowHeight = ROW_HEIGHT[lane.layer];
    boxes.push({ top, rowHeight, depth: lane.depth, title: lane.title });
    top += rowHeight * lane.depth + LANE_GAP;
  });
  for (const text of notes) {
    headings.push({ top, text });
    top += GROUP_HEIGHT;
  }
  return { boxes, headings, height: top };
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

  /** @param {CanvasRenderingContext2D} context @param {TimelineView} timeline @param {Colours} palette @param {Set<number>} hidden styles */
  constructor(context, timeline, palette, hidden) {
    this.#hidden = hidden;
    this.#context = context;
    this.#timeline = timeline;
    this.#colours = palette;
    this.#layout = layOut(timeline);
  }

  /** The height of all lanes. */
  get height() {
    return this.#layout.height;
  }

  /** The layers with lanes in view or less than a screen away, so that what is scrolled to is mostly there. The ticks of the axis come
   * from the layer `device`. @param {number} scrollTop @param {number} height */
  layersNear(scrollTop, height) {
    const isNear = (/** @type {number} */ lane) => this.#isInView(lane, { scrollTop: scrollTop - height, height: 3 * height });
    return LAYERS.filter((layer) => layer === 'device' || this.lanes.some((lane, index) => lane.layer === layer && isNear(index)));
  }

  /** The lanes of which something is in view, from top to bottom. @param {Frame} frame */
  lanesInView(frame) {
    return [...this.lanes.keys()].filter((lane) => this.#isInView(lane, frame));
  }

  /** @param {number} lane @param {{ scrollTop: number, height: number }} frame */
  #isInView(lane, { scrollTop, height }) {
    const { top, rowHeight, depth } = this.#layout.boxes[lane];
    return top < scrollTop + height && top + rowHeight * depth > scrollTop;
  }

  /** @param {Frame} frame */
  draw(frame) {
    const { width, height } = frame;
    const context = this.#context;
    const ratio = devicePixelRatio || 1;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.fillStyle = this.#colours.surface;
    context.fillRect(0, 0, width, height);
    this.#drawLanes(frame);
    this.#drawShade(frame);
    for (const placed of frame.tiles) this.#drawTile(frame, placed);
    this.#drawHits(frame);
    this.#drawLabels(frame);
    this.#drawWaits(frame);
    this.#drawSelection(frame);
    this.#drawAxis(frame);
    this.#drawTitles(frame);
    this.#drawAnchor(frame);
    this.#drawMarks(frame);
  }

  /** Where a time is on the canvas. @param {Frame} frame @param {number} ns */
  xAt({ view, width }, ns) {
    return gutter(width) + ((ns - view.from) / view.length) * plotWidth(width);
  }

  /** @param {Frame} frame */
  #drawLanes({ width, scrollTop }) {
    this.#context.fillStyle = this.#colours.raised;
    for (const { top, rowHeight, depth } of this.#layout.boxes) this.#context.fillRect(0, top - scrollTop, width, rowHeight * depth);
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
    context.save();
    context.beginPath();
    context.rect(0, AXIS_HEIGHT, width, height);
    context.clip();
    context.font = TITLE_FONT;
    context.textBaseline = 'middle';
    context.fillStyle = this.#colours.surface;
    context.fillRect(0, 0, gutter(width), height);
    for (const { top, text } of this.#layout.headings) {
      context.fillStyle = this.#colours.muted;
      context.fillText(fitted(text, width - 12), 4, top - scrollTop + GROUP_HEIGHT / 2);
    }
    context.fillStyle = this.#colours.text;
    for (const { top, title, rowHeight } of this.#layout.boxes) context.fillText(fitted(title, gutter(width)), 4, top - scrollTop + rowHeight / 2);
    context.restore();
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
    if (right < gutter(frame.width) || left > frame.width) return;
    const from = Math.max(left, gutter(frame.width));
    this.#context.lineWidth = lineWidth;
    this.#context.strokeRect(from, top, Math.max(Math.min(right, frame.width + 4) - from, 3), height);
  }

  /** @param {Frame} frame @param {Place | Hit} place */
  #boxOf(frame, place) {
    const { top, rowHeight, depth } = this.#layout.boxes[place.lane];
    // The depth of a bar is known from a tile that has it.
    const row = depth > 1 ? this.#depthOf(frame, place) : 0;
    return { left: this.xAt(frame, place.from), right: this.xAt(frame, place.to), top: top - frame.scrollTop + row * rowHeight, height: rowHeight - 1 };
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
    const lane = this.#layout.boxes.findIndex(({ top, rowHeight, depth }) => {
      const begin = top - frame.scrollTop;
      return y >= begin && y < begin + rowHeight * depth;
    });
    if (lane < 0 || y < AXIS_HEIGHT) return null;
    const { top, rowHeight } = this.#layout.boxes[lane];
    return this.barAt(frame, lane, x, Math.floor((y - top + frame.scrollTop) / rowHeight));
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

  /** The middle of a lane, to scroll to it. @param {number} lane */
  topOf(lane) {
    return this.#layout.boxes[lane]?.top ?? 0;
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
