// Joins the tables of one run of rocprofv3 into one file: they are one trace, and each table starts with its header.

/** The ends of their names, in the order in which they are read; as in src/input/file_sets.rs. */
const TABLES = ['kernel_trace', 'memory_copy_trace', 'hip_api_trace', 'marker_api_trace', 'rccl_api_trace', 'hsa_api_trace', 'memory_allocation_trace',
  'scratch_memory_trace', 'counter_collection', 'agent_info', 'domain_stats'];

/** The run and the rank of the table; null for any other file. @param {import('./types.js').SourceFile} file */
function tableOf(file) {
  const rank = TABLES.findIndex((table) => file.name.endsWith(`${table}.csv`));
  if (rank < 0 || !(file instanceof File)) return null;
  return { run: file.name.slice(0, -`${TABLES[rank]}.csv`.length), rank, file };
}

/** @param {import('./types.js').SourceFile[]} files @returns {import('./types.js').SourceFile[]} */
export function joinRuns(files) {
  const tables = files.map(tableOf);
  return files.flatMap((file, index) => {
    const own = tables[index];
    const ofRun = tables.flatMap((table) => (own && table?.run === own.run ? [table] : [])).sort((a, b) => a.rank - b.rank);
    if (ofRun.length < 2) return [file];
    // The first file of a run stands for all. A line end ends a table that was cut.
    const isFirst = tables.findIndex((table) => table?.run === own?.run) === index;
    return isFirst ? [new File(ofRun.flatMap((table) => [table.file, '\n']), ofRun[0].file.name)] : [];
  });
}
