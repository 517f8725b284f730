// Types of the page. Only `tsc` reads this file; it is no part of the built page.

import type { WorkerLink, TraceHolder } from './worker-link.js';

// Answers of the WebAssembly modules: strings that are ready to show (see docs/page.md).

export interface Build {
  version: string;
  simd: boolean;
}

/** One SVG element. `key` is the category that it stands for, or empty. */
export interface ChartNode {
  tag: string;
  attrs: [name: string, value: string][];
  class: string;
  title: string;
  key: string;
  text: string;
}

export interface Chart {
  width: number;
  height: number;
  summary: string;
  nodes: ChartNode[];
}

export interface Figure {
  title: string;
  text: string;
  exact: string;
}

export interface Cell {
  text: string;
  title: string;
  class: string;
}

export type ColumnKind = 'text' | 'kernel' | 'category' | 'place' | 'count' | 'time' | 'share' | 'action';

export interface Column {
  key: string;
  title: string;
  kind: ColumnKind;
  sort: 'none' | 'ascending' | 'descending';
}

export interface Gap {
  run: string;
  why: string;
  recapture: string;
}

export interface Table {
  id: string;
  title: string;
  note: string;
  figures: { run: string; figures: Figure[] }[];
  gaps: Gap[];
  /** False for a section without rows. */
  grid: boolean;
  /** How many rows pass the filter, as a sentence. */
  shown: string;
  row_count: number;
  columns: Column[];
  rows: Cell[][];
  totals: Cell[] | null;
}

/** A table in one order and with one filter, and the range of its rows to return. */
export interface TableRequest {
  id: string;
  run: number | null;
  sort: string | null;
  descending: boolean;
  filter: string;
  hidden_categories: string[];
  from: number;
  count: number;
}

export type Severity = 'info' | 'warning' | 'error';

export interface Notice {
  severity: Severity;
  code: string;
  message: string;
  count: string;
  advice: string;
}

export interface Run {
  label: string;
  rules: string;
  engine: string | null;
  facts: string;
  figures: Figure[];
  notices: Notice[];
}

export interface Finding {
  /** Empty in a report of one run. */
  run: string;
  severity: 'high' | 'medium' | 'low';
  title: string;
  cost: string;
  evidence: string[];
  recommendation: string[];
  /** The table that has the numbers; may be empty. */
  table: string;
}

export interface Category {
  name: string;
  class: string;
}

export interface Tab {
  id: string;
  title: string;
  rows: string;
  tables: string[];
}

export interface Overview {
  verdict: { text: string; table: string }[];
  runs: Run[];
  findings: Finding[];
  categories: Category[];
  tabs: Tab[];
}

export interface RuleSets {
  engine: string;
  models: string[];
}

/** The rule sets' text, by the name of its file. */
export interface RuleFile {
  file: string;
  text: string;
}

/** How a trace is to be analysed. */
export interface Options {
  attribution: string;
  merge_devices: boolean;
  engine: string | null;
  model: string | null;
  wall_seconds: string | null;
  window: string | null;
  rules: RuleFile[];
  phase_map: RuleFile | null;
}

/** The overview strips; `chart` is null if the caller has the strips of this `turn`. */
export interface Strips {
  turn: number;
  chart: Chart | null;
  frame: ChartNode[];
}

/** Windows that can be picked by name; `more` is how many are not in the list, or empty. */
export interface WindowGroup {
  title: string;
  marks: { title: string; window: string }[];
  more: string;
}

export interface Kernel {
  name: string;
  found: boolean;
  charts: Chart[];
  tables: Table[];
}

export interface ComparedRun {
  label: string;
  outcome: string;
  in_short: string;
  /** Empty for the baseline. */
  verdict: string;
  warnings: string[];
}

export interface Comparison {
  baseline: number;
  runs: ComparedRun[];
}

export interface DashboardPanel {
  id: string;
  title: string;
  note: string;
  chart: Chart | null;
  gap: [why: string, recapture: string] | null;
  table: string;
  is_wide: boolean;
}

export interface DashboardRequest {
  run: number | null;
  baseline: number;
  hardware: string | null;
  threshold_ms: number;
  communication: boolean;
  width: number;
  column_width: number;
}

export interface DashboardView {
  label: string;
  /** Empty without a baseline. */
  baseline: string;
  panels: DashboardPanel[];
  hardware: { id: string; title: string }[];
  by_name: string;
  threshold: string;
  threshold_ms: number;
  highest_threshold_ms: number;
}

export interface ShareRequest {
  format: string;
  redact: string[];
  slim: boolean;
}

export interface Redaction {
  id: string;
  title: string;
  found: string;
  none: boolean;
}

export interface SharePreview {
  redactions: Redaction[];
  file: string;
  contents: string[];
  fits: boolean;
  length: string;
}

export interface RanksSummary {
  verdict: string[];
  /** Why files are not in a job. */
  aside: string[];
  has_jobs: boolean;
  is_one_job: boolean;
  parts: Category[];
}

// Requests to the workers: for each operation its arguments and its result.

export interface Progress {
  read?: number;
  ops?: number;
  rows?: number;
  doing?: 'waiting' | 'reading' | 'ordering' | 'analysing';
  since?: number | null;
}

/** Operations by name; each takes one object. */
export type Operations = { [name: string]: (args: any) => unknown };

/** The implementation of operations in a worker. */
export type Handlers<O> = {
  [K in keyof O]: O[K] extends (args: infer A) => infer R
    ? (args: A, progress: (progress: Progress) => void) => R | Promise<R>
    : never;
};

export type StartRequest = { module: WebAssembly.Module };

export type RenderOperations = {
  start(args: StartRequest): { palette: string; build: Build };
  set(args: { texts: string[] }): Overview;
  chart(args: { width: number; hidden: string[] }): Chart;
  table(args: { request: TableRequest }): Table | null;
  ruleSets(args: { rules: RuleFile[] }): RuleSets[];
};

export type OpenRequest = { module: WebAssembly.Module; file: File; gpuOnly: boolean; isFast: boolean };

export interface Opened {
  kind: FileKind | 'foreign' | 'database';
  torch: boolean;
  ranks: number;
  text: string | null;
  memory: number;
}

/** What any worker that has read a trace answers. */
export type TraceOperations = {
  strips(args: { options: string; width: number; known: number }): Strips | null;
  window(args: { from: number; to: number }): string;
  marks(args: {}): WindowGroup[];
  slice(args: { options: string }): Uint8Array<ArrayBuffer>;
  kernel(args: { options: string; name: string; width: number }): Kernel | null;
  cube(args: { options: string; axes: string }): string;
  ranksLog(args: {}): string;
  ranksPart(args: { options: string }): string;
};

export type ReaderOperations = TraceOperations & {
  open(args: OpenRequest): Opened | { kind: 'database' };
  openDatabase(args: { module: WebAssembly.Module; file: File; gpuOnly: boolean }): Opened;
  analyze(args: { options: string; soon: boolean }): Analysis;
};

export type TriageOperations = TraceOperations & {
  open(args: { module: WebAssembly.Module; file: File }): { capture: boolean };
  map(args: { files: File[] }): void;
  analyze(args: { options: string; context: string }): Analysis;
  choose(args: { module: WebAssembly.Module; entries: { path: string; bytes: number; modified: number }[] }): { open: number[]; aside: string[] };
};

/** The operations of tools-worker.js for the ranks tab. */
export type RanksOperations = {
  start(args: StartRequest): void;
  setRankLogs(args: { logs: string[] }): void;
  setRankWindows(args: { parts: string[] }): RanksSummary;
  rankWindows(args: { at: number; window: string }): (string | null)[];
  rankChart(args: { width: number }): Chart;
  rankTable(args: { request: TableRequest }): Table | null;
  rankCsv(args: { request: TableRequest }): string;
};

/** The operations of tools-worker.js for the pivot tab. */
export type PivotOperations = {
  start(args: StartRequest): void;
  setCubes(args: { texts: string[]; cubes: string[] }): void;
  pivotTable(args: { shape: string; request: string }): Table;
  pivotCsv(args: { shape: string; request: string }): string;
};

/** The operations of tools-worker.js for everything else. */
export type ToolsOperations = {
  start(args: StartRequest): void;
  set(args: { texts: string[] }): void;
  translate(args: { label: string; text: string }): string;
  export(args: { format: string; table: string; baseline: number }): string;
  compare(args: { baseline: number }): Comparison;
  chart(args: { baseline: number; width: number; hidden: string[] }): Chart;
  table(args: { baseline: number; request: TableRequest }): Table | null;
  dashboard(args: { request: DashboardRequest }): DashboardView;
  dashboardCss(args: {}): string;
  sharePreview(args: { request: ShareRequest }): SharePreview;
  shareRedactions(args: {}): string[];
  shareFile(args: { request: ShareRequest }): Uint8Array<ArrayBuffer>;
  shareLink(args: { request: ShareRequest }): string;
  openLink(args: { text: string }): string;
  workbench(args: { options: Options; request: TableRequest }): Table | null;
  workbenchCsv(args: { options: Options; request: TableRequest }): string;
  rulesJson(args: { options: Options }): { name: string; text: string };
  checkRules(args: { file: string; text: string }): string;
  ruleForKernel(args: { options: Options; file: string; text: string; kernel: string }): string[];
  ruleToEdit(args: { options: Options; file: string; text: string; regex: string }): string[];
};

// State of the page.

export type FileKind = 'trace' | 'report' | 'rules' | 'phases' | 'server';

/** Why something failed; `memory` is the bytes of WebAssembly memory in the worker, if it was a worker. */
export interface Problem {
  kind?: 'refused' | 'unreadable' | 'unloaded' | 'fault' | 'cancelled';
  message: string;
  memory?: number;
}

export interface Analysis {
  /** The report as JSON text. */
  text: string;
  /** True if the report lacks the sections that take long. */
  isPartial?: boolean;
  memory: number;
}

/** The worker that has read a file; closing it frees its memory. */
export interface Reader extends TraceHolder {
  /** The subcommand of the command line that does the same. */
  command: string;
  analyze(options: Options, soon?: boolean): Promise<Analysis>;
}

/** A reader whose file is being read. */
export interface OpeningReader extends Reader {
  opened: Promise<Opened>;
}

/** One open file. */
export interface Entry {
  id: number;
  file: File;
  /** Null until it has been read. */
  kind: FileKind | null;
  status: 'reading' | 'analysing' | 'open' | 'failed';
  progress: Progress | null;
  problem: Problem | null;
  /** The last report of a trace as JSON text; the text of any other file. */
  text: string | null;
  /** True if the triage can read it. */
  torch: boolean;
  /** Ranks of a job that the file contains. */
  ranks: number;
  /** The rules that the person wrote in the page. */
  isOwnRules: boolean;
  /** Wall time in seconds as typed; empty for none. */
  wall: string;
  /** The chosen window, from-to in seconds; empty for the whole trace. */
  window: string;
  /** Null only for rules that were written in the page. */
  reader: Reader | null;
  /** Number of the last analysis that was started. */
  analysisId: number;
  /** Number of the analysis that gave `text`. */
  shownAnalysisId: number;
  /** The options that `text` was made with. */
  shownOptions: Options | null;
  /** True while `text` lacks sections that are being computed. */
  isPartial: boolean;
  /** The last complete result without a window; `key` is its options. */
  wholeResult: { key: string; analysis: Analysis } | null;
  /** `performance.now()` when the file was opened; null once its results are on screen. */
  openedAt: number | null;
  /** Bytes of WebAssembly memory in its worker. */
  memory: number;
  /** Calls and ranges of the host are left out to save memory. */
  gpuOnly: boolean;
}

/** A trace that was read, and whose worker runs. */
export type TraceEntry = Entry & { reader: Reader };

/** How to count: the rule set as `engine/model`, the owner of overlaps, devices `each` or `merged`. */
export interface Settings {
  rules: string;
  attribution: string;
  devices: string;
}

/** What the address names; see address.js. */
export interface View extends Settings {
  tab: string;
  of: string;
  sort: string;
  dir: string;
  filter: string;
  run: string;
  base: string;
  hide: string[];
  window: string[];
  pivot: string[];
  kernel: string;
  gpu: string;
  above: string;
  comm: string;
}

/** The state of the page. Each part is replaced when it changes; only session.js changes the entries themselves. */
export interface State {
  view: View;
  entries: Entry[];
  /** Increases while files are read. */
  progress: number;
  /** The report texts, in the order of the entries. */
  reports: string[];
  /** The rule files in use. */
  ruleFiles: RuleFile[];
  /** The overview of the reports that are on screen; null without reports. */
  overview: Overview | null;
}

/** What app.js gives to the parts of the page. */
export interface Page {
  store: import('./store.js').Store;
  session: import('./session.js').Session;
  renderer: import('./renderer-client.js').Renderer;
  windows: import('./windows.js').Windows;
  openTools(): Promise<import('./tools.js').Tools>;
  /** Resolves with the entries when they have been read. */
  openFiles(files: File[]): Promise<Entry[]>;
  /** Runs a step; if it fails, a card with this title shows why. */
  attempt(title: string, step: () => unknown): Promise<void>;
  /** Changes the view, and the address with it: as a new step in the history, or in place of the current one. */
  look(change: Partial<View>, options?: { isStep: boolean }): void;
  /** The windows of the other traces of a job that show the same time range. */
  jobWindows(entry: TraceEntry, window: string): Promise<{ entry: TraceEntry; window: string }[]>;
  /** The text of a file to save. */
  exported(format: string, table: string): Promise<string>;
}
