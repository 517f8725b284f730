// The trace worker: reads one file with a wasm reader and keeps the trace for all later analyses. If it reads a torch trace with the
// code that launched its work, the analyses have a triage.

const [{ readWhole }, { serve }, { View }] = await Promise.all([import('./reading.js'), import('./worker-serve.js'), import('./timeline-view.js')]);

/** @typedef {import('./types.js').Progress} Progress */
/** @typedef {import('./pkg/gpuprism_full.js').Imported} FullImported */
/** @typedef {import('./pkg/gpuprism.js').Imported | FullImported} Imported */
/** @typedef {import('./types.js').SourceFile} SourceFile */

/** @type {Set<{ memory: WebAssembly.Memory }>} */
const instances = new Set();
/** @type {Imported | null} */
let imported = null;
/** Null if the trace was read without its code. @type {import('./pkg/gpuprism_full.js').Triage | null} */
let triage = null;
/** False if the module is the first one. */
let hasSections = false;
/** True for a large trace until `prepareWindows` has started. */
let needsPreparation = false;
/** The join with the captures of the trace's graphs, if there are any. @type {Promise<void> | null} */
let joined = null;
/** The options of the timeline that was opened last, without the window. */
let tilesKey = '';

function trace() {
  if (!imported) throw new Error('the worker has no trace');
  return imported;
}

/** The trace, read with the second module. */
const fullTrace = () => /** @type {FullImported} */ (trace());

const importFull = () => import('./pkg/gpuprism_full.js');

/** @type {import('./types.js').Handlers<import('./types.js').TraceOperations>} */
const handlers = {
  /** Resolves with the kind of the file; `database` is one that only `openWithFull` reads. */
  async open({ module, isFull, isLarge, file, leftOut }, progress) {
    hasSections = isFull;
    needsPreparation = isFull && isLarge;
    const wasm = isFull ? await importFull() : await import('./pkg/gpuprism.js');
    await start(wasm, module);
    const reader = newReader(wasm, file.name, leftOut);
    const reading = readWhole(/** @type {{ finish(): Imported } & typeof reader} */ (reader), await readable(file), progress);
    // Only the second module has the texts that say what is read instead.
    const read = await reading.catch((problem) => {
      if (isFull || typeof problem !== 'string') throw problem;
      return null;
    });
    // Only the second module checks the config of a model.
    return read && (isFull || read.kind() !== 'model') ? opened(read) : { kind: 'database' };
  },
  /** Reads a file with the module that has all readers; a database by offset. */
  async openWithFull({ module, file, leftOut }, progress) {
    const wasm = await importFull();
    await start(wasm, module);
    hasSections = needsPreparation = true;
    const reader = newReader(wasm, file.name, leftOut);
    const read = await readWhole(/** @type {{ finish(): Imported } & typeof reader} */ (reader), await readable(file), progress);
    if (read) return opened(read);
    const onRows = (/** @type {number} */ rows) => progress({ rows, doing: 'reading' });
    onRows(0);
    return opened(wasm.read_database(await readable(file), file.name, leftOut === 'host', onRows));
  },
  async rehearse({ module }) {
    const [wasm, { openMadeUp, rehearseTrace }] = await Promise.all([importFull(), import('./rehearsal.js')]);
    if (!imported) {
      await start(wasm, module);
      imported = openMadeUp(wasm);
    }
    return rehearseTrace(fullTrace());
  },
  async openWithCode({ module, file }, progress) {
    const wasm = await importFull();
    await start(wasm, module);
    hasSections = true;
    const read = await readWithCode(file, progress);
    imported = read;
    triage = new wasm.Triage();
    return { isCapture: wasm.is_capture(read), replaysGraphs: read.replays_graphs() };
  },
  async map({ files }, progress) {
    // Freed first, because both together may not fit into memory.
    triage?.forget_mapping();
    for (const file of files) triage?.add_mapping(await readWithCode(file, progress));
  },
  /** The report lacks its sections if the module cannot compute them, and if `isPartialFirst` and the trace has many ops. */
  async analyze({ options, isPartialFirst, server, captures }, progress) {
    const choices = JSON.stringify(options);
    const join = async () => {
      if (captures.length === 0) return;
      joined ??= import('./graph-captures.js').then(({ joinCaptures }) => joinCaptures(fullTrace(), captures, (file) => readWithCode(file, progress)));
      await joined;
    };
    if (triage) {
      await join();
      const text = triage.report(/** @type {FullImported} */ (trace()), JSON.stringify({ server }), choices);
      return { text, isPartial: false, memory: memoryBytes() };
    }
    const isPartial = !hasSections || (isPartialFirst && trace().takes_a_while(choices));
    if (!isPartial) await join();
    const text = trace().analyze(isPartial ? JSON.stringify({ ...options, without_sections: true }) : choices);
    // Not before the sections, because the first bars of the timeline come before them.
    if (needsPreparation && !isPartial) {
      needsPreparation = false;
      prepareWindows(options);
    }
    return { text, isPartial, memory: memoryBytes() };
  },
  strips: ({ options, width, hasChart, scale }) => trace().strips(JSON.stringify(options), width, hasChart, scale),
  gpuLength: () => trace().gpu_length(),
  window: ({ from, to }) => trace().window(from, to),
  namedWindows: () => fullTrace().named_windows(),
  timeline({ options, width }) {
    const timeline = fullTrace().timeline(JSON.stringify(options));
    // The tiles do not depend on the window, and the page keeps them.
    const key = JSON.stringify({ ...options, window: null });
    const firstTiles = timeline && key !== tilesKey ? computeFirstTiles(timeline, width) : [];
    tilesKey = key;
    return timeline && { ...timeline, firstTiles };
  },
  tile: ({ layer, level, index }) => fullTrace().timeline_tile(layer, level, index),
  launchOf: ({ name, from }) => fullTrace().timeline_kernel(name, from),
  itemOfRow: ({ table, times }) => fullTrace().timeline_item(table, Float64Array.from(times)),
  example: ({ of, from, to }) => fullTrace().timeline_example(of, from, to),
  whatIf: ({ options }) => fullTrace().analyze(JSON.stringify(options)),
  stepPair: () => fullTrace().timeline_step_pair(),
  firstSteps: () => fullTrace().timeline_first_steps(),
  search: ({ text, from, to, row, toward }) => fullTrace().timeline_search(text, from, to, row, toward),
  hits: ({ text, from, to, least }) => fullTrace().timeline_hits(text, from, to, least),
  marks: ({ times }) => fullTrace().timeline_marks(Float64Array.from(times)),
  moment: ({ lane, row }) => fullTrace().timeline_moment(lane, row),
  slice: ({ options }) => /** @type {Uint8Array<ArrayBuffer>} */ (fullTrace().slice(JSON.stringify(options))),
  kernel: ({ options, name, width }) => fullTrace().kernel(JSON.stringify(options), name, width),
  pivotCells: ({ options, axes }) => fullTrace().pivot_cells(JSON.stringify(options), JSON.stringify(axes)),
  htmlStrips: ({ options }) => fullTrace().html_strips(JSON.stringify(options)),
  ranksLog: () => fullTrace().ranks_log(),
  ranksPart: ({ options }) => fullTrace().ranks_part(JSON.stringify(options)),
};

serve(handlers, memoryBytes);

/** @typedef {{ default: (init: { module_or_path: WebAssembly.Module }) => Promise<{ memory: WebAssembly.Memory }> }} WasmPackage */

/** @param {WasmPackage} wasm @param {WebAssembly.Module} module */
async function start({ default: init }, module) {
  instances.add(await init({ module_or_path: module }));
}

/** A reader that leaves out a part of the trace. The first module never keeps code.
 * @param {typeof import('./pkg/gpuprism.js') | typeof import('./pkg/gpuprism_full.js')} wasm @param {string} name
 * @param {import('./types.js').LeftOut | null} leftOut */
function newReader({ TraceReader }, name, leftOut) {
  if (leftOut === 'host') return TraceReader.gpu_ops_only(name);
  return leftOut && 'without_code' in TraceReader ? TraceReader.without_code(name) : new TraceReader(name);
}

function memoryBytes() {
  return [...instances].reduce((bytes, { memory }) => bytes + memory.buffer.byteLength, 0);
}

/** @param {SourceFile} file @param {(progress: Progress) => void} progress */
async function readWithCode(file, progress) {
  const { TraceReader } = await importFull();
  const read = await readWhole(TraceReader.with_code(file.name), await readable(file), progress);
  if (!read) throw new Error(`${file.name} is a database`);
  return read;
}

/** The file itself, or one on the server in the form of a file. @param {SourceFile} file */
async function readable(file) {
  if (file instanceof File) return file;
  const { RemoteBlob } = await import('./served-file.js');
  return /** @type {File} */ (/** @type {unknown} */ (new RemoteBlob(file)));
}

/** @param {Imported} read @returns {import('./types.js').Opened} */
function opened(read) {
  imported = read;
  const kind = /** @type {import('./types.js').FileKind} */ (read.kind());
  const isTrace = kind === 'trace';
  return { kind, torch: read.can_triage(), ranks: read.ranks(), text: isTrace ? null : read.text(), memory: memoryBytes() };
}

/** The tiles of the first picture up to the first one with bars. The page draws them with the first results.
 * @param {import('./types.js').TimelineView} timeline @param {number} width */
function computeFirstTiles(timeline, width) {
  const view = new View(timeline);
  view.open(timeline);
  const tiles = [];
  try {
    for (const id of view.tiles(width, ['device'])) {
      const tile = fullTrace().timeline_tile(id.layer, id.level, id.index);
      if (tile) tiles.push({ id, tile });
      if (tile?.bars.length) break;
    }
  } catch {
    // The page asks for the tile again and shows what is wrong.
  }
  return tiles;
}

const PREPARE_AFTER_MS = 200;

/** Analyses a small window while the worker is idle: the first one computes the aggregates that all windows use.
 * @param {import('./types.js').Options} options */
function prepareWindows(options) {
  const window = trace().window(0.48, 0.52);
  if (!window) return;
  setTimeout(() => {
    try {
      for (const withoutSections of [true, false]) trace().analyze(JSON.stringify({ ...options, window, without_sections: withoutSections }));
    } catch {
      // A problem with these options is shown by the analysis that has them.
    }
  }, PREPARE_AFTER_MS);
}
