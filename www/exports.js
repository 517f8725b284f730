// The menu of exports: files to save, and the panel for sharing, which unfolds under its buttons.

import { byId, save } from './dom.js';
import { showPageProblem } from './cards.js';

const EXPORTS = {
  json: ['application/json', 'gpuprism-report.json'],
  markdown: ['text/markdown', 'gpuprism-report.md'],
  html: ['text/html', 'gpuprism-report.html'],
};

/** `page` is what app.js lends its parts. */
export function wireExports({ attempt, exported, openDesk }) {
  byId('export').addEventListener('click', ({ target }) => {
    const { format } = target.dataset;
    if (!format) return;
    byId('export').open = false;
    attempt('The export failed', async () => save(await exported(format, ''), ...EXPORTS[format]));
  });
  let panel = null;
  byId('share').addEventListener('click', () => attempt('The report could not be prepared', async () => {
    const { SharePanel } = await import('./share.js');
    panel ??= new SharePanel(openDesk, (message) => showPageProblem('The report could not be shared', message));
    byId('share').setAttribute('aria-expanded', 'true');
    byId('share').after(panel.node);
    await panel.show();
  }));
  byId('export').addEventListener('toggle', () => {
    panel?.node.remove();
    byId('share').setAttribute('aria-expanded', 'false');
  });
}
