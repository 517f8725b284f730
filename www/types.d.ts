// Types of the page. Only `tsc` reads this file; it is no part of the built page.

import type { DEFAULTS } from './address.js';
import type { Reader } from './reader-pool.js';

// What not every browser has.
declare global {
  interface Window {
    showOpenFilePicker?(options: { multiple: boolean }): Promise<FileSystemFileHandle[]>;
  }
  interface DataTransferItem {
    getAsFileSystemHandle?(): Promise<FileSystemHandle | null>;
  }
  interface FileSystemHandle {
    requestPermission?(): Promise<PermissionState>;
  }
}

// Answers of the WebAssembly modules: strings that are ready to show (see docs/page.md).

export type Build = { version: string; simd: boolean };

/** One SVG element. `key` is the category that it stands for, or empty. */
export interface ChartNode {
  tag: string;
  attrs: [name: string, value: string][];
  class: string;
  title: string;
  key: string;
  text: string;
}

export type Chart = { width: number; height: number; summary: string; nodes: ChartNode[] };

export type Figure = { title: string; text: string; exact: string };

/** `since_first_op_ns` is a point in time, and `example` a case, that lead to the timeline. `sources` are, for each line of a code location, where its source is on the web. */
export type Cell = { text: string; title: string; class: string; since_first_op_ns?: number; example?: ExampleLink; sources?: ({ url: string; title: string } | null)[] };

export type ColumnKind = 'text' | 'kernel' | 'category' | 'place' | 'count' | 'time' | 'share' | 'action';

export type Column = { key: string; title: string; kind: ColumnKind; sort: 'none' | 'ascending' | 'descending' };

export type Gap = { run: string; why: string; recapture: string };

export interface Table {
  id: string;
  title: string;
  note: string;
  figures: { run: string; figures: Figure[] }[];
  gaps: Gap[];
  /** False for a section without rows. */
  grid: boolean;
  /** Whether it has only the main columns and the first rows. */
  is_short: boolean;
  /** How many rows pass the filter, as a sentence. */
  shown: string;
  /** Why rows are missing: hidden categories. May be empty. */
  hidden: string;
  row_count: number;
  /** The index of the row that was looked for. */
  found: number | null;
  columns: Column[];
  rows: Cell[][];
  totals: Cell[] | null;
}

/** The value of a row in a column, as in exports. */
export type RowValue = { key: string; value: string };

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
  /** Only the main columns. */
  short: boolean;
  /** How many characters of a kernel's name have room; null for the short names of the report. */
  name_chars: number | null;
  /** A row to look for, by values as in exports. */
  find: RowValue[];
}

export type Severity = 'info' | 'warning' | 'error';

export type Notice = { severity: Severity; code: string; message: string; count: string; advice: string };

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
  id: string;
  severity: 'high' | 'medium' | 'low';
  /** Empty in reports of other tools. */
  confidence: 'high' | 'medium' | 'low' | '';
  title: string;
  cost: string;
  evidence: string[];
  action: string[];
  /** The table that has the numbers; may be empty. */
  table: string;
  /** The number of its run. */
  run_index: number;
  example: ExampleLink | null;
}

/** A case of a clause or finding in the timeline. */
/** `file` is the name of the trace of a rank. */
export type ExampleLink = { of: string; text: string; file?: string; run?: number };

/** `title` is what people read; the address and the filters have the name. */
export type Category = { name: string; title: string; class: string };

/** A tab. `names` are the groups of its tables, which the address can name too. */
export interface Tab {
  id: string;
  title: string;
  /** The number of rows of its first table; empty for a tab of different tables. */
  rows: string;
  names: string[];
  tables: string[];
  /** The table whose main columns and first rows come first; may be empty. */
  in_short: string;
  /** Tables that are shown on demand. */
  folded: { id: string; title: string; tables: string[] } | null;
  /** Tables of which one is shown at a time. */
  one_of: { table: string; title: string }[];
  /** Whether it is behind the menu "More". */
  is_more: boolean;
}

export interface Overview {
  verdict: { text: string; table: string; example: ExampleLink | null; run_index: number }[];
  runs: Run[];
  findings: Finding[];
  categories: Category[];
  tabs: Tab[];
  /** False if no run has GPU work. */
  has_work: boolean;
}

export type RuleSets = { engine: string; models: string[] };

/** A rule for a kernel: its regex, the kernel's category so far, the categories to choose from, what is wrong with it (or empty), what it
 * takes, and the text of the own rules with it. */
export interface RuleDraft {
  regex: string;
  category: string;
  categories: { name: string; title: string }[];
  problem: string;
  table: Table | null;
  text: string;
}

/** The rule sets' text, by the name of its file. */
export type RuleFile = { file: string; text: string };

/** How a trace is to be analyzed. */
export interface Options {
  attribution: string;
  merge_devices: boolean;
  engine: string | null;
  model: string | null;
  wall_seconds: string | null;
  window: string | null;
  rules: RuleFile[];
  phase_map: RuleFile | null;
  /** Ids of changes that are replayed together. */
  what_if?: string[];
  /** `tp`, `ep`, `pp`, `dp`: over how many GPUs the server splits the model; a text if it is no number, null if unknown. */
  model_config: { config: RuleFile | null; server: RuleFile | null } & { [split in 'tp' | 'ep' | 'pp' | 'dp']?: number | string | null };
}

/** The overview strips; `chart` and `axis` are null if the caller has them. `caption` is the chosen window in words; empty for the whole trace. */
export type Strips = { chart: Chart | null; axis: Chart | null; frame: ChartNode[]; caption: string };

/** Windows that can be picked by name; `more` is how many are not in the list, or empty. */
/** `stage` names the stage of which a window is the longest interval; empty for all other windows. */
export type WindowGroup = { title: string; windows: { title: string; window: string; stage: string }[]; more: string };

/** The lines of idle time. */
export type Hatching = 'rising' | 'falling' | 'vertical' | 'horizontal' | 'squared' | 'crossed' | 'dashed' | 'broken' | 'stepped' | 'dotted';

/** `hatch` is null for a filled bar. */
export type TimelineStyle = { class: string; title: string; hatch: Hatching | null };

export type TimelineLane = { title: string; group: string; depth: number; layer: 'device' | 'host' | 'derived' | 'code' | 'counter' };

/** The first step of a stage. */
export interface FirstStep {
  /** The same word in all traces. */
  stage: string;
  /** What to call it: `first decode step`. */
  title: string;
  place: Place;
}

/** Times are nanoseconds since the first GPU op. */
export interface TimelineView {
  lanes: TimelineLane[];
  styles: TimelineStyle[];
  /** What is left out. */
  notes: string[];
  from: number;
  to: number;
  gpu_to: number;
  /** What is in view first; null if all GPU ops are. */
  opens_at: [from: number, to: number] | null;
  window: [from: number, to: number] | null;
  /** Those of the first picture that are computed already. Empty if only the window differs from the timeline before. */
  firstTiles: { id: TileId; tile: Tile }[];
}

/** A rank waits until this rank arrives, in nanoseconds since the first GPU op. */
export type Wait = { from: number; to: number; rank: string };

/** The part of a layer between `index` and `index + 1` times 1,024 units of 2^level ns. */
export type TileId = { layer: string; level: number; index: number };

/** Eight numbers a bar: start, end, depth, style, row, count, filled (0 to 255), label (an index or -1). Start and end are in units of the
 * tile. `ends` has for each lane the number of bars up to its last one. */
export type Tile = { bars: Int32Array; ends: Uint32Array; labels: string[]; ticks: { unit: number; text: string }[] };

/** A mark of a person: its time, its number in the order of time, its time as text, and the distance from the mark before. */
export type Mark = { at: number; name: string; text: string; exact: string; distance: string; spoken: string };

export type Place = { lane: number; row: number; from: number; to: number };

/** A bar to go to. `text` has its name and duration, after what it is to the selected bar if its button does not say so. */
export type NamedPlace = Place & { text: string };

export interface Moment {
  place: Place;
  name: string;
  is_op: boolean;
  spoken: string;
  table: Table;
  before: NamedPlace | null;
  after: NamedPlace | null;
  /** The bar at the other end of its launch; of a gap, the work after it. */
  launch: Place | null;
  /** Other bars to go to, in the order of time. */
  links: NamedPlace[];
  same_before: NamedPlace | null;
  same_after: NamedPlace | null;
  /** The ids of the findings about such bars, whether or not the trace has them. */
  findings: string[];
  /** The row of a table that has the numbers of such bars. */
  numbers: { table: string; title: string; find: RowValue[] } | null;
}

export type Kernel = { name: string; category: string; found: boolean; charts: Chart[]; tables: Table[] };

export interface ComparedRun {
  label: string;
  outcome: string;
  in_short: string;
  /** Empty for the baseline. */
  verdict: string;
  warnings: string[];
}

export type Comparison = { baseline: number; runs: ComparedRun[] };

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
  /** The hidden categories. */
  hidden: string[];
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

/** A sentence with its table and a case in the timeline. */
export type HeadlineLine = { text: string; table: string; example: ExampleLink | null; run_index: number };

/** A row of `what_if`. */
export type CauseLine = { id: string; change: string; subject: string; saves: string; share: string; confidence: 'high' | 'medium' | 'low'; basis: string };

/** What stands below the verdict. `note` says why there is no path, or what is doubtful about it. */
export interface HeadlineView {
  title: string;
  path: Chart | null;
  note: string;
  saving: { finding: HeadlineLine; saves: string; place: string; action: string } | null;
  layers: HeadlineLine | null;
  causes: CauseLine[];
}

/** The tab Model: sentences on all runs, charts of one run. */
export interface ModelView {
  /** The label of the run; empty if it is the only one. */
  label: string;
  lines: string[];
  panels: DashboardPanel[];
}

/** Without `slim` the long tables are left out of a link that would be too long with them. */
export type ShareRequest = { format: string; redact: string[]; slim?: boolean };

export type Redaction = { id: string; title: string; found: string; none: boolean };

export type SharePreview = { redactions: Redaction[]; file: string; contents: string[]; fits: boolean; length: string; slim: boolean };

export interface RanksSummary {
  verdict: string[];
  /** Why files are not in a job. */
  aside: string[];
  has_jobs: boolean;
  is_one_job: boolean;
  /** The traces of the ranks that the verdict names, by index. */
  named: number[];
  parts: { name: string; class: string }[];
}

// Requests to the workers.

export interface Progress {
  read?: number;
  ops?: number;
  rows?: number;
  doing?: 'waiting' | 'reading' | 'ordering' | 'analyzing';
  since?: number | null;
}

/** The operations of a worker by name. Each takes one object. */
export type Operations = { [name: string]: (args: any) => unknown };

/** The implementation of operations in a worker. */
export type Handlers<O> = {
  [K in keyof O]: O[K] extends (args: infer A) => infer R
    ? (args: A, progress: (progress: Progress) => void) => R | Promise<R>
    : never;
};

/** The operations of render-worker.js. */
export type RenderOperations = {
  start(args: { module: WebAssembly.Module }): { palette: string; build: Build };
  set(args: { texts: string[] }): Overview;
  /** Runs the code of this worker on a report that is not shown. */
  rehearse(args: { text: string }): void;
  chart(args: { width: number; hidden: string[] }): Chart;
  table(args: { request: TableRequest }): Table | null;
  ruleSets(args: { rules: RuleFile[] }): RuleSets[];
};

/** A file that the server of the page offers (`gpuprism view`); a worker reads it in parts. */
export type ServedFile = { name: string; size: number; url: string };

/** A file on this machine, or one on the server of the page. */
export type SourceFile = File | ServedFile;

export type ServedListItem = { id: number; name: string; size: number; modified_ms: number; is_named: boolean };

/** What the server of the page offers: named files, and the traces of the folder that it watches, if there is one. */
export type ServedList = { folder: string | null; files: ServedListItem[]; is_complete: boolean; can_capture: boolean };

/** The state of the latest capture from a running server. */
export type CaptureStatus = {
  server: string;
  folder: string;
  steps: number;
  max_steps: number;
  state: 'none' | 'running' | 'complete' | 'awaiting_files' | 'failed' | 'cancelled';
  title: string;
  progress: { phase: string; text: string }[];
  problem: string | null;
  /** Commands that copy the traces, if they are elsewhere. */
  commands: string[];
  /** The name of the latest complete capture, and its files. */
  complete: string | null;
  files: ServedListItem[];
  /** Traces of the capture before, then those of the latest. */
  comparisons: { title: string; files: ServedListItem[] }[];
};

/** What was found on a server that can be captured, and what to change. */
export type ServerCheck = { level: string; text: string; remedy: string | null };

export type OpenRequest = { module: WebAssembly.Module; file: SourceFile; leftOut: LeftOut | null; isFull: boolean; isLarge: boolean };

export type Opened = { kind: FileKind | 'foreign' | 'database'; torch: boolean; ranks: number; text: string | null; memory: number };

/** The operations of worker.js. All but the first three need a trace that it has read. */
export type TraceOperations = {
  open(args: OpenRequest): Opened | { kind: 'database' };
  openWithFull(args: { module: WebAssembly.Module; file: SourceFile; leftOut: LeftOut | null }): Opened;
  /** Runs the code of this worker on a made-up trace, and resolves with its report. The worker is not to read a file. */
  rehearse(args: { module: WebAssembly.Module }): string;
  /** Reads a torch trace with the code that launched its work, so that all later analyses have a triage. */
  openWithCode(args: { module: WebAssembly.Module; file: SourceFile }): { isCapture: boolean; replaysGraphs: boolean };
  /** Takes the source lines of graph replays from these traces; without any, the trace's own are used. */
  map(args: { files: SourceFile[] }): void;
  /** `server` are the arguments of the server that wrote the trace, which the triage uses. `captures` are files with captures of its
   * graphs; they are read for the first complete analysis. */
  analyze(args: { options: Options; isPartialFirst: boolean; server: string | null; captures: File[] }): Analysis;
  /** The overview strips; their chart and axis, which do not depend on the window, are null if `hasChart`. A `scale` above the length of the
   * trace is the time that the whole width stands for. Null if there is nothing to draw. */
  strips(args: { options: Options; width: number; hasChart: boolean; scale: number }): Strips | null;
  /** The nanoseconds from the first GPU op to the end of the last. */
  gpuLength(args: {}): number;
  /** The window between two positions in the strips, 0 their begin and 1 their end. */
  window(args: { from: number; to: number }): string;
  /** Steps, stages and ranges whose windows can be picked. */
  namedWindows(args: {}): WindowGroup[];
  /** Opens the timeline, for the two requests below. Null without GPU ops, and before the second module has read the trace. */
  timeline(args: { options: Options; width: number }): TimelineView | null;
  /** The bars of a layer in a part of the timeline. */
  tile(args: { layer: string; level: number; index: number }): Tile | null;
  /** The first launch of a kernel from a time on, or else before it. */
  launchOf(args: { name: string; from: number }): Place | null;
  /** What the first of the times of a row of a table belongs to. */
  itemOfRow(args: { table: string; times: number[] }): Place | null;
  /** A case of a clause or finding that starts between two times. */
  example(args: { of: string; from: number; to: number }): Place | null;
  /** The report of the trace with the changes of `what_if`. */
  whatIf(args: { options: Options }): string;
  /** The median and the slowest step of the stage that takes the most time. Null if no stage has three steps that differ. */
  stepPair(args: {}): { titles: [median: string, slowest: string]; median: Place; slowest: Place } | null;
  /** The first step of each stage, that of the stage with the most time first. Null without a timeline. */
  firstSteps(args: {}): FirstStep[] | null;
  /** The ops between two times that a text is found in, and the one after or before another. Null without a timeline. */
  search(args: { text: string; from: number; to: number; row: number | null; toward: 'next' | 'previous' | '' }): { text: string; place: Place | null } | null;
  /** Where such ops are: lane, start and end of each, or of several that are nearer than `least`. */
  hits(args: { text: string; from: number; to: number; least: number }): Float64Array;
  /** The texts of marks at these times, in the order of time. */
  marks(args: { times: number[] }): Mark[];
  /** One bar in detail. */
  moment(args: { lane: number; row: number }): Moment | null;
  /** The chosen window as the bytes of a file that Perfetto opens. */
  slice(args: { options: Options }): Uint8Array<ArrayBuffer>;
  kernel(args: { options: Options; name: string; width: number }): Kernel | null;
  /** The aggregates of the trace over these axes of a pivot, as JSON text. */
  pivotCells(args: { options: Options; axes: string[] }): string;
  /** The strips with which an HTML report of the trace begins, as JSON text. Empty without GPU ops. */
  htmlStrips(args: { options: Options }): string;
  /** The log of the ranks in the trace, as JSON text. */
  ranksLog(args: {}): string;
  /** The log of the ranks in the chosen window, as JSON text. */
  ranksPart(args: { options: Options }): string;
};

/** The operations of tools-worker.js. */
export type ToolsOperations = {
  start(args: { module: WebAssembly.Module }): void;
  set(args: { texts: string[] }): void;
  /** The file of another tool as a report text. */
  translate(args: { label: string; text: string }): string;
  /** The text of a file to save; `baseline` is the index of the run for tables of a comparison. tools.js adds `strips` to HTML: for each report
   * `htmlStrips` of its trace, empty without one. */
  export(args: { format: string; table: string; baseline: number; strips?: string[] }): string;
  compare(args: { baseline: number }): Comparison;
  /** The changes between the runs as a chart. */
  chart(args: { baseline: number; width: number; hidden: string[] }): Chart;
  /** A table of the comparison. */
  table(args: { baseline: number; request: TableRequest }): Table | null;
  dashboard(args: { request: DashboardRequest }): DashboardView;
  headline(args: { width: number }): HeadlineView;
  /** What a step takes with the changes that a report was made with, in words. */
  simulated(args: { text: string }): string;
  model(args: { run: number; width: number; hidden: string[] }): ModelView;
  dashboardCss(args: {}): string;
  sharePreview(args: { request: ShareRequest; strips?: string[] }): SharePreview;
  /** The ids of everything that can be replaced in what is shared. */
  shareRedactions(args: {}): string[];
  shareFile(args: { request: ShareRequest; strips?: string[] }): Uint8Array<ArrayBuffer>;
  shareLink(args: { request: ShareRequest }): string;
  /** The report in a link, as text. */
  openLink(args: { text: string }): string;
  /** Which files of a folder to open, by index, which are captures of graphs, and what is set aside. */
  chooseFiles(args: { entries: { path: string; bytes: number; modified: number }[] }): { open: number[]; captures: number[]; aside: string[] };
  /** A table of the rule workbench. */
  workbench(args: { options: Options; request: TableRequest }): Table | null;
  workbenchCsv(args: { options: Options; request: TableRequest }): string;
  /** The rules in force as a file. */
  rulesJson(args: { options: Options }): { name: string; text: string };
  /** The problem of the text of a rule file; empty if it is valid. */
  checkRules(args: { file: string; text: string }): string;
  /** The text with a new rule for a kernel, and the rule's regex as JSON. */
  ruleForKernel(args: { options: Options; file: string; text: string; kernel: string }): string[];
  /** A rule for a kernel that is being written, and what it takes. Null if no run has the kernel. */
  ruleDraft(args: { options: Options; file: string; text: string; kernel: string; regex: string; category: string }): RuleDraft | null;
  /** The text with a rule that is in force, and the rule's regex as JSON. */
  ruleToEdit(args: { options: Options; file: string; text: string; regex: string }): string[];

  setPivotCells(args: { texts: string[]; cells: string[] }): void;
  pivotTable(args: { layout: string; request: TableRequest }): Table;
  pivotCsv(args: { layout: string; request: TableRequest }): string;

  setRankLogs(args: { logs: string[] }): void;
  setRankWindows(args: { parts: string[] }): RanksSummary;
  /** For each trace the window that shows the same time range as this window of the trace at `index`. */
  rankWindows(args: { index: number; window: string }): (string | null)[];
  /** For each trace the same moment as this time of the trace at `index`. */
  rankMoments(args: { index: number; time: number }): (number | null)[];
  /** For each trace when its rank waited for another one, sorted by start. */
  rankWaits(args: {}): Wait[][];
  rankChart(args: { width: number }): Chart;
  rankTable(args: { request: TableRequest }): Table | null;
  rankCsv(args: { request: TableRequest }): string;
};

/** Sends a request to a worker. */
export type SendRequest<O extends Operations> = <K extends keyof O & string>(
  op: K,
  args: Parameters<O[K]>[0],
  onProgress?: (progress: Progress) => void,
) => Promise<ReturnType<O[K]>>;

// State of the page.

export type FileKind = 'trace' | 'report' | 'rules' | 'phases' | 'model' | 'server';

/** Why something failed; `memory` is the bytes of WebAssembly memory in the worker, if it was a worker. */
export interface Problem {
  kind?: 'refused' | 'unreadable' | 'unloaded' | 'fault' | 'cancelled';
  message: string;
  memory?: number;
}

/** A report as JSON text. A partial one lacks the sections. */
export type Analysis = { text: string; isPartial: boolean; memory: number };

/** A part of a trace that need not be read: CPU ops and Python functions, or all calls and ranges of the host. */
export type LeftOut = 'code' | 'host';

/** One open file. */
export interface Entry {
  id: number;
  file: SourceFile;
  /** Null until it has been read. */
  kind: FileKind | null;
  status: 'reading' | 'analyzing' | 'open' | 'failed';
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
  /** If `reader` has no sections: the one that reads the file again with the second module. */
  second: { reader: Reader; opened: Promise<Opened> } | null;
  /** Number of the last analysis that was started. */
  analysisId: number;
  /** Number of the analysis that gave `text`. */
  shownAnalysisId: number;
  /** The options that `text` was made with. */
  shownOptions: Options | null;
  /** True while `text` lacks sections that are being computed. */
  isPartial: boolean;
  /** The last complete result without a window, with the reader and the inputs that gave it. */
  wholeResult: { reader: Reader | null; inputs: string; analysis: Analysis } | null;
  /** `performance.now()` when the file was opened; null once its results are on screen. */
  openedAt: number | null;
  /** Bytes of WebAssembly memory in its worker. */
  memory: number;
  /** What was left out to save memory. */
  leftOut: LeftOut | null;
  /** Whether the page says so. */
  saysLeftOut: boolean;
  /** Whether it was opened before there were results, and may be a trace. */
  isExpected: boolean;
  /** Files with captures of graphs that were dropped in the same folder. */
  captures: File[];
}

/** A trace with its worker. A file that is being read may turn out to be none. */
export type TraceEntry = Entry & { reader: Reader };

/** How to count: the rule set as `engine/model`, the owner of overlaps, devices `each` or `merged`; and over how many GPUs the server
 * splits the model, empty if unknown. */
export type Settings = { rules: string; attribution: string; devices: string; tp: string; ep: string; pp: string; dp: string };

/** What the address names. */
export type View = typeof DEFAULTS;

/** The state of the page. Each part is replaced when it changes; only session.js changes the entries themselves. */
export interface State {
  view: View;
  entries: Entry[];
  /** Increases while files are read. */
  progress: number;
  /** Counts readers that replaced another one of their file. */
  readers: number;
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
  requestTool: SendRequest<ToolsOperations>;
  /** Resolves with the entries when they have been read. */
  openFiles(files: SourceFile[], captures?: File[]): Promise<Entry[]>;
  /** Runs a step; if it fails, a card with this title shows why. */
  attempt(title: string, step: () => unknown): Promise<void>;
  /** Changes the view, and the address with it: as a new step in the history, or in place of the current one. */
  look(change: Partial<View>, options?: { isStep: boolean }): void;
  /** The comparison of the ranks of a job; null unless several ranks are open. */
  jobRanks(): Promise<import('./ranks.js').Ranks | null>;
  /** Opens a table with the timeline above it. */
  prove(table: string, find: RowValue[]): Promise<void>;
  /** The text of a file to save. */
  exported(format: string, table: string): Promise<string>;
}
