// Charts, built node by node from what was laid out for them, a menu that saves one as a picture, and the legend of the
// stacked bars, which is also the category filter.

import { byId, el, svg } from './dom.js';

const TAGS = new Set(['rect', 'text', 'line', 'path', 'polyline']);

/** Draws the stacked bars; `onPick(category)` is called when a segment is clicked. Where no run has any, unless categories are left out, nothing is seen. */
export function showChart(chart, onPick, isPart) {
  const place = byId('chart');
  place.parentElement.classList.toggle('bare', !isPart && !chart.nodes.some(({ key }) => key));
  if (!place.firstChild) place.before(saveMenu(() => place.firstChild, 'gpuprism-bars'));
  place.replaceChildren(drawing(chart, onPick));
}

/** The chart as an SVG element. */
export const picture = ({ width, height, summary, nodes }) => svg('svg', [
  ['class', 'chart'], ['viewBox', `0 0 ${width} ${height}`], ['width', width], ['height', height], ['role', 'img'], ['aria-label', summary],
], ...shapes(nodes));

/** The same, where `onPick(category)` is called when a mark of a category is clicked. */
export function drawing(chart, onPick) {
  const whole = picture(chart);
  whole.addEventListener('click', ({ target }) => {
    const { key } = target.dataset;
    if (key) onPick(key);
  });
  return whole;
}

/** A menu that saves the chart which `chart()` gives, as it is on screen, under this name. */
export function saveMenu(chart, name) {
  const item = (type) => el('button', { type: 'button', click: async () => {
    menu.open = false;
    const { savePicture } = await import('./picture.js');
    await savePicture(chart(), type, name);
  } }, `Save as ${type}`);
  const menu = el('details', { class: 'menu picture' }, el('summary', { class: 'button' }, 'Save chart'), el('div', { class: 'menu-items' }, item('SVG'), item('PNG')));
  return menu;
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
