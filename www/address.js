// The view in the address: the URL fragment has tab, sort, filter, run, hidden categories, lanes, windows, pivot, kernel, dashboard and
// settings, so that Back, reload and a pasted link (with the same files opened again) restore it. A link can also carry a
// report (`report=`), which stays in the address while that report is open. Browsers send no fragment to a server.

/** @import { View } from './types.js' */

/** @type {string[]} */
const NONE = [];

/** The view if the address names nothing. */
export const DEFAULTS = {
  tab: '', of: '', sort: '', dir: 'desc', filter: '', run: '', base: '', hide: NONE, lanes: NONE, window: NONE, stage: '', pivot: NONE, kernel: '',
  rules: '', attribution: 'fair', devices: 'each', tp: '', ep: '', pp: '', dp: '', gpu: '', above: '', comm: '',
};

/** The encoded report in the address; empty without one. */
let report = '';

export const reportInAddress = () => report;

/** Removes the report from the address. @param {View} view */
export function removeReport(view) {
  report = '';
  writeAddress(view, { isStep: false });
}

/** Returns the view in the address, with defaults for everything that the address does not name. */
export function readAddress() {
  const params = new URLSearchParams(location.hash.slice(1));
  report = params.get('report') ?? '';
  const fields = Object.entries(DEFAULTS).map(([name, fallback]) => [name, Array.isArray(fallback) ? params.getAll(name) : params.get(name) ?? fallback]);
  return /** @type {View} */ (Object.fromEntries(fields));
}

/** Adds a step to the history, or replaces the current one. @param {View} view @param {{ isStep: boolean }} options */
export function writeAddress(view, { isStep }) {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(view)) {
    if (Array.isArray(value)) value.forEach((item) => params.append(name, item));
    else if (value !== DEFAULTS[/** @type {keyof View} */ (name)] || (name === 'dir' && view.sort)) params.set(name, value);
  }
  if (report) params.set('report', report);
  const text = params.toString();
  if (text === location.hash.slice(1)) return;
  const address = text ? `#${text}` : location.pathname + location.search;
  if (isStep) history.pushState(null, '', address);
  else history.replaceState(null, '', address);
}
