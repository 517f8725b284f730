// Joins a trace with the traces of the captures of its graphs, which were dropped in the same folder. Loaded by the trace worker when
// a folder has such files.

/** @typedef {import('./pkg/gpuprism_full.js').Imported} Imported */

/** Reads the captures that the trace needs, one after the other. One that cannot be read is named in the report.
 * @param {Imported} trace @param {File[]} files @param {(file: File) => Promise<Imported>} read */
export async function joinCaptures(trace, files, read) {
  const { capture_details: detailsName } = await import('./pkg/gpuprism_full.js');
  const isDetails = (/** @type {File} */ { name }) => name.split('/').at(-1) === detailsName();
  const details = await Promise.all(files.filter(isDetails).map((file) => file.text().catch(() => '')));
  const captures = trace.captures_beside(files.map(({ name }) => name), details);
  if (!captures) return;
  for (const [index, name] of captures.wanted().entries()) {
    const file = files.find((other) => other.name === name);
    if (!file) continue;
    try {
      const capture = await read(file);
      captures.add(index, trace, capture);
      capture.free();
    } catch (problem) {
      // A trap of the module is a fault of the worker.
      if (problem instanceof WebAssembly.RuntimeError) throw problem;
      captures.add_unusable(name, problem instanceof Error ? problem.message : String(problem));
    }
  }
  trace.join_captures(captures);
}
