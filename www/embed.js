// Files that another window hands over by postMessage: a page that embeds this one, or that opened it. docs/embedding.md
// has the protocol. A window of an unknown origin is answered only after the person has agreed.

import { bytes, sentence, showPageProblem } from './cards.js';
import { byId, el, styled } from './dom.js';
import { isTrusted, trust } from './trust.js';

/** Files of one window that wait for an answer; more are refused. */
const MOST_WAITING = 20;

/** Windows that the person has refused. */
const refused = new WeakSet();

/** The question to the person about each window: {files, answer}. */
const questions = new Map();

let page;

/** `page` is {session, openFiles, embedded}. */
export function hear(given) {
  page = given;
  if (page.embedded) makeCompact();
  addEventListener('message', receive);
}

async function receive({ data, origin, source }) {
  if (!source || source === window) return;
  const reply = (message) => source.postMessage(message, origin === 'null' ? '*' : origin);
  if (data === 'PING') return reply('PONG');
  const given = data?.gpuprism;
  // A window that was handed a file tells what became of it; nothing is to be done about that.
  if (typeof given !== 'object' || given === null || 'status' in given) return;
  const tell = (status, message) => reply({ gpuprism: { status, message } });
  const file = fileOf(given);
  if (!file) return tell('failed', 'expected {gpuprism: {buffer: ArrayBuffer or Blob}} or {gpuprism: {report: string or object}}');
  if (!await mayShow(file, origin, source)) return tell('refused', 'the person did not want to see it');
  const [{ status, problem }] = await page.openFiles([file]);
  if (status === 'open') tell('loaded', file.name);
  else tell('failed', problem ? sentence(problem) : 'it was closed before it was read');
}

/** The file that a message brings; null for any other shape. */
function fileOf({ buffer, report, title, fileName }) {
  const name = [title, fileName, 'trace'].find((text) => typeof text === 'string' && text !== '').slice(0, 300);
  if (buffer instanceof ArrayBuffer || buffer instanceof Blob) return new File([buffer], name);
  if (typeof report === 'string') return new File([report], name);
  if (typeof report !== 'object' || report === null) return null;
  try {
    return new File([JSON.stringify(report)], name);
  } catch {
    return null;
  }
}

/** Resolves with whether the window may show the file, which the person may have to say first. */
async function mayShow(file, origin, source) {
  if (isTrusted(origin)) return true;
  if (refused.has(source)) return false;
  const question = questions.get(source) ?? ask(origin, source);
  if (question.files.length >= MOST_WAITING) return false;
  question.files.push(file);
  question.update();
  return question.answer;
}

/** One card a window, which answers for all that waits of it. */
function ask(origin, source) {
  const files = [];
  const title = el('h2', { class: 'file' });
  const list = el('p', { class: 'message note' });
  const named = origin !== 'null';
  const who = named ? origin.replace(/^https:\/\//, '') : 'A page without an address of its own';
  const node = el('article', { class: 'card', role: 'alert' }, title, list);
  const answer = new Promise((decide) => {
    const button = (label, agreed, then = () => {}) => el('button', { type: 'button', class: agreed && 'primary', click: () => {
      node.remove();
      questions.delete(source);
      then();
      decide(agreed);
    } }, label);
    const always = named && button('Always from there', true, () => trust(origin));
    if (always) always.className = '';
    node.append(el('p', { class: 'actions' }, button('Show', true), always, button('No', false, () => refused.add(source))));
  });
  const update = () => {
    title.textContent = `${who} wants to show you ${files.length > 1 ? `${files.length} files` : 'a file'}. Show ${files.length > 1 ? 'them' : 'it'}?`;
    list.textContent = files.map(({ name, size }) => `${name} (${bytes(size)})`).join(', ');
  };
  byId('cards').append(node);
  const question = { files, answer, update };
  questions.set(source, question);
  return question;
}

/** Inside another page: no words for newcomers, and a way out to the whole page. */
function makeCompact() {
  document.documentElement.dataset.embed = '';
  styled('embed.css');
  byId('drop').prepend(el('p', {}, 'Waiting for a file from the page around this one.'));
  const home = new URL('./', import.meta.url);
  const whole = el('a', { href: home, target: '_blank', class: 'note whole', click: (event) => {
    event.preventDefault();
    openWhole(home);
  } }, 'Open in gpuprism');
  byId('theme').replaceWith(byId('theme'), whole);
}

const PING_EVERY_MS = 100;
const LONGEST_MS = 30_000;

/** Opens the page in a window of its own and hands it the files, by the same protocol. */
function openWhole(home) {
  const files = page.session.entries.map(({ file }) => file);
  const whole = window.open(home);
  if (!whole) return showPageProblem('No window could be opened', 'The page around this one, or the browser, does not let it open windows.');
  const ping = setInterval(() => whole.postMessage('PING', home.origin), PING_EVERY_MS);
  setTimeout(() => clearInterval(ping), LONGEST_MS);
  addEventListener('message', function answered({ data, source }) {
    if (source !== whole || data !== 'PONG') return;
    clearInterval(ping);
    removeEventListener('message', answered);
    for (const file of files) whole.postMessage({ gpuprism: { buffer: file, title: file.name } }, home.origin);
  });
}
