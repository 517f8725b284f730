// The page's head: binds session, renderer, address and views. It moves strings about and computes none.

import { readAddress, writeAddress } from './address.js';
import { showCards, showChips, showPageProblem } from './cards.js';
import { byId, onDemand, shutFrames } from './dom.js';
import { Elsewhere } from './elsewhere.js';
import { wireExports } from './exports.js';
import { wireIntake } from './intake.js';
import { wireKeys } from './keys.js';
import { Renderer } from './renderer-client.js';
import { Session, isAid } from './session.js';
import { showCountable, showRuleSets, showSettings, wireSettings } from './settings.js';
import { wireTheme } from './theme.js';
import { Windows } from './windows.js';
import { compiledModule } from './worker-link.js';

const renderer = new Renderer(compiledModule('gpuprism'));
const openDesk = onDemand(async () => new (await import('./desk.js')).Desk(() => session.reports, () => session.whole()));
const session = new Session(renderer, changed, async (...file) => (await openDesk()).translate(...file));

let view = readAddress();

/** What is shown of the reports. */
const openResults = onDemand(async () => new (await import('./results.js')).Results(page));

/** What the parts of the page use of it; results.js adds what is asked of them. */
const page = {
  session,
  renderer,
  openDesk,
  openFiles,
  attempt,
  look,
  amend,
  /** The text of a file to save. */
  exported: async (format, table) => {
    const [desk] = await Promise.all([openDesk(), openResults()]);
    return desk.export(format, table, page.baseline());
  },
  get view() {
    return view;
  },
  get windows() {
    return windows;
  },
};
const windows = new Windows(page);
const elsewhere = new Elsewhere(page);

wireTheme();
wireIntake(openFiles, showPageProblem);
wireSettings(count);
wireExports(page);
wireKeys(help);
addEventListener('popstate', restore);
start();
elsewhere.takeFiles();
elsewhere.takeReport();

/** Resolves with the entries when they are read. */
function openFiles(files) {
  shutFrames();
  // Fetched while they are read.
  openResults().catch(() => {});
  windows.awaitTraces();
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
    count(settingsOf(view), { step: false });
    if (elsewhere.hasRules()) attempt('Your own rules could not be used', async () => (await openResults()).restoreRules());
    await refreshRuleSets();
    whenIdle(keepForOffline);
  } catch (problem) {
    showPageProblem('gpuprism could not start', `${problem.message}. It needs a browser of 2023 or later with WebAssembly SIMD.`);
  }
}

const whenIdle = self.requestIdleCallback ?? setTimeout;

async function keepForOffline() {
  const { stayForOffline } = await import('./offline.js').catch(() => ({}));
  stayForOffline?.(() => byId('build').append(' · works offline'));
}

const settingsOf = ({ rules, attribution, devices }) => ({ rules, attribution, devices });

function count(settings, { step = true } = {}) {
  Object.assign(view, settings);
  writeAddress(view, { step });
  session.count(settings);
  showSettings(session.settings);
}

async function refreshRuleSets() {
  showRuleSets(await renderer.ruleSets(session.ruleFiles), session.settings.rules);
}

/** The session has news. */
function changed(what) {
  showCards(session.entries, session);
  if (what === 'progress') return;
  shown((results) => results.filesChanged());
  elsewhere.filesChanged();
  showChips(session.entries, session);
  showCountable(session);
  showState();
  if (what === 'rules') attempt('The rule sets could not be listed', refreshRuleSets);
  if (what === 'reports') windows.apply({ all: false });
  if (what === 'reports') attempt('The results could not be shown', async () => (await openResults()).refresh());
  else shown((results) => results.compare());
}

/** Does something with the results that are shown, if any are. */
async function shown(act) {
  const results = await openResults.begun()?.catch(() => null);
  if (results) act(results);
}

function showState() {
  const entries = session.entries;
  const hasResults = session.reports.length > 0;
  byId('empty').hidden = entries.some((entry) => entry.status !== 'failed' && !entry.own);
  byId('results').hidden = !hasResults;
  byId('export').hidden = !hasResults;
  byId('add').hidden = entries.length === 0;
  const again = hasResults && entries.some((entry) => entry.status === 'analysing' && entry.text !== null);
  byId('analysing').textContent = again ? 'Analysing' : '';
  byId('results').setAttribute('aria-busy', String(again));
  const names = session.entries.filter((entry) => entry.text !== null && !isAid(entry)).map((entry) => entry.file.name);
  document.title = names.length > 0 ? `${names.join(', ')} - gpuprism` : 'gpuprism: where did the GPU time go';
}

/** Runs a step whose failure must be said and must not stop the page. */
async function attempt(title, step) {
  try {
    await step();
  } catch (problem) {
    if (problem.kind !== 'cancelled') showPageProblem(title, problem.message);
  }
}

/** Changes what is looked at, and with it the address: a new step in the history, or a correction of the present one. */
function look(change, { step = true } = {}) {
  amend(change, { step });
  shown((results) => results.draw());
}

/** Changes the view and the address without drawing. */
function amend(change, { step = false } = {}) {
  Object.assign(view, change);
  writeAddress(view, { step });
}

function restore() {
  view = readAddress();
  elsewhere.takeReport();
  const wanted = settingsOf(view);
  if (Object.entries(wanted).some(([name, value]) => session.settings[name] !== value)) {
    session.count(wanted);
    showSettings(session.settings);
  }
  windows.apply({ all: true });
  shown((results) => results.draw());
}

/** The panel of keys and kinds of files; its code is fetched when it is first asked for. */
function help() {
  attempt('The help could not be shown', async () => (await import('./help.js')).toggleHelp());
}
