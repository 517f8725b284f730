// The row that says how to count: rule set, who owns overlaps, devices, wall time of each run.

import { arrange, byId, el } from './dom.js';

const form = byId('settings');

/** `onCount(settings)` is called with what the person chose. */
export function wireSettings(onCount) {
  form.addEventListener('submit', (event) => event.preventDefault());
  form.addEventListener('change', ({ target }) => {
    if (target instanceof HTMLSelectElement) onCount({ [target.name]: target.value });
  });
}

/** Fills the list of rule sets; one that is asked for but unknown stays in it, so that the refusal names it. */
export function showRuleSets(sets, chosen) {
  const options = [el('option', { value: '' }, 'gpuprism default')];
  for (const { engine, models } of sets) {
    for (const model of models) {
      if (engine !== 'gpuprism' || model !== 'default') options.push(el('option', { value: `${engine}/${model}` }, `${engine} / ${model}`));
    }
  }
  if (chosen && !options.some((option) => option.value === chosen)) options.push(el('option', { value: chosen }, chosen));
  form.elements.rules.replaceChildren(...options);
  form.elements.rules.value = chosen;
}

export function showSettings(settings) {
  for (const [name, value] of Object.entries(settings)) form.elements[name].value = value;
}

/** What there is to count; saved reports are counted already. One field a trace: those that stay keep their node, and so what is being typed. */
export function showCountable(session) {
  const isCounted = session.traces.every(({ status }) => status === 'failed');
  for (const select of form.querySelectorAll('select')) {
    select.disabled = isCounted;
    select.title = 'Needs the trace itself: a saved report is counted already';
    select.toggleAttribute('title', isCounted);
  }
  const traces = session.traces.filter((entry) => entry.text !== null);
  byId('wall').hidden = traces.length === 0;
  arrange(byId('wall-runs'), traces, (entry) => wallRow(entry, session));
}

function wallRow(entry, session) {
  const field = el('input', {
    type: 'text', inputmode: 'decimal', size: 8, autocomplete: 'off', value: entry.wall,
    change: () => session.setWall(entry, field.value),
  });
  return el('label', {}, el('span', { class: 'wall-name', title: entry.file.name }, entry.file.name), field, 's');
}
