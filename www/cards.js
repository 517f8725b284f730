// The files: a chip for each open one, a card for each that is being read and for each problem.

import { arrange, byId, copyButton, el, severityMark, words } from './dom.js';
import { isAid } from './session.js';

export function showChips(entries, session) {
  const open = entries.filter((entry) => entry.kind && (entry.text !== null || isAid(entry)));
  arrange(byId('chips'), open, (entry) => chip(entry, session));
}

function chip(entry, session) {
  const { name } = entry.file;
  return el('li', { class: isAid(entry) ? 'chip rules' : 'chip', title: name },
    isAid(entry) && el('span', { class: 'chip-kind' }, entry.kind),
    el('span', { class: 'chip-name' }, name),
    el('button', { type: 'button', 'aria-label': `Close ${name}`, title: entry.own && 'Takes your own rules away and forgets them in this browser', click: () => session.remove(entry) }, '×'));
}

const cards = new Map();

/** Brings the cards in line with the session's entries; a card that stays keeps its node, and so the focus. */
export function showCards(entries, session) {
  const wanted = entries.filter((entry) => entry.problem || (entry.text === null && entry.status !== 'open'));
  for (const [entry, card] of cards) {
    if (wanted.includes(entry) && card.problem === entry.problem) continue;
    card.node.remove();
    cards.delete(entry);
  }
  for (const entry of wanted) {
    if (!cards.has(entry)) {
      const card = entry.problem ? problemCard(entry, session) : readingCard(entry, session);
      card.problem = entry.problem;
      cards.set(entry, card);
      byId('cards').append(card.node);
    }
    cards.get(entry).update?.();
  }
}

/** A card for what concerns no file: the page itself could not start, or an export was refused. */
export function showPageProblem(title, message, severity = 'error') {
  const node = el('article', { class: 'card error', role: 'alert' },
    el('h2', {}, severityMark(severity), title), el('p', {}, message));
  node.append(el('p', { class: 'actions' }, el('button', { type: 'button', click: () => node.remove() }, 'Dismiss')));
  byId('cards').append(node);
}

const DOING = {
  waiting: 'waiting for its turn',
  reading: 'reading',
  ordering: 'putting the GPU ops in order',
  analysing: 'analysing',
};

function readingCard(entry, session) {
  const total = entry.file.size;
  const bar = el('progress', { max: total || 1, 'aria-label': `Reading ${entry.file.name}` });
  const figures = el('p', { class: 'figures note' });
  const node = el('article', { class: 'card reading' },
    el('h2', { class: 'file' }, entry.file.name), bar, figures,
    el('button', { type: 'button', click: () => session.remove(entry) }, 'Cancel'));
  const update = () => {
    const progress = { ...entry.progress, ...(entry.status === 'analysing' && { doing: 'analysing' }) };
    bar.value = progress.read ?? 0;
    // Of a database nobody knows how much there is to read.
    bar.hidden = progress.rows !== undefined;
    figures.textContent = progressWords(progress, total);
  };
  return { node, update };
}

/** How far the reading of a file of so many bytes is. */
export function progressWords({ read = 0, ops = 0, rows, doing = 'analysing', since = null }, total) {
  const parts = rows !== undefined
    ? [`${count(rows)} rows of a database of ${bytes(total)}`, rate(rows, since, (n) => `${count(Math.round(n))} rows`)]
    : [`${bytes(read)} of ${bytes(total)}`, rate(read, since, bytes), `${count(ops)} GPU ops`];
  return [...parts, DOING[doing]].filter(Boolean).join(' · ');
}

function problemCard(entry, session) {
  const { problem, file } = entry;
  const retry = problem.kind !== 'refused'
    && el('button', { type: 'button', click: () => session.retry(entry) }, 'Try again');
  const less = offersLess(problem, entry)
    && el('button', { type: 'button', class: 'primary', click: () => session.retry(entry, { gpuOnly: true }) }, 'GPU events only');
  const lives = entry.status === 'open';
  const dismiss = el('button', { type: 'button', click: () => (lives ? session.dismiss(entry) : session.remove(entry)) }, 'Dismiss');
  const node = el('article', { class: 'card error', role: 'alert' },
    el('h2', { class: 'file' }, severityMark('error'), file.name),
    el('p', { class: 'message' }, ...words(sentence(problem))), ...advice(problem, entry),
    el('p', { class: 'actions' }, less, retry, dismiss));
  return { node };
}

export function sentence(problem) {
  if (problem.kind === 'refused') return problem.message;
  if (problem.kind === 'unreadable') return `The browser could not read the file: ${problem.message}`;
  if (problem.kind === 'unloaded') return `The part of the page that reads this kind of file could not be loaded: ${problem.message}`;
  if (isOutOfMemory(problem)) return 'The trace needs more memory than a browser tab can give.';
  return `The reader met a defect and was stopped: ${problem.message}`;
}

/**
 * Did memory run out? The wasm module traps without a word then: whatever else goes wrong in it is a panic, which says
 * where and why.
 */
export function isOutOfMemory({ kind, message, memory }) {
  if (kind !== 'fault') return false;
  return memory > 2 ** 31 || (message === 'unreachable' && memory > 2 ** 28) || /allocation failed|could not allocate|out of memory/i.test(message);
}

/** Of a database the reading cannot leave anything out yet. */
const offersLess = (problem, { gpuOnly }) => isOutOfMemory(problem) && !gpuOnly;

function advice(problem, entry) {
  const { file, reader } = entry;
  if (problem.kind === 'refused' || problem.kind === 'unloaded') return [];
  if (problem.kind === 'unreadable') {
    return [el('p', { class: 'note' }, 'It may have been moved or changed since it was chosen. Of a folder, drop the files in it.')];
  }
  const command = `gpuprism ${reader.command} ${shellQuoted(file.name)}`;
  return [
    offersLess(problem, entry) && el('p', { class: 'note' }, '“GPU events only” reads it again without the calls and ranges of the host: GPU times stay whole, what needs the host is missing.'),
    el('p', { class: 'note' }, 'The rest of the page keeps working. The command line reads the same file without the limits of a tab:'),
    el('p', { class: 'command' }, el('code', {}, command), copyButton(command)),
  ];
}

export function shellQuoted(name) {
  return /^\w[\w.+-]*$/.test(name) ? name : `'${name.replaceAll("'", "'\\''")}'`;
}

const count = (n) => n.toLocaleString('en');

export function bytes(n) {
  const units = ['B', 'KB', 'MB', 'GB'];
  const step = Math.min(units.length - 1, Math.floor(Math.log10(Math.max(n, 1)) / 3));
  return `${(n / 1000 ** step).toFixed(step > 1 ? 1 : 0)} ${units[step]}`;
}

function rate(read, since, shown) {
  const seconds = since === null ? 0 : (performance.now() - since) / 1000;
  return seconds > 0.2 && read > 0 ? `${shown(read / seconds)}/s` : '';
}
