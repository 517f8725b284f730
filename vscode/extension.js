// The extension for VS Code: a read-only editor that shows a trace in the page of gpuprism. The page and the file come from a server
// on this machine that only this editor reaches (page-server.js); nothing is sent anywhere.

'use strict';

const path = require('node:path');
const vscode = require('vscode');
const { PageServer } = require('./page-server.js');
const { webviewHtml } = require('./webview.js');

const VIEW_TYPE = 'gpuprism.trace';
const PAGE = path.join(__dirname, 'page');

/** The files of an editor: the one that was opened first, and those that were chosen with it. */
class TraceDocument {
  /** @param {import('vscode').Uri} uri */
  constructor(uri) {
    this.uri = uri;
  }

  dispose() {}
}

class TraceEditor {
  #server = new PageServer(PAGE);

  /** @param {import('vscode').Uri} uri */
  openCustomDocument(uri) {
    return new TraceDocument(uri);
  }

  /** @param {TraceDocument} document @param {import('vscode').WebviewPanel} panel */
  async resolveCustomEditor({ uri }, panel) {
    const view = await this.#server.show([uri.fsPath]);
    panel.onDidDispose(() => view.close());
    panel.webview.options = { enableScripts: true, localResourceRoots: [] };
    // On another machine (SSH, a container) VS Code forwards the port.
    const address = await vscode.env.asExternalUri(vscode.Uri.parse(view.address));
    panel.webview.html = webviewHtml(address.toString(true), path.basename(uri.fsPath));
  }

  dispose() {
    this.#server.close();
  }
}

/** @param {import('vscode').ExtensionContext} context */
function activate(context) {
  const editor = new TraceEditor();
  const open = (/** @type {import('vscode').Uri | undefined} */ uri) => {
    const chosen = uri ?? vscode.window.activeTextEditor?.document.uri;
    if (!chosen) {
      vscode.window.showInformationMessage('Choose a trace in the explorer, then “Open with gpuprism”.');
      return undefined;
    }
    return vscode.commands.executeCommand('vscode.openWith', chosen, VIEW_TYPE);
  };
  context.subscriptions.push(
    editor,
    vscode.commands.registerCommand('gpuprism.open', open),
    // The page keeps its state while its tab is hidden: it would read the file again otherwise.
    vscode.window.registerCustomEditorProvider(VIEW_TYPE, editor, { webviewOptions: { retainContextWhenHidden: true }, supportsMultipleEditorsPerDocument: true }),
  );
}

module.exports = { activate };
