// open.html?url=ADDRESS: shows what would be loaded and from where, asks, loads it with progress, and leaves it for the main page.
// No host is contacted before the person agrees. Several `url=` are opened together.

import { actions, bytes } from './cards.js';
import { button, byId, el, note, severityMark } from './dom.js';
import { leave } from './handover.js';
import { asProblem } from './problem.js';
import { failureReason, readable, refusal, remoteFile } from './remote.js';

/** @import { RemoteFile } from './remote.js' */

const query = new URLSearchParams(location.search);

start();

function start() {
  const addresses = query.getAll('url');
  if (addresses.length === 0) {
    showProblem('No address', 'Links to this page name a file: open.html?url=https://host/trace.json.gz', []);
    return;
  }
  /** @type {RemoteFile[]} */
  const files = [];
  for (const address of addresses) {
    try {
      files.push(remoteFile(address));
    } catch (problem) {
      showProblem(address, asProblem(problem).message, []);
      return;
    }
  }
  ask(files);
}

/** @param {HTMLElement[]} cards */
function show(...cards) {
  byId('cards').replaceChildren(...cards);
}

/** @param {RemoteFile[]} files */
function ask(files) {
  const hosts = [...new Set(files.map(({ url }) => url.host))].join(' and ');
  const count = files.length > 1 ? `${files.length} files` : 'a file';
  // The button does not get the focus: a key that was pressed on the link must not agree.
  const agree = button('Load and open', () => loadAll(files), { class: 'primary' });
  show(el('article', { class: 'card', 'aria-label': 'Load from another host' },
    el('h2', {}, `This link opens ${count} from ${hosts}`), ...files.map(fileLine),
    note('Nothing has been requested from that host yet. If you load it, the host sees your network address, as with any download; no cookies and no referrer are sent. The file is then analyzed in this tab by a page that has no access to other hosts.'),
    actions(agree, leaveButton('Not now'))));
}

/** @param {string} label */
function leaveButton(label) {
  return button(label, () => location.assign('./'));
}

/** @param {RemoteFile} file */
function fileLine({ url }) {
  return el('p', { class: 'message' }, el('strong', {}, url.host), el('code', {}, ` ${readable(url.pathname)}${url.search}`));
}

/** @param {RemoteFile[]} files */
async function loadAll(files) {
  const abort = new AbortController();
  const cards = files.map((file) => progressCard(file, () => abort.abort()));
  show(...cards.map(({ node }) => node));
  let index = 0;
  try {
    const loaded = [];
    for (; index < files.length; index += 1) loaded.push(await load(files[index], abort.signal, cards[index].update));
    cards.at(-1)?.showHandover();
    await handOver(loaded);
  } catch (problem) {
    if (abort.signal.aborted) {
      ask(files);
      return;
    }
    abort.abort();
    showProblem(files[Math.min(index, files.length - 1)].name, asProblem(problem).message, files);
  }
}

/** @param {RemoteFile} file @param {AbortSignal} signal @param {(read: number, total: number) => void} onProgress */
async function load({ url, name }, signal, onProgress) {
  const response = await fetch(url, { credentials: 'omit', referrerPolicy: 'no-referrer', signal }).catch(async (problem) => {
    throw signal.aborted ? problem : new Error(await failureReason(url));
  });
  const why = refusal(response);
  if (why || !response.body) throw new Error(why ?? 'The host sent an empty answer.');
  const total = Number(response.headers.get('content-length'));
  let read = 0;
  /** @type {TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>>} */
  const counter = new TransformStream({
    transform(chunk, controller) {
      read += chunk.length;
      onProgress(read, total);
      controller.enqueue(chunk);
    },
  });
  const blob = await new Response(response.body.pipeThrough(counter)).blob().catch((problem) => {
    throw signal.aborted ? problem : new Error(brokenOff(read, total));
  });
  return new File([blob], name);
}

/** The browser has one error for a broken connection and a full disk. @param {number} read @param {number} total */
const brokenOff = (read, total) => `It ended after ${bytes(read)}${total > read ? ` of ${bytes(total)}` : ''}. The connection broke, or the browser has no space for more: a private window keeps files in memory.`;

/** @param {File[]} files */
async function handOver(files) {
  const id = await leave(files, `open.html${location.search}`).catch((problem) => {
    throw new Error(`The browser could not store the file for the main page: ${asProblem(problem).message}`);
  });
  const target = new URLSearchParams({ opened: id });
  const embed = query.get('embed');
  if (embed !== null) target.set('embed', embed);
  location.replace(`./?${target}${location.hash}`);
}

/** @param {RemoteFile} file @param {() => void} cancel */
function progressCard({ url, name }, cancel) {
  const bar = el('progress', { 'aria-label': `Loading ${name}` });
  const figures = el('p', { class: 'figures note' }, `connecting to ${url.host}`);
  const node = el('article', { class: 'card reading' }, el('h2', { class: 'file' }, name), bar, figures, button('Cancel', cancel));
  /** @param {number} read @param {number} total */
  const update = (read, total) => {
    // A host that compresses the file for the transfer sends the compressed length, which is too small.
    const hasTotal = total >= read;
    if (hasTotal) Object.assign(bar, { max: total, value: read });
    else bar.removeAttribute('value');
    figures.textContent = `${bytes(read)}${hasTotal ? ` of ${bytes(total)}` : ''} from ${url.host}`;
  };
  const showHandover = () => {
    figures.textContent = 'handing it to the main page';
  };
  return { node, update, showHandover };
}

/** Shows a problem. The person can load `files` again or download them by hand.
 * @param {string} title @param {string} message @param {RemoteFile[]} files */
function showProblem(title, message, files) {
  const links = files.map(({ url }) => el('p', { class: 'command' }, el('a', { href: url.href, target: '_blank', rel: 'noopener noreferrer' }, url.href)));
  const hint = el('p', { class: 'note' }, 'You can download it yourself and drop it on ', el('a', { href: './' }, 'gpuprism'), ':');
  show(el('article', { class: 'card error', role: 'alert' },
    el('h2', { class: 'file' }, severityMark('error'), title), el('p', { class: 'message' }, message),
    links.length > 0 && hint, ...links, actions(files.length > 0 ? button('Try again', () => loadAll(files)) : leaveButton('Open gpuprism'))));
}
