// A chart as a file of its own: an SVG whose marks carry the look that they have on screen, or that drawn as a PNG. It is
// fetched when a person first saves a chart.

import { showPageProblem } from './cards.js';
import { save, svg } from './dom.js';

/**
 * What a mark's look is made of, each with what goes without saying. They are presentation attributes, which need neither
 * style sheet nor theme.
 */
const LOOK = {
  fill: '', 'fill-opacity': '1', stroke: 'none', 'stroke-width': '1px', 'stroke-opacity': '1', 'stroke-linejoin': 'miter',
  'paint-order': 'normal', opacity: '1', 'font-weight': '400', 'shape-rendering': 'auto',
};

/** Pixels of a PNG for each pixel of the chart. */
const SCALE = 2;

export async function savePicture(chart, type, name) {
  try {
    const picture = new Blob([new XMLSerializer().serializeToString(standalone(chart))], { type: 'image/svg+xml' });
    if (type === 'SVG') save(picture, picture.type, `${name}.svg`);
    else save(await png(picture, chart), 'image/png', `${name}.png`);
  } catch (problem) {
    showPageProblem('The chart could not be saved', problem.message);
  }
}

/** A copy on the page's background that looks the same wherever it is opened. */
function standalone(chart) {
  const copy = chart.cloneNode(true);
  const { fontFamily } = getComputedStyle(chart);
  copy.setAttribute('font-family', fontFamily);
  copy.removeAttribute('class');
  [...chart.children].forEach((mark, at) => dress(copy.children[at], getComputedStyle(mark)));
  const { width, height } = chart.viewBox.baseVal;
  const background = getComputedStyle(document.body).backgroundColor;
  copy.prepend(svg('rect', [['width', width], ['height', height], ['fill', background]]));
  return copy;
}

function dress(mark, look) {
  for (const [name, unsaid] of Object.entries(LOOK)) {
    const value = look.getPropertyValue(name);
    if (value !== unsaid) mark.setAttribute(name, value);
  }
  mark.removeAttribute('class');
}

async function png(picture, chart) {
  const { width, height } = chart.viewBox.baseVal;
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
