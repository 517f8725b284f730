// What if: what a step would take less without each cause, with a switch each. The trace's worker replays those that are switched on
// together, because savings overlap and must not be added. Loaded with the headline.

import { byId, confidenceMark, el, words } from './dom.js';

/** @import { CauseLine, Page } from './types.js' */

const SWITCH_OFF = 'Switch causes off to see the time without them. Savings overlap: they are replayed together.';

export class Causes {
  #page;
  #onSimulated;
  /** The ids of the causes that are switched on. @type {Set<string>} */
  #without = new Set();
  #status = el('p', { class: 'note causes-status', role: 'status' });
  /** The causes on screen, as text. */
  #key = '';
  /** A replay is running; the changes since then are replayed after it. */
  #isRunning = false;

  /** `onSimulated(text)` gets what a step would take; empty if no cause is switched on.
   * @param {Page} page @param {(text: string) => void} onSimulated */
  constructor(page, onSimulated) {
    this.#page = page;
    this.#onSimulated = onSimulated;
  }

  /** Shows the causes of new reports, all switched off. @param {CauseLine[]} causes @param {string} why there are none */
  show(causes, why) {
    const key = JSON.stringify([this.#page.session.reportsKey, causes, why]);
    if (key === this.#key) return;
    this.#key = key;
    this.#without.clear();
    this.#onSimulated('');
    this.#status.textContent = causes.length > 0 ? SWITCH_OFF : '';
    const table = causes.length > 0
      ? el('div', { class: 'scroll' }, el('table', { 'aria-label': 'What if' }, this.#head(), el('tbody', {}, ...causes.map((cause) => this.#row(cause)))))
      : el('p', { class: 'note' }, why || 'The trace leaves nothing to change that would save time.');
    byId('causes').replaceChildren(el('header', {}, el('h2', {}, 'What if'), this.#status), table);
  }

  /** The switches need the trace, not its report alone. */
  get #trace() {
    return this.#page.session.liveTraceOf(0);
  }

  #head() {
    const heading = (/** @type {string} */ title, className = '') => el('th', { scope: 'col', class: className }, el('span', {}, title));
    return el('thead', {}, el('tr', {}, heading('Off'), heading('Without'), heading('Saves', 'time'), heading('Share', 'share'), heading('Sure')));
  }

  /** @param {CauseLine} cause */
  #row({ id, change, subject, saves, share, confidence, basis }) {
    const place = subject.split('/').at(-1) ?? '';
    const toggle = el('input', { type: 'checkbox', 'aria-label': `${change} ${subject}`, disabled: !this.#trace });
    toggle.addEventListener('change', () => this.#toggle(id, toggle.checked));
    return el('tr', {}, el('td', {}, toggle),
      el('td', { class: 'cause', title: `${subject ? `${subject}: ` : ''}${basis}` }, change, place && ' ', place && el('code', {}, place)),
      el('td', { class: 'time' }, saves), el('td', { class: 'time' }, share), el('td', {}, confidenceMark(confidence)));
  }

  /** @param {string} id @param {boolean} isOff */
  #toggle(id, isOff) {
    if (isOff) this.#without.add(id);
    else this.#without.delete(id);
    if (!this.#isRunning) this.#page.attempt('The changes could not be replayed', () => this.#simulate());
  }

  /** Replays the causes that are switched off, until they are those of the answer. A replay is a whole analysis in the trace's worker, so only one
   * runs at a time. An answer for other results than those on screen is dropped. */
  async #simulate() {
    this.#isRunning = true;
    try {
      for (let asked = null; asked !== this.#asked();) {
        asked = this.#asked();
        const text = await this.#replayed();
        if (asked === this.#asked()) this.#say(text);
      }
    } catch (thrown) {
      this.#status.textContent = SWITCH_OFF;
      throw thrown;
    } finally {
      this.#isRunning = false;
    }
  }

  /** The results on screen and the causes that are switched off. */
  #asked() {
    return JSON.stringify([this.#key, [...this.#without]]);
  }

  async #replayed() {
    const trace = this.#trace;
    if (this.#without.size === 0 || !trace || this.#page.session.isPartial) return '';
    this.#status.textContent = 'Replaying';
    const options = { ...this.#page.session.options(trace), what_if: [...this.#without] };
    return this.#page.requestTool('simulated', { text: await trace.reader.request('whatIf', { options }) });
  }

  /** @param {string} text */
  #say(text) {
    const isOn = this.#without.size > 0;
    const unknown = isOn && !text ? 'This trace leaves open what a step takes with these changes.' : '';
    this.#status.replaceChildren(...words(text || unknown || SWITCH_OFF));
    this.#onSimulated(text || unknown);
  }
}
