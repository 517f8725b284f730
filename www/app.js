// Starts the page and connects session, renderer, address and the parts of the page. It computes no numbers.

import { readAddress, writeAddress } from './address.js';
import { showCards, showChips, showPageProblem } from './cards.js';
import { byId, forbidFrames, onDemand } from './dom.js';
import { ExternalFiles } from './external-files.js';
import { wireIntake } from './intake.js';
import { wireKeys } from './keys.js';
import { asProblem } from './problem.js';
import { Renderer } from './renderer-client.js';
import { Session, isAuxiliary } from './session.js';
import { showRuleSets, showSettings, showTraceSettings, wireSettings } from './settings.js';
import { Store } from './store.js';
import { wireTheme } from './theme.js';
import { Windows } from './windows.js';
import { compiledModule } from './worker-link.js';

/** @import { Page, SourceFile } from './types.js' */

const TITLE = 'gpuprism: where did the GPU time go';

const store = new Store({ view: readAddress(), entries: [], progress: 0, readers: 0, reports: [], ruleFiles: [], overview: null });
const renderer = new Renderer(compiledModule('gpuprism'));
const openSets = onDemand(() => import('./file-sets.js'));
const openTools = onDemand(async () => new (await import('./tools.js')).Tools(session));
/** @type {Page['requestTool']} */
const requestTool = async (op, args) => (await openTools()).request(op, args);
/** @type {Session} */
const session = new Session(store, renderer, (label, text) => requestTool('translate', { label, text }));
const openResults = onDemand(async () => new (await import('./results.js')).Results(page));

/** @type {Page} */
const page = {
  store,
  session,
  renderer,
  requestTool,
  openFiles,
  attempt,
  look,
  async jobRanks() {
    return (await openResults()).jobRanks();
  },
  async prove(table, find) {
    (await openResults()).prove(table, find);
  },
  exported: (format, table) => requestTool('export', { format, table, baseline: store.baseline }),
  get windows() {
    return windows;
  },
};

store.subscribe(['entries', 'progress'], () => showCards(page));
store.subscribe(['entries'], () => {
  showChips(page);
  showTraceSettings(session);
  showState();
});
store.subscribe(['ruleFiles'], () => attempt('The rule sets could not be listed', refreshRuleSets));
store.subscribe(['view'], ({ view }) => showSettings(view));
const windows = new Windows(page);
// The results subscribe to the reports themselves once they are loaded.
store.subscribe(['reports'], () => attempt('The results could not be shown', openResults));
const externalFiles = new ExternalFiles(page);

wireTheme();
wireIntake(page);
wireSettings(look);
wireKeys(toggleHelp);
addEventListener('popstate', restoreView);
start();
externalFiles.takeAddress();
externalFiles.takeFiles();
externalFiles.takeServed();
externalFiles.takeReport();
externalFiles.takeClosed();

/** @param {SourceFile[]} files @param {File[]} [captures] */
async function openFiles(files, captures) {
  forbidFrames();
  // Loaded while the files are read.
  openResults().catch(() => {});
  windows.preload();
  // Other files are entries before this function returns.
  const hasTables = files.filter(({ name }) => /\.csv(\.gz)?$/.test(name)).length > 1;
  return session.open(hasTables ? await (await openSets()).joinRuns(files) : files, captures);
}

async function start() {
  try {
    const { palette, build } = await renderer.start();
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(palette);
    document.adoptedStyleSheets = [sheet];
    byId('build').textContent = `gpuprism ${build.version}`;
    document.documentElement.dataset.simd = String(build.simd);
    if (externalFiles.hasStoredRules()) attempt('Your own rules could not be used', async () => (await openResults()).restoreRules());
    await refreshRuleSets();
    showSettings(store.view);
    whenIdle(prepareOffline);
  } catch (thrown) {
    showPageProblem('gpuprism could not start', `${asProblem(thrown).message}. It needs a browser of 2023 or later with WebAssembly SIMD.`);
  }
}

/** A page that draws all the time is never idle. */
const IDLE_WITHIN_MS = 2_000;

/** Calls a function once the page is idle; Safari has no such call. @param {() => void} act */
const whenIdle = (act) => void ('requestIdleCallback' in self ? requestIdleCallback(act, { timeout: IDLE_WITHIN_MS }) : setTimeout(act));

async function prepareOffline() {
  const offline = await import('./offline.js').catch(() => null);
  offline?.prepareOffline(() => byId('build').append(' · works offline'));
}

async function refreshRuleSets() {
  showRuleSets(await renderer.ruleSets(session.ruleFiles), store.view.rules);
}

function showState() {
  const { entries } = session;
  const hasResults = session.reports.length > 0;
  byId('empty').hidden = entries.some((entry) => entry.status !== 'failed' && !entry.isOwnRules);
  // The timeline of the first file comes before its results: see results.js.
  byId('results').hidden = !hasResults && byId('results').dataset.shown === 'nothing';
  byId('export').hidden = !hasResults;
  byId('add').hidden = entries.length === 0;
  const isAnalyzing = hasResults && entries.some((entry) => entry.status === 'analyzing' && entry.text !== null);
  byId('analyzing').textContent = isAnalyzing ? 'Analyzing' : '';
  byId('results').setAttribute('aria-busy', String(isAnalyzing));
  const names = entries.filter((entry) => entry.text !== null && !isAuxiliary(entry)).map((entry) => entry.file.name);
  document.title = names.length > 0 ? `${names.join(', ')} - gpuprism` : TITLE;
}

/** @type {Page['attempt']} */
async function attempt(title, step) {
  try {
    await step();
  } catch (thrown) {
    const problem = asProblem(thrown);
    if (problem.kind !== 'cancelled') showPageProblem(title, problem.message);
  }
}

/** @type {Page['look']} */
function look(change, options = { isStep: true }) {
  const view = { ...store.view, ...change };
  if (JSON.stringify(view) === JSON.stringify(store.view)) return;
  writeAddress(view, options);
  store.update({ view });
}

/** Back and Forward: takes the view from the address. */
function restoreView() {
  store.update({ view: readAddress() });
  externalFiles.takeReport();
  externalFiles.takeAddress();
}

/** Shows or hides the help. Its script is loaded on the first use. */
function toggleHelp() {
  attempt('The help could not be shown', async () => (await import('./help.js')).toggleHelp());
}
