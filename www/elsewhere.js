// Files that come from elsewhere than a person's hand: another page, the address, an earlier visit's rules. The code for
// each is fetched if there can be any.

import { forgetReport, reportInAddress } from './address.js';
import { onDemand } from './dom.js';
import { KEPT_RULES } from './session.js';

export class Elsewhere {
  #page;
  /** What holds the report of the address. */
  #carried;

  /** `page` is what app.js lends its parts. */
  constructor(page) {
    this.#page = page;
    const { session, openDesk, openFiles } = page;
    this.#carried = onDemand(async () => new (await import('./link.js')).Carried({ desk: openDesk, session, openFiles, forget: () => forgetReport(page.view) }));
  }

  /** Files that open.html left, or another window hands over. */
  takeFiles() {
    const { attempt, session, openFiles } = this.#page;
    const asked = new URLSearchParams(location.search);
    const embedded = asked.has('embed');
    if (embedded || window.opener || parent !== window) {
      attempt('The page around this one was not heard', async () => (await import('./embed.js')).hear({ session, openFiles, embedded }));
    }
    if (asked.has('opened')) attempt('The file could not be taken over', async () => (await import('./handover.js')).receive(asked.get('opened'), openFiles));
  }

  /** A report that the address itself carries. */
  takeReport() {
    const text = reportInAddress();
    if (text || this.#carried.begun()) this.#page.attempt('The link could not be opened', async () => (await this.#carried()).take(text));
  }

  /** Were rules kept at an earlier visit? A page around this one wants its own look. */
  hasRules() {
    try {
      return !new URLSearchParams(location.search).has('embed') && localStorage.getItem(KEPT_RULES) !== null;
    } catch {
      return false;
    }
  }

  /** The files changed. */
  filesChanged() {
    this.#carried.begun()?.then((report) => report.check(), () => {});
  }
}
