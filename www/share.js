// The panel for sharing: what to share and as what, what to replace, what would leave the page, then save or copy. The desk
// words everything. Fetched when a person asks for it.

import { el, latest, save, styled } from './dom.js';

styled('share.css');

const FORMATS = [
  ['html', 'HTML page', 'text/html', 'gpuprism-report.html'],
  ['json', 'JSON report', 'application/json', 'gpuprism-report.json'],
  ['markdown', 'Markdown', 'text/markdown', 'gpuprism-report.md'],
  ['zip', 'CSV tables, zipped', 'application/zip', 'gpuprism-tables.zip'],
  ['link', 'Link that carries it'],
];

export class SharePanel {
  node = el('form', { class: 'share-panel', 'aria-label': 'Share', submit: (event) => event.preventDefault() });

  #desk;
  #problem;
  #format = 'html';
  #slim = false;
  /** Ids of what is replaced in files and in links; null: everything. A file stays with the person who saves it. */
  #redact = { file: new Set(['secrets']), link: null };
  #kinds = el('fieldset', {});
  #slimmer = el('label', { class: 'check' });
  #preview = el('div', { class: 'share-preview', role: 'status' });
  #button = el('button', { type: 'button', class: 'primary', click: () => this.#leave() });
  #address = el('input', { type: 'text', readonly: true, 'aria-label': 'The link', hidden: true });
  #said = el('p', { class: 'note', role: 'status' });

  /** `desk()` resolves with the desk; `problem(message)` says that something failed. */
  constructor(desk, problem) {
    this.#desk = desk;
    this.#problem = problem;
    const slim = el('input', { type: 'checkbox', name: 'slim', change: ({ target }) => this.#change(() => { this.#slim = target.checked; }) });
    this.#slimmer.append(slim, el('span', {}, 'Leave out the long tables: totals, categories, top kernels and findings stay'));
    this.node.append(this.#formats(), this.#kinds, this.#slimmer, this.#preview,
      el('p', { class: 'actions' }, this.#button), this.#address, this.#said);
  }

  #formats() {
    const choice = ([id, title]) => el('label', { class: 'check' },
      el('input', { type: 'radio', name: 'format', value: id, checked: id === this.#format, change: () => this.#change(() => { this.#format = id; }) }),
      el('span', {}, title));
    return el('fieldset', {}, el('legend', {}, 'Share as'), ...FORMATS.map(choice));
  }

  #change(step) {
    step();
    this.show();
  }

  get #isLink() {
    return this.#format === 'link';
  }

  get #chosen() {
    return this.#redact[this.#isLink ? 'link' : 'file'];
  }

  #wish(known) {
    return { format: this.#format, redact: [...(this.#chosen ?? known)], slim: this.#isLink && this.#slim };
  }

  /** Asks what would leave the page as things stand, and shows it. */
  show() {
    this.#said.textContent = '';
    this.#address.hidden = true;
    this.#slimmer.hidden = !this.#isLink;
    this.#button.textContent = this.#isLink ? 'Copy link' : 'Save';
    return this.#look().catch(({ message }) => this.#problem(message));
  }

  #look = latest(
    async () => {
      const desk = await this.#desk();
      return desk.share('preview', this.#wish(await desk.share('redactions')));
    },
    (preview) => this.#draw(preview),
  );

  #draw({ redactions, file, holds, fits, length }) {
    const focused = this.node.contains(document.activeElement) ? document.activeElement.value : null;
    const chosen = this.#chosen ?? new Set(redactions.map(({ id }) => id));
    this.#kinds.replaceChildren(el('legend', {}, 'Replace with placeholders'), ...redactions.map((kind) => this.#kind(kind, chosen)));
    this.#preview.replaceChildren(
      el('h2', {}, file), el('ul', {}, ...holds.map((line) => el('li', {}, line))),
      length && el('p', { class: fits ? 'note' : 'share-long' }, length) || '');
    this.#button.disabled = !fits;
    if (focused) this.#kinds.querySelector(`[value="${focused}"]`)?.focus();
  }

  #kind({ id, title, found, none }, chosen) {
    const change = ({ target }) => this.#change(() => {
      const next = new Set(chosen);
      if (target.checked) next.add(id);
      else next.delete(id);
      this.#redact[this.#isLink ? 'link' : 'file'] = next;
    });
    return el('label', { class: none ? 'check none' : 'check' },
      el('input', { type: 'checkbox', name: 'redact', value: id, checked: chosen.has(id), change }),
      el('span', {}, title, el('small', { title: found }, found)));
  }

  /** Saves the file, or copies the link. */
  async #leave() {
    try {
      const desk = await this.#desk();
      const wish = this.#wish(await desk.share('redactions'));
      const [, , type, name] = FORMATS.find(([id]) => id === wish.format);
      if (wish.format === 'link') await this.#copy(await desk.share('link', wish));
      else save(await desk.share('file', wish), type, name);
    } catch (problem) {
      this.#problem(problem.message);
    }
  }

  async #copy(text) {
    this.#address.value = `${location.origin}${location.pathname}#report=${text}`;
    this.#address.hidden = false;
    this.#address.select();
    try {
      await navigator.clipboard.writeText(this.#address.value);
      this.#said.textContent = 'Copied. Whoever has the link has the report; no server has.';
    } catch {
      this.#said.textContent = 'The browser refused to copy: the link is selected above.';
    }
  }
}
