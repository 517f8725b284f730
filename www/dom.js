// Helpers that build DOM nodes. Text becomes text nodes only, so a name from a trace can never become markup.

/** @import { Figure, Severity } from './types.js' */

const SVG = 'http://www.w3.org/2000/svg';

/** @typedef {Node | string | null | undefined | false} Child */
/** @typedef {string | number | boolean | null | undefined} AttributeValue */
/** @typedef {{ listen(event: Event): unknown }['listen']} Listener */

/** Creates an element. A function in `props` listens for the event of its name; every other entry is an attribute.
 * Attributes that are null, undefined or false, and such children, are left out.
 * @template {keyof HTMLElementTagNameMap} Tag @param {Tag} tag
 * @param {Record<string, AttributeValue | Listener>} [props] @param {Child[]} children */
export function el(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (typeof value === 'function') node.addEventListener(name, value);
    else if (value === true) node.setAttribute(name, '');
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, String(value));
  }
  node.append(...present(children));
  return node;
}

/** Removes null, undefined, false and empty items. @template Item @param {readonly Item[]} items */
export const present = (items) => items.filter((item) => Boolean(item)).map((item) => /** @type {Exclude<Item, null | undefined | false | ''>} */ (item));

/** Creates an SVG element.
 * @template {keyof SVGElementTagNameMap} Tag @param {Tag} tag
 * @param {readonly (readonly [name: string, value: string | number])[]} [attributes]
 * @param {(Node | string)[]} children */
export function svg(tag, attributes = [], ...children) {
  const node = document.createElementNS(SVG, tag);
  setAttributes(node, attributes);
  node.append(...children);
  return node;
}

/** @param {Element} node @param {readonly (readonly [name: string, value: string | number])[]} attributes */
export function setAttributes(node, attributes) {
  for (const [name, value] of attributes) node.setAttribute(name, String(value));
}

/** For each parent the nodes that `arrange` put into it, by key. @type {WeakMap<Element, Map<unknown, Element>>} */
const arrangedNodes = new WeakMap();

/** Makes the nodes of these keys the only children of `parent`, in this order. `make(key, index)` is called for new
 * keys alone: other nodes keep their scroll position and what is being typed.
 * @template Key @param {Element} parent @param {Key[]} keys @param {(key: Key, index: number) => Element} make */
export function arrange(parent, keys, make) {
  const before = arrangedNodes.get(parent) ?? new Map();
  const nodes = new Map(keys.map((key, index) => [key, before.get(key) ?? make(key, index)]));
  arrangedNodes.set(parent, nodes);
  const wanted = [...nodes.values()];
  for (const child of [...parent.children]) if (!wanted.includes(child)) child.remove();
  wanted.forEach((node, index) => parent.children[index] !== node && parent.insertBefore(node, parent.children[index]));
}

/** A sentence as nodes: text between backticks becomes code, and no line ends between a figure and its unit. @param {string} text */
export function words(text) {
  const parts = text.split('`');
  return parts.length % 2 ? parts.flatMap((part, index) => (index % 2 ? [el('code', {}, part)] : figures(part))) : figures(text);
}

const FIGURE = /(\d[\d.,]* (?:%|[mun]?s|[KMGT]i?B(?:\/s)?|GPUs?|W)(?![A-Za-z]))/;

/** @param {string} text */
const figures = (text) => text.split(FIGURE).map((part, index) => (index % 2 ? el('span', { class: 'figure' }, part) : part));

/** Elements of index.html whose type matters.
 * @typedef {{
 *   export: HTMLDetailsElement,
 *   files: HTMLInputElement,
 *   filter: HTMLInputElement,
 *   run: HTMLSelectElement,
 *   settings: HTMLFormElement,
 * }} TypedElements */

/** Returns the element with this id. Throws if there is none. @template {string} Id @param {Id} id */
export function byId(id) {
  const node = document.getElementById(id);
  if (!node) throw new Error(`the page has no element #${id}`);
  return /** @type {Id extends keyof TypedElements ? TypedElements[Id] : HTMLElement} */ (node);
}

/** The closest ancestor of an event's target, or the target itself, that matches a selector.
 * @template {HTMLElement} [Found=HTMLElement] @param {Event} event @param {string} selector @returns {Found | null} */
export const targetWithin = ({ target }, selector) => (target instanceof Element ? target.closest(selector) : null);

/** @type {Record<Severity, { word: string, path: string }>} */
const SEVERITIES = {
  info: { word: 'Note', path: 'M8 1.5a6.5 6.5 0 1 0 0 13a6.5 6.5 0 1 0 0-13z' },
  warning: { word: 'Warning', path: 'M8 1.5 15.5 14.5H.5z' },
  error: { word: 'Error', path: 'M8 0l8 8-8 8-8-8z' },
};

/** @type {Record<'high' | 'medium' | 'low', [severity: Severity, word: string]>} */
const GRADES = { high: ['error', 'High'], medium: ['warning', 'Medium'], low: ['info', 'Low'] };

/** Shows a severity by shape and word, because colour alone is not accessible.
 * @param {Severity | keyof typeof GRADES} severity */
export function severityMark(severity) {
  const [look, word] = severity in GRADES
    ? GRADES[/** @type {keyof typeof GRADES} */ (severity)]
    : [/** @type {Severity} */ (severity), SEVERITIES[/** @type {Severity} */ (severity)].word];
  const icon = svg('svg', [['viewBox', '0 0 16 16'], ['class', 'icon'], ['aria-hidden', 'true']], svg('path', [['d', SEVERITIES[look].path]]));
  return el('span', { class: `severity ${look}` }, icon, word);
}

/** How certain something is, by the number of filled dots. @param {'high' | 'medium' | 'low'} confidence */
export const confidenceMark = (confidence) => el('span', { class: 'confidence', role: 'img', 'aria-label': `Confidence: ${confidence}`, title: `Confidence: ${confidence}` },
  { high: '●●●', medium: '●●○', low: '●○○' }[confidence]);

/** One line of a list of notices, of sentences and nodes. @param {Severity} severity @param {Child[]} parts */
export const noticeItem = (severity, ...parts) => el('li', { class: 'notice' }, severityMark(severity), noticeText(...parts));

/** @param {Child[]} parts */
export const noticeText = (...parts) => el('span', { class: 'notice-text' }, ...parts.map((part) => (typeof part === 'string' && part ? el('span', {}, ...words(part)) : part)));

/** @param {AttributeValue} text */
export const note = (text) => el('p', { class: 'note' }, String(text));

/** @param {string} label @param {Listener} click @param {Record<string, AttributeValue>} [props] */
export const button = (label, click, props = {}) => el('button', { type: 'button', ...props, click }, label);

/** A small colour patch of a category's class. @param {string} className */
export const swatch = (className) => el('span', { class: `swatch ${className}`, 'aria-hidden': 'true' });

/** A command to run in a terminal, with a button that copies it. @param {string} command */
export const commandLine = (command) => el('p', { class: 'command' }, el('code', {}, command), copyButton(command));

/** Buttons that copy the commands of a sentence: its code of several words, but options. @param {string} text */
export const copyCommands = (text) => text.split('`').filter((part, index, { length }) => length % 2 === 1 && index % 2 === 1 && /^[\w.~/][^ ]* /.test(part))
  .flatMap((command) => [' ', Object.assign(copyButton(command), { title: `Copy ${command}` })]);

/** Loads the style sheet of a script that is itself loaded on demand. Resolves when the style applies, or cannot be loaded.
 * @param {string} name */
export function loadStyleSheet(name) {
  const link = el('link', { rel: 'stylesheet', href: new URL(name, import.meta.url).href });
  const settled = new Promise((resolve) => {
    link.addEventListener('load', resolve);
    link.addEventListener('error', resolve);
  });
  document.head.append(link);
  return settled;
}

/** A button that copies a text and shows the outcome. @param {string | (() => Promise<string>)} text */
export function copyButton(text, label = 'Copy') {
  const copy = button(label, async () => {
    try {
      await navigator.clipboard.writeText(typeof text === 'string' ? text : await text());
      copy.textContent = 'Copied';
    } catch {
      copy.textContent = 'Copy was refused: select the text instead';
    }
  }, { class: 'small' });
  return copy;
}

/** Time after which a download has surely begun and its address can be revoked. */
const DOWNLOAD_STARTED_MS = 60_000;

/** Saves data as a file on the person's disk. @param {BlobPart} data @param {string} type @param {string} name */
export function save(data, type, name) {
  const href = URL.createObjectURL(new Blob([data], { type }));
  el('a', { href, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(href), DOWNLOAD_STARTED_MS);
}

const FRAMES_FORBIDDEN = "frame-src 'none'";

/** Forbids frames from now on. A frame of any same-origin file without a policy of its own, for example a style sheet,
 * is a window that can fetch from anywhere. Also removes the frame that registers the service worker. */
export function forbidFrames() {
  document.getElementById('offline')?.remove();
  if (areFramesForbidden()) return;
  document.head.append(el('meta', { 'http-equiv': 'Content-Security-Policy', content: FRAMES_FORBIDDEN }));
}

export const areFramesForbidden = () => document.querySelector(`meta[content="${FRAMES_FORBIDDEN}"]`) !== null;

/** The options of a `select` that chooses a run by its index. @param {string[]} labels @param {number | null} chosen */
export const runOptions = (labels, chosen) => labels.map((label, index) => new Option(label, String(index), false, index === chosen));

/** One figure of a list of figures; its exact value is the tooltip. @param {Figure} figure */
export const figureItem = ({ title, text, exact }) => el('div', {}, el('dt', {}, title), el('dd', { title: exact }, ...words(text)));

/** Numbers calls, to find out whether an answer is outdated. */
export class CallCounter {
  #last = 0;

  /** Starts a call, which outdates all earlier ones. Returns a function that reports whether it is still the last. */
  start() {
    const id = ++this.#last;
    return () => id === this.#last;
  }
}

/** Returns a function that shows the answer of its last call only. It drops answers and failures of earlier calls.
 * @template {unknown[]} Args @template Answer @param {(...args: Args) => Answer} request
 * @param {(answer: Awaited<Answer>) => unknown} show @returns {(...args: Args) => Promise<void>} */
export function latest(request, show) {
  const calls = new CallCounter();
  return async (...args) => {
    const isLast = calls.start();
    try {
      const answer = await request(...args);
      if (isLast()) await show(answer);
    } catch (problem) {
      if (isLast()) throw problem;
    }
  };
}

/** A request made in advance; its failure is ignored unless it is used.
 * @template Answer @param {string} key @param {Promise<Answer>} answer */
export function prefetched(key, answer) {
  answer.catch(() => {});
  return { key, answer };
}

/** `loaded()` is the promise of the last load, or null before the first.
 * @template Part @typedef {(() => Promise<Part>) & { loaded: () => Promise<Part> | null }} OnDemand */

/** Returns a function that loads something at its first call, and again after a failure.
 * @template Part @param {() => Promise<Part>} load @returns {OnDemand<Part>} */
export function onDemand(load) {
  /** @type {Promise<Part> | null} */
  let promise = null;
  const get = () => (promise ??= load().catch((problem) => {
    promise = null;
    throw problem;
  }));
  return Object.assign(get, { loaded: () => promise });
}
