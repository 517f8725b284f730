// Addresses of files on other hosts: which may be loaded, what is behind the links that people copy, and what to say of a
// load that failed.

/** {url, name} of an address as given in a link; throws a sentence where it cannot be loaded. */
export function remoteFile(text) {
  const url = behindLink(parsed(text));
  if (url.username || url.password) throw new Error('The address carries a user name or a password, which a link must not.');
  const local = ['localhost', '127.0.0.1'].includes(url.hostname);
  if (url.protocol !== 'https:' && !(url.protocol === 'http:' && (local || url.origin === location.origin))) {
    throw new Error(`Only https addresses are loaded, and http from this machine; this one is ${url.protocol.slice(0, -1)}.`);
  }
  return { url, name: nameOf(url) };
}

function parsed(text) {
  try {
    return new URL(text, location.href);
  } catch {
    throw new Error('This is not an address.');
  }
}

/** The pages that show a file on Hugging Face and GitHub are HTML; the file itself has an address beside them. */
function behindLink(url) {
  const [, owner, name, kind, ...rest] = url.pathname.split('/');
  if (['huggingface.co', 'hf.co'].includes(url.hostname)) url.pathname = url.pathname.replace(/^((?:\/(?:datasets|spaces))?\/[^/]+\/[^/]+)\/blob\//, '$1/resolve/');
  if (url.hostname === 'github.com' && ['blob', 'raw'].includes(kind) && rest.length > 1) {
    return new URL(`https://raw.githubusercontent.com/${[owner, name, ...rest].join('/')}`);
  }
  return url;
}

function nameOf({ pathname, host }) {
  const last = pathname.split('/').at(-1);
  return (last && readable(last)) || host;
}

/** A path as people write it; one that is wrongly escaped stays as it is. */
export function readable(path) {
  try {
    return decodeURIComponent(path);
  } catch {
    return path;
  }
}

const ANSWERS = {
  401: 'It is private: the host asks who you are, and gpuprism sends no sign-in.',
  403: 'The host refuses it: it may be private, or the link may have expired.',
  404: 'There is no such file, or it is private.',
  410: 'The file is gone.',
  429: 'The host has had too many requests and asks to wait.',
};

/** Why the host's answer cannot be opened; null if it can. */
export function refusal(response) {
  if (!response.ok) return `${ANSWERS[response.status] ?? 'The host could not give it.'} It answered ${response.status}.`;
  const type = response.headers.get('content-type') ?? '';
  return type.startsWith('text/html') ? 'There is a web page at this address, not a file: it needs the address of the file itself.' : null;
}

/** Why no answer came. A browser does not tell a script; whether the host answers at all is asked in a mode without CORS. */
export async function silence(url) {
  if (!navigator.onLine) return 'There is no network.';
  if (location.protocol === 'https:' && url.protocol === 'http:') {
    return 'A page that came over https may not load over http, unless the browser makes an exception for this machine.';
  }
  const answers = await fetch(url, { method: 'HEAD', mode: 'no-cors', credentials: 'omit', referrerPolicy: 'no-referrer' }).then(() => true, () => false);
  return answers
    ? `${url.host} answers, but does not let pages of other hosts read this file (CORS).`
    : `${url.host} could not be reached, or it redirects to an address that is not https.`;
}
