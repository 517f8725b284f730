import js from '@eslint/js';
import globals from 'globals';

export default [
  js.configs.recommended,
  { files: ['www/*.js'], languageOptions: { globals: globals.browser } },
  { files: ['npm/*.js'], languageOptions: { globals: { ...globals.browser, ...globals.worker } } },
  { files: ['vscode/*.js'], languageOptions: { globals: globals.node, sourceType: 'commonjs' } },
  { files: ['www/*worker*.js'], languageOptions: { globals: globals.worker } },
  // A page test has code for the browser in it, which it evaluates there.
  { files: ['tests/page/*.mjs'], languageOptions: { globals: { ...globals.node, ...globals.browser } } },
];
