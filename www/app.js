// The start of the page: connects session, renderer, address and the parts of the page. It computes no numbers.

import { readAddress, writeAddress } from './address.js';
import { showCards, showChips, showPageProblem } from './cards.js';
import { byId, forbidFrames, onDemand } from './dom.js';
import { Elsewhere } from './elsewhere.js';
import { wireExports } from './exports.js';
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

/** @import { Change } from './session.js' */
/** @import { Results } from './results.js' */
/** @import { Page, Settings, View } from './types.js' */

const TITLE = 'gpuprism: where did the GPU time go';

const store = new Store(readAddress());
const renderer = new Renderer(compiledModule('gpuprism'));
const openTools = onDemand(async () => new (await import('./tools.js')).Tools(() => session.reports, () => session.whenComplete()));
/** @type {Session} */
const session = new Session(renderer, changed, async (name, text) => (await openTools()).translate(name, text));
const openResults = onDemand(async () => new (await import('./results.js')).Results(page));

/** @type {Page} */
const page = {
  store,
  session,
  renderer,
  openTools,
  openFiles,
  attempt,
  look,
  amend,
  openKernel(kernel) {
    amend({ kernel }, { isStep: true });
    withResults((results) => results.showKernel());
  },
  async jobWindows(entry, window) {
    return (await openResults()).jobWindows(entry, window);
  },
  async exported(format, table) {
    const tools = await openTools();
    return tools.export(format, table, store.baseline);
  },
  get windows() {
    return windows;
  },
};
const windows = new Windows(page);
const elsewhere = new Elsewhere(page);

wireTheme();
wireIntake(openFiles, showPageProblem);
wireSettings(setSettings);
wireExports(page);
wireKeys(toggleHelp);
addEventListener('popstate', restoreView);
start();
elsewhere.takeFiles();
elsewhere.takeReport();

/** @param {File[]} files */
function openFiles(files) {
  forbidFrames();
  // Loaded while the files are read.
  openResults().catch(() => {});
  windows.preload();
  return session.open(files);
}

async function start() {
  try {
    const { palette, build } = await renderer.start();
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(palette);
    document.adoptedStyleSheets = [sheet];
    byId('build').textContent = `gpuprism ${build.version}`;
    document.documentElement.dataset.simd = String(build.simd);
    setSettings(settingsOf(store.view), { isStep: false });
    if (elsewhere.hasStoredRules()) attempt('Your own rules could not be used', async () => (await openResults()).restoreRules());
    await refreshRuleSets();
    whenIdle(prepareOffline);
  } catch (thrown) {
    showPageProblem('gpuprism could not start', `${asProblem(thrown).message}. It needs a browser of 2023 or later with WebAssembly SIMD.`);
  }
}

const whenIdle = self.requestIdleCallback ?? setTimeout;

async function prepareOffline() {
  const offline = await import('./offline.js').catch(() => null);
  offline?.prepareOffline(() => byId('build').append(' · works offline'));
}

/**
 * @param {View} view
 * @returns {Settings}
 */
const settingsOf = ({ rules, attribution, devices }) => ({ rules, attribution, devices });

/**
 * @param {Partial<Settings>} settings
 * @param {{ isStep: boolean }} [options]
 */
function setSettings(settings, options = { isStep: true }) {
  amend(settings, options);
  session.setSettings(settings);
  showSettings(session.settings);
}

async function refreshRuleSets() {
  showRuleSets(await renderer.ruleSets(session.ruleFiles), session.settings.rules);
}

/**
 * Called by the session after each change.
 * @param {Change} what
 */
function changed(what) {
  showCards(session.entries, session);
  if (what === 'progress') return;
  withResults((results) => results.filesChanged());
  elsewhere.filesChanged();
  showChips(session.entries, session);
  showTraceSettings(session);
  showState();
  if (what === 'rules') attempt('The rule sets could not be listed', refreshRuleSets);
  if (what === 'reports') {
    windows.apply({ all: false });
    attempt('The results could not be shown', async () => (await openResults()).refresh());
  } else withResults((results) => results.compare());
}

/**
 * Calls a function with the results, if their script was requested.
 * @param {(results: Results) => void} act
 */
async function withResults(act) {
  const results = await openResults.loaded()?.catch(() => null);
  if (results) act(results);
}

function showState() {
  const { entries } = session;
  const hasResults = session.reports.length > 0;
  byId('empty').hidden = entries.some((entry) => entry.status !== 'failed' && !entry.isOwnRules);
  byId('results').hidden = !hasResults;
  byId('export').hidden = !hasResults;
  byId('add').hidden = entries.length === 0;
  const isAnalysing = hasResults && entries.some((entry) => entry.status === 'analysing' && entry.text !== null);
  byId('analysing').textContent = isAnalysing ? 'Analysing' : '';
  byId('results').setAttribute('aria-busy', String(isAnalysing));
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
  amend(change, options);
  withResults((results) => results.draw());
}

/** @type {Page['amend']} */
function amend(change, options = { isStep: false }) {
  Object.assign(store.view, change);
  writeAddress(store.view, options);
}

/** Back and Forward: takes the view from the address. */
function restoreView() {
  store.view = readAddress();
  elsewhere.takeReport();
  const wanted = settingsOf(store.view);
  const isChanged = wanted.rules !== session.settings.rules || wanted.attribution !== session.settings.attribution || wanted.devices !== session.settings.devices;
  if (isChanged) {
    session.setSettings(wanted);
    showSettings(session.settings);
  }
  windows.apply({ all: true });
  withResults((results) => results.draw());
}

/** Shows or hides the help, whose script is loaded when it is first wanted. */
function toggleHelp() {
  attempt('The help could not be shown', async () => (await import('./help.js')).toggleHelp());
}
