// The keys of the page. None acts while a person types or the help stands in front of the page.

import { byId } from './dom.js';

/** `onHelp()` shows the help, or takes it away. */
export function wireKeys(onHelp) {
  const acts = {
    '/': toFilter,
    '?': onHelp,
    '[': () => stepTab(-1),
    ']': () => stepTab(1),
    e: openExport,
    o: () => byId('files').click(),
    t: () => byId('theme').click(),
  };
  byId('help').addEventListener('click', onHelp);
  addEventListener('keydown', (event) => {
    if (event.key === 'Escape') return leave();
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
    if (document.querySelector('dialog[open]') && event.key !== '?') return;
    const act = acts[event.key] ?? (/^[1-9]$/.test(event.key) && (() => chooseTab(Number(event.key) - 1)));
    if (!act) return;
    event.preventDefault();
    act();
  });
  addEventListener('pointerdown', ({ target }) => {
    for (const menu of openMenus()) if (!menu.contains(target)) menu.open = false;
  });
}

const isTyping = (target) => target instanceof Element && target.closest('input, select, textarea, [contenteditable]') !== null;

const hasResults = () => !byId('results').hidden;

function toFilter() {
  if (!hasResults()) return;
  byId('filter').focus();
  byId('filter').select();
}

/** The focus stays where it is, unless it is among the tabs. */
function chooseTab(at) {
  const tab = byId('tabs').children[at];
  if (!hasResults() || !tab) return;
  tab.click();
  // The one that was pressed may have been replaced.
  byId(tab.id).scrollIntoView({ block: 'nearest', inline: 'nearest' });
}

function stepTab(by) {
  const tabs = [...byId('tabs').children];
  const at = tabs.findIndex((tab) => tab.getAttribute('aria-selected') === 'true');
  chooseTab((at + by + tabs.length) % tabs.length);
}

function openExport() {
  const menu = byId('export');
  if (menu.hidden) return;
  menu.open = true;
  menu.querySelector('button').focus();
}

const openMenus = () => document.querySelectorAll('details.menu[open]');

/** Escape closes a menu and gives the focus back to what opened it, or leaves the field. A dialog closes by itself. */
function leave() {
  if (document.querySelector('dialog[open]')) return;
  const menus = openMenus();
  for (const menu of menus) {
    menu.open = false;
    menu.querySelector('summary').focus();
  }
  if (menus.length === 0 && document.activeElement instanceof HTMLElement) document.activeElement.blur();
}
