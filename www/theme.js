// The theme: light, dark, or that of the system.

import { byId } from './dom.js';

const THEMES = ['auto', 'light', 'dark'];

export function wireTheme() {
  let index = 0;
  const apply = () => {
    document.documentElement.dataset.theme = THEMES[index];
    byId('theme').textContent = `Theme: ${THEMES[index]}`;
  };
  byId('theme').addEventListener('click', () => {
    index = (index + 1) % THEMES.length;
    apply();
  });
  // Paper is always white.
  addEventListener('beforeprint', () => void (document.documentElement.dataset.theme = 'light'));
  addEventListener('afterprint', apply);
  apply();
}
