// The panel for sharing: the format, the redactions, a preview of the shared contents, and a button that saves or copies.
// A worker computes the preview. Loaded when a person opens it.

import { actions } from './cards.js';
import { button, el, latest, loadStyleSheet, save } from './dom.js';
import { asProblem } from './problem.js';

/** @import { Page, Redaction, SharePreview, ShareRequest } from './types.js' */

loadStyleSheet('share.css');

/** @type {{ id: string, title: string, type?: string, file?: string }[]} */
const FORMATS = [
  { id: 'html', title: 'HTML page', type: 'text/html', file: 'gpuprism-report.html' },
  { id: 'json', title: 'JSON report', type: 'application/json', file: 'gpuprism-report.json' },
  { id: 'markdown', title: 'Markdown', type: 'text/markdown', file: 'gpuprism-report.md' },
  { id: 'zip', title: 'CSV tables, zipped', type: 'application/zip', file: 'gpuprism-tables.zip' },
  { id: 'link', title: 'Link that contains it' },
];

export class SharePanel {
  node = el('form', { class: 'share-panel', 'aria-label': 'Share', submit: (event) => event.preventDefault() });

  #requestTool;
  #onProblem;
  #format = 'html';
  /** Whether a link leaves out the long tables; null until a person chooses: then it does if it would be too long with them.
   * @type {boolean | null} */
  #isSlim = null;
  /** Ids of the redactions in files and in links; null for all.
   * @type {{ file: Set<string> | null, link: Set<string> | null }} */
  #redactions = { file: new Set(['secrets']), link: null };
  #kinds = el('fieldset', {});
  #slim = el('input', { type: 'checkbox', name: 'slim' });
  #slimLabel = el('label', { class: 'check' }, this.#slim, el('span', {}, 'Leave out the long tables: totals, categories, top kernels and findings stay'));
  #preview = el('div', { class: 'share-preview', role: 'status' });
  #button = button('', () => this.#share(), { class: 'primary' });
  #address = el('input', { type: 'text', readonly: true, 'aria-label': 'The link', hidden: true });
  #status = el('p', { class: 'note', role: 'status' });

  /** @param {Page['requestTool']} requestTool @param {(message: string) => void} onProblem */
  constructor(requestTool, onProblem) {
    this.#requestTool = requestTool;
    this.#onProblem = onProblem;
    this.#slim.addEventListener('change', () => {
      this.#isSlim = this.#slim.checked;
      this.show();
    });
    this.node.append(this.#formats(), this.#kinds, this.#slimLabel, this.#preview, actions(this.#button), this.#address, this.#status);
  }

  #formats() {
    const choices = FORMATS.map(({ id, title }) => {
      const change = () => {
        this.#format = id;
        this.show();
      };
      return el('label', { class: 'check' }, el('input', { type: 'radio', name: 'format', value: id, checked: id === this.#format, change }), el('span', {}, title));
    });
    return el('fieldset', {}, el('legend', {}, 'Share as'), ...choices);
  }

  get #isLink() {
    return this.#format === 'link';
  }

  get #chosen() {
    return this.#redactions[this.#isLink ? 'link' : 'file'];
  }

  /** @returns {Promise<ShareRequest>} */
  async #request() {
    const all = await this.#requestTool('shareRedactions', {});
    return { format: this.#format, redact: [...(this.#chosen ?? all)], ...(this.#isSlim === null ? {} : { slim: this.#isSlim }) };
  }

  /** Shows what would be shared with the current choices. */
  async show() {
    this.#status.textContent = '';
    this.#address.hidden = true;
    this.#slimLabel.hidden = !this.#isLink;
    this.#button.textContent = this.#isLink ? 'Copy link' : 'Save';
    this.#showChosen();
    try {
      await this.#showPreview();
    } catch (thrown) {
      this.#onProblem(asProblem(thrown).message);
    }
  }

  #showPreview = latest(
    async () => {
      return this.#requestTool('sharePreview', { request: await this.#request() });
    },
    (preview) => this.#draw(preview),
  );

  /** The boxes of the redactions. @returns {NodeListOf<HTMLInputElement>} */
  get #boxes() {
    return this.#kinds.querySelectorAll('[name=redact]');
  }

  /** Ticks the boxes of the format that is chosen now. The preview of another format may still be on its way: a click on a box must change
   * nothing but that box. */
  #showChosen() {
    const chosen = this.#chosen;
    for (const box of this.#boxes) box.checked = chosen?.has(box.value) ?? true;
  }

  /** @param {SharePreview} preview */
  #draw({ redactions, file, contents, fits, length, slim }) {
    const { activeElement } = document;
    const focused = activeElement instanceof HTMLInputElement && this.#kinds.contains(activeElement) ? activeElement.value : null;
    this.#kinds.replaceChildren(el('legend', {}, 'Replace with placeholders'), ...redactions.map((kind) => this.#kind(kind)));
    this.#showChosen();
    if (this.#isLink) this.#slim.checked = slim;
    this.#preview.replaceChildren(el('h2', {}, file), el('ul', {}, ...contents.map((line) => el('li', {}, line))));
    if (length) this.#preview.append(el('p', { class: fits ? 'note' : 'share-long' }, length));
    this.#button.disabled = !fits;
    /** @type {HTMLElement | null} */
    const again = focused ? this.#kinds.querySelector(`[value="${focused}"]`) : null;
    again?.focus();
  }

  /** @param {Redaction} redaction */
  #kind({ id, title, found, none }) {
    const box = el('input', { type: 'checkbox', name: 'redact', value: id });
    box.addEventListener('change', () => this.#choose());
    return el('label', { class: none ? 'check none' : 'check' }, box, el('span', {}, title, el('small', { title: found }, found)));
  }

  /** Takes the redactions of the chosen format from the boxes, which show them. */
  #choose() {
    const chosen = [...this.#boxes].filter(({ checked }) => checked).map(({ value }) => value);
    this.#redactions[this.#isLink ? 'link' : 'file'] = new Set(chosen);
    this.show();
  }

  /** Saves the file, or copies the link. */
  async #share() {
    try {
      const request = await this.#request();
      const format = FORMATS.find(({ id }) => id === request.format);
      if (format?.type && format.file) save(await this.#requestTool('shareFile', { request }), format.type, format.file);
      else await this.#copy(await this.#requestTool('shareLink', { request }));
    } catch (thrown) {
      this.#onProblem(asProblem(thrown).message);
    }
  }

  /** @param {string} report */
  async #copy(report) {
    this.#address.value = `${location.origin}${location.pathname}#report=${report}`;
    this.#address.hidden = false;
    this.#address.select();
    try {
      await navigator.clipboard.writeText(this.#address.value);
      this.#status.textContent = 'Copied. The link itself contains the report: anybody who has the link can read it, and no server stores it.';
    } catch {
      this.#status.textContent = 'The browser refused to copy: the link is selected above.';
    }
  }
}
