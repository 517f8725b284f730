// The export menu: buttons that save files, and below them the panel for sharing and the link to the view.

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
export function wireExports({ attempt, exported, requestTool, session }) {
  const [menu, share, link] = [byId('export'), byId('share'), byId('link')];
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
  link.addEventListener('click', () => attempt('The link could not be copied', async () => {
    const { copyViewLink } = await import('./view-link.js');
    const outcome = await copyViewLink(session);
    menu.querySelector('.view-link')?.remove();
    link.after(outcome);
  }));
  menu.addEventListener('toggle', () => {
    menu.querySelector('.view-link')?.remove();
    panel?.node.remove();
    share.setAttribute('aria-expanded', 'false');
  });
}
