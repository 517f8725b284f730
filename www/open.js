// open.html?url=ADDRESS: says what would be loaded and from where, asks, loads it with progress, and leaves it for the
// analysing page. Nothing is asked of any host before the person agrees. Several `url=` are opened together.

import { bytes } from './cards.js';
import { byId, el, severityMark } from './dom.js';
import { leave } from './handover.js';
import { readable, refusal, remoteFile, silence } from './remote.js';

const asked = new URLSearchParams(location.search);

/** A failure with a sentence for the person. */
class Refused extends Error {}

start();

function start() {
  const addresses = asked.getAll('url');
  if (addresses.length === 0) {
    return showProblem('No address', 'Links to this page name a file: open.html?url=https://host/trace.json.gz', null);
  }
  const files = [];
  for (const address of addresses) {
    try {
      files.push(remoteFile(address));
    } catch (problem) {
      return showProblem(address, problem.message, null);
    }
  }
  ask(files);
}

function show(...cards) {
  byId('cards').replaceChildren(...cards);
}

function ask(files) {
  const hosts = [...new Set(files.map(({ url }) => url.host))].join(' and ');
  const many = files.length > 1 ? `${files.length} files` : 'a file';
  // It gets no focus: a key that was pressed for the link must not agree.
  const yes = el('button', { type: 'button', class: 'primary', click: () => loadAll(files) }, 'Load and open');
  show(el('article', { class: 'card', 'aria-label': 'Load from another host' },
    el('h2', {}, `This link opens ${many} from ${hosts}`), ...files.map(row),
    el('p', { class: 'note' }, 'Nothing has been asked of that host yet. If you load it, the host sees your network address, as with any download; no cookies and no referrer are sent. The file is then analysed in this tab by a page that has no access to other hosts.'),
    el('p', { class: 'actions' }, yes, leaveButton('Not now'))));
}

function leaveButton(label) {
  return el('button', { type: 'button', click: () => location.assign('./') }, label);
}

function row({ url }) {
  return el('p', { class: 'message' }, el('strong', {}, url.host), el('code', {}, ` ${readable(url.pathname)}${url.search}`));
}

async function loadAll(files) {
  const stop = new AbortController();
  const cards = files.map((file) => progressCard(file, () => stop.abort()));
  show(...cards.map(({ node }) => node));
  let at = 0;
  try {
    const loaded = [];
    for (; at < files.length; at += 1) loaded.push(await load(files[at], stop.signal, cards[at].update));
    cards.at(-1).keeping();
    await handOver(loaded);
  } catch (problem) {
    if (stop.signal.aborted) return ask(files);
    stop.abort();
    showProblem(files[Math.min(at, files.length - 1)].name, problem.message, files);
  }
}

/** The file, kept by the browser on disk where it is large. */
async function load({ url, name }, signal, update) {
  const response = await fetch(url, { credentials: 'omit', referrerPolicy: 'no-referrer', signal }).catch(async (error) => {
    if (signal.aborted) throw error;
    throw new Refused(await silence(url));
  });
  const why = refusal(response);
  if (why) throw new Refused(why);
  const total = Number(response.headers.get('content-length'));
  let read = 0;
  const counted = response.body.pipeThrough(new TransformStream({
    transform(chunk, next) {
      read += chunk.length;
      update(read, total);
      next.enqueue(chunk);
    },
  }));
  const blob = await new Response(counted).blob().catch((error) => {
    throw signal.aborted ? error : new Refused(cut(bytes(read), total > read ? ` of ${bytes(total)}` : ''));
  });
  return new File([blob], name);
}

/** The browser's own error does not tell the network from its store. */
const cut = (read, total) => `It ended after ${read}${total}. The connection broke, or the browser has no room for more: a private window keeps files in memory.`;

async function handOver(files) {
  const id = await leave(files, `open.html${location.search}`).catch((error) => {
    throw new Refused(`The browser could not keep the file for the analysing page: ${error.message}`);
  });
  const query = new URLSearchParams({ opened: id });
  if (asked.has('embed')) query.set('embed', asked.get('embed'));
  location.replace(`./?${query}${location.hash}`);
}

function progressCard({ url, name }, cancel) {
  const bar = el('progress', { 'aria-label': `Loading ${name}` });
  const figures = el('p', { class: 'figures note' }, `asking ${url.host}`);
  const node = el('article', { class: 'card reading' }, el('h2', { class: 'file' }, name), bar, figures,
    el('button', { type: 'button', click: cancel }, 'Cancel'));
  /** A host that packs the file on its way tells the packed length, which says nothing of how much is left. */
  const update = (read, total) => {
    const known = total >= read;
    if (known) Object.assign(bar, { max: total, value: read });
    else bar.removeAttribute('value');
    figures.textContent = `${bytes(read)}${known ? ` of ${bytes(total)}` : ''} from ${url.host}`;
  };
  const keeping = () => {
    figures.textContent = 'handing it to the analysing page';
  };
  return { node, update, keeping };
}

function showProblem(title, message, files) {
  const remedies = files && [
    el('p', { class: 'note' }, 'You can download it yourself and drop it on ', el('a', { href: './' }, 'gpuprism'), ':'),
    ...files.map(({ url }) => el('p', { class: 'command' }, el('a', { href: url.href, target: '_blank', rel: 'noopener noreferrer' }, url.href))),
  ];
  const actions = files
    ? [el('button', { type: 'button', click: () => loadAll(files) }, 'Try again')]
    : [leaveButton('Open gpuprism')];
  show(el('article', { class: 'card error', role: 'alert' },
    el('h2', { class: 'file' }, severityMark('error'), title), el('p', { class: 'message' }, message),
    ...(remedies ?? []), el('p', { class: 'actions' }, ...actions)));
}
