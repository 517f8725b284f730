// The columns of a table: its menu hides some, and a note at its heading says how many are hidden and how many are out of sight.
// Loaded with the first table.

import { button, el } from './dom.js';
import { hiddenColumnsOf, keepHiddenColumns } from './table.js';

/** @import { DrawnColumn } from './table.js' */

/** The part of a heading that must be in sight. */
const IN_SIGHT = 0.9;

export class ColumnsOfTable {
  #id;
  #frame;
  #columns;
  #note;
  /** @type {HTMLTableCellElement[]} */
  #headings;
  /** @type {Set<Element>} */
  #inSight = new Set();
  /** @type {HTMLInputElement[]} */
  #boxes = [];

  /** @param {{ id: string, frame: HTMLElement, columns: DrawnColumn[], note: HTMLElement, menu: HTMLDetailsElement | false }} table */
  constructor({ id, frame, columns, note, menu }) {
    this.#id = id;
    this.#frame = frame;
    this.#columns = columns;
    this.#note = note;
    this.#headings = [...frame.querySelectorAll('th')];
    if (menu) {
      menu.addEventListener('toggle', () => menu.open && this.#fillMenu(menu));
      if (menu.open) this.#fillMenu(menu);
    }
    const observer = new IntersectionObserver((entries) => {
      for (const { target, intersectionRatio } of entries) this.#inSight[intersectionRatio > IN_SIGHT ? 'add' : 'delete'](target);
      this.#showNote();
    }, { root: frame, threshold: IN_SIGHT });
    for (const heading of this.#headings) observer.observe(heading);
  }

  #showNote() {
    const hidden = this.#columns.filter(({ isHidden }) => isHidden).length;
    const cut = this.#headings.filter((heading) => !heading.hidden && !this.#inSight.has(heading)).length;
    this.#frame.classList.toggle('cut', cut > 0);
    this.#note.replaceChildren(
      el('span', {}, hidden > 0 ? `${inWords(hidden)} hidden` : ''),
      el('span', { class: 'on-screen' }, cut > 0 ? `${inWords(cut, 'more ')}: scroll sideways` : ''));
  }

  /** A check box for each column. The last column in the table cannot be hidden. @param {HTMLElement} menu */
  #fillMenu(menu) {
    this.#boxes = this.#columns.map((column) => el('input', { type: 'checkbox', change: () => this.#hide(column, !column.isHidden) }));
    const labels = this.#columns.map(({ key, title }, index) => el('label', {}, this.#boxes[index], title || key));
    menu.lastElementChild?.replaceChildren(...labels, button('Show all', () => this.#showAll()));
    this.#showChoice();
  }

  /** @param {DrawnColumn} column @param {boolean} isHidden */
  #hide(column, isHidden) {
    column.isHidden = isHidden;
    this.#apply();
  }

  #showAll() {
    for (const column of this.#columns) column.isHidden = false;
    this.#apply();
  }

  /** Shows and keeps what was chosen. Hidden columns that this table does not have now stay hidden. */
  #apply() {
    const keys = hiddenColumnsOf(this.#id);
    for (const { key, isHidden } of this.#columns) keys[isHidden ? 'add' : 'delete'](key);
    keepHiddenColumns(this.#id, keys);
    for (const row of this.#frame.querySelectorAll('tr')) {
      if (row.ariaBusy) continue;
      [...row.cells].forEach((cell, index) => void (cell.hidden = this.#columns[index].isHidden));
    }
    // The widths of long tables are measured again: see keepWidths in table.js.
    for (const heading of this.#headings) heading.style.minWidth = '';
    this.#showChoice();
    this.#showNote();
  }

  #showChoice() {
    const shown = this.#columns.filter(({ isHidden }) => !isHidden).length;
    this.#columns.forEach(({ isHidden }, index) => Object.assign(this.#boxes[index], { checked: !isHidden, disabled: shown === 1 && !isHidden }));
  }
}

/** @param {number} count @param {string} [kind] */
const inWords = (count, kind = '') => `${count} ${kind}${count === 1 ? 'column' : 'columns'}`;
