// Small helpers that build DOM nodes. Text becomes text nodes only, so a name from a trace can never become markup.

const SVG = 'http://www.w3.org/2000/svg';

/** An element with attributes, listeners (functions under their event's name) and children. */
export function el(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (typeof value === 'function') node.addEventListener(name, value);
    else if (value === true) node.setAttribute(name, '');
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

/** An SVG element with attributes given as pairs. */
export function svg(tag, attrs = [], ...children) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of attrs) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

/** Of each place the nodes that were arranged in it, by key. */
const arranged = new WeakMap();

/**
 * Makes the nodes of these keys the children of a place, and nothing else. Only those are made, by `make(key, its place in the
 * list)`, whose key is new; the others are not touched: they may be scrolled or typed in.
 */
export function arrange(place, keys, make) {
  const before = arranged.get(place) ?? new Map();
  const nodes = new Map(keys.map((key, at) => [key, before.get(key) ?? make(key, at)]));
  arranged.set(place, nodes);
  const wanted = [...nodes.values()];
  for (const child of [...place.children]) if (!wanted.includes(child)) child.remove();
  wanted.forEach((node, at) => place.children[at] !== node && place.insertBefore(node, place.children[at]));
}

/** A sentence as nodes: what stands between backticks is to be typed. */
export function words(text) {
  const parts = text.split('`');
  return parts.length % 2 ? parts.map((part, at) => (at % 2 ? el('code', {}, part) : part)) : [text];
}

export const byId = (id) => document.getElementById(id);

const SEVERITIES = {
  info: { word: 'Note', path: 'M8 1.5a6.5 6.5 0 1 0 0 13a6.5 6.5 0 1 0 0-13z' },
  warning: { word: 'Warning', path: 'M8 1.5 15.5 14.5H.5z' },
  error: { word: 'Error', path: 'M8 0l8 8-8 8-8-8z' },
};

const GRADES = { high: ['error', 'High'], medium: ['warning', 'Medium'], low: ['info', 'Low'] };

/** The severity as a shape and a word, so that it does not hang on colour. */
export function severityMark(severity) {
  const [look, grade] = GRADES[severity] ?? [severity];
  const { word, path } = SEVERITIES[look] ?? SEVERITIES.info;
  const icon = svg('svg', [['viewBox', '0 0 16 16'], ['class', 'icon'], ['aria-hidden', 'true']], svg('path', [['d', path]]));
  return el('span', { class: `severity ${look}` }, icon, grade ?? word);
}

/** Fetches the style sheet of a part of the page that is itself fetched on demand. */
export const styled = (name) => document.head.append(el('link', { rel: 'stylesheet', href: new URL(name, import.meta.url) }));

/** A button that copies a text, or what a function resolves with, and says so. */
export function copyButton(text, label = 'Copy') {
  const button = el('button', { type: 'button', class: 'small' }, label);
  button.addEventListener('click', async () => {
    try {
      await navigator.clipboard.writeText(typeof text === 'string' ? text : await text());
      button.textContent = 'Copied';
    } catch {
      button.textContent = 'Copy was refused: select the text instead';
    }
  });
  return button;
}

/** Saves a text as a file on the person's disk; its address is given back once the download has surely begun. */
export function save(text, type, name) {
  const href = URL.createObjectURL(new Blob([text], { type }));
  el('a', { href, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(href), 60_000);
}

/**
 * From now on the page opens no frame. A frame of any same-origin file without a policy of its own, a style sheet say,
 * is a window that may fetch from anywhere; the one that registers the service worker is over before a file is read.
 */
export function shutFrames() {
  byId('offline')?.remove();
  if (framesAreShut()) return;
  document.head.append(el('meta', { 'http-equiv': 'Content-Security-Policy', content: "frame-src 'none'" }));
}

export const framesAreShut = () => document.querySelector('meta[content="frame-src \'none\'"]') !== null;

/** One figure of a list of figures; its exact value is the tooltip. */
export const figureItem = ({ title, text, exact }) => el('div', {}, el('dt', {}, title), el('dd', { title: exact }, text));

/** Only the last of several answers to the same question is shown, and only its failure is one. */
export function latest(ask, show) {
  let turn = 0;
  return async (...args) => {
    const mine = ++turn;
    try {
      const answer = await ask(...args);
      if (mine === turn) await show(answer);
    } catch (problem) {
      if (mine === turn) throw problem;
    }
  };
}

/** A question that was asked before it is known whether its answer will be wanted; `key` tells what it was. */
export function asked(key, answer) {
  answer.catch(() => {});
  return { key, answer };
}

/** What is loaded when it is first asked for, and tried again after it failed; `begun()` is its promise, if there is one. */
export function onDemand(load) {
  let promise = null;
  const ask = () => (promise ??= load().catch((problem) => {
    promise = null;
    throw problem;
  }));
  return Object.assign(ask, { begun: () => promise });
}
