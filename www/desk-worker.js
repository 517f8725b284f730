// The desk worker: holds the runs' reports, never a trace, and writes the files that a person saves. It is fetched when a
// person first wants one.

import init, { Desk } from './pkg/gpuprism_desk.js';
import { serve } from './worker-serve.js';

let wasm;
let desk;

serve({
  async start({ module }) {
    wasm = await init({ module_or_path: module });
    desk = new Desk();
  },
  set: ({ texts }) => desk.set(texts),
  translate: ({ label, text }) => desk.translate(label, text),
  share: ({ what, wish }) => desk[`share_${what}`](JSON.stringify(wish)),
  openLink: ({ text }) => desk.open_link(text),
  export: ({ format, table }) => desk.export(format, table),
}, () => wasm?.memory.buffer.byteLength ?? 0);
