// Serves the page of gpuprism and the files of an editor to the editor's frame: on the loopback address, at a path that cannot be guessed, files
// in ranges, so that they can be larger than the memory. It answers GET and HEAD alone and names no other file of the machine.

'use strict';

const { randomBytes } = require('node:crypto');
const fs = require('node:fs');
const http = require('node:http');
const path = require('node:path');

/** @type {Record<string, string>} */
const TYPES = {
  '.html': 'text/html; charset=utf-8', '.js': 'text/javascript; charset=utf-8', '.css': 'text/css; charset=utf-8', '.wasm': 'application/wasm',
  '.svg': 'image/svg+xml', '.json': 'application/json', '.gz': 'application/gzip', '.png': 'image/png',
};

/** The list of the files that the page opens: see www/served.js. */
const LIST = 'served';

class PageServer {
  #page;
  /** The files of each editor, by the first part of its address. @type {Map<string, string[]>} */
  #views = new Map();
  /** @type {Promise<http.Server> | null} */
  #server = null;

  /** @param {string} page the folder with the built page */
  constructor(page) {
    this.#page = page;
  }

  /** Serves the page with these files. @param {string[]} files */
  async show(files) {
    this.#server ??= this.#listen();
    const server = await this.#server;
    const key = randomBytes(16).toString('hex');
    this.#views.set(key, files);
    const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
    return { address: `http://127.0.0.1:${port}/${key}/`, close: () => void this.#views.delete(key) };
  }

  close() {
    this.#server?.then((server) => server.close());
    this.#views.clear();
  }

  /** @returns {Promise<http.Server>} */
  #listen() {
    const server = http.createServer((request, response) => {
      this.#answer(request, response).catch(() => refuse(response, 500));
    });
    return new Promise((resolve, reject) => {
      server.once('error', reject);
      server.listen(0, '127.0.0.1', () => resolve(server));
    });
  }

  /** @param {http.IncomingMessage} request @param {http.ServerResponse} response */
  async #answer(request, response) {
    if (request.method !== 'GET' && request.method !== 'HEAD') return refuse(response, 405);
    const [, key, ...rest] = new URL(request.url ?? '/', 'http://127.0.0.1').pathname.split('/');
    const files = this.#views.get(key);
    const name = decodeURIComponent(rest.join('/'));
    if (!files) return refuse(response, 404);
    if (name === '' || name === 'index.html') return sendText(request, response, '.html', await this.#index());
    if (name === LIST) return sendText(request, response, '.json', JSON.stringify(await list(files)));
    const [, number] = /^file\/(\d{1,4})$/.exec(name) ?? [];
    const own = number === undefined ? this.#inPage(name) : files[Number(number)];
    return own ? send(request, response, own) : refuse(response, 404);
  }

  /** The page, which learns where the list of its files is. */
  async #index() {
    const html = await fs.promises.readFile(path.join(this.#page, 'index.html'), 'utf8');
    return html.replace('<meta name="viewport"', `<meta name="gpuprism-files" content="${LIST}">\n<meta name="viewport"`);
  }

  /** A file of the page; null outside of its folder. @param {string} name */
  #inPage(name) {
    const file = path.resolve(this.#page, name);
    return file.startsWith(this.#page + path.sep) ? file : null;
  }
}

/** @param {string[]} files */
async function list(files) {
  const items = await Promise.all(files.map(async (file, id) => {
    const { size, mtimeMs } = await fs.promises.stat(file);
    return { id: String(id), name: path.basename(file), size, modified_ms: Math.round(mtimeMs), is_named: true };
  }));
  return { folder: null, files: items, is_complete: true, can_capture: false };
}

/** @param {string} type */
const headers = (type) => ({ 'content-type': TYPES[type] ?? 'application/octet-stream', 'cache-control': 'no-store', 'x-content-type-options': 'nosniff', 'cross-origin-resource-policy': 'same-origin' });

/** @param {http.ServerResponse} response @param {number} status */
function refuse(response, status) {
  if (!response.headersSent) response.writeHead(status);
  response.end();
}

/** @param {http.IncomingMessage} request @param {http.ServerResponse} response @param {string} type @param {string} text */
function sendText(request, response, type, text) {
  const body = Buffer.from(text);
  response.writeHead(200, { ...headers(type), 'content-length': body.length });
  response.end(request.method === 'HEAD' ? undefined : body);
}

/** Sends a file, or the range of it that is asked for. @param {http.IncomingMessage} request @param {http.ServerResponse} response @param {string} file */
async function send(request, response, file) {
  const stat = await fs.promises.stat(file).catch(() => null);
  if (!stat?.isFile()) return refuse(response, 404);
  const range = rangeOf(request.headers.range, stat.size);
  if (range === null) {
    response.writeHead(416, { 'content-range': `bytes */${stat.size}` });
    response.end();
    return undefined;
  }
  const { start, end, isPart } = range;
  response.writeHead(isPart ? 206 : 200, {
    ...headers(path.extname(file)), 'accept-ranges': 'bytes', 'content-length': end - start + 1, ...(isPart && { 'content-range': `bytes ${start}-${end}/${stat.size}` }),
  });
  if (request.method === 'HEAD' || end < start) {
    response.end();
    return undefined;
  }
  fs.createReadStream(file, { start, end }).on('error', () => response.destroy()).pipe(response);
  return undefined;
}

/** The first and the last byte of `bytes=0-99`, or of the whole file; null for a range that the file does not have.
 * @param {string | undefined} header @param {number} size */
function rangeOf(header, size) {
  const [, from, to] = /^bytes=(\d+)-(\d*)$/.exec(header ?? '') ?? [];
  if (from === undefined) return { start: 0, end: size - 1, isPart: false };
  const [start, end] = [Number(from), Math.min(to ? Number(to) : size - 1, size - 1)];
  return start <= end ? { start, end, isPart: true } : null;
}

module.exports = { PageServer };
