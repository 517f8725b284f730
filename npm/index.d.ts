/** What the module is. */
export interface BuildInfo {
  version: string;
  simd: boolean;
}

/** How time is shared out when several ops run at the same time. */
export type Attribution = 'first_come' | 'fair' | 'exclusive';

/** Options of an analysis; all may be left out. */
export interface Choices {
  attribution?: Attribution;
  merge_devices?: boolean;
  /** A part of the trace in seconds from its first GPU op: `1.25-1.75`, `1.25-` or `-1.75`. */
  window?: string;
  /** The wall time of the same work without a profiler, in seconds as decimal text. */
  wall_seconds?: string;
  /** Skips the sections, so that the other results of a large trace come sooner. */
  without_sections?: boolean;
}

/** A value of a table. The end of its key names the unit. */
export type Value = string | number | boolean | null;

/** A table of a run: one question. */
export interface Section {
  title: string;
  /** The data that it is computed from. */
  derived_from: string;
  /** Limits of the results, one sentence each. */
  limits: string[];
  /** Single figures. */
  summary: Record<string, Value>;
  columns: string[];
  rows: Record<string, Value>[];
  rows_in_all: number;
  /** Why the table is empty, if the trace lacks its data. */
  missing: { why: string; recapture: string } | null;
}

/** The ops of a category, or of a kernel's name, and their time. */
interface OpSums {
  category: string;
  count: number;
  duration_ns: number;
  elapsed_ns: number;
  exclusive_ns: number;
  fair_ns: number;
  elapsed_share: number | null;
}

export interface Category extends OpSums {
  bar_share: number | null;
}

export interface Kernel extends OpSums {
  name: string;
  short_name: string;
  category_source: string;
  mean_ns: number;
  min_ns: number;
  max_ns: number;
}

export interface Device {
  id: string;
  name: string;
  gpu_ops: number;
  duration_ns: number;
  union_ns: number;
  window_ns: number;
  idle_ns: number;
  busy_share: number;
}

export interface Notice {
  severity: string;
  code: string;
  message: string;
  count: number;
  advice: string;
}

/** The results of one trace. docs/json.md of gpuprism lists all fields; those of this interface are always there. */
export interface Run {
  label: string;
  format: string;
  engine: string | null;
  rules: string;
  attribution: Attribution;
  devices_merged: boolean;
  window: { start_ns: number; end_ns: number; whole_ns: number } | null;
  totals: {
    gpu_ops: number;
    kernels: number;
    distinct_names: number;
    duration_ns: number;
    kernel_duration_ns: number;
    union_ns: number;
    union_all_ns: number;
    window_ns: number;
    elapsed_ns: number;
  };
  wall: { wall_ns: number; bar_ns: number; cpu_ns: number; cpu_share: number; busy_share: number; shared_ns: number; shared_share: number };
  devices: Device[];
  categories: Category[];
  kernels: Kernel[];
  verdict: { text: string };
  notices: Notice[];
  sections: Record<string, Section>;
}

export interface Report {
  schema: string;
  runs: Run[];
}

export interface OpenOptions {
  /** The label of the run; by default the name of the file. */
  name?: string;
  /** Called with the bytes read so far, or with the rows of a database. */
  onProgress?: (done: number) => void;
  signal?: AbortSignal;
}

/** Loads the WebAssembly module, once. Without an argument it lies beside the script. */
export function load(module?: RequestInfo | URL | Response | BufferSource | WebAssembly.Module): Promise<BuildInfo>;

/**
 * Reads a file, plain or gzipped. A database (`.sqlite`, `.db`, `.rpd`) is read only in a worker.
 *
 * Rejects with an `Error` whose message is one sentence with the remedy.
 */
export function open(file: Blob, options?: OpenOptions): Promise<Trace>;

/** A file that was read. It takes memory until `free` is called. */
export class Trace {
  private constructor();
  readonly kind: 'trace' | 'report' | 'rules' | 'phases' | 'server' | 'foreign';
  /** The report under these choices. JSON numbers above 2^53 lose digits: points in time on the trace's clock do, durations do not. */
  report(choices?: Choices): Report;
  /** The report as JSON text, which loses nothing: the values that `gpuprism report --format json` writes. */
  json(choices?: Choices): string;
  /** Gives the memory back. The trace cannot be used afterwards. */
  free(): void;
  [Symbol.dispose](): void;
}
