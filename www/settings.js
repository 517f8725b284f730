// The settings of the analysis: rule set, owner of overlaps, devices, wall time of each run, how the server splits the model over GPUs.

import { arrange, byId, el } from './dom.js';

/** @import { Entry, RuleSets, Settings, View } from './types.js' */
/** @import { Session } from './session.js' */

const form = byId('settings');
const selects = Object.fromEntries([...form.querySelectorAll('select')].map((select) => [select.name, select]));
/** @type {NodeListOf<HTMLInputElement>} */
const splits = byId('split').querySelectorAll('input');

/** Calls `onChange` with the setting that the person changed. @param {(settings: Partial<Settings>) => void} onChange */
export function wireSettings(onChange) {
  form.addEventListener('submit', (event) => event.preventDefault());
  for (const field of [...Object.values(selects), ...splits]) field.addEventListener('change', () => onChange({ [field.name]: field.value }));
}

/** Fills the list of rule sets. It includes a chosen set that does not exist, which the analysis then refuses by name.
 * @param {RuleSets[]} engines @param {string} chosen */
export function showRuleSets(engines, chosen) {
  const ids = engines.flatMap(({ engine, models }) => models.map((model) => `${engine}/${model}`)).filter((id) => id !== 'gpuprism/default');
  const options = ids.map((id) => new Option(id.replace('/', ' / '), id));
  if (chosen && !ids.includes(chosen)) options.push(new Option(chosen, chosen));
  selects.rules.replaceChildren(new Option('gpuprism default', ''), ...options);
  selects.rules.value = chosen;
}

/** @param {View} view */
export function showSettings({ rules, attribution, devices, tp, ep, pp, dp }) {
  for (const [name, value] of Object.entries({ rules, attribution, devices })) selects[name].value = value;
  const counts = { tp, ep, pp, dp };
  for (const field of splits) field.value = counts[/** @type {keyof typeof counts} */ (field.name)];
  const known = Object.entries(counts).filter(([, count]) => count).map(([name, count]) => `${name.toUpperCase()} ${count}`);
  byId('split-counts').textContent = known.join(', ') || 'Model on GPUs';
}

/** Enables the settings if a trace is open, because saved reports cannot be analyzed again. Shows a wall time for each
 * trace; a field that is still needed keeps its node and so what is being typed.
 * @param {Session} session */
export function showTraceSettings(session) {
  const isDisabled = session.traces.every(({ status }) => status === 'failed');
  for (const select of Object.values(selects)) {
    select.disabled = isDisabled;
    select.title = isDisabled ? 'Needs the trace itself: a saved report cannot be analyzed again' : '';
    select.toggleAttribute('title', isDisabled);
  }
  byId('split').hidden = isDisabled || session.modelConfig === null;
  const traces = session.traces.filter((entry) => entry.text !== null);
  byId('wall').hidden = traces.length === 0;
  arrange(byId('wall-runs'), traces, (entry) => wallRow(entry, session));
}

/** @param {Entry} entry @param {Session} session */
function wallRow(entry, session) {
  const field = el('input', {
    type: 'text', inputmode: 'decimal', size: 8, autocomplete: 'off', value: entry.wall,
    change() {
      session.setWall(entry, field.value);
    },
  });
  return el('label', {}, el('span', { class: 'wall-name', title: entry.file.name }, entry.file.name), field, 's');
}
