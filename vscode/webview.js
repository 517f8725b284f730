// The HTML of an editor: the page in a frame, which the policy allows from one address.

'use strict';

/** @param {string} text */
const escaped = (text) => text.replace(/[&<>"']/g, (letter) => `&#${letter.charCodeAt(0)};`);

/** @param {string} address of the page @param {string} fileName */
function webviewHtml(address, fileName) {
  const { origin } = new URL(address);
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; frame-src ${escaped(origin)}; style-src 'unsafe-inline'">
<title>${escaped(fileName)}</title>
<style>html, body, iframe { width: 100%; height: 100%; margin: 0; padding: 0; border: 0; } iframe { display: block; }</style>
</head>
<body><iframe src="${escaped(address)}" title="${escaped(`${fileName} in gpuprism`)}" allow="clipboard-write"></iframe></body>
</html>`;
}

module.exports = { webviewHtml };
