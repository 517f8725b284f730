// A chart with its title, note and table, as a worker computed it. Shared by the dashboard and the tab Model, loaded with the first of
// them.

import { chartSvg, saveMenu } from './chart.js';
import { button, copyButton, el } from './dom.js';

/** @import { DashboardPanel, Page } from './types.js' */

/** @type {Promise<void> | null} */
let chartStyle = null;

/** Loads the style of these charts from the worker, once. @param {Page['requestTool']} requestTool */
export function loadChartStyle(requestTool) {
  chartStyle ??= fetchChartStyle(requestTool).catch((problem) => {
    chartStyle = null;
    throw problem;
  });
  return chartStyle;
}

/** @param {Page['requestTool']} requestTool */
async function fetchChartStyle(requestTool) {
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(await requestTool('dashboardCss', {}));
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
}

/** `openTable(id)` opens the table with the numbers of the chart. @param {DashboardPanel} panel @param {(table: string) => void} openTable */
export function panelFigure({ id, title, note, chart, gap, table, is_wide: isWide }, openTable) {
  const place = el('div', {}, chart && chartSvg(chart));
  const toTable = button('Table', () => openTable(table), { class: 'small', 'aria-label': `${title}: show the table` });
  return el('figure', { 'data-panel': id, class: isWide ? 'wide' : '' },
    el('figcaption', {}, el('span', {}, title), toTable, chart && saveMenu(() => place.querySelector('svg'), `gpuprism-${id}`)),
    note && el('p', { class: 'note' }, note), gap && gapNote(...gap), place);
}

/** States why a chart is missing, and the command that captures its data. @param {string} why @param {string} recapture */
function gapNote(why, recapture) {
  return el('div', { class: 'gap' }, el('p', {}, why), recapture && el('code', {}, recapture), recapture && el('div', {}, copyButton(recapture, 'Copy command')));
}
