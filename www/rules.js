// The rule workbench: what each rule in force does, what is left in misc, and the person's own rules, which are edited here,
// applied as a rule file of the session and kept in this browser. It is fetched when its tab opens, or when rules were kept.

import { byId, el, save, styled } from './dom.js';
import { KEPT_RULES, OWN_RULES } from './session.js';

styled('rules.css');

const CHECK_AFTER_MS = 250;
const SHAPE = '{\n  "gpuprism": {\n    "default": {\n      "my_fused_gemm": "gemm"\n    }\n  }\n}';

/** What a row of each table offers, and the column that says of what. */
const ACTIONS = { rules_in_force: ['Edit', 'regex'], rules_misc: ['Make a rule', 'kernel_name'] };

export class Rules {
  #session;
  #openDesk;
  #redraw;
  /** The text that counts now. */
  #applied = '';
  #checks = 0;
  #timer = 0;
  #text = el('textarea', { id: 'own-rules', spellcheck: 'false', autocomplete: 'off', autocapitalize: 'off', rows: '14', 'aria-label': 'Own rules as JSON', 'aria-describedby': 'own-rules-said', placeholder: SHAPE });
  #said = el('p', { id: 'own-rules-said', class: 'note', role: 'status' });
  #apply = el('button', { type: 'button', class: 'primary', click: () => this.#run(() => this.#use(this.#text.value)) }, 'Apply');
  #forget = el('button', { type: 'button', click: () => this.#session.remove(this.#entry) }, 'Forget');
  #file = el('input', { type: 'file', accept: '.json,application/json', hidden: true, 'aria-label': 'Rule file to import' });
  #panel;
  #all;

  /** `redraw()` draws the tables anew. */
  constructor(session, openDesk, redraw) {
    this.#session = session;
    this.#openDesk = openDesk;
    this.#redraw = redraw;
    this.#text.addEventListener('input', () => {
      clearTimeout(this.#timer);
      this.#timer = setTimeout(() => this.#run(() => this.#check()), CHECK_AFTER_MS);
    });
    this.#file.addEventListener('change', () => this.#run(() => this.#import()));
    const button = (words, click) => el('button', { type: 'button', click }, words);
    this.#panel = el('details', { id: 'rules', class: 'own-rules' },
      el('summary', { class: 'button' }, 'Own rules'), el('div', { class: 'own-rules-body' }, el('p', { class: 'note' }, 'Your rules stand before all others of their engine and model; of your own, the first that is found in a kernel’s name counts. Applied, they stay in this browser until you forget them.'),
      this.#text, this.#said,
      el('p', { class: 'actions' }, this.#apply, button('Import', () => this.#file.click()),
        button('Export own rules', () => save(this.#text.value, 'application/json', 'own-rules.json')), this.#forget),
      this.#file));
    this.#all = el('div', { class: 'actions rules-all' }, el('button', { type: 'button', id: 'export-rules', click: () => this.#run(() => this.#export()) }, 'Export the rules in force'),
      el('span', { class: 'note' }, 'JSON that gputrc2graph loads. It looks at names as they stand in the trace; rules of the engine gpuprism look at readable ones.'));
    byId('blocks').before(this.#panel, this.#all);
    byId('blocks').addEventListener('click', ({ target }) => {
      const { rule, of } = target.closest('button[data-rule]')?.dataset ?? {};
      if (rule !== undefined) this.#run(() => this.#draft(of, rule));
    });
    this.#draw();
  }

  get #entry() {
    return this.#session.ownRules;
  }

  get #choices() {
    return this.#session.options({ wall: '', window: '' });
  }

  show(isUp) {
    this.#panel.hidden = !isUp;
    this.#all.hidden = !isUp;
  }

  /** Resolves with a table, each row with what can be done about it. */
  async table(request) {
    const view = await (await this.#openDesk()).workbench(this.#choices, request);
    const [words, key] = ACTIONS[request.id];
    const at = view.columns.findIndex((column) => column.key === key);
    const action = (cell) => ({ text: words, title: cell.title || cell.text, class: request.id });
    return {
      ...view,
      columns: view.columns.toSpliced(at + 1, 0, { key: 'action', title: words, kind: 'action', sort: 'none' }),
      rows: view.rows.map((cells) => cells.toSpliced(at + 1, 0, action(cells[at]))),
    };
  }

  /** Resolves with the text of a CSV of all rows. */
  csv = async (request) => (await this.#openDesk()).workbenchCsv(this.#choices, request);

  /** The rules that were kept at an earlier visit. */
  async restore() {
    const text = kept();
    if (!text) return;
    this.#text.value = text;
    await this.#count(text);
  }

  /** The files changed: whoever closed the chip wanted the rules forgotten. */
  check() {
    if (this.#applied && !this.#entry) this.#forgotten(this.#applied);
  }

  async #use(text) {
    if (await this.#check()) return;
    await this.#count(text);
    const isKept = keep(text);
    this.#say(isKept ? 'Applied, and kept in this browser.' : 'Applied. This browser lends no storage: they last until the tab is closed.');
  }

  async #count(text) {
    await this.#session.keepRules(text);
    this.#applied = text;
    this.#draw();
    this.#redraw();
  }

  /** Resolves with what is wrong with the text, which is said; an empty one is as good as none. */
  async #check() {
    const mine = ++this.#checks;
    const text = this.#text.value;
    const wrong = text.trim() ? await (await this.#openDesk()).checkRules(OWN_RULES, text) : 'There is no rule yet.';
    if (mine !== this.#checks) return wrong;
    this.#apply.disabled = wrong !== '';
    this.#say(wrong || (text === this.#applied ? '' : 'Nothing is wrong with these rules; they do not count before they are applied.'), wrong !== '' && text.trim() !== '');
    return wrong;
  }

  /** Puts a rule for a kernel, or one that is in force, into the text, with the caret in its category. */
  async #draft(of, rule) {
    const desk = await this.#openDesk();
    const ask = of === 'rules_misc' ? desk.ruleForKernel : desk.ruleToEdit;
    const [text, regex] = await ask(this.#choices, OWN_RULES, this.#text.value, rule);
    this.#text.value = text;
    this.#panel.open = true;
    const line = text.indexOf(`${regex}: "`);
    const from = line + regex.length + 3;
    this.#text.focus();
    if (line >= 0) this.#text.setSelectionRange(from, text.indexOf('"', from));
    this.#panel.scrollIntoView({ block: 'nearest' });
    await this.#check();
  }

  async #import() {
    const [file] = this.#file.files;
    if (!file) return;
    this.#text.value = await file.text();
    this.#file.value = '';
    await this.#check();
  }

  async #export() {
    const { name, text } = await (await this.#openDesk()).rulesJson(this.#choices);
    save(text, 'application/json', name);
  }

  #forgotten(text) {
    this.#applied = '';
    this.#text.value = '';
    drop();
    this.#draw();
    this.#say('');
    this.#redraw();
    const back = async () => {
      node.remove();
      this.#text.value = text;
      await this.#run(() => this.#use(text));
    };
    const node = el('article', { class: 'card', role: 'status', id: 'rules-forgotten' }, el('h2', {}, 'Your own rules are forgotten'),
      el('p', {}, 'They no longer count and are no longer kept in this browser.'),
      el('p', { class: 'actions' }, el('button', { type: 'button', click: back }, 'Put them back'), el('button', { type: 'button', click: () => node.remove() }, 'Dismiss')));
    byId('rules-forgotten')?.remove();
    byId('cards').append(node);
  }

  #draw() {
    this.#forget.hidden = !this.#applied;
    this.#apply.disabled = !this.#text.value.trim();
    if (this.#applied) this.#panel.open = true;
  }

  #say(words, isWrong = false) {
    this.#said.textContent = words;
    this.#said.classList.toggle('wrong', isWrong);
    this.#text.setAttribute('aria-invalid', String(isWrong));
  }

  async #run(step) {
    try {
      await step();
    } catch (problem) {
      if (problem.kind !== 'cancelled') this.#say(problem.message, true);
    }
  }
}

function kept() {
  try {
    return localStorage.getItem(KEPT_RULES);
  } catch {
    return null;
  }
}

function keep(text) {
  try {
    localStorage.setItem(KEPT_RULES, text);
    return true;
  } catch {
    return false;
  }
}

function drop() {
  try {
    localStorage.removeItem(KEPT_RULES);
  } catch {
    // Then nothing was kept.
  }
}
