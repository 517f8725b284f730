// Pointer and keys of a timeline: wheel and pinch zoom at the pointer, a drag pans, Shift and a drag pick a window, a click selects,
// a double click zooms to a bar.

/** @import { Timeline } from './timeline.js' */

/** They move the view and need no selection. */
const VIEW_KEYS = new Set(['w', 's', 'a', 'd', 'z']);
const MIN_DRAG_PX = 4;
const HOVER_AFTER_MS = 50;
const ZOOM_PER_WHEEL_PX = 1.0025;
const MAX_WHEEL_PX = 240;

export class TimelineInput {
  #timeline;
  #canvas;
  #scroll;
  /** Pointers that are down, with their last positions. @type {Map<number, { x: number, y: number }>} */
  #pointers = new Map();
  /** @type {{ x: number, y: number, isPicking: boolean, hasMoved: boolean } | null} */
  #drag = null;
  #hoverTimer = 0;
  /** Where the pointer is on the canvas; null if it is elsewhere. @type {{ x: number, y: number } | null} */
  #pointer = null;

  /** @param {Timeline} timeline @param {HTMLCanvasElement} canvas @param {HTMLElement} scroll */
  constructor(timeline, canvas, scroll) {
    this.#timeline = timeline;
    this.#canvas = canvas;
    this.#scroll = scroll;
    canvas.addEventListener('wheel', (event) => this.#wheel(event), { passive: false });
    canvas.addEventListener('pointerdown', (event) => this.#down(event));
    canvas.addEventListener('pointermove', (event) => this.#move(event));
    canvas.addEventListener('pointerup', (event) => this.#up(event));
    canvas.addEventListener('pointercancel', (event) => this.#up(event));
    canvas.addEventListener('pointerleave', () => this.#leave());
    canvas.addEventListener('dblclick', (event) => this.#zoomTo(event));
    canvas.addEventListener('keydown', (event) => this.#key(event));
  }

  /** @param {{ clientX: number, clientY: number }} event */
  #point({ clientX, clientY }) {
    const { left, top } = this.#canvas.getBoundingClientRect();
    return { x: clientX - left, y: clientY - top };
  }

  /** @param {WheelEvent} event */
  #wheel(event) {
    const { view } = this.#timeline;
    const line = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 16 : 1;
    const isSideways = event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY);
    event.preventDefault();
    if (isSideways) this.#timeline.panBy((event.deltaX || event.deltaY) * line);
    else {
      const pixels = Math.min(Math.max(event.deltaY * line, -MAX_WHEEL_PX), MAX_WHEEL_PX);
      // A pinch on a touchpad arrives as a wheel with the control key, in small steps.
      view.zoom(ZOOM_PER_WHEEL_PX ** (pixels * (event.ctrlKey ? 4 : 1)), this.#timeline.timeAt(this.#point(event).x));
    }
    this.#timeline.draw();
    this.#rest(event);
  }

  /** Shows the card of what is under the pointer, once it rests. @param {MouseEvent} event */
  #rest(event) {
    const { x, y } = this.#point(event);
    clearTimeout(this.#hoverTimer);
    this.#hoverTimer = setTimeout(() => this.#timeline.hover(this.#timeline.hit(x, y), event), HOVER_AFTER_MS);
  }

  /** @param {PointerEvent} event */
  #down(event) {
    if (event.button !== 0) return;
    this.#endHover();
    const point = this.#point(event);
    this.#pointers.set(event.pointerId, point);
    this.#canvas.setPointerCapture(event.pointerId);
    this.#drag = this.#pointers.size === 1 ? { ...point, isPicking: event.shiftKey, hasMoved: false } : null;
  }

  /** @param {PointerEvent} event */
  #move(event) {
    const point = this.#point(event);
    this.#pointer = point;
    const before = this.#pointers.get(event.pointerId);
    if (!before) {
      this.#rest(event);
      return;
    }
    if (this.#pointers.size === 2) this.#pinch(event.pointerId, before, point);
    this.#pointers.set(event.pointerId, point);
    if (this.#drag) this.#dragTo(this.#drag, before, point);
  }

  /** @param {{ x: number, y: number, isPicking: boolean, hasMoved: boolean }} drag @param {{ x: number, y: number }} before @param {{ x: number, y: number }} point */
  #dragTo(drag, before, point) {
    const timeline = this.#timeline;
    drag.hasMoved ||= Math.abs(point.x - drag.x) + Math.abs(point.y - drag.y) >= MIN_DRAG_PX;
    if (!drag.hasMoved) return;
    this.#canvas.classList.add(drag.isPicking ? 'picking' : 'dragging');
    if (drag.isPicking) timeline.picking = [timeline.timeAt(drag.x), timeline.timeAt(point.x)];
    else {
      timeline.panBy(before.x - point.x);
      this.#scroll.scrollTop += before.y - point.y;
    }
    timeline.draw();
  }

  /** Zooms by the change of the distance to the other finger. @param {number} id @param {{ x: number }} before @param {{ x: number }} point */
  #pinch(id, before, point) {
    const other = [...this.#pointers].find(([pointer]) => pointer !== id)?.[1];
    if (!other) return;
    const distance = (/** @type {{ x: number }} */ from) => Math.max(Math.abs(from.x - other.x), 10);
    this.#timeline.view.zoom(distance(before) / distance(point), this.#timeline.timeAt((point.x + other.x) / 2));
    this.#timeline.draw();
  }

  /** @param {PointerEvent} event */
  #up(event) {
    if (!this.#pointers.delete(event.pointerId)) return;
    const [timeline, drag] = [this.#timeline, this.#drag];
    this.#drag = null;
    this.#canvas.classList.remove('picking', 'dragging');
    const picked = timeline.picking;
    timeline.picking = null;
    timeline.draw();
    if (!drag || event.type === 'pointercancel') return;
    if (picked) timeline.pick(Math.min(...picked), Math.max(...picked));
    else if (!drag.hasMoved && !timeline.foldAt(drag.y)) timeline.select(timeline.hit(drag.x, drag.y));
  }

  #endHover() {
    clearTimeout(this.#hoverTimer);
    this.#timeline.hover(null);
  }

  #leave() {
    this.#pointer = null;
    this.#endHover();
  }

  /** The time under the pointer; null if the pointer is not on the bars' part of the canvas. */
  get #timeAtPointer() {
    const { view } = this.#timeline;
    const time = this.#pointer && this.#timeline.timeAt(this.#pointer.x);
    return time !== null && time >= view.from && time <= view.to ? time : null;
  }

  /** @param {MouseEvent} event */
  #zoomTo(event) {
    const { x, y } = this.#point(event);
    const hit = this.#timeline.hit(x, y);
    if (hit) this.#timeline.select(hit, { fits: true });
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const timeline = this.#timeline;
    const pan = (/** @type {number} */ share) => {
      timeline.view.pan(share * timeline.view.length);
      timeline.draw();
    };
    const onLane = () => timeline.actOnLane(event.key, this.#pointer?.y ?? null);
    /** @type {Record<string, () => void>} */
    const actions = {
      p: onLane,
      c: onLane,
      w: () => timeline.zoom(0.6, this.#timeAtPointer),
      s: () => timeline.zoom(1 / 0.6, this.#timeAtPointer),
      a: () => pan(-0.2),
      d: () => pan(0.2),
      f: () => timeline.fitSelected(),
      z: () => timeline.toggleHeight(),
      m: () => timeline.mark(this.#timeAtPointer),
      n: () => timeline.stepAlike('next'),
      N: () => timeline.stepAlike('previous'),
      ArrowLeft: () => timeline.step('before'),
      ArrowRight: () => timeline.step('after'),
      ArrowUp: () => (event.shiftKey ? onLane() : timeline.changeLane(-1)),
      ArrowDown: () => (event.shiftKey ? onLane() : timeline.changeLane(1)),
      Enter: () => timeline.fitSelected(),
      Escape: () => timeline.back(),
    };
    const action = Object.hasOwn(actions, event.key) ? actions[event.key] : null;
    if (!action) return;
    event.preventDefault();
    event.stopPropagation();
    this.#endHover();
    if (VIEW_KEYS.has(event.key)) action();
    else timeline.afterSelecting(action);
  }
}
