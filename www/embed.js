// Receives files that the page that embeds or opened this one sends by postMessage, by the page's own protocol or by Perfetto's.
// docs/embedding.md describes both. Files from an unknown origin are shown only after the person has agreed.

import { actions, bytes, problemText, showPageProblem } from './cards.js';
import { button, byId, el, loadStyleSheet } from './dom.js';
import { waitForPong } from './ping.js';
import { isTrusted, trust } from './trust.js';
import { rememberSender } from './view-link.js';

/** @import { Page } from './types.js' */

/** @typedef {{ session: Page['session'], openFiles: Page['openFiles'], isEmbedded: boolean }} Context */
/** @typedef {{ files: File[], answer: Promise<boolean>, update: () => void }} Question */

/** Files of one window that wait for the person's answer; more are refused. */
const MAX_WAITING = 20;
const MAX_NAME_CHARACTERS = 300;

/** Windows that the person has refused. @type {WeakSet<MessageEventSource>} */
const refused = new WeakSet();

/** Windows that have sent their one trace by Perfetto's protocol. @type {WeakSet<MessageEventSource>} */
const servedAsPerfetto = new WeakSet();

/** The open question about each window. @type {Map<MessageEventSource, Question>} */
const questions = new Map();

/** Listens to the messages of other windows. @param {Context} context */
export function listen({ session, openFiles, isEmbedded }) {
  if (isEmbedded) makeCompact(session);
  addEventListener('message', (event) => receive(event, openFiles));
}

/** @param {MessageEvent} event @param {Page['openFiles']} openFiles */
async function receive({ data, origin, source }, openFiles) {
  // Windows that this page has opened answer it elsewhere.
  if (!source || source === window || (source !== window.opener && source !== parent)) return;
  const reply = (/** @type {unknown} */ message) => source.postMessage(message, { targetOrigin: origin === 'null' ? '*' : origin });
  if (data === 'PING') reply('PONG');
  else if (isObject(data?.perfetto)) await receiveAsPerfetto(data.perfetto, origin, source, openFiles);
  // A message with a status is a reply to files that this page sent.
  else if (isObject(data?.gpuprism) && !('status' in data.gpuprism)) await receiveOwn(data.gpuprism, origin, source, openFiles, reply);
}

/** @param {unknown} value */
const isObject = (value) => typeof value === 'object' && value !== null;

/** Opens the trace of a page that would open it in Perfetto. As in Perfetto there is no reply, and a window opens one trace unless it
 * sets `keepApiOpen`: a sender may take each PONG for a request to send.
 * @param {Partial<Record<'buffer' | 'title' | 'fileName' | 'url' | 'keepApiOpen', unknown>>} message @param {string} origin
 * @param {MessageEventSource} source @param {Page['openFiles']} openFiles */
async function receiveAsPerfetto({ buffer, title, fileName, url, keepApiOpen }, origin, source, openFiles) {
  const file = fileOf({ buffer, title, fileName });
  if (!file || servedAsPerfetto.has(source)) return;
  if (!keepApiOpen) servedAsPerfetto.add(source);
  rememberSender(file, url);
  if (await mayShow(file, origin, source)) await openFiles([file]);
}

/** @param {Record<string, unknown>} message @param {string} origin @param {MessageEventSource} source
 * @param {Page['openFiles']} openFiles @param {(message: unknown) => void} reply */
async function receiveOwn(message, origin, source, openFiles, reply) {
  /** @param {'loaded' | 'failed' | 'refused'} status @param {string} text */
  const replyStatus = (status, text) => reply({ gpuprism: { status, message: text } });
  const file = fileOf(message);
  if (!file) replyStatus('failed', 'expected {gpuprism: {buffer: ArrayBuffer or Blob}} or {gpuprism: {report: string or object}}');
  else if (!await mayShow(file, origin, source)) replyStatus('refused', 'the user declined to see it');
  else {
    const [{ status, problem }] = await openFiles([file]);
    if (status === 'open') replyStatus('loaded', file.name);
    else replyStatus('failed', problem ? problemText(problem) : 'it was closed before it was read');
  }
}

/** @param {Partial<Record<'buffer' | 'report' | 'title' | 'fileName', unknown>>} message */
function fileOf({ buffer, report, title, fileName }) {
  const name = [title, fileName].find((text) => typeof text === 'string' && text !== '') ?? 'trace';
  const data = buffer instanceof ArrayBuffer || buffer instanceof Blob ? buffer : reportText(report);
  return data === null ? null : new File([data], String(name).slice(0, MAX_NAME_CHARACTERS));
}

/** @param {unknown} report */
function reportText(report) {
  if (typeof report === 'string') return report;
  if (typeof report !== 'object' || report === null) return null;
  try {
    return JSON.stringify(report);
  } catch {
    return null;
  }
}

/** Resolves with true if the files may be shown. Asks the person if the origin is unknown.
 * @param {File} file @param {string} origin @param {MessageEventSource} source */
async function mayShow(file, origin, source) {
  if (isTrusted(origin)) return true;
  if (refused.has(source)) return false;
  const question = questions.get(source) ?? ask(origin, source);
  if (question.files.length >= MAX_WAITING) return false;
  question.files.push(file);
  question.update();
  return question.answer;
}

/** Shows one card for a window; the answer is for all its waiting files.
 * @param {string} origin @param {MessageEventSource} source @returns {Question} */
function ask(origin, source) {
  /** @type {File[]} */
  const files = [];
  const title = el('h2', { class: 'file' });
  const list = el('p', { class: 'message note' });
  const hasOrigin = origin !== 'null';
  const sender = hasOrigin ? origin.replace(/^https:\/\//, '') : 'A page without an address of its own';
  const node = el('article', { class: 'card', role: 'alert' }, title, list);
  /** @type {(isAllowed: boolean) => void} */
  let resolveAnswer = () => {};
  /** @type {Promise<boolean>} */
  const answer = new Promise((resolve) => {
    resolveAnswer = resolve;
  });
  const decide = (/** @type {boolean} */ isAllowed) => {
    node.remove();
    questions.delete(source);
    resolveAnswer(isAllowed);
  };
  const always = () => {
    trust(origin);
    decide(true);
  };
  const refuse = () => {
    refused.add(source);
    decide(false);
  };
  node.append(actions(button('Show', () => decide(true), { class: 'primary' }), hasOrigin && button('Always from there', always), button('No', refuse)));
  const update = () => {
    title.textContent = `${sender} wants to show you ${files.length > 1 ? `${files.length} files` : 'a file'}. Show ${files.length > 1 ? 'them' : 'it'}?`;
    list.textContent = files.map(({ name, size }) => `${name} (${bytes(size)})`).join(', ');
  };
  byId('cards').append(node);
  const question = { files, answer, update };
  questions.set(source, question);
  return question;
}

/** Removes explanations and adds a link to the whole page. @param {Page['session']} session */
function makeCompact(session) {
  document.documentElement.dataset.embed = '';
  loadStyleSheet('embed.css');
  byId('drop').prepend(el('p', {}, 'Waiting for a file from the embedding page.'));
  const home = new URL('./', import.meta.url);
  const link = el('a', { href: home.href, target: '_blank', class: 'note whole', click: (event) => {
    event.preventDefault();
    openWholePage(home, session);
  } }, 'Open in gpuprism');
  byId('theme').after(link);
}

const PING_TIMEOUT_MS = 30_000;

/** Opens gpuprism in its own window and sends it the files. @param {URL} home @param {Page['session']} session */
function openWholePage(home, session) {
  const files = session.entries.map(({ file }) => file);
  const page = window.open(home);
  if (!page) {
    showPageProblem('No window could be opened', 'The browser or the embedding page does not allow it to open windows.');
    return;
  }
  waitForPong(page, home.origin, PING_TIMEOUT_MS).then(() => {
    for (const file of files) page.postMessage({ gpuprism: { buffer: file, title: file.name } }, home.origin);
  }, () => {});
}
