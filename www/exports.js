// The export menu: buttons that save files, and below them the panel for sharing.

import { showPageProblem } from './cards.js';
import { byId, save, targetWithin } from './dom.js';

/** @import { Page } from './types.js' */
/** @import { SharePanel } from './share.js' */

/** @type {Record<string, [type: string, file: string]>} */
const EXPORTS = {
  json: ['application/json', 'gpuprism-report.json'],
  markdown: ['text/markdown', 'gpuprism-report.md'],
  html: ['text/html', 'gpuprism-report.html'],
};

/** @param {Page} page */
export function wireExports({ attempt, exported, requestTool }) {
  const [menu, share] = [byId('export'), byId('share')];
  menu.addEventListener('click', (event) => {
    const format = targetWithin(event, '[data-format]')?.dataset.format;
    if (!format) return;
    menu.open = false;
    attempt('The export failed', async () => save(await exported(format, ''), ...EXPORTS[format]));
  });
  /** @type {SharePanel | null} */
  let panel = null;
  share.addEventListener('click', () => attempt('The report could not be prepared', async () => {
    const { SharePanel } = await import('./share.js');
    panel ??= new SharePanel(requestTool, (message) => showPageProblem('The report could not be shared', message));
    share.setAttribute('aria-expanded', 'true');
    share.after(panel.node);
    await panel.show();
  }));
  menu.addEventListener('toggle', () => {
    panel?.node.remove();
    share.setAttribute('aria-expanded', 'false');
  });
}
