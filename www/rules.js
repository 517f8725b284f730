// The rule workbench: the effect of each rule in force, the kernels left in misc, and an editor for the person's own rules, which
// become a rule file of the session and are stored in this browser. Loaded when its tab opens, or if rules were stored earlier.

import { actions } from './cards.js';
import { CallCounter, button, byId, el, loadStyleSheet, note, save, targetWithin } from './dom.js';
import { asProblem } from './problem.js';
import { OWN_RULES, OWN_RULES_KEY } from './session.js';
import { readStored, store } from './storage.js';

/** @import { Cell, Column, Page, Table, TableRequest } from './types.js' */

loadStyleSheet('rules.css');

const CHECK_AFTER_MS = 250;
const PLACEHOLDER = '{\n  "gpuprism": {\n    "default": {\n      "my_fused_gemm": "gemm"\n    }\n  }\n}';
const JSON_TYPE = 'application/json';

/** For each table the button in its rows, and the column with the button's argument.
 * @type {Record<string, { label: string, column: string }>} */
const ACTIONS = { rules_in_force: { label: 'Edit', column: 'regex' }, rules_misc: { label: 'Make a rule', column: 'kernel_name' } };

export class Rules {
  #session;
  #requestTool;
  #redraw;
  /** The text that is in force; empty for none. */
  #appliedText = '';
  #checks = new CallCounter();
  #checkTimer = 0;
  #editor = el('textarea', {
    id: 'own-rules', spellcheck: 'false', autocomplete: 'off', autocapitalize: 'off', rows: '14',
    'aria-label': 'Own rules as JSON', 'aria-describedby': 'own-rules-status', placeholder: PLACEHOLDER,
  });
  #status = el('p', { id: 'own-rules-status', class: 'note', role: 'status' });
  #apply = button('Apply', () => this.#run(() => this.#applyChecked(this.#editor.value)), { class: 'primary' });
  #forget = button('Forget', () => {
    const { ownRules } = this.#session;
    if (ownRules) this.#session.remove(ownRules);
  });
  #file = el('input', { type: 'file', accept: `.json,${JSON_TYPE}`, hidden: true, 'aria-label': 'Rule file to import' });
  #panel;
  #exportLine;

  /** `redraw()` draws the tables again. @param {Page} page @param {() => void} redraw */
  constructor({ store, session, requestTool }, redraw) {
    store.subscribe(['entries'], () => this.#forgetClosed());
    this.#session = session;
    this.#requestTool = requestTool;
    this.#redraw = redraw;
    this.#editor.addEventListener('input', () => {
      clearTimeout(this.#checkTimer);
      this.#checkTimer = setTimeout(() => this.#run(() => this.#check()), CHECK_AFTER_MS);
    });
    this.#file.addEventListener('change', () => this.#run(() => this.#import()));
    this.#panel = el('details', { id: 'rules', class: 'own-rules', hidden: true },
      el('summary', { class: 'button' }, 'Own rules'), el('div', { class: 'own-rules-body' },
        note('Your rules have priority over all others of their engine and model; among your own, the first that matches a kernel’s name counts. Applied rules stay in this browser until you forget them.'),
        this.#editor, this.#status,
        actions(this.#apply, button('Import', () => this.#file.click()),
          button('Export own rules', () => save(this.#editor.value, JSON_TYPE, 'own-rules.json')), this.#forget),
        this.#file));
    this.#exportLine = el('div', { class: 'actions rules-export', hidden: true }, button('Export the active rules', () => this.#run(() => this.#export()), { id: 'export-rules' }),
      el('span', { class: 'note' }, 'JSON that gputrc2graph loads. It matches the names in the trace; rules of the engine gpuprism match readable names.'));
    byId('blocks').before(this.#panel, this.#exportLine);
    byId('blocks').addEventListener('click', (event) => {
      const { rule, of: table } = targetWithin(event, 'button[data-rule]')?.dataset ?? {};
      if (rule !== undefined && table !== undefined) this.#run(() => this.#draft(table, rule));
    });
    this.#showApplied();
  }

  /** The options of an analysis of the whole trace. */
  get #options() {
    return this.#session.options({ wall: '', window: '' });
  }

  /** @param {boolean} isOpen */
  show(isOpen) {
    this.#panel.hidden = !isOpen;
    this.#exportLine.hidden = !isOpen;
  }

  /** The table with a button in each row. @param {TableRequest} request @returns {Promise<Table | null>} */
  async table(request) {
    const table = await this.#requestTool('workbench', { options: this.#options, request });
    if (!table) return null;
    const { label, column } = ACTIONS[request.id];
    const index = table.columns.findIndex(({ key }) => key === column);
    /** @type {Column} */
    const buttons = { key: 'action', title: label, kind: 'action', sort: 'none' };
    const rowButton = (/** @type {Cell} */ cell) => ({ text: label, title: cell.title || cell.text, class: request.id });
    return {
      ...table,
      columns: table.columns.toSpliced(index + 1, 0, buttons),
      rows: table.rows.map((cells) => cells.toSpliced(index + 1, 0, rowButton(cells[index]))),
    };
  }

  /** The same table as CSV, with all rows. @param {TableRequest} request */
  csv = (request) => this.#requestTool('workbenchCsv', { options: this.#options, request });

  /** Applies the rules that an earlier visit stored. */
  async restore() {
    const text = readStored(OWN_RULES_KEY);
    if (!text) return;
    this.#editor.value = text;
    await this.#setRules(text);
  }

  /** If the person closed the chip of the own rules, they are forgotten. */
  #forgetClosed() {
    if (this.#appliedText && !this.#session.ownRules) this.#onForgotten(this.#appliedText);
  }

  /** @param {string} text */
  async #applyChecked(text) {
    if (await this.#check()) return;
    this.#showStatus(await this.put(text));
  }

  /** Replaces the own rules by a valid text, or forgets them if it is empty. Resolves with what happened. @param {string} text */
  async put(text) {
    this.#editor.value = text;
    const isStored = store(OWN_RULES_KEY, text);
    if (text) {
      await this.#setRules(text);
      return isStored ? 'Applied, and stored in this browser.' : 'Applied. This browser has no storage for the page: the rules last until the tab is closed.';
    }
    this.#appliedText = '';
    const { ownRules } = this.#session;
    if (ownRules) this.#session.remove(ownRules);
    this.#showApplied();
    return '';
  }

  /** Opens the editor with a text. @param {string} text */
  async edit(text) {
    this.#editor.value = text;
    this.#panel.open = true;
    this.#editor.focus();
    await this.#run(() => this.#check());
  }

  /** @param {string} text */
  async #setRules(text) {
    await this.#session.setOwnRules(text);
    this.#appliedText = text;
    this.#showApplied();
    this.#redraw();
  }

  /** Checks the text in the editor and shows its problem. Resolves with the problem; empty if there is none. */
  async #check() {
    const isLast = this.#checks.start();
    const text = this.#editor.value;
    const isEmpty = !text.trim();
    const problem = isEmpty ? 'There is no rule yet.' : await this.#requestTool('checkRules', { file: OWN_RULES, text });
    if (!isLast()) return problem;
    this.#apply.disabled = problem !== '';
    const valid = text === this.#appliedText ? '' : 'These rules are valid. They take effect when you apply them.';
    this.#showStatus(problem || valid, problem !== '' && !isEmpty);
    return problem;
  }

  /** Adds a rule to the text and selects its category. @param {string} table @param {string} rule */
  async #draft(table, rule) {
    const args = { options: this.#options, file: OWN_RULES, text: this.#editor.value };
    const [text, regex] = table === 'rules_misc'
      ? await this.#requestTool('ruleForKernel', { ...args, kernel: rule })
      : await this.#requestTool('ruleToEdit', { ...args, regex: rule });
    this.#editor.value = text;
    this.#panel.open = true;
    const start = text.indexOf(`${regex}: "`);
    const category = start + regex.length + 3;
    this.#editor.focus();
    if (start >= 0) this.#editor.setSelectionRange(category, text.indexOf('"', category));
    this.#panel.scrollIntoView({ block: 'nearest' });
    await this.#check();
  }

  async #import() {
    const file = this.#file.files?.[0];
    if (!file) return;
    this.#editor.value = await file.text();
    this.#file.value = '';
    await this.#check();
  }

  async #export() {
    const { name, text } = await this.#requestTool('rulesJson', { options: this.#options });
    save(text, JSON_TYPE, name);
  }

  /** @param {string} text */
  #onForgotten(text) {
    this.#appliedText = '';
    this.#editor.value = '';
    store(OWN_RULES_KEY, '');
    this.#showApplied();
    this.#showStatus('');
    this.#redraw();
    const undo = async () => {
      node.remove();
      this.#editor.value = text;
      await this.#run(() => this.#applyChecked(text));
    };
    const node = el('article', { class: 'card', role: 'status', id: 'rules-forgotten' }, el('h2', {}, 'Your own rules are forgotten'),
      el('p', {}, 'They are no longer active and no longer stored in this browser.'));
    node.append(actions(button('Put them back', undo), button('Dismiss', () => node.remove())));
    document.getElementById('rules-forgotten')?.remove();
    byId('cards').append(node);
  }

  #showApplied() {
    this.#forget.hidden = !this.#appliedText;
    this.#apply.disabled = !this.#editor.value.trim();
    if (this.#appliedText) this.#panel.open = true;
  }

  /** @param {string} text */
  #showStatus(text, isProblem = false) {
    this.#status.textContent = text;
    this.#status.classList.toggle('wrong', isProblem);
    this.#editor.setAttribute('aria-invalid', String(isProblem));
  }

  /** @param {() => Promise<unknown>} step */
  async #run(step) {
    try {
      await step();
    } catch (thrown) {
      const problem = asProblem(thrown);
      if (problem.kind !== 'cancelled') this.#showStatus(problem.message, true);
    }
  }
}
