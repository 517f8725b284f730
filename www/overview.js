// The first read: the verdict, one line of facts a run, what to do, and the notices.

import { byId, el, figureItem, severityMark, words } from './dom.js';

const FINDINGS_SHOWN = 3;
/** Of more runs the figures are in the tables alone. */
const RUNS_WITH_FIGURES = 3;

/** `isPartial`: findings are still being computed. `onTable(id)` is called when the table is asked for that proves a clause or a finding. */
export function showOverview({ verdict, runs, findings }, isPartial, onTable) {
  const text = verdict.map((clause) => clause.text).join('');
  byId('verdict').replaceChildren(...verdict.map(({ text: clause, table }) => (table ? proved(clause, table, onTable) : clause)));
  byId('verdict').classList.toggle('long', text.length > 180);
  byId('runs').replaceChildren(...runs.map((run) => runLine(run, runs.length <= RUNS_WITH_FIGURES)));
  if (isPartial) awaitFindings();
  else showFindings(findings, onTable);
  showNotices(runs);
}

/** Findings of before are no findings of what is shown now; their place is kept. */
function awaitFindings() {
  const note = () => el('p', { class: 'note' }, 'Being computed');
  byId('todo').replaceChildren(el('h2', {}, 'What to do'), note());
  if (byId('comparison').firstChild) byId('comparison').replaceChildren(note());
}

/** Words that lead to the table that proves them; a link, because a button does not break with the line. */
function proved(text, table, onTable) {
  const open = (event) => {
    event.preventDefault();
    onTable(table);
  };
  return el('a', { href: `#tab=${table}`, class: 'proof', click: open }, text);
}

function showFindings(findings, onTable) {
  byId('todo').hidden = findings.length === 0;
  byId('todo').replaceChildren(el('h2', {}, 'What to do'),
    el('ol', { class: 'findings' }, ...findings.slice(0, FINDINGS_SHOWN).map((finding) => findingItem(finding, onTable))),
    el('button', { type: 'button', class: 'small', click: () => onTable('findings') }, findings.length > FINDINGS_SHOWN ? 'All findings' : 'Findings as a table'));
}

function findingItem({ run, severity, title, cost, evidence, recommendation, table }, onTable) {
  return el('li', {}, el('h3', {}, severityMark(severity), table ? proved(title, table, onTable) : title, cost && el('span', { class: 'cost' }, cost)),
    run && el('p', { class: 'note' }, run),
    el('ul', { class: 'note' }, ...evidence.map((line) => el('li', {}, ...words(line)))),
    ...recommendation.map((line) => el('p', {}, ...words(line))));
}

function runLine({ label, facts, figures }, inFull) {
  return el('li', {}, el('span', { class: 'run-label', title: label }, label), el('span', { class: 'run-facts' }, facts),
    inFull && figures.length > 0 && el('dl', { class: 'figures' }, ...figures.filter(({ text }) => text).map(figureItem)));
}

/** What weakens the numbers stands open, the worst first; what is merely good to know is folded. */
function showNotices(runs) {
  const many = runs.length > 1;
  const items = runs.flatMap((run) => run.notices.map((notice) => ({ ...notice, run: many ? run.label : '' })));
  const of = (severity) => items.filter((notice) => notice.severity === severity);
  const grave = [...of('error'), ...of('warning')];
  const notes = of('info');
  const folded = notes.length > 0 && el('li', { class: 'folded' },
    el('details', {}, el('summary', {}, severityMark('info'), ...words(notes[0].message), notes.length > 1 ? ' and more' : ''),
      el('ul', { class: 'notices' }, ...notes.map(noticeItem))));
  byId('notices').replaceChildren(...grave.map(noticeItem), ...(folded ? [folded] : []));
}

function noticeItem({ severity, message, count, advice, run }) {
  return el('li', { class: 'notice' }, severityMark(severity),
    el('span', { class: 'notice-text' },
      run && el('span', { class: 'run-label' }, run), ...words(message),
      count !== '1' && !message.includes(count) && el('span', { class: 'notice-count' }, `× ${count}`),
      advice && el('span', { class: 'advice' }, ...words(advice))));
}
