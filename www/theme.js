// Light, dark or as the system says.

import { byId } from './dom.js';

const THEMES = ['auto', 'light', 'dark'];

export function wireTheme() {
  let at = 0;
  const apply = () => {
    document.documentElement.dataset.theme = THEMES[at];
    byId('theme').textContent = `Theme: ${THEMES[at]}`;
  };
  byId('theme').addEventListener('click', () => {
    at = (at + 1) % THEMES.length;
    apply();
  });
  // Paper is white, whatever the screen is.
  addEventListener('beforeprint', () => void (document.documentElement.dataset.theme = 'light'));
  addEventListener('afterprint', apply);
  apply();
}
