// Copies the address of what is on screen, and says what the link opens: the view alone, or also the files. Loaded when a person asks
// for the link.

import { reportInAddress } from './address.js';
import { el, loadStyleSheet, onDemand } from './dom.js';

/** @import { Session } from './session.js' */

/** The addresses at which the pages that sent these files send them again. @type {WeakMap<File, string>} */
const senders = new WeakMap();

const loadStyle = onDemand(async () => loadStyleSheet('share.css'));

/** Keeps the address at which the page that sent a file sends it again, if it is one. @param {File} file @param {unknown} address */
export function rememberSender(file, address) {
  if (typeof address === 'string' && /^https?:\/\//.test(address) && URL.canParse(address)) senders.set(file, address);
}

/** Copies the link. Resolves with what to show about it. @param {Session} session @returns {Promise<HTMLElement>} */
export async function copyViewLink({ entries }) {
  loadStyle();
  const link = new URL(location.href);
  // The link is for a window of its own.
  if (link.searchParams.has('embed')) link.searchParams.delete('embed');
  const address = el('input', { type: 'text', readonly: true, value: link.href, 'aria-label': 'The link' });
  const copied = await navigator.clipboard.writeText(link.href).then(() => 'Copied.', () => 'The browser refused to copy: the link is above.');
  return el('div', { class: 'view-link', role: 'status' }, address, el('p', { class: 'note' }, copied, ' ', ...meaning(link, entries.map(({ file }) => file))));
}

/** What somebody sees who opens the link. @param {URL} link @param {{ name: string }[]} files @returns {import('./dom.js').Child[]} */
function meaning({ pathname }, files) {
  if (reportInAddress()) return ['The link itself contains the report: anybody who has the link can read it.'];
  if (document.querySelector('meta[name="gpuprism-files"]')) return ['The link opens this view on this machine, as long as gpuprism view runs.'];
  if (pathname.endsWith('/open.html')) return ['The link asks, loads the file from its host and opens this view.'];
  const again = files.map((file) => (file instanceof File ? senders.get(file) : undefined)).find(Boolean);
  return [
    `The link has this view and not the files: whoever opens it opens ${files.map(({ name }) => name).join(', ')} in it.`,
    again && ' The page that sent it sends it again: ', again && el('a', { href: again, target: '_blank', rel: 'noopener noreferrer' }, again),
  ];
}
