// Shows the open files: a chip for each, and a card for each that is being read, has a problem, or was read in part to save memory.

import { arrange, button, byId, commandLine, copyCommands, el, note, severityMark, words } from './dom.js';
import { isOutOfMemory } from './problem.js';
import { isAuxiliary } from './session.js';

/** @import { Entry, LeftOut, Page, Problem, Progress, Severity } from './types.js' */

/** @param {Page} page */
export function showChips(page) {
  // A file that is being read has its chip, so that its results move nothing. So has a trace whose options were refused: it is open.
  const open = page.session.entries.filter((entry) => entry.text !== null || isAuxiliary(entry) || entry.status !== 'failed');
  const areRanks = page.session.isOneJob && page.session.traces.length > 1;
  arrange(byId('chips'), open.map((entry) => `${entry.id} ${isAuxiliary(entry)} ${areRanks}`), (_, index) => chip(open[index], areRanks, page));
}

/** @param {Entry} entry @param {boolean} isRank @param {Page} page */
function chip(entry, isRank, page) {
  const { name } = entry.file;
  return el('li', { class: isAuxiliary(entry) ? 'chip rules' : 'chip', title: name },
    isAuxiliary(entry) && el('span', { class: 'chip-kind' }, entry.kind),
    // The names of ranks differ in numbers, and all have room without their endings.
    el('span', { class: 'chip-name' }, isRank && !isAuxiliary(entry) ? name.replace(/(\.[a-z]+)+$/i, '') : name),
    button('×', () => close(entry, page), { 'aria-label': `Close ${name}`, title: entry.isOwnRules && 'Removes your own rules and forgets them in this browser' }));
}

/** Closes a file and offers to open it again. @param {Entry} entry @param {Page} page */
async function close(entry, page) {
  const place = page.session.remove(entry);
  // The person's own rules have an offer of their own. Without an offer the file is closed all the same.
  if (entry.isOwnRules) return;
  const { offerUndo } = await import('./undo.js').catch(() => ({ offerUndo: null }));
  offerUndo?.(entry, place, page);
}

/** What a card is about: a problem, what was left out, or null for the reading.
 * @typedef {Problem | LeftOut | null} Topic */
/** @typedef {{ node: HTMLElement, topic: Topic, update: () => void }} Card */

/** @type {Map<Entry, Card>} */
const cards = new Map();

/** @param {Entry} entry */
const isBeingRead = ({ problem, text, status }) => !problem && text === null && status !== 'open';

/** Shows a card for each entry that is being read, has a problem or lacks a part. A card that is still needed keeps its node and its
 * focus. The card of a file that is read stays until all are, so that the others do not move.
 * @param {Page} page */
export function showCards(page) {
  const { entries } = page.session;
  const areBeingRead = entries.some(isBeingRead);
  /** @param {Entry} entry @returns {Topic | undefined} */
  const topicOf = (entry) => {
    if (entry.problem) return entry.problem;
    if (isBeingRead(entry) || (areBeingRead && cards.get(entry)?.topic === null)) return null;
    return (entry.saysLeftOut && entry.leftOut) || undefined;
  };
  for (const [entry, card] of cards) {
    if (entries.includes(entry) && card.topic === topicOf(entry)) continue;
    card.node.remove();
    cards.delete(entry);
  }
  for (const entry of entries) {
    const topic = topicOf(entry);
    if (topic === undefined) continue;
    const card = cards.get(entry) ?? newCard(entry, topic, page);
    card.update();
  }
}

/** @param {Entry} entry @param {Topic} topic @param {Page} page */
function newCard(entry, topic, page) {
  const card = { topic, update() {}, ...(topic === null ? readingCard(entry, page) : { node: stillCard(entry, topic, page) }) };
  cards.set(entry, card);
  byId('cards').append(card.node);
  return card;
}

/** @param {Entry} entry @param {Problem | LeftOut} topic @param {Page} page */
const stillCard = (entry, topic, page) => (typeof topic === 'string' ? leftOutCard(entry, topic, page) : problemCard(entry, topic, page));

/** @type {Record<LeftOut, [what: string, effect: string]>} */
const LEFT_OUT = {
  code: ['CPU ops and Python functions', 'The timeline does not show them, and no code is named as a cause.'],
  host: ['calls and ranges of the host', 'GPU times are complete; results that need the host are missing.'],
};

/** Says what was not read because memory ran out. @param {Entry} entry @param {LeftOut} leftOut @param {Page} page */
function leftOutCard(entry, leftOut, { session }) {
  const [what, effect] = LEFT_OUT[leftOut];
  return el('article', { class: 'card', role: 'status' },
    el('h2', { class: 'file' }, severityMark('warning'), entry.file.name),
    el('p', { class: 'message' }, `Memory ran out, so the file was read without ${what}. ${effect}`),
    actions(button('Try again in full', () => session.retry(entry, { leftOut: null })), button('Dismiss', () => session.dismiss(entry))));
}

/** Shows a card that belongs to no file, once for the same problem. @param {string} title @param {string} message @param {Severity} [severity] */
export function showPageProblem(title, message, severity = 'error') {
  const node = el('article', { class: 'card error', role: 'alert' }, el('h2', {}, severityMark(severity), title), el('p', {}, message));
  node.append(actions(button('Dismiss', () => node.remove())));
  [...byId('cards').children].find((card) => card.textContent === node.textContent)?.remove();
  byId('cards').append(node);
}

/** @param {import('./dom.js').Child[]} buttons */
export const actions = (...buttons) => el('p', { class: 'actions' }, ...buttons);

/** @type {Record<NonNullable<Progress['doing']>, string>} */
const STEPS = {
  waiting: 'waiting for its turn',
  reading: 'reading',
  ordering: 'sorting the GPU ops',
  analyzing: 'analyzing',
};

/** @param {Entry} entry @param {Page} page */
function readingCard(entry, { session }) {
  const total = entry.file.size;
  const bar = el('progress', { max: total || 1, 'aria-label': `Reading ${entry.file.name}` });
  const figures = el('p', { class: 'figures note' });
  const cancel = button('Cancel', () => session.remove(entry));
  const node = el('article', { class: 'card reading' }, el('h2', { class: 'file' }, entry.file.name), bar, figures, cancel);
  const update = () => {
    if (!isBeingRead(entry)) {
      bar.value = bar.max;
      figures.textContent = 'read';
      cancel.disabled = true;
      return;
    }
    /** @type {Progress} */
    const progress = { ...entry.progress, ...(entry.status === 'analyzing' && { doing: 'analyzing' }) };
    bar.value = progress.read ?? 0;
    // The number of rows to read from a database is not known in advance.
    bar.hidden = progress.rows !== undefined;
    const again = entry.leftOut ? ` · again without ${LEFT_OUT[entry.leftOut][0]}, because memory ran out` : '';
    figures.textContent = progressText(progress, total) + again;
  };
  return { node, update };
}

/** Describes the progress of reading a file of `total` bytes. @param {Progress} progress @param {number} total */
export function progressText({ read = 0, ops = 0, rows, doing = 'analyzing', since = null }, total) {
  const parts = rows !== undefined
    ? [`${grouped(rows)} rows of a database of ${bytes(total)}`, rate(rows, since, (n) => `${grouped(Math.round(n))} rows`)]
    : [`${bytes(read)} of ${bytes(total)}`, rate(read, since, bytes), `${grouped(ops)} GPU ops`];
  return [...parts, STEPS[doing]].filter(Boolean).join(' · ');
}

/** @param {Entry} entry @param {Problem} problem @param {Page} page */
function problemCard(entry, problem, { session, store, look }) {
  const { file, reader } = entry;
  const retry = problem.kind !== 'refused' && button('Try again', () => session.retry(entry));
  // The choice of rules comes with the results, so that of an address has no other way back.
  const useDefaultRules = problem.kind === 'refused' && entry.kind === 'trace' && entry.text === null && store.view.rules !== ''
    && button('Use the built-in rules', () => look({ rules: '' }), { class: 'primary' });
  const dismiss = button('Dismiss', () => (entry.status === 'open' ? session.dismiss(entry) : session.remove(entry)));
  return el('article', { class: 'card error', role: 'alert' },
    el('h2', { class: 'file' }, severityMark('error'), file.name),
    el('p', { class: 'message' }, ...words(problemText(problem)), ...copyCommands(problemText(problem))),
    isOutOfMemory(problem) && entry.leftOut && note(`It is too large even without ${LEFT_OUT[entry.leftOut][0]}.`),
    ...(reader ? advice(problem, `gpuprism ${reader.command} ${shellQuoted(file.name)}`) : []),
    actions(useDefaultRules, retry, dismiss));
}

/** Describes a problem in one sentence. @param {Problem} problem */
export function problemText(problem) {
  if (problem.kind === 'refused') return problem.message;
  if (problem.kind === 'unreadable') return `The browser could not read the file: ${problem.message}`;
  if (problem.kind === 'unloaded') return `A part of the page that this file needs could not be loaded: ${problem.message}`;
  if (isOutOfMemory(problem)) return 'The trace needs more memory than a browser tab can give.';
  return `The reader stopped because of a defect in gpuprism: ${problem.message}`;
}

/** @param {Problem} problem @param {string} command */
function advice(problem, command) {
  if (problem.kind === 'refused' || problem.kind === 'unloaded') return [];
  if (problem.kind === 'unreadable') {
    return [note('The file may have been moved or changed since you chose it. If it is a folder, drop the files in it.')];
  }
  return [
    note('The rest of the page keeps working. The command line reads the same file without the memory limit of a tab:'),
    commandLine(command),
  ];
}

/** @param {string} name */
export function shellQuoted(name) {
  return /^\w[\w.+-]*$/.test(name) ? name : `'${name.replaceAll("'", "'\\''")}'`;
}

/** @param {number} n */
const grouped = (n) => n.toLocaleString('en');

/** Formats a number of bytes with its unit. @param {number} n */
export function bytes(n) {
  const units = ['B', 'KB', 'MB', 'GB'];
  const step = Math.min(units.length - 1, Math.floor(Math.log10(Math.max(n, 1)) / 3));
  return `${(n / 1000 ** step).toFixed(step > 1 ? 1 : 0)} ${units[step]}`;
}

/** A rate over less time than this is too noisy to show. */
const MIN_RATE_SECONDS = 0.2;

/** @param {number} read @param {number | null} since @param {(n: number) => string} format */
function rate(read, since, format) {
  const seconds = since === null ? 0 : (performance.now() - since) / 1000;
  return seconds > MIN_RATE_SECONDS && read > 0 ? `${format(read / seconds)}/s` : '';
}
