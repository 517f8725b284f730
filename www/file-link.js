// Addresses of the page that name a file on another host: `?url=`, and `#!/?url=`, as in links to Perfetto's page. The page may not fetch
// it; open.html may, and asks first. Loaded if the address names a file.

/** The address of open.html for the same files and view. @param {{ search: string, hash: string }} address */
export function openHtmlFor({ search, hash }) {
  const query = new URLSearchParams(search);
  const isPerfetto = hash.startsWith('#!');
  const view = new URLSearchParams(hash.slice(isPerfetto ? hash.indexOf('?') + 1 : 1));
  if (isPerfetto) view.getAll('url').forEach((url) => query.append('url', url));
  view.delete('url');
  return `open.html?${query}${view.size > 0 ? `#${view}` : ''}`;
}
