// Checks addresses of files on other hosts, corrects links to a file's web page, and explains why a load failed.

/** @typedef {{ url: URL, name: string }} RemoteFile */

const LOCAL_HOSTS = ['localhost', '127.0.0.1'];

/** Parses an address. Throws a sentence if it may not be loaded. @param {string} text @returns {RemoteFile} */
export function remoteFile(text) {
  const url = fileAddress(parsed(text));
  if (url.username || url.password) throw new Error('The address has a user name or a password, which a link must not have.');
  const isLocal = LOCAL_HOSTS.includes(url.hostname);
  if (url.protocol !== 'https:' && !(url.protocol === 'http:' && (isLocal || url.origin === location.origin))) {
    throw new Error(`Only https addresses are loaded, and http from this machine; this one is ${url.protocol.slice(0, -1)}.`);
  }
  return { url, name: nameOf(url) };
}

/** @param {string} text */
function parsed(text) {
  try {
    return new URL(text, location.href);
  } catch {
    throw new Error('This is not an address.');
  }
}

/** Replaces a link to a file's page on Hugging Face or GitHub by the file's address. @param {URL} url */
function fileAddress(url) {
  const [, owner, name, kind, ...rest] = url.pathname.split('/');
  if (['huggingface.co', 'hf.co'].includes(url.hostname)) url.pathname = url.pathname.replace(/^((?:\/(?:datasets|spaces))?\/[^/]+\/[^/]+)\/blob\//, '$1/resolve/');
  if (url.hostname === 'github.com' && ['blob', 'raw'].includes(kind) && rest.length > 1) {
    return new URL(`https://raw.githubusercontent.com/${[owner, name, ...rest].join('/')}`);
  }
  return url;
}

/** @param {URL} url */
function nameOf({ pathname, host }) {
  const last = pathname.split('/').at(-1);
  return (last && readable(last)) || host;
}

/** Decodes percent escapes. A path with invalid escapes stays as it is. @param {string} path */
export function readable(path) {
  try {
    return decodeURIComponent(path);
  } catch {
    return path;
  }
}

/** @type {Record<number, string>} */
const STATUS_TEXTS = {
  401: 'It is private: the host wants a sign-in, which gpuprism does not send.',
  403: 'The host refuses it: it may be private, or the link may have expired.',
  404: 'There is no such file, or it is private.',
  410: 'The file is gone.',
  429: 'The host received too many requests. Try again later.',
};

/** Returns why the host's answer cannot be opened; null if it can. @param {Response} response */
export function refusal(response) {
  if (!response.ok) return `${STATUS_TEXTS[response.status] ?? 'The host could not send it.'} It answered ${response.status}.`;
  const type = response.headers.get('content-type') ?? '';
  return type.startsWith('text/html') ? 'This address is a web page, not a file. Use the address of the file itself.' : null;
}

/** Browsers hide why a request failed; one without CORS shows whether the host answers at all. @param {URL} url */
export async function failureReason(url) {
  if (!navigator.onLine) return 'There is no network.';
  if (location.protocol === 'https:' && url.protocol === 'http:') {
    return 'A page loaded over https may not load files over http, unless the browser makes an exception for this machine.';
  }
  const hasAnswered = await fetch(url, { method: 'HEAD', mode: 'no-cors', credentials: 'omit', referrerPolicy: 'no-referrer' }).then(() => true, () => false);
  return hasAnswered
    ? `${url.host} answers, but does not let pages of other hosts read this file (CORS).`
    : `${url.host} could not be reached, or it redirects to an address that is not https.`;
}
