// A rule for the kernel in the panel: its category from a list, and folded until another one is chosen the names that the rule matches
// and what it would take, as computed by the tools worker. Loaded with the kernel's panel.

import { button, el, latest } from './dom.js';
import { asProblem } from './problem.js';
import { OWN_RULES } from './session.js';
import { tableBlock } from './table.js';

/** @import { Page, RuleDraft } from './types.js' */
/** @import { Rules } from './rules.js' */

const CHECK_AFTER_MS = 250;
/** The choice of a category that is not in the list. */
const OTHER = '\n';

export class KernelRule {
  #page;
  #rules;
  #openRules;
  #name = '';
  #checkTimer = 0;
  /** The rule as it was last checked; null while it is unknown. @type {RuleDraft | null} */
  #draft = null;
  /** The regex that was suggested or added last. */
  #suggested = '';
  /** The own rules before the last rule was added. */
  #before = '';
  /** The person's rules after it. */
  #after = '';
  /** @type {HTMLSelectElement} */
  #category = el('select', { name: 'category', change: () => this.#onChoice() });
  /** @type {HTMLInputElement} */
  #other = el('input', { type: 'text', 'aria-label': 'Name of the category', placeholder: 'name of the category', autocomplete: 'off', size: 18, hidden: true, input: () => this.#later() });
  /** @type {HTMLInputElement} */
  #regex = el('input', { type: 'text', name: 'regex', autocomplete: 'off', spellcheck: 'false', autocapitalize: 'off', 'aria-describedby': 'kernel-rule-status', input: () => this.#later() });
  #add = button('Add the rule', () => this.#run(() => this.#apply()), { class: 'primary' });
  #undo = button('Undo', () => this.#run(() => this.#revert()), { hidden: true });
  #status = el('p', { id: 'kernel-rule-status', class: 'note', role: 'status' });
  #preview = el('div');
  #details;
  node;

  /** `rules()` resolves with the rules of the person, `openRules()` opens their tab.
   * @param {Page} page @param {() => Promise<Rules>} rules @param {() => void} openRules */
  constructor(page, rules, openRules) {
    this.#page = page;
    this.#rules = rules;
    this.#openRules = openRules;
    this.#details = el('details', {}, el('summary', {}, 'Rule'),
      el('div', { class: 'actions' },
        el('label', { class: 'regex' }, 'Names that match ', this.#regex),
        this.#add, this.#undo, button('As JSON', () => this.#run(() => this.#edit()), { class: 'small', title: 'Edit the rule in the tab Rules' })),
      this.#status, this.#preview);
    this.node = el('form', { class: 'kernel-rule', 'aria-label': 'Category of this kernel', submit: (event) => {
      event.preventDefault();
      if (!this.#add.disabled) this.#run(() => this.#apply());
    } },
      el('div', { class: 'actions' }, el('label', {}, 'Category ', this.#category), this.#other), this.#details);
  }

  /** Shows the rule for a kernel; for the same kernel, what the rule takes after an analysis. @param {string} name */
  show(name) {
    if (!name) return;
    if (name !== this.#name) this.#clear(name);
    this.#run(() => this.#check());
  }

  /** @param {string} name */
  #clear(name) {
    [this.#name, this.#draft, this.#suggested] = [name, null, ''];
    this.#details.open = false;
    this.#regex.value = this.#other.value = '';
    this.#category.replaceChildren();
    this.#other.hidden = this.#undo.hidden = this.#add.disabled = true;
    this.#preview.replaceChildren();
    this.#say('');
  }

  #onChoice() {
    this.#add.disabled = true;
    this.#details.open = true;
    this.#other.hidden = this.#category.value !== OTHER;
    if (!this.#other.hidden) this.#other.focus();
    this.#run(() => this.#check());
  }

  /** The category that was chosen; empty before there is one. */
  get #chosen() {
    return this.#category.value === OTHER ? this.#other.value.trim() : this.#category.value;
  }

  #later() {
    clearTimeout(this.#checkTimer);
    this.#add.disabled = true;
    this.#checkTimer = setTimeout(() => this.#run(() => this.#check()), CHECK_AFTER_MS);
  }

  /** Asks what the rule takes. */
  #check = latest(
    () => {
      const { session, requestTool } = this.#page;
      const rule = { kernel: this.#name, regex: this.#regex.value.trim(), category: this.#chosen };
      const options = session.options({ wall: '', window: '' });
      return requestTool('ruleDraft', { options, file: OWN_RULES, text: session.ownRules?.text ?? '', ...rule });
    },
    (draft) => {
      this.node.hidden = draft === null;
      if (draft) this.#showDraft(draft);
    },
  );

  /** @param {RuleDraft} draft */
  #showDraft(draft) {
    const { categories, category, regex, problem, table } = draft;
    this.#draft = draft;
    // A category with a new name is in the list once the kernel has it.
    const isOther = this.#category.value === OTHER && this.#other.value.trim() !== category;
    const chosen = this.#category.value ? this.#chosen : category;
    if (!isOther) {
      const options = categories.map(({ name, title }) => new Option(title, name, false, name === chosen));
      this.#category.replaceChildren(...options, new Option('another …', OTHER));
      this.#other.hidden = true;
    }
    if (!this.#regex.value) this.#suggested = this.#regex.value = regex;
    const isNew = chosen !== '' && (chosen !== category || this.#regex.value.trim() !== this.#suggested);
    this.#add.disabled = problem !== '' || !isNew;
    this.#preview.replaceChildren(...(isNew && table ? [tableBlock(table)] : []));
    if (problem || isNew) this.#say(problem, true);
  }

  async #apply() {
    const before = this.#page.session.ownRules?.text ?? '';
    const stored = await (await this.#rules()).put(this.#draft?.text ?? '');
    [this.#before, this.#after] = [before, this.#page.session.ownRules?.text ?? ''];
    this.#suggested = this.#regex.value.trim();
    this.#undo.hidden = false;
    this.#add.disabled = true;
    this.#preview.replaceChildren();
    this.#say(stored);
  }

  async #revert() {
    // Rules that were changed since are not undone with it.
    if (this.#after !== (this.#page.session.ownRules?.text ?? '')) {
      this.#undo.hidden = true;
      this.#say('The rules were changed since: edit them in the tab Rules.', true);
      return;
    }
    await (await this.#rules()).put(this.#before);
    this.#clear(this.#name);
    this.#details.open = true;
    this.#say('The rule is gone.');
  }

  async #edit() {
    const text = this.#draft?.text ?? '';
    this.#openRules();
    await (await this.#rules()).edit(text);
  }

  /** @param {string} text */
  #say(text, isProblem = false) {
    this.#status.textContent = text;
    this.#status.classList.toggle('wrong', isProblem);
    this.#regex.setAttribute('aria-invalid', String(isProblem && text !== ''));
  }

  /** @param {() => Promise<unknown>} step */
  async #run(step) {
    try {
      await step();
    } catch (thrown) {
      const problem = asProblem(thrown);
      if (problem.kind !== 'cancelled') this.#say(problem.message, true);
    }
  }
}
