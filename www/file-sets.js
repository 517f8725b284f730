// Joins the tables of one run of rocprofv3 into one file: they are one trace, and each table starts with its header. If one is
// gzipped, all parts of the file are.

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

/** Whether there are tables of one run to join. @param {import('./types.js').SourceFile[]} files */
export const hasRuns = (files) => files.filter((file) => tableOf(file)).length > 1;

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

/** A line end ends a table that was cut. @param {Table[]} tables */
async function join(tables) {
  const isGzipped = tables.some((table) => table.isGzipped);
  const parts = tables.map((table) => (isGzipped && !table.isGzipped ? gzipped(table.file) : table.file));
  const lineEnd = isGzipped ? GZIPPED_LINE_END : '\n';
  return [new File((await Promise.all(parts)).flatMap((part) => [part, lineEnd]), tables[0].file.name)];
}

/** @param {File} file */
const gzipped = (file) => new Response(file.stream().pipeThrough(new CompressionStream('gzip'))).blob();
