// Saves a chart as SVG, with the computed style of its shapes as attributes, or as PNG. Loaded when a person first saves a chart.

import { showPageProblem } from './cards.js';
import { save, setAttributes, svg } from './dom.js';

/** The presentation attributes that make a shape independent of style sheets, with the initial values, which are left out. */
const LOOK = {
  fill: '', 'fill-opacity': '1', stroke: 'none', 'stroke-width': '1px', 'stroke-opacity': '1', 'stroke-dasharray': 'none', 'stroke-linejoin': 'miter',
  'paint-order': 'normal', opacity: '1', 'font-weight': '400', 'shape-rendering': 'auto',
};

/** Pixels of a PNG for each pixel of the chart. */
const SCALE = 2;

/** Pixels around a chart, and between the lines of its legend. */
const MARGIN = 12;
const LEGEND_LINE = 20;
/** Pixels of a legend entry apart from its text. */
const LEGEND_PADDING = 34;

/** @param {SVGSVGElement} chart @param {'SVG' | 'PNG'} type @param {string} name */
export async function savePicture(chart, type, name) {
  try {
    const copy = standalone(chart);
    const picture = new Blob([new XMLSerializer().serializeToString(copy)], { type: 'image/svg+xml' });
    if (type === 'SVG') save(picture, picture.type, `${name}.svg`);
    else save(await png(picture, copy.viewBox.baseVal), 'image/png', `${name}.png`);
  } catch (problem) {
    showPageProblem('The chart could not be saved', problem instanceof Error ? problem.message : String(problem));
  }
}

/** A copy on the page's background that needs no style sheet. @param {SVGSVGElement} chart */
function standalone(chart) {
  const copy = /** @type {SVGSVGElement} */ (chart.cloneNode(true));
  const { fontFamily } = getComputedStyle(chart);
  const { backgroundColor, color } = getComputedStyle(document.body);
  copy.setAttribute('font-family', fontFamily);
  copy.removeAttribute('class');
  [...chart.children].forEach((shape, index) => inlineLook(copy.children[index], getComputedStyle(shape)));
  // A chart with named rows needs no legend.
  const legend = chart.querySelector('.delta-name') ? { shapes: [], height: 0 } : legendOf(copy, chart.viewBox.baseVal, { fontFamily, color });
  copy.append(...legend.shapes);
  const width = chart.viewBox.baseVal.width + 2 * MARGIN;
  const height = chart.viewBox.baseVal.height + legend.height + 2 * MARGIN;
  setAttributes(copy, [['width', width], ['height', height], ['viewBox', `${-MARGIN} ${-MARGIN} ${width} ${height}`]]);
  copy.prepend(svg('rect', [['x', -MARGIN], ['y', -MARGIN], ['width', width], ['height', height], ['fill', backgroundColor]]));
  return copy;
}

/** The side of a swatch in the legend. */
const SWATCH = 10;

/** The legend of the colours, in lines below the chart, and its height.
 * @param {SVGSVGElement} copy @param {{ width: number, height: number }} size
 * @param {{ fontFamily: string, color: string }} style */
function legendOf(copy, { width, height }, { fontFamily, color }) {
  /** The first shape and the first hatching of each category. @type {Map<string, { shape: SVGElement, hatching?: SVGElement }>} */
  const byCategory = new Map();
  for (const shape of /** @type {NodeListOf<SVGElement>} */ (copy.querySelectorAll('rect[data-key], path[data-key]'))) {
    const { key = '' } = shape.dataset;
    const first = byCategory.get(key);
    if (!first && shape.localName === 'rect') byCategory.set(key, { shape });
    else if (first && shape.localName === 'path') first.hatching ??= shape;
  }
  const ruler = canvasContext(document.createElement('canvas'));
  ruler.font = `12px ${fontFamily}`;
  const shapes = [];
  let [x, y] = [0, height + LEGEND_LINE];
  for (const [key, { shape, hatching }] of byCategory) {
    const name = shape.dataset.legend ?? key;
    const entryWidth = ruler.measureText(name).width + LEGEND_PADDING;
    if (x > 0 && x + entryWidth > width) [x, y] = [0, y + LEGEND_LINE];
    const swatch = /** @type {SVGElement} */ (shape.cloneNode());
    setAttributes(swatch, [['x', x], ['y', y - SWATCH], ['width', SWATCH], ['height', SWATCH]]);
    shapes.push(swatch);
    if (hatching) shapes.push(hatchedSwatch(hatching, x, y));
    shapes.push(svg('text', [['x', x + 16], ['y', y], ['font-size', 12], ['fill', color]], name));
    x += entryWidth;
  }
  return { shapes, height: y - height };
}

/** The hatching of a swatch. @param {SVGElement} hatching that of a segment @param {number} x @param {number} y of the lower left corner */
function hatchedSwatch(hatching, x, y) {
  const lines = /** @type {SVGElement} */ (hatching.cloneNode());
  const half = SWATCH / 2;
  lines.setAttribute('d', `M${x} ${y - half}l${half} ${-half}M${x} ${y}l${SWATCH} ${-SWATCH}M${x + half} ${y}l${half} ${-half}`);
  return lines;
}

/** @param {HTMLCanvasElement} canvas */
function canvasContext(canvas) {
  const context = canvas.getContext('2d');
  if (!context) throw new Error('the browser has no canvas');
  return context;
}

/** @param {Element} shape @param {CSSStyleDeclaration} style */
function inlineLook(shape, style) {
  for (const [name, initial] of Object.entries(LOOK)) {
    const value = style.getPropertyValue(name);
    if (value !== initial) shape.setAttribute(name, value);
  }
  shape.removeAttribute('class');
}

/** @param {Blob} picture @param {{ width: number, height: number }} size @returns {Promise<Blob>} */
async function png(picture, { width, height }) {
  const address = URL.createObjectURL(picture);
  try {
    const image = new Image();
    image.src = address;
    await image.decode();
    const canvas = document.createElement('canvas');
    Object.assign(canvas, { width: width * SCALE, height: height * SCALE });
    canvasContext(canvas).drawImage(image, 0, 0, canvas.width, canvas.height);
    return await new Promise((resolve, reject) => {
      canvas.toBlob((file) => (file ? resolve(file) : reject(new Error('the browser cannot create an image of this size'))), 'image/png');
    });
  } finally {
    URL.revokeObjectURL(address);
  }
}
