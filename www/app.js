// The page's head: binds session, renderer, address and views. It moves strings about and computes none.

import { readAddress, writeAddress } from './address.js';
import { showCards, showChips, showPageProblem } from './cards.js';
import { showChart, showLegend } from './chart.js';
import { asked, byId, latest, onDemand, shutFrames } from './dom.js';
import { Elsewhere } from './elsewhere.js';
import { wireExports } from './exports.js';
import { wireIntake } from './intake.js';
import { wireKeys } from './keys.js';
import { showOverview } from './overview.js';
import { Renderer } from './renderer-client.js';
import { Session, isAid } from './session.js';
import { showCountable, showRuleSets, showSettings, wireSettings } from './settings.js';
import { Tabs, showRunChoice } from './tabs.js';
import { wireTheme } from './theme.js';
import { Windows } from './windows.js';
import { compiledModule } from './worker-link.js';

const renderer = new Renderer(compiledModule('gpuprism'));
const openDesk = onDemand(async () => new (await import('./desk.js')).Desk(() => session.reports, () => session.whole()));
const session = new Session(renderer, changed, async (...file) => (await openDesk()).translate(...file));

let view = readAddress();
let overview = null;

/** What the parts of the page use of it. */
const page = {
  session,
  renderer,
  openDesk,
  openFiles,
  openKernel,
  attempt,
  look,
  amend,
  pickOnly,
  baseline,
  runIndex,
  windowsOfJob: (...picked) => tabs.windowsOfJob(...picked),
  /** The text of a file to save. */
  exported: async (format, table) => (await openDesk()).export(format, table, baseline()),
  get view() {
    return view;
  },
  get overview() {
    return overview;
  },
};
const tabs = new Tabs(page);
const windows = new Windows(page);
const elsewhere = new Elsewhere(page);
const kernelPanel = onDemand(async () => new (await import('./kernel.js')).KernelPanel(kernels, openKernel));

wireTheme();
wireIntake(openFiles, showPageProblem);
wireSettings(count);
wireTable();
wireExports(page);
wireKeys(help);
addEventListener('popstate', restore);
start();
elsewhere.takeFiles();
elsewhere.takeReport();

/** Resolves with the entries when they are read. */
function openFiles(files) {
  shutFrames();
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
    if (elsewhere.hasRules()) attempt('Your own rules could not be used', tabs.restoreRules);
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
  tabs.filesChanged();
  elsewhere.filesChanged();
  showChips(session.entries, session);
  showCountable(session);
  showState();
  if (what === 'rules') attempt('The rule sets could not be listed', refreshRuleSets);
  if (what === 'reports') windows.apply({ all: false });
  if (what === 'reports') attempt('The results could not be shown', refreshReports);
  else attempt('The runs could not be compared', () => tabs.showComparison());
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

const refreshReports = latest(
  async () => {
    if (session.reports.length === 0) return [null];
    const answer = renderer.set(session.reports);
    // Asked for behind the reports, so that the worker answers while the page shows the overview.
    const ahead = overview ? { chart: charted !== chartKey() && askChart(), tables: tabs.askAhead() } : {};
    return [await answer, ahead];
  },
  async ([answer, ahead]) => {
    overview = answer;
    if (!overview) {
      width = 0;
      charted = '';
      return;
    }
    showOverview(overview, session.isPartial, (table) => tabs.open(table));
    await showAll(ahead);
    session.shown();
  },
);

/** The width of the chart; asking the page for it anew would lay it out each time. */
let width = 0;

/** The key of the chart that is on screen. */
let charted = '';

const drawChart = latest(
  async (ahead) => {
    width ||= chartWidth();
    const key = chartKey();
    return key !== charted && [key, await (ahead?.key === key ? ahead : askChart()).answer];
  },
  (drawn) => {
    if (!drawn) return;
    charted = drawn[0];
    showChart(drawn[1], pickOnly, view.hide.length > 0);
  },
);

/** What the chart hangs on: an answer is of use, and a chart stands, as long as it is the same. */
const chartKey = () => JSON.stringify([session.counted, width, view.hide]);

const askChart = () => asked(chartKey(), renderer.chart(width, view.hide));

const chartWidth = () => Math.max(280, Math.floor(byId('chart').clientWidth));

/** `ahead` are the answers for the chart and the tables that were asked for already. */
function showAll(ahead = {}) {
  attempt('The kernel could not be shown', showDetail);
  showLegend(overview.categories, view.hide, toggle, () => look({ hide: [] }));
  showRunChoice(overview.runs.map(({ label }) => label), runIndex());
  const filter = byId('filter');
  if (filter.value !== view.filter) filter.value = view.filter;
  attempt('The runs could not be compared', () => tabs.showComparison());
  // The worker that holds a large trace is still at its sections: nothing else waits for its strips.
  attempt('The strips could not be drawn', windows.draw);
  return Promise.all([drawChart(ahead.chart), tabs.show(ahead.tables)]);
}

/** The place of the run that others are compared with. */
function baseline() {
  return Math.max(0, overview.runs.findIndex((_, index) => String(index) === view.base));
}

/** The place of the run that is chosen; null for all of them. */
function runIndex() {
  const at = overview.runs.findIndex((_, index) => String(index) === view.run);
  return at >= 0 ? at : null;
}

/** The tables stay as they are beside one kernel in detail. */
function openKernel(kernel) {
  amend({ kernel }, { step: true });
  attempt('The kernel could not be shown', showDetail);
}

async function showDetail() {
  return (await (view.kernel ? kernelPanel() : kernelPanel.begun()))?.show(view.kernel);
}

/** One kernel in the run that is chosen, or in all of them. */
async function kernels(name, width) {
  const at = runIndex();
  const found = await session.kernels(name, width, at);
  const labels = overview.runs.map(({ label }) => label);
  return found.map((kernel, place) => ({ label: labels[at ?? place], kernel }));
}

/** Changes what is looked at, and with it the address: a new step in the history, or a correction of the present one. */
function look(change, { step = true } = {}) {
  amend(change, { step });
  if (overview) attempt('The view could not be drawn', showAll);
}

/** Changes the view and the address without drawing. */
function amend(change, { step = false } = {}) {
  Object.assign(view, change);
  writeAddress(view, { step });
}

function toggle(category) {
  look({ hide: view.hide.includes(category) ? view.hide.filter((name) => name !== category) : [...view.hide, category] });
}

/** A segment picks its category alone; picked again, all are back. */
function pickOnly(category) {
  const others = overview.categories.map(({ name }) => name).filter((name) => name !== category);
  const alone = others.length > 0 && others.every((name) => view.hide.includes(name));
  look({ hide: alone ? [] : others });
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
  if (overview) attempt('The view could not be drawn', showAll);
}

function wireTable() {
  byId('filter').addEventListener('input', ({ target }) => look({ filter: target.value }, { step: false }));
  byId('run').addEventListener('change', ({ target }) => look({ run: target.value }));
  new ResizeObserver(() => {
    if (!overview || chartWidth() === width) return;
    width = chartWidth();
    attempt('The chart could not be drawn', () => Promise.all([windows.draw(true), drawChart()]));
  }).observe(byId('chart'));
}

/** The panel of keys and kinds of files; its code is fetched when it is first asked for. */
function help() {
  attempt('The help could not be shown', async () => (await import('./help.js')).toggleHelp());
}
