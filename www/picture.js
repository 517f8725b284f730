// A chart as a file of its own: an SVG whose marks carry the look that they have on screen, or that drawn as a PNG. It is
// fetched when a person first saves a chart.

import { showPageProblem } from './cards.js';
import { save, svg } from './dom.js';

/**
 * What a mark's look is made of, each with what goes without saying. They are presentation attributes, which need neither
 * style sheet nor theme.
 */
const LOOK = {
  fill: '', 'fill-opacity': '1', stroke: 'none', 'stroke-width': '1px', 'stroke-opacity': '1', 'stroke-dasharray': 'none', 'stroke-linejoin': 'miter',
  'paint-order': 'normal', opacity: '1', 'font-weight': '400', 'shape-rendering': 'auto',
};

/** Pixels of a PNG for each pixel of the chart. */
const SCALE = 2;

/** Pixels around a chart, and between the lines of its legend. */
const MARGIN = 12;
const LINE = 20;

export async function savePicture(chart, type, name) {
  try {
    const copy = standalone(chart);
    const picture = new Blob([new XMLSerializer().serializeToString(copy)], { type: 'image/svg+xml' });
    if (type === 'SVG') save(picture, picture.type, `${name}.svg`);
    else save(await png(picture, copy.viewBox.baseVal), 'image/png', `${name}.png`);
  } catch (problem) {
    showPageProblem('The chart could not be saved', problem.message);
  }
}

/** A copy on the page's background that looks the same wherever it is opened. */
function standalone(chart) {
  const copy = chart.cloneNode(true);
  const { fontFamily } = getComputedStyle(chart);
  const { backgroundColor, color } = getComputedStyle(document.body);
  copy.setAttribute('font-family', fontFamily);
  copy.removeAttribute('class');
  [...chart.children].forEach((mark, at) => dress(copy.children[at], getComputedStyle(mark)));
  // Rows that are named need no legend.
  const legend = chart.querySelector('.delta-name') ? { marks: [], height: 0 } : legendOf(copy, chart.viewBox.baseVal, { fontFamily, color });
  copy.append(...legend.marks);
  const width = chart.viewBox.baseVal.width + 2 * MARGIN;
  const height = chart.viewBox.baseVal.height + legend.height + 2 * MARGIN;
  for (const [name, value] of [['width', width], ['height', height], ['viewBox', `${-MARGIN} ${-MARGIN} ${width} ${height}`]]) copy.setAttribute(name, value);
  copy.prepend(svg('rect', [['x', -MARGIN], ['y', -MARGIN], ['width', width], ['height', height], ['fill', backgroundColor]]));
  return copy;
}

/** What the colours mean, in lines below the chart: {marks, height}. */
function legendOf(copy, { width, height }, { fontFamily, color }) {
  const known = new Map();
  for (const mark of copy.querySelectorAll('rect[data-key]')) if (!known.has(mark.dataset.key)) known.set(mark.dataset.key, mark);
  const ruler = document.createElement('canvas').getContext('2d');
  ruler.font = `12px ${fontFamily}`;
  const marks = [];
  let [x, y] = [0, height + LINE];
  for (const [name, mark] of known) {
    const wide = ruler.measureText(name).width + 34;
    if (x > 0 && x + wide > width) [x, y] = [0, y + LINE];
    const swatch = mark.cloneNode();
    for (const [key, value] of [['x', x], ['y', y - 10], ['width', 10], ['height', 10]]) swatch.setAttribute(key, value);
    marks.push(swatch, svg('text', [['x', x + 16], ['y', y], ['font-size', 12], ['fill', color]], name));
    x += wide;
  }
  return { marks, height: y - height };
}

function dress(mark, look) {
  for (const [name, unsaid] of Object.entries(LOOK)) {
    const value = look.getPropertyValue(name);
    if (value !== unsaid) mark.setAttribute(name, value);
  }
  mark.removeAttribute('class');
}

async function png(picture, { width, height }) {
  const address = URL.createObjectURL(picture);
  try {
    const image = new Image();
    image.src = address;
    await image.decode();
    const canvas = document.createElement('canvas');
    Object.assign(canvas, { width: width * SCALE, height: height * SCALE });
    canvas.getContext('2d').drawImage(image, 0, 0, canvas.width, canvas.height);
    return await new Promise((done, fail) => {
      canvas.toBlob((file) => (file ? done(file) : fail(new Error('the browser makes no picture of this size'))), 'image/png');
    });
  } finally {
    URL.revokeObjectURL(address);
  }
}
