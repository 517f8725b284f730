// Joins the tables of one run of rocprofv3 into one file: they are one trace, and each table starts with its header. If one is
// gzipped, all parts of the file are. Each is then unpacked once to find those that are cut or damaged: of these the part that can be
// unpacked is packed again, because the reader of the joined file would lose the tables after it.

import { showPageProblem } from './cards.js';

/** The ends of their names, in the order in which they are read; as in src/input/file_sets.rs. */
const TABLES = ['kernel_trace', 'memory_copy_trace', 'hip_api_trace', 'marker_api_trace', 'rccl_api_trace', 'hsa_api_trace', 'memory_allocation_trace',
  'scratch_memory_trace', 'counter_collection', 'agent_info', 'domain_stats'];

/** A line end, gzipped. */
const GZIPPED_LINE_END = new Uint8Array([31, 139, 8, 0, 0, 0, 0, 0, 2, 3, 227, 2, 0, 147, 6, 215, 50, 1, 0, 0, 0]);

/** @typedef {{ run: string, rank: number, file: File, isGzipped: boolean }} Table */

/** Null for a file that is no table. @param {import('./types.js').SourceFile} file @returns {Table | null} */
function tableOf(file) {
  const name = file.name.replace(/\.gz$/, '');
  const rank = TABLES.findIndex((table) => name.endsWith(`${table}.csv`));
  if (rank < 0 || !(file instanceof File)) return null;
  return { run: name.slice(0, -`${TABLES[rank]}.csv`.length), rank, file, isGzipped: name !== file.name };
}

/** @param {import('./types.js').SourceFile[]} files @returns {Promise<import('./types.js').SourceFile[]>} */
export async function joinRuns(files) {
  const tables = files.map(tableOf);
  const joined = files.map((file, index) => {
    const own = tables[index];
    const ofRun = tables.flatMap((table) => (own && table?.run === own.run ? [table] : [])).sort((a, b) => a.rank - b.rank);
    if (ofRun.length < 2) return [file];
    // The first file of a run stands for all.
    return tables.findIndex((table) => table?.run === own?.run) === index ? join(ofRun) : [];
  });
  return (await Promise.all(joined)).flat();
}

/** What ends a joined file of which a table is cut or damaged, so that the reader reports it: the beginning of a gzip member, or bytes
 * of none. */
const MARKS = { cut: new Uint8Array([31, 139]), damaged: new Uint8Array([1]) };

/** @typedef {keyof typeof MARKS} Damage */

/** A line end ends a table that was cut. @param {Table[]} tables */
async function join(tables) {
  const isGzipped = tables.some((table) => table.isGzipped);
  const lineEnd = isGzipped ? GZIPPED_LINE_END : '\n';
  const parts = await Promise.all(tables.map((table) => partOf(table, isGzipped)));
  const broken = tables.filter((_, index) => parts[index].damage);
  if (broken.length) {
    const names = broken.map(({ file }) => file.name).join(', ');
    showPageProblem('A part of the run could not be read', `Cut or damaged, or gzipped in several parts: ${names}. The other tables are complete.`, 'warning');
  }
  const marks = [...new Set(parts.flatMap(({ damage }) => damage ?? []))].sort();
  return [new File([...parts.flatMap(({ body }) => [body, lineEnd]), ...marks.slice(0, 1).map((mark) => MARKS[mark])], tables[0].file.name)];
}

/** @param {Table} table @param {boolean} isGzipped whether the joined file is @returns {Promise<{ body: Blob, damage?: Damage | null }>} */
async function partOf(table, isGzipped) {
  if (!table.isGzipped) return { body: isGzipped ? await gzipped(table.file.stream()) : table.file };
  const damage = await damageOf(table.file);
  return { body: damage ? await gzipped(untilDamage(unpacked(table.file, IN_PIECES))) : table.file, damage };
}

/** The output for a piece of the input that breaks is lost. */
const PIECE_BYTES = 256;

/** @type {Transformer<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>>} */
const IN_PIECES = {
  transform(bytes, controller) {
    for (let from = 0; from < bytes.length; from += PIECE_BYTES) controller.enqueue(bytes.subarray(from, from + PIECE_BYTES));
  },
};

/** @param {File} file @param {Transformer<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>>} before what the packed bytes pass through */
const unpacked = (file, before) => file.stream().pipeThrough(new TransformStream(before)).pipeThrough(new DecompressionStream('gzip'));

/** @param {File} file @returns {Promise<Damage | null>} */
async function damageOf(file) {
  let isAtEnd = false;
  try {
    await unpacked(file, { flush: () => void (isAtEnd = true) }).pipeTo(new WritableStream());
    return null;
  } catch {
    return isAtEnd ? 'cut' : 'damaged';
  }
}

/** Ends where the stream breaks. @param {ReadableStream<Uint8Array<ArrayBuffer>>} stream */
function untilDamage(stream) {
  const reader = stream.getReader();
  return new ReadableStream({
    async pull(controller) {
      const { value } = await reader.read().catch(() => ({ value: undefined }));
      if (value) controller.enqueue(value);
      else controller.close();
    },
  });
}

/** @param {ReadableStream<Uint8Array<ArrayBuffer>>} stream */
const gzipped = (stream) => new Response(stream.pipeThrough(new CompressionStream('gzip'))).blob();
