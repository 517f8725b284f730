// The page's head: binds session, renderer, address and views. It moves strings about and computes none.

import { forgetReport, readAddress, reportInAddress, writeAddress } from './address.js';
import { showCards, showChips, showPageProblem } from './cards.js';
import { showChart, showLegend } from './chart.js';
import { byId, save, shutFrames } from './dom.js';
import { wireIntake } from './intake.js';
import { wireKeys } from './keys.js';
import { showOverview } from './overview.js';
import { Renderer } from './renderer-client.js';
import { Session, isAid } from './session.js';
import { showRuleSets, showSettings, showWallRuns, wireSettings } from './settings.js';
import { Strips } from './strips.js';
import { PIECE_ROWS, showTables, showTabs } from './table.js';
import { compiledModule } from './worker-link.js';

const renderer = new Renderer(compiledModule('gpuprism'));
const session = new Session(renderer, changed, async (...file) => (await openDesk()).translate(...file));

let view = readAddress();
let overview = null;
/** A promise of the triage's part of the page, once its tab was opened. */
let triage = null;
/** A promise of the pivot's part of the page, once its tab was opened. */
let pivot = null;
/** A promise of the panel of one kernel, once a name was pressed. */
let kernelPanel = null;
/** A promise of the rule workbench, once its tab was opened or rules were kept. */
let rules = null;
/** A promise of the desk, once something asked for it. */
let desk = null;
/** A promise of the comparison's part of the page, once two runs were open. */
let comparison = null;
/** A promise of what holds the report of the address, once an address carried one. */
let carried = null;

wireTheme();
wireIntake(openFiles, showPageProblem);
wireSettings(count);
wireTable();
wireExport();
wireKeys(help);
wireShare();
addEventListener('popstate', restore);
start();
takeFromElsewhere();
takeCarried();

/** Resolves with the entries when they are read. */
function openFiles(files) {
  shutFrames();
  return session.open(files);
}

/** Files that open.html left, or another window hands over; the code for that is fetched if there can be any. */
function takeFromElsewhere() {
  const asked = new URLSearchParams(location.search);
  const embedded = asked.has('embed');
  if (embedded || window.opener || parent !== window) {
    attempt('The page around this one was not heard', async () => (await import('./embed.js')).hear({ session, openFiles, embedded }));
  }
  if (asked.has('opened')) attempt('The file could not be taken over', async () => (await import('./handover.js')).receive(asked.get('opened'), openFiles));
}

/** A report that the address itself carries. */
function takeCarried() {
  const text = reportInAddress();
  if (!text && !carried) return;
  carried ??= import('./link.js').then(({ Carried }) => new Carried({ desk: openDesk, session, openFiles, forget: () => forgetReport(view) }));
  attempt('The link could not be opened', async () => (await carried).take(text));
}

/** Rules that were kept at an earlier visit; a page around this one wants its own look. */
function takeOwnRules() {
  if (new URLSearchParams(location.search).has('embed') || !hasOwnRules()) return;
  attempt('Your own rules could not be used', async () => (await openRules()).restore());
}

function hasOwnRules() {
  try {
    return localStorage.getItem('gpuprism:own-rules') !== null;
  } catch {
    return false;
  }
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
    takeOwnRules();
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
  triage?.then((tab) => tab.forget());
  carried?.then((report) => report.check());
  rules?.then((workbench) => workbench.check(), () => {});
  showChips(session.entries, session);
  showWallRuns(session);
  showState();
  if (what === 'rules') attempt('The rule sets could not be listed', refreshRuleSets);
  if (what === 'reports') applyWindows({ all: false });
  if (what === 'reports') attempt('The results could not be shown', refreshReports);
  else attempt('The runs could not be compared', showComparison);
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

/** Only the last of several answers to the same question is shown. */
function latest(ask, show) {
  let turn = 0;
  return async (...args) => {
    const mine = ++turn;
    const answer = await ask(...args);
    if (mine === turn) await show(answer);
  };
}

const refreshReports = latest(
  () => (session.reports.length > 0 ? renderer.set(session.reports) : null),
  async (answer) => {
    overview = answer;
    if (!overview) return;
    showOverview(overview, () => look({ tab: 'findings', ...AS_IT_COMES }, { step: true }));
    await showAll();
    session.shown();
  },
);

const drawChart = latest(
  () => renderer.chart(chartWidth(), view.hide),
  (chart) => showChart(chart, pickOnly),
);

const strips = new Strips((entry, window) => {
  session.setWindow(entry, window);
  look({ window: windows() }, { step: true });
}, (entry) => attempt('Perfetto could not be opened', async () => {
  const { openInPerfetto } = await perfetto();
  await openInPerfetto(entry.reader.slice(session.options(entry)), entry.file.name);
}));

const perfetto = () => import('./perfetto.js');

const drawStrips = latest(
  () => strips.show(session.traces.filter(({ text, reader, status }) => text !== null && !reader.closed && status !== 'failed'), (entry) => session.options(entry)),
  () => {},
);

/** Of each trace whose window was picked its place and the window. */
const windows = () => session.traces.flatMap(({ window }, at) => (window ? [`${at}@${window}`] : []));

/** The traces that have the window that the address names for them. */
let placed = [];

/** Brings traces in line with the address: those that were just read, or, where it changed, all of them. */
function applyWindows({ all }) {
  const { traces } = session;
  if (placed.some((entry) => !traces.includes(entry))) {
    view.window = windows();
    writeAddress(view, { step: false });
  }
  const wanted = new Map(view.window.map((item) => [Number.parseInt(item, 10), item.slice(item.indexOf('@') + 1)]));
  traces.forEach((entry, at) => {
    const window = wanted.get(at) ?? '';
    if (entry.text !== null && entry.window !== window && (all || !placed.includes(entry))) session.setWindow(entry, window);
  });
  placed = traces.filter(({ text }) => text !== null);
}

const drawTables = latest(
  () => Promise.all(tab().tables.map((id) => tableOf(tableRequest(id)))),
  // A run that has no such section gives no table.
  (tables) => {
    showTables(tables.filter(Boolean), sortBy, saveTable, moreRows(), openKernel);
    return showTriage();
  },
);

/** Further rows of the tables as they are arranged now, whatever is arranged later. */
function moreRows() {
  const requests = new Map(tab().tables.map((id) => [id, tableRequest(id)]));
  return async (id, from) => (await tableOf({ ...requests.get(id), from })).rows;
}

const COMPARE = { id: 'compare', title: 'Compare', rows: '', tables: ['compare_summary', 'compare_categories', 'compare_kernels'] };

const RULES = { id: 'rules', title: 'Rules', rows: '', tables: ['rules_in_force', 'rules_misc'] };

/** The tables of the comparison are the desk's, those of a pivot are the pivot's. */
async function tableOf(request) {
  if (isShaped(request.id)) return (await openPivot()).table(view.pivot, request);
  if (RULES.tables.includes(request.id)) return (await openRules()).table(request);
  if (!COMPARE.tables.includes(request.id)) return renderer.table(request);
  return (await openDesk()).table(baseline(), request);
}

/** What changed is said once all that is open has been read; until then what was said stays. */
async function showComparison() {
  if (!(overview?.runs.length > 1)) return (await comparison)?.hide();
  if (session.entries.some(({ status }) => status !== 'open' && status !== 'failed')) return;
  comparison ??= import('./compare.js').then(({ Comparison }) => new Comparison(openDesk, {
    baseline: (base) => look({ base }, { step: true }),
    open: () => look({ tab: COMPARE.id, ...AS_IT_COMES }, { step: true }),
    pick: pickOnly,
  }));
  return (await comparison).draw(baseline(), tab() === COMPARE, view.hide);
}

/** The place of the run that others are compared with. */
const baseline = () => Math.max(0, overview.runs.findIndex((_, index) => String(index) === view.base));

const sortBy = (of, sort, descending) => look({ of, sort, dir: descending ? 'desc' : 'asc' }, { step: true });

const chartWidth = () => Math.max(280, Math.floor(byId('chart').clientWidth));

/** How a tab looks that was just chosen. */
const AS_IT_COMES = { of: '', sort: '', dir: 'desc', filter: '', kernel: '' };

function tableRequest(id) {
  const sorted = id === (view.of || tab().tables[0]);
  return {
    id,
    run: runIndex(),
    sort: (sorted && view.sort) || null,
    descending: view.dir === 'desc',
    filter: view.filter,
    hidden_categories: view.hide,
    from: 0,
    count: PIECE_ROWS,
  };
}

/** The tab of the triage is there for every torch trace; its tables are made when it is opened. */
function tabs() {
  const { tabs } = overview;
  const wanted = session.traces.some(({ torch }) => torch) && !tabs.some(({ id }) => id === 'triage');
  const more = [overview.runs.length > 1 && COMPARE, wanted && { id: 'triage', title: 'Triage', rows: '', tables: [] }];
  return [...tabs.toSpliced(1, 0, ...more.filter(Boolean)), RULES];
}

async function showTriage() {
  const { id, tables } = tab();
  const isUp = id === 'triage';
  if (isUp) triage ??= import('./triage.js').then(({ Triage }) => new Triage(session, () => exported('markdown', id), showKernel));
  (await triage)?.show(isUp, tables.length > 0);
}

/** The plain pivot is the report's own table; any other shape is made of cubes. */
const isShaped = (id) => id === 'pivot' && view.pivot.length === 5;

function openPivot() {
  pivot ??= import('./pivot.js').then(({ Pivot }) => new Pivot(session, (chosen) => look({ pivot: chosen, of: '', sort: '' }, { step: true })), (problem) => {
    pivot = null;
    throw problem;
  });
  return pivot;
}

async function showPivot() {
  const isUp = tab().id === 'pivot';
  const shaper = await (isUp ? openPivot() : pivot);
  shaper?.show(isUp, isShaped('pivot') ? view.pivot : shaper.plain);
}

/** The tables stay as they are beside one kernel in detail. */
function openKernel(kernel) {
  Object.assign(view, { kernel });
  writeAddress(view, { step: true });
  attempt('The kernel could not be shown', showDetail);
}

async function showDetail() {
  if (view.kernel) kernelPanel ??= import('./kernel.js').then(({ KernelPanel }) => new KernelPanel(kernels, openKernel));
  return (await kernelPanel)?.show(view.kernel);
}

/** One kernel in the run that is chosen, or in all of them. */
async function kernels(name, width) {
  const at = runIndex();
  const found = await session.kernels(name, width, at);
  const labels = overview.runs.map(({ label }) => label);
  return found.map((kernel, place) => ({ label: labels[at ?? place], kernel }));
}

function openRules() {
  rules ??= import('./rules.js').then(({ Rules }) => new Rules(session, openDesk, () => overview && attempt('The rules could not be shown', drawTables)), (problem) => {
    rules = null;
    throw problem;
  });
  return rules;
}

async function showRules() {
  const isUp = tab() === RULES;
  (await (isUp ? openRules() : rules))?.show(isUp);
}

const showKernel = (name) => look({ tab: 'kernels', ...AS_IT_COMES, filter: name }, { step: true });

/** The tab that the address names, by its own name or by that of one of its tables. */
const tab = () => tabs().find(({ id, tables }) => id === view.tab || tables.includes(view.tab)) ?? overview.tabs[0];

function runIndex() {
  const at = overview.runs.findIndex((_, index) => String(index) === view.run);
  return at >= 0 ? at : null;
}

function showAll() {
  attempt('The kernel could not be shown', showDetail);
  showTabs(tabs(), tab().id, (id) => look({ tab: id, ...AS_IT_COMES }, { step: true }));
  showLegend(overview.categories, view.hide, toggle, () => look({ hide: [] }, { step: true }));
  showRunChoice();
  const filter = byId('filter');
  if (filter.value !== view.filter) filter.value = view.filter;
  attempt('The runs could not be compared', showComparison);
  // The worker that holds a large trace is still at its sections: nothing else waits for its strips.
  attempt('The strips could not be drawn', drawStrips);
  return Promise.all([drawChart(), drawTables(), showPivot(), showRules()]);
}

function showRunChoice() {
  const options = overview.runs.map(({ label }, index) => new Option(label, String(index)));
  byId('run').replaceChildren(new Option('all runs', ''), ...options);
  byId('run').value = runIndex() === null ? '' : view.run;
  byId('run-label').hidden = overview.runs.length < 2;
}

/** Changes what is looked at, and with it the address. */
function look(change, { step }) {
  Object.assign(view, change);
  writeAddress(view, { step });
  if (overview) attempt('The view could not be drawn', showAll);
}

function toggle(category) {
  const hide = view.hide.includes(category) ? view.hide.filter((name) => name !== category) : [...view.hide, category];
  look({ hide }, { step: true });
}

/** A segment picks its category alone; picked again, all are back. */
function pickOnly(category) {
  const others = overview.categories.map(({ name }) => name).filter((name) => name !== category);
  const alone = others.length > 0 && others.every((name) => view.hide.includes(name));
  look({ hide: alone ? [] : others }, { step: true });
}

function restore() {
  view = readAddress();
  takeCarried();
  const wanted = settingsOf(view);
  if (Object.entries(wanted).some(([name, value]) => session.settings[name] !== value)) {
    session.count(wanted);
    showSettings(session.settings);
  }
  applyWindows({ all: true });
  if (overview) attempt('The view could not be drawn', showAll);
}

function wireTable() {
  byId('filter').addEventListener('input', ({ target }) => look({ filter: target.value }, { step: false }));
  byId('run').addEventListener('change', ({ target }) => look({ run: target.value }, { step: true }));
  let width = 0;
  new ResizeObserver(() => {
    if (!overview || chartWidth() === width) return;
    width = chartWidth();
    attempt('The chart could not be drawn', () => Promise.all([drawStrips(), drawChart()]));
  }).observe(byId('chart'));
}

/** Light, dark or as the system says. */
function wireTheme() {
  const themes = ['auto', 'light', 'dark'];
  let at = 0;
  const apply = () => {
    document.documentElement.dataset.theme = themes[at];
    byId('theme').textContent = `Theme: ${themes[at]}`;
  };
  byId('theme').addEventListener('click', () => {
    at = (at + 1) % themes.length;
    apply();
  });
  // Paper is white, whatever the screen is.
  addEventListener('beforeprint', () => void (document.documentElement.dataset.theme = 'light'));
  addEventListener('afterprint', apply);
  apply();
}

const EXPORTS = {
  json: ['application/json', 'gpuprism-report.json'],
  markdown: ['text/markdown', 'gpuprism-report.md'],
  html: ['text/html', 'gpuprism-report.html'],
};

function openDesk() {
  desk ??= import('./desk.js').then(({ Desk }) => new Desk(() => session.reports), (problem) => {
    desk = null;
    throw problem;
  });
  return desk;
}

/** The text of a file to save. */
const exported = async (format, table) => (await openDesk()).export(format, table, baseline());

function wireExport() {
  byId('export').addEventListener('click', ({ target }) => {
    const { format } = target.dataset;
    if (!format) return;
    byId('export').open = false;
    attempt('The export failed', async () => save(await exported(format, ''), ...EXPORTS[format]));
  });
}

/** The panel for sharing unfolds under the menu's buttons. */
function wireShare() {
  let panel = null;
  byId('share').addEventListener('click', () => attempt('The report could not be prepared', async () => {
    const { SharePanel } = await import('./share.js');
    panel ??= new SharePanel(openDesk, (message) => showPageProblem('The report could not be shared', message));
    byId('share').setAttribute('aria-expanded', 'true');
    byId('share').after(panel.node);
    await panel.show();
  }));
  byId('export').addEventListener('toggle', () => {
    panel?.node.remove();
    byId('share').setAttribute('aria-expanded', 'false');
  });
}

function saveTable(table) {
  const text = async () => {
    if (isShaped(table)) return (await openPivot()).csv(view.pivot, tableRequest(table));
    return RULES.tables.includes(table) ? (await openRules()).csv(tableRequest(table)) : exported('csv', table);
  };
  attempt('The export failed', async () => save(await text(), 'text/csv', `gpuprism-${table.replace(/\W+/g, '-')}.csv`));
}

/** The panel of keys and kinds of files; its code is fetched when it is first asked for. */
function help() {
  attempt('The help could not be shown', async () => (await import('./help.js')).toggleHelp());
}
