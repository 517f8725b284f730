// Opens files that come from another page, from the address, from an earlier visit, or from before a reload. The code for each kind is loaded only if
// there can be such files.

import { removeReport, reportInAddress } from './address.js';
import { onDemand } from './dom.js';
import { OWN_RULES_KEY } from './session.js';
import { readStored } from './storage.js';

/** @import { Page } from './types.js' */

export class ExternalFiles {
  #page;
  #linkedReport;
  #reopening;

  /** @param {Page} page */
  constructor(page) {
    this.#page = page;
    this.#linkedReport = onDemand(async () => new (await import('./link.js')).LinkedReport(page, () => removeReport(page.store.view)));
    this.#reopening = onDemand(async () => new (await import('./reopen.js')).Reopening(page));
    page.store.subscribe(['entries'], ({ entries }) => {
      if (!isEmbedded() && (entries.length > 0 || this.#reopening.loaded())) page.attempt('The open files could not be remembered', async () => (await this.#reopening()).remember());
    });
  }

  /** Opens the files that a reload closed, or offers to. */
  takeClosed() {
    const [navigation] = performance.getEntriesByType('navigation');
    const isReload = navigation instanceof PerformanceNavigationTiming && navigation.type !== 'navigate';
    if (isReload && !isEmbedded() && !new URLSearchParams(location.search).has('opened')) {
      this.#page.attempt('The files could not be opened again', async () => (await this.#reopening()).offer());
    }
  }

  /** Goes to the page that may fetch, if the address names a file on another host. */
  takeAddress() {
    const { pathname, search, hash } = location;
    if (pathname.endsWith('/open.html') || !(/[?&]url=/.test(search) || /^#!.*[?&]url=/.test(hash))) return;
    this.#page.attempt('The link could not be opened', async () => location.replace((await import('./file-link.js')).openHtmlFor(location)));
  }

  /** Takes files that open.html has left, and listens to the window around this one. */
  takeFiles() {
    const { attempt, session, openFiles } = this.#page;
    const query = new URLSearchParams(location.search);
    if (isEmbedded() || window.opener || parent !== window) {
      attempt('Messages of the embedding page cannot be received', async () => (await import('./embed.js')).listen({ session, openFiles, isEmbedded: isEmbedded() }));
    }
    const opened = query.get('opened');
    if (opened !== null) attempt('The file could not be transferred', async () => (await import('./handover.js')).receive(opened, openFiles));
  }

  /** Takes the files of `gpuprism view`, whose address the server writes into the page. */
  takeServed() {
    const list = document.querySelector('meta[name="gpuprism-files"]')?.getAttribute('content');
    if (list) this.#page.attempt('The files of gpuprism view could not be opened', async () => (await import('./served.js')).openServed(this.#page, new URL(list, location.href).href));
  }

  /** Opens the report that the address contains. */
  takeReport() {
    const text = reportInAddress();
    if (text || this.#linkedReport.loaded()) this.#page.attempt('The link could not be opened', async () => (await this.#linkedReport()).open(text));
  }

  /** True if an earlier visit stored rules. An embedded page does not use them. */
  hasStoredRules() {
    return !isEmbedded() && readStored(OWN_RULES_KEY) !== null;
  }
}

/** An embedded page gets its files from the page around it, and remembers nothing. */
const isEmbedded = () => new URLSearchParams(location.search).has('embed');
