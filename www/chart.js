// Draws charts as SVG from the nodes that a worker computed. Also a menu that saves a chart as a picture, and the legend of the
// stacked bars, which is the category filter.

import { button, byId, el, svg, swatch } from './dom.js';

/** @import { Category, Chart, ChartNode } from './types.js' */

/** @typedef {'rect' | 'text' | 'line' | 'path' | 'polyline'} ShapeTag */

/** @type {Set<string>} */
const TAGS = new Set(['rect', 'text', 'line', 'path', 'polyline']);

/** Draws the stacked bars. A click on a segment calls `onPick`. If no run has a bar and no category is hidden,
 * the whole figure is hidden.
 * @param {Chart} chart @param {(category: string) => void} onPick @param {boolean} hasHiddenCategories */
export function showChart(chart, onPick, hasHiddenCategories) {
  const parent = byId('chart');
  parent.parentElement?.classList.toggle('empty-figure', !hasHiddenCategories && !chart.nodes.some(({ key }) => key));
  if (!parent.firstChild) parent.before(saveMenu(() => parent.querySelector('svg'), 'gpuprism-bars'));
  parent.replaceChildren(clickableChart(chart, onPick));
}

/** The chart as an SVG element. @param {Chart} chart */
export const chartSvg = ({ width, height, summary, nodes }) => svg('svg', [
  ['class', 'chart'], ['viewBox', `0 0 ${width} ${height}`], ['width', width], ['height', height], ['role', 'img'], ['aria-label', summary],
], ...shapes(nodes));

/** The chart as an SVG element. A click on a shape of a category calls `onPick`.
 * @param {Chart} chart @param {(category: string) => void} onPick */
export function clickableChart(chart, onPick) {
  const picture = chartSvg(chart);
  picture.addEventListener('click', ({ target }) => {
    if (target instanceof SVGElement && target.dataset.key) onPick(target.dataset.key);
  });
  return picture;
}

/** A menu that saves the chart as it is on screen. @param {() => SVGSVGElement | null} chart @param {string} name */
export function saveMenu(chart, name) {
  /** @param {'SVG' | 'PNG'} type */
  const item = (type) => button(`Save as ${type}`, async () => {
    menu.open = false;
    const { savePicture } = await import('./picture.js');
    const picture = chart();
    if (picture) await savePicture(picture, type, name);
  });
  const menu = el('details', { class: 'menu picture' }, el('summary', { class: 'button' }, 'Save chart'), el('div', { class: 'menu-items' }, item('SVG'), item('PNG')));
  return menu;
}

/** @param {ChartNode[]} nodes */
export const shapes = (nodes) => nodes.filter(({ tag }) => TAGS.has(tag)).map(shape);

/** @param {ChartNode} node */
function shape({ tag, attrs, class: className, title, key, text }) {
  const node = svg(/** @type {ShapeTag} */ (tag), attrs);
  if (className) node.setAttribute('class', className);
  if (key) node.dataset.key = key;
  if (text) node.append(text);
  if (title) node.append(svg('title', [], title));
  return node;
}

/** Shows a toggle for each category, and a button that shows all of them if any is hidden.
 * @param {Category[]} categories @param {string[]} hidden @param {(category: string) => void} onToggle
 * @param {() => void} onShowAll */
export function showLegend(categories, hidden, onToggle, onShowAll) {
  const buttons = categories.map(({ name, title, class: className }) => el('button', {
    type: 'button', 'aria-pressed': String(!hidden.includes(name)), click: () => onToggle(name),
  }, swatch(className), title));
  if (hidden.length > 0) buttons.push(button('Show all', onShowAll, { class: 'all' }));
  replaceKeepingFocus(byId('legend'), buttons);
}

/** Replaces the children. If one had the focus, the new child at its index gets it.
 * @param {HTMLElement} parent @param {HTMLElement[]} children */
function replaceKeepingFocus(parent, children) {
  const index = [...parent.children].findIndex((child) => child === document.activeElement);
  parent.replaceChildren(...children);
  if (index >= 0) (children[index] ?? children.at(-1))?.focus();
}
