// Draws charts as SVG from the nodes that a worker computed. Also a menu that saves a chart as a picture, and the legend of the
// stacked bars, which is the category filter.

import { button, byId, el, svg, swatch } from './dom.js';

/** @import { Category, Chart, ChartNode } from './types.js' */

/** @typedef {'rect' | 'text' | 'line' | 'path' | 'polyline'} ShapeTag */

/** @type {Set<string>} */
const TAGS = new Set(['rect', 'text', 'line', 'path', 'polyline']);

/** `pick` takes the category of a segment that is clicked, `labels` has the runs, `saveData` saves the table behind the bars.
 * @typedef {{ pick(category: string): void, labels(): string[], saveData(): void }} BarActions */

/** Draws the stacked bars. If no run has a bar and no category is hidden, the whole figure is hidden.
 * @param {Chart} chart @param {BarActions} actions @param {boolean} hasHiddenCategories */
export function showChart(chart, actions, hasHiddenCategories) {
  const parent = byId('chart');
  parent.parentElement?.classList.toggle('empty-figure', !hasHiddenCategories && !chart.nodes.some(({ key }) => key));
  if (!parent.firstChild) parent.before(saveMenu(() => parent.querySelector('svg'), () => fileName('gpuprism-bars', actions.labels()), actions.saveData));
  parent.replaceChildren(clickableChart(chart, actions.pick));
}

const MAX_LABEL_CHARS = 60;

/** The name of a file about these runs; of many, it has the first. @param {string} stem @param {string[]} labels */
export function fileName(stem, labels) {
  const [first, ...others] = labels.map((label) => label.replace(/\.json(\.gz)?$|\.gz$/, '').replace(/[^\p{L}\p{N}._-]+/gu, '-').slice(0, MAX_LABEL_CHARS));
  return [stem, first, others.length > 1 ? `${others.length}-more` : others[0]].filter(Boolean).join('-');
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

/** A menu that saves the chart as it is on screen, and if there is a way, the data behind it.
 * @param {() => SVGSVGElement | null} chart @param {string | (() => string)} name of the file @param {() => void} [saveData] */
export function saveMenu(chart, name, saveData) {
  /** @param {'SVG' | 'PNG'} type */
  const item = (type) => button(`Save as ${type}`, async () => {
    menu.open = false;
    const { savePicture } = await import('./picture.js');
    const picture = chart();
    if (picture) await savePicture(picture, type, typeof name === 'string' ? name : name());
  });
  const data = saveData && button('Save data as CSV', () => {
    menu.open = false;
    saveData();
  });
  const menu = el('details', { class: 'menu picture' }, el('summary', { class: 'button' }, 'Save chart'), el('div', { class: 'menu-items' }, item('SVG'), item('PNG'), data));
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
