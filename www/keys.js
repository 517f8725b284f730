// The keys of the page. They do nothing while a person types or the help is open.

import { byId } from './dom.js';

/** `onHelp()` shows or hides the help. @param {() => void} onHelp */
export function wireKeys(onHelp) {
  /** @type {Record<string, () => void>} */
  const keyActions = {
    '/': focusFilter,
    '?': onHelp,
    '[': () => stepTab(-1),
    ']': () => stepTab(1),
    e: openExport,
    o: () => byId('choose').click(),
    t: () => byId('theme').click(),
  };
  for (let index = 0; index < 9; index += 1) keyActions[String(index + 1)] = () => chooseTab(index);
  byId('help').addEventListener('click', onHelp);
  byId('skip').addEventListener('click', skipToTimeline);
  addEventListener('keydown', (event) => {
    if (event.key === 'Escape') {
      leave();
      return;
    }
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
    if (document.querySelector('dialog[open]') && event.key !== '?') return;
    if (!Object.hasOwn(keyActions, event.key)) return;
    event.preventDefault();
    keyActions[event.key]();
  });
  addEventListener('pointerdown', ({ target }) => {
    for (const menu of openMenus()) if (!(target instanceof Node && menu.contains(target))) menu.open = false;
  });
}

/** @param {EventTarget | null} target */
const isTyping = (target) => target instanceof Element && target.closest('input, select, textarea, [contenteditable]') !== null;

const hasResults = () => !byId('results').hidden;

/** In a tab without a timeline, to the tables. */
function skipToTimeline() {
  const canvas = document.querySelector('.timeline-canvas');
  const target = [canvas, byId('blocks').querySelector('button')].find((node) => node instanceof HTMLElement && node.clientHeight > 0);
  if (target instanceof HTMLElement) target.focus();
}

function focusFilter() {
  if (!hasResults()) return;
  byId('filter').focus();
  byId('filter').select();
}

/** @returns {HTMLElement[]} */
const tabButtons = () => [...byId('tabs').querySelectorAll('button')];

/** Opens a tab by its index. The focus stays where it is, unless it is in the row of tabs. @param {number} index */
function chooseTab(index) {
  const tab = tabButtons()[index];
  if (!hasResults() || !tab) return;
  tab.click();
  // The click may have replaced the button.
  byId(tab.id).scrollIntoView({ block: 'nearest', inline: 'nearest' });
}

/** @param {number} step */
function stepTab(step) {
  const tabs = tabButtons();
  const index = tabs.findIndex((tab) => tab.getAttribute('aria-selected') === 'true');
  chooseTab((index + step + tabs.length) % tabs.length);
}

function openExport() {
  const menu = byId('export');
  if (menu.hidden) return;
  menu.open = true;
  menu.querySelector('button')?.focus();
}

/** @returns {NodeListOf<HTMLDetailsElement>} */
const openMenus = () => document.querySelectorAll('details.menu[open]');

/** Escape closes a menu and focuses its button, or leaves a field. A dialog closes by itself. */
function leave() {
  if (document.querySelector('dialog[open]')) return;
  const menus = openMenus();
  for (const menu of menus) {
    menu.open = false;
    menu.querySelector('summary')?.focus();
  }
  if (menus.length === 0 && document.activeElement instanceof HTMLElement) document.activeElement.blur();
}
