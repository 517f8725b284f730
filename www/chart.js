// The stacked bars, built node by node from what the renderer laid out, and the legend that is also the category filter.

import { byId, el, svg } from './dom.js';

const TAGS = new Set(['rect', 'text', 'line', 'path', 'polyline']);

/** Draws the chart; `onPick(category)` is called when a segment is clicked. */
export function showChart({ width, height, summary, nodes }, onPick) {
  const drawing = svg('svg', [
    ['class', 'chart'], ['viewBox', `0 0 ${width} ${height}`], ['width', width], ['height', height], ['role', 'img'], ['aria-label', summary],
  ], ...shapes(nodes));
  drawing.addEventListener('click', ({ target }) => {
    const { key } = target.dataset;
    if (key) onPick(key);
  });
  byId('chart').replaceChildren(drawing);
}

export const shapes = (nodes) => nodes.filter((node) => TAGS.has(node.tag)).map(shape);

function shape({ tag, attrs, class: className, title, key, text }) {
  const node = svg(tag, attrs);
  if (className) node.setAttribute('class', className);
  if (key) node.dataset.key = key;
  if (text) node.append(text);
  if (title) node.append(svg('title', [], title));
  return node;
}

/** One toggle a category, in the renderer's order, and a way back once any is off. */
export function showLegend(categories, hidden, onToggle, onAll) {
  const buttons = categories.map(({ name, class: className }) => {
    const shown = !hidden.includes(name);
    return el('button', { type: 'button', 'aria-pressed': String(shown), click: () => onToggle(name) },
      el('span', { class: `swatch ${className}`, 'aria-hidden': 'true' }), name);
  });
  if (hidden.length > 0) buttons.push(el('button', { type: 'button', class: 'all', click: onAll }, 'Show all'));
  replaceKeepingFocus(byId('legend'), buttons);
}

/** The button that had the focus keeps it by its place in the row. */
function replaceKeepingFocus(parent, children) {
  const place = [...parent.children].indexOf(document.activeElement);
  parent.replaceChildren(...children);
  if (place >= 0) (children[place] ?? children.at(-1))?.focus();
}
