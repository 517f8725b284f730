// Measures the page in Chromium: how long an import of a file takes, against how long merely reading it takes.
//
// usage: CHROMIUM=... node page.mjs PAGE_URL FILE RUNS
//
// The page reports each import itself, as the browser's own kind of measurement:
//   performance.measure("gpuprism:import", { start, end, detail: { wasm_memory_bytes } })
// from the moment the file is picked to the moment its results are shown.

import { chromium } from "playwright-core";

const [url, file, runs] = process.argv.slice(2);
const LONGEST_MS = 10 * 60 * 1000;

// Runs in a worker, as the page's import does: 8 MiB slices, four asked for ahead, one byte of each memory page touched.
const READER = `
  onmessage = async ({ data: file }) => {
    const SLICE_BYTES = 8 * 1024 * 1024, AHEAD = 4;
    const start = performance.now();
    const asked = [];
    let offset = 0, bytes = 0, touched = 0;
    const ask = () => {
      if (offset < file.size) asked.push(file.slice(offset, offset += SLICE_BYTES).arrayBuffer());
    };
    for (let i = 0; i < AHEAD; i++) ask();
    while (asked.length > 0) {
      const slice = new Uint8Array(await asked.shift());
      ask();
      for (let i = 0; i < slice.length; i += 4096) touched += slice[i];
      bytes += slice.length;
    }
    postMessage({ seconds: (performance.now() - start) / 1000, bytes, touched });
  };`;

async function read(browser) {
  const page = await browser.newPage();
  await page.setContent("<input id=files type=file>");
  await page.setInputFiles("#files", file);
  const result = await page.evaluate(
    (source) =>
      new Promise((resolve, reject) => {
        const worker = new Worker(URL.createObjectURL(new Blob([source], { type: "text/javascript" })));
        worker.onmessage = ({ data }) => resolve({ ...data, size: document.querySelector("#files").files[0].size });
        worker.onerror = (event) => reject(new Error(event.message));
        worker.postMessage(document.querySelector("#files").files[0]);
      }),
    READER,
  );
  await page.close();
  if (result.bytes !== result.size) throw new Error(`read ${result.bytes} of ${result.size} bytes`);
  return result.seconds;
}

async function importInto(browser) {
  const page = await browser.newPage();
  const fault = new Promise((_, reject) => page.on("pageerror", reject));
  // Looked at below; until then it must not count as unhandled.
  fault.catch(() => {});
  await page.goto(url);
  // The page is ready: its WebAssembly is compiled and says what it can.
  await page.locator("html[data-simd]").waitFor({ state: "attached" });
  await page.setInputFiles("#files", file);
  const measured = page.waitForFunction(
    () => {
      const [entry] = performance.getEntriesByName("gpuprism:import");
      return entry && { milliseconds: entry.duration, ...entry.detail };
    },
    null,
    { polling: 100, timeout: LONGEST_MS },
  );
  const handle = await Promise.race([measured, fault]).catch((error) => {
    throw new Error(`${url} made no performance.measure("gpuprism:import"): ${error.message}`);
  });
  const { milliseconds, wasm_memory_bytes } = await handle.jsonValue();
  await page.close();
  return { import_seconds: milliseconds / 1000, wasm_memory_bytes };
}

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM,
  args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
});
try {
  const measured = [];
  for (let run = 0; run < Number(runs); run++) {
    measured.push({ read_seconds: await read(browser), ...(await importInto(browser)) });
  }
  console.log(JSON.stringify({ runs: measured }));
} finally {
  await browser.close();
}
