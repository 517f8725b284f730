// The verdict, one line of facts for each run, what to do, and the notices.

import { button, byId, confidenceMark, copyCommands, el, noticeItem, severityMark, words } from './dom.js';
import { pendingNote } from './table.js';

/** @import { ExampleLink, Finding, Notice, Overview, Run, Severity } from './types.js' */

/** @typedef {(table: string) => void} OnTable */
/** Shows a case of a clause or finding of a run in the timeline. A run of a report without a trace has none. `prove` shows it together with
 * the table that has the numbers, or the table alone.
 * @typedef {{
 *   canShow(run: number): boolean,
 *   show(run: number, example: ExampleLink): void,
 *   prove(table: string, run: number, example: ExampleLink | null): void,
 * }} Examples */

const FINDINGS_SHOWN = 3;
/** More runs are one line. */
const MAX_LINES = 3;
const LONG_VERDICT_CHARACTERS = 180;

/** The verdict and the lines of the runs. A click on a clause shows its table and its case.
 * @param {Overview} overview @param {{ beingRead: string[], isOneJob: boolean }} session names of files whose results come later, and whether all are ranks of one job
 * @param {Examples} examples */
export function showVerdict({ verdict, runs }, { beingRead, isOneJob: isJob }, examples) {
  byId('verdict').replaceChildren(...verdict.map(({ text, table, example, run_index: run }) => (
    table ? tableLink(text, table, () => examples.prove(table, run, example)) : el('span', {}, ...words(text)))));
  markWhatIsBelow(verdict);
  const shown = [...byId('verdict').children].filter((node) => runs.length > 1 || !node.classList.contains('is-below'));
  const length = shown.reduce((sum, node) => sum + (node.textContent ?? '').length, 0);
  byId('verdict').classList.toggle('long', length > LONG_VERDICT_CHARACTERS);
  showRuns(runs, beingRead, isJob);
}

/** Marks the clauses that the lines below say too: the largest saving, and the largest category beside a path. They are hidden while these lines
 * are shown. @param {Overview['verdict']} verdict */
function markWhatIsBelow(verdict) {
  const nodes = [...byId('verdict').children];
  verdict.forEach(({ table, text }, index) => {
    if (table === 'findings') [nodes[index - 1], nodes[index]].forEach((node) => node?.classList.add('is-below'));
    const isBesidePath = verdict.some(({ table: other }) => other === 'critical_path');
    if (table === 'categories' && isBesidePath && text.startsWith(';')) nodes[index]?.classList.add('is-below');
  });
}

/** What to do, and the notices. If `isPartial`, findings are still being computed. A click on a finding shows its table and its case.
 * @param {Overview} overview @param {boolean} isPartial @param {OnTable} onTable @param {Examples} examples */
export function showAdvice({ runs, findings }, isPartial, onTable, examples) {
  if (isPartial) showPendingFindings();
  else showFindings(findings, onTable, examples);
  showNotices(runs);
}

/** A line for each run, and for each file that is being read, so that its results move nothing.
 * @param {Run[]} runs @param {string[]} beingRead @param {boolean} isJob they are ranks of one job */
export function showRuns(runs, beingRead, isJob) {
  const count = runs.length + beingRead.length;
  const isCompared = count > 1;
  byId('runs').replaceChildren(...(count > MAX_LINES ? [runSummary(`${runs.length} ${isJob ? 'ranks of one job' : runs.length === 1 ? 'run' : 'runs'}`, beingRead)] : []), ...runs.map((run) => runLine(run, isCompared)), ...beingRead.map(lineToCome));
}

/** One line for many runs, which shows or hides their own lines, and names the files that are missing so far. @param {string} text @param {string[]} beingRead */
function runSummary(text, beingRead) {
  const missing = beingRead.length > 0 && el('span', { class: 'run-facts', title: beingRead.join(', ') }, `being read: ${beingRead.join(', ')}`);
  const toggle = button(text, () => toggle.setAttribute('aria-expanded', String(byId('runs').classList.toggle('unfolded'))), {
    class: 'small unfold', 'aria-expanded': String(byId('runs').classList.contains('unfolded')),
  });
  return el('li', { class: 'run-summary' }, toggle, missing);
}

/** Removes the findings of the previous results and keeps their space. */
function showPendingFindings() {
  byId('todo').hidden = false;
  byId('todo').replaceChildren(el('h2', {}, 'What to do'), pendingNote());
  if (byId('comparison').firstChild) byId('comparison').replaceChildren(pendingNote());
}

/** A link to the table of a text's numbers. It is no button, because a button does not wrap with the line.
 * @param {string} text @param {string} table @param {OnTable} onTable */
function tableLink(text, table, onTable) {
  /** @param {Event} event */
  const open = (event) => {
    event.preventDefault();
    onTable(table);
  };
  return el('a', { href: `#tab=${table}`, class: 'table-link', click: open }, ...words(text));
}

/** @param {Finding[]} findings @param {OnTable} onTable @param {Examples} examples */
function showFindings(findings, onTable, examples) {
  byId('todo').hidden = findings.length === 0;
  byId('todo').replaceChildren(el('h2', {}, 'What to do'),
    el('ol', { class: 'findings' }, ...findings.slice(0, FINDINGS_SHOWN).map((finding) => findingItem(finding, examples))),
    button(findings.length > FINDINGS_SHOWN ? 'All findings' : 'Findings as a table', () => onTable('findings'), { class: 'small' }));
}

/** What to do comes first, then one line of evidence; a click on it shows the rest. @param {Finding} finding @param {Examples} examples */
function findingItem({ run, severity, confidence, title, cost, evidence, action, table, run_index: runIndex, example }, examples) {
  const [first, ...more] = evidence;
  const list = more.length > 0 && el('ul', {}, ...more.map((line) => el('li', {}, ...words(line))));
  return el('li', {},
    el('h3', {}, severityMark(severity), table ? tableLink(title, table, () => examples.prove(table, runIndex, example)) : title, confidence && confidenceMark(confidence), cost && el('span', { class: 'cost' }, cost)),
    run && el('p', { class: 'note' }, run),
    ...action.map((line) => el('p', {}, ...words(line), ...copyCommands(line))),
    first && el('details', {}, el('summary', {}, ...words(first)), list),
    example && examples.canShow(runIndex) && button(example.text, () => examples.show(runIndex, example), { class: 'small' }));
}

/** @param {string} label */
function lineToCome(label) {
  const line = runLine({ label, facts: 'being read' }, true);
  line.classList.add('to-come');
  return line;
}

/** @param {Pick<Run, 'label' | 'facts'>} run @param {boolean} isCompared it has room for its comparison */
function runLine({ label, facts }, isCompared) {
  return el('li', {}, el('span', { class: 'run-label', title: label }, label), isCompared && el('span', { class: 'run-change' }), el('span', { class: 'run-facts', title: isCompared && facts }, ...words(facts)));
}

/** Errors and warnings are open, errors first; notes are folded. @param {Run[]} runs */
function showNotices(runs) {
  const items = runs.flatMap((run) => run.notices.map((notice) => ({ notice, run: runs.length > 1 ? run.label : '' })));
  /** @param {Severity} severity */
  const ofSeverity = (severity) => items.filter(({ notice }) => notice.severity === severity).map(({ notice, run }) => runNotice(notice, run));
  const notes = ofSeverity('info');
  const first = items.find(({ notice }) => notice.severity === 'info');
  const folded = first ? [el('li', { class: 'folded' },
    el('details', {}, el('summary', {}, severityMark('info'), ...words(first.notice.message), notes.length > 1 && ' … more'),
      el('ul', { class: 'notices' }, ...notes)))] : [];
  byId('notices').replaceChildren(...ofSeverity('error'), ...ofSeverity('warning'), ...folded);
}

/** @param {Notice} notice @param {string} run */
function runNotice({ severity, message, count, advice }, run) {
  return noticeItem(severity, run && el('span', { class: 'run-label' }, run), message,
    count !== '1' && !message.includes(count) && el('span', { class: 'notice-count' }, `× ${count}`),
    advice && el('span', { class: 'advice' }, ...words(advice), ...copyCommands(advice)));
}
