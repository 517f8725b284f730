// The panel that captures traces from a running server; `gpuprism view --server URL` offers it. The program behind the page talks to the
// server: the panel starts and cancels captures, shows their state, and opens what they wrote.

import { arrange, button, byId, commandLine, el, loadStyleSheet, noticeItem, noticeText, words } from './dom.js';
import { asProblem } from './problem.js';

/** @import { CaptureStatus, Entry, Page, ServedFile, ServedListItem, ServerCheck } from './types.js' */

const POLL_MS = 500;

/** @type {readonly (readonly [load: string, label: string])[]} */
const LOADS = [
  ['both', 'Prefill and decode probe'],
  ['prefill', 'Prefill probe: long prompts, one token each'],
  ['decode', 'Decode probe: a short prompt, many tokens'],
  ['own', 'No probe: the requests that the server gets anyway'],
];

/** @type {Record<string, 'warning' | 'error'>} */
const SEVERITIES = { warning: 'warning', problem: 'error' };

/** Adds the panel to the page. @param {Page} page @param {string} address of the captures @param {(item: ServedListItem) => ServedFile} asFile */
export async function showCapture(page, address, asFile) {
  await loadStyleSheet('capture.css');
  const panel = new CapturePanel(page, address, asFile);
  await panel.start();
}

class CapturePanel {
  #page;
  #address;
  #asFile;
  #title = el('span', { role: 'status' });
  #checks = el('ul', { class: 'notices', 'aria-label': 'Checks of the server' });
  #load = el('select', {}, ...LOADS.map(([load, label]) => new Option(label, load)));
  #steps = el('input', { type: 'number', min: 1, required: true });
  #startButton = el('button', { class: 'primary' }, 'Start capture');
  #cancelButton = button('Cancel', () => this.#change('cancel'));
  #folder = el('p', { class: 'note' });
  #progress = el('ol', { class: 'progress', 'aria-label': 'Progress', 'aria-live': 'polite' });
  #problem = el('p', { class: 'message' });
  #commands = el('div', { class: 'commands' });
  #resumeButton = button('The files are there: go on', () => this.#change('resume'), { class: 'primary' });
  #results = el('p', { class: 'actions' });
  #details;
  /** The capture whose files were opened. @type {string | null} */
  #opened = null;
  /** What the panel opened. @type {Entry[]} */
  #entries = [];

  /** @param {Page} page @param {string} address @param {(item: ServedListItem) => ServedFile} asFile */
  constructor(page, address, asFile) {
    this.#page = page;
    this.#address = address;
    this.#asFile = asFile;
    const form = el('form', { submit: (/** @type {Event} */ event) => {
      event.preventDefault();
      this.#change('start', { load: this.#load.value, steps: this.#steps.valueAsNumber });
    } }, el('label', {}, 'Load ', this.#load), el('label', {}, 'Steps ', this.#steps), this.#startButton, this.#cancelButton);
    const again = button('Check again', () => this.#check(), { class: 'small' });
    this.#details = el('details', { open: true },
      el('summary', {}, el('h2', {}, 'Capture'), this.#title),
      form, this.#folder, this.#problem, this.#commands, this.#resumeButton, this.#progress,
      el('div', { class: 'checks' }, el('h3', {}, 'The server'), again, this.#checks));
    byId('cards').before(el('section', { id: 'capture', 'aria-label': 'Capture from a server' }, this.#details, this.#results));
  }

  async start() {
    const status = await this.#request('');
    this.#steps.value = String(status.steps);
    this.#steps.max = String(status.max_steps);
    // A visit after the capture: its files are offered, and not opened unasked.
    this.#opened = status.complete;
    this.#show(status);
    this.#check();
  }

  /** @param {string} action @param {object} [body] @returns {Promise<CaptureStatus>} */
  #request(action, body) {
    return request(`${this.#address}${action && `/${action}`}`, action ? { method: 'POST', body: JSON.stringify(body ?? {}) } : {});
  }

  /** Starts, cancels or resumes. @param {string} action @param {object} [body] */
  async #change(action, body) {
    try {
      this.#show(await this.#request(action, body));
    } catch (problem) {
      this.#showProblem(asProblem(problem).message);
    }
  }

  async #check() {
    this.#checks.replaceChildren(el('li', { class: 'note' }, 'Asking the server'));
    try {
      /** @type {ServerCheck[]} */
      const lines = await request(`${this.#address}/server`);
      this.#checks.replaceChildren(...lines.map(checkItem));
    } catch (problem) {
      this.#checks.replaceChildren(noticeItem('error', asProblem(problem).message));
    }
  }

  /** @param {string | null} text */
  #showProblem(text) {
    this.#problem.replaceChildren(...(text ? words(text) : []));
    this.#problem.hidden = !text;
  }

  /** @param {CaptureStatus} status */
  #show(status) {
    const { state, title, folder, progress, problem, commands } = status;
    const isRunning = state === 'running';
    this.#title.textContent = `${title} · ${status.server}`;
    this.#folder.textContent = `Traces are written to ${folder}`;
    this.#showProblem(problem);
    this.#commands.replaceChildren(...commands.map(commandLine));
    this.#resumeButton.hidden = state !== 'awaiting_files';
    this.#startButton.hidden = isRunning;
    this.#cancelButton.hidden = !isRunning;
    this.#load.disabled = isRunning;
    this.#steps.disabled = isRunning;
    const lines = progress.map(({ text }, index) => JSON.stringify([index, text]));
    arrange(this.#progress, lines, (_, index) => el('li', {}, progress.at(index)?.text));
    if (isRunning) setTimeout(() => this.#poll(), POLL_MS);
    if (status.complete !== null && status.complete !== this.#opened) this.#openLatest(status);
    this.#showResults(status);
  }

  async #poll() {
    try {
      this.#show(await this.#request(''));
    } catch (problem) {
      this.#showProblem(asProblem(problem).message);
    }
  }

  /** Buttons that open the latest capture, and that compare it with the one before. @param {CaptureStatus} status */
  #showResults(status) {
    const { complete, files, comparisons } = status;
    const isOpen = complete === this.#opened && this.#entries.length > 0;
    this.#results.replaceChildren(
      ...(complete === null || isOpen ? [] : [button(`Open ${complete}`, () => this.#openLatest(status))]),
      ...comparisons.map(({ title, files: compared }) => button(title, () => this.#open(compared))),
      ...(comparisons.length > 0 ? [button(`Only ${complete}`, () => this.#open(files))] : []),
    );
    this.#results.hidden = this.#results.childElementCount === 0;
  }

  /** @param {CaptureStatus} status */
  #openLatest(status) {
    this.#opened = status.complete;
    this.#details.open = false;
    this.#open(status.files);
    this.#showResults(status);
  }

  /** Opens these files in place of those that the panel opened before. @param {ServedListItem[]} items */
  #open(items) {
    this.#page.attempt('The traces could not be opened', async () => {
      const before = this.#entries;
      for (const entry of before) this.#page.session.remove(entry);
      this.#entries = await this.#page.openFiles(items.map(this.#asFile));
    });
  }
}

/** @param {ServerCheck} check */
function checkItem({ level, text, remedy }) {
  if (level === 'ok') return el('li', { class: 'notice' }, el('span', { class: 'severity info' }, '✓ OK'), noticeText(text));
  return noticeItem(SEVERITIES[level] ?? 'warning', text, remedy && el('span', { class: 'remedy' }, ...words(remedy)));
}

/** @param {string} url @param {RequestInit} [init] */
async function request(url, init) {
  const response = await fetch(url, init).catch(() => null);
  if (!response) throw new Error('gpuprism view has ended: start it again, and open the address that it prints.');
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.detail);
  return answer;
}
