// Measures how the page feels in Chromium with one trace: what moves, what blocks, how fast the timeline answers, and memory.
// Prints JSON: times in milliseconds, sizes in bytes. Takes about a minute after the import.
//
// usage: CHROMIUM=... node feel.mjs PAGE_URL FILE
//
// The page is not changed for it. A script that runs before those of the page observes layout shifts, long tasks and event times, the
// requests to the workers, and each painted timeline, whose `data-state` the page sets after every paint.

import { readFileSync } from "node:fs";
import { chromium } from "playwright-core";

const [url, file] = process.argv.slice(2);
const LONGEST_MS = 10 * 60 * 1000;
/** What the page computes on its own after an import has ended by then. */
const REST_MS = 3_000;
const VIEWPORT = { width: 1440, height: 900 };
const FRAMES = 240;
/** One turn of a wheel, as far as the page follows one. */
const TURN_PX = 240;
/** Turns from the whole trace to single ops, at each of these places of the timeline. */
const TURNS = 14;
const PLACES = [0.31, 0.52, 0.77];
/** The same while the lanes of threads are in view. */
const PLACES_OF_THREADS = [0.22, 0.64];
/** The layers of the tiles. */
const LAYERS = ["device", "derived", "host", "code"];
/** In seconds since the first op. */
const WINDOW = "0.001-0.011";
const KEYS = ["w", "w", "d", "a", "s", "s", "ArrowRight", "ArrowRight", "ArrowLeft", "Escape"];

/** Runs in the page before its own scripts. */
function observe() {
  const seen = { shifts: [], tasks: [], events: [], paints: [], answers: [] };
  window.seen = seen;
  const hasResults = () => document.querySelector("#results")?.matches(":not([hidden], [data-shown=nothing])") ?? false;
  const listen = (type, add, options = {}) =>
    new PerformanceObserver((list) => list.getEntries().forEach(add)).observe({ type, buffered: true, ...options });
  // Before there are results, the empty page makes room for the file, as a new page would.
  // A shift right after a key or a click was asked for. The script turns the wheel and picks windows without such input.
  listen("layout-shift", ({ value, startTime, hadRecentInput, sources }) => {
    const names = sources.map(({ node }) => node?.id || node?.className || node?.nodeName);
    const counts = !hadRecentInput && (seen.picked === undefined || hasResults());
    seen.shifts.push({ value, at: startTime, counts, names });
  });
  listen("longtask", ({ startTime, duration }) => seen.tasks.push({ at: startTime, duration }));
  listen("event", ({ name, duration }) => name === "keydown" && seen.events.push(duration), { durationThreshold: 16 });

  // The first tile with bars comes with the timeline.
  const hasBars = (value) => [value, ...(value?.firstTiles ?? []).map(({ tile }) => tile)].some((tile) => tile?.bars?.length > 0);

  // Listens before the page does, so that an answer comes before what the page paints with it.
  window.Worker = class extends Worker {
    #pending = new Map();

    constructor(...args) {
      super(...args);
      this.addEventListener("message", ({ data: { id, progress, value } }) => {
        const asked = this.#pending.get(id);
        if (!asked || progress !== undefined) return;
        seen.answers.push({ ...asked, at: performance.now(), memory: value?.memory, isPartial: value?.isPartial, hasBars: hasBars(value) });
      });
    }

    postMessage(message, ...more) {
      this.#pending.set(message.id, { op: message.op, layer: message.args?.layer, asked: performance.now() });
      super.postMessage(message, ...more);
    }
  };

  const note = (name) => {
    const times = (seen[name] = { drawn: performance.now() });
    // A task after the frame.
    requestAnimationFrame(() => setTimeout(() => (times.painted = performance.now())));
  };
  // The canvas is in the results, which are hidden until their first frame.
  const findFirstBars = () => {
    const tile = seen.answers.find(({ hasBars }) => hasBars);
    if (!seen.firstBars && hasResults() && tile && seen.paints.some(({ at }) => at > tile.at)) note("firstBars");
  };
  const findHead = () => {
    if (!seen.head && document.querySelector("#results:is([data-shown=head], [data-shown=all])")) note("head");
  };
  new MutationObserver((records) => {
    const at = performance.now();
    for (const { target } of records) if (target.dataset.state && target.classList.contains("timeline")) seen.paints.push({ at, state: target.dataset.state });
    findFirstBars();
    findHead();
    // The page sets it once its module runs and files can be opened.
    if (!seen.ready && document.documentElement.dataset.simd) note("ready");
  }).observe(document, { subtree: true, attributes: true, attributeFilter: ["data-state", "data-shown", "data-simd"] });
}

/** In the page: turns a wheel over the timeline with each frame, in, sideways, out and back. Resolves with the times between frames. */
function scroll({ frames, turn }) {
  const canvas = document.querySelector(".timeline canvas");
  const { left, top, width } = canvas.getBoundingClientRect();
  const moves = [{ deltaY: -turn / 8 }, { deltaX: turn / 8 }, { deltaY: turn / 8 }, { deltaX: -turn / 8 }];
  return new Promise((resolve) => {
    const times = [];
    const step = (at) => {
      times.push(at);
      if (times.length > frames) {
        resolve(times.slice(1).map((time, index) => time - times[index]));
        return;
      }
      const move = moves[Math.floor(((times.length - 1) * moves.length) / frames)];
      canvas.dispatchEvent(new WheelEvent("wheel", { ...move, clientX: left + 0.5 * width, clientY: top + 60, bubbles: true, cancelable: true }));
      requestAnimationFrame(step);
    };
    requestAnimationFrame(step);
  });
}

/** In the page: one turn of the wheel. Resolves with `work`, the time of its handler and of the first paint without the wait for the frame,
 * and `drawn`, the time until nothing is missing. */
function turnOnce({ share, turn }) {
  const canvas = document.querySelector(".timeline canvas");
  const { left, top, width } = canvas.getBoundingClientRect();
  const { paints } = window.seen;
  const known = paints.length;
  return new Promise((resolve) => {
    const begin = performance.now();
    let frame = 0;
    // Asked for before the page asks, so it runs before the paint in the same frame.
    requestAnimationFrame(() => (frame = performance.now()));
    canvas.dispatchEvent(new WheelEvent("wheel", { deltaY: turn, clientX: left + share * width, clientY: top + 60, bubbles: true, cancelable: true }));
    const handled = performance.now() - begin;
    const wait = () => {
      const drawn = paints.slice(known).find(({ state }) => state === "drawn");
      if (drawn) resolve({ work: handled + paints[known].at - frame, drawn: drawn.at - begin, paints: paints.length - known });
      else setTimeout(wait, 1);
    };
    wait();
  });
}

/** In the page: picks a window by its field. */
function pickWindow(text) {
  const field = document.querySelector('[aria-label^="Window of"]');
  field.value = text;
  field.dispatchEvent(new Event("change", { bubbles: true }));
}

async function importFile(page) {
  await page.goto(url);
  await page.locator("html[data-simd]").waitFor({ state: "attached" });
  // As a person does, who takes a while to find the file. No script can drive the chooser with handles.
  await page.evaluate(() => delete self.showOpenFilePicker);
  const [chooser] = await Promise.all([page.waitForEvent("filechooser"), page.click("#choose")]);
  await page.waitForTimeout(REST_MS);
  await page.evaluate(() => (window.seen.picked = performance.now()));
  await chooser.setFiles(file);
  const options = { polling: 100, timeout: LONGEST_MS };
  await page.waitForFunction(() => performance.getEntriesByName("gpuprism:import").length > 0, null, options);
  await settle(page);
}

/** Waits until the results are complete and the timeline is drawn. */
async function settle(page) {
  await page.waitForFunction(
    () =>
      document.querySelector("#results:not([hidden])[aria-busy=false]") &&
      !document.querySelector("#todo").textContent.includes("Being computed") &&
      document.querySelector(".timeline[data-state=drawn]"),
    null,
    { polling: 100, timeout: LONGEST_MS },
  );
  await page.waitForTimeout(REST_MS);
}

async function opening(page) {
  return page.evaluate(() => {
    const { seen } = window;
    const [entry] = performance.getEntriesByName("gpuprism:import");
    // A small file is read a second time, by the module of the timeline.
    const read = seen.answers.find(({ op }) => op === "open").at;
    const shown = entry.startTime + entry.duration;
    return {
      ready_ms: seen.ready.painted,
      import_ms: entry.duration,
      read_to_results_ms: shown - read,
      read_to_bars_ms: seen.firstBars.drawn - read,
      read_to_frame_ms: seen.firstBars.painted - read,
      read_to_head_ms: seen.head.painted - read,
      // For whoever looks for the cause of a slow first picture.
      answers: seen.answers
        .filter(({ asked }) => asked < shown + 10_000)
        .map(({ op, asked, at, memory }) => `${op} ${Math.round(asked - read)} to ${Math.round(at - read)}${memory ? `, ${Math.round(memory / 1e6)} MB` : ""}`),
      bars_at: seen.firstBars.painted,
    };
  });
}

/** The sum of the layout shifts between two times, and what moved. */
const shift = (page, from, to = Infinity) =>
  page.evaluate(
    ({ from, to }) => {
      const counted = window.seen.shifts.filter(({ counts, at }) => counts && at >= from && at < (to ?? Infinity));
      return { sum: counted.reduce((sum, { value }) => sum + value, 0), moved: [...new Set(counted.flatMap(({ names }) => names))] };
    },
    { from, to },
  );

const now = (page) => page.evaluate(() => performance.now());

async function turns(page, places) {
  const [cold, warm] = [[], []];
  for (const share of places) {
    const go = async (turn, into) => {
      for (let step = 0; step < TURNS; step += 1) into.push(await page.evaluate(turnOnce, { share, turn }));
    };
    await page.locator(".timeline-tools button", { hasText: "Show all" }).click();
    await page.waitForTimeout(300);
    await go(-TURN_PX, cold);
    await go(TURN_PX, warm);
    await go(-TURN_PX, warm);
  }
  await page.locator(".timeline-tools button", { hasText: "Show all" }).click();
  // A turn at the end of the zoom, or one whose tiles had been dropped, tells nothing about tiles at hand, and the reverse.
  return { cold: cold.filter(({ paints }) => paints > 1), warm: warm.filter(({ paints }) => paints === 1) };
}

async function keys(page) {
  await page.locator(".timeline canvas").first().focus();
  for (const key of KEYS) {
    await page.keyboard.press(key);
    await page.waitForTimeout(100);
  }
  await page.waitForTimeout(500);
  return page.evaluate(() => window.seen.events.splice(0));
}

async function memory(browser, page) {
  const session = await page.context().newCDPSession(page);
  await session.send("HeapProfiler.collectGarbage");
  const heap = await session.send("Runtime.getHeapUsage");
  const { processInfo } = await (await browser.newBrowserCDPSession()).send("SystemInfo.getProcessInfo");
  return {
    page_heap_bytes: heap.usedSize + (heap.backingStorageSize ?? 0),
    renderer_peak_bytes: Math.max(...processInfo.filter(({ type }) => type === "renderer").map(({ id }) => peakBytes(id))),
  };
}

/** The largest resident set of a process, from proc(5). */
function peakBytes(process) {
  try {
    return Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${process}/status`, "utf8"))[1]) * 1024;
  } catch {
    return Number.NaN;
  }
}

/** Where in the run a long task was, by the last mark before it. */
function when({ at, duration }, marks) {
  const [name, mark] = Object.entries(marks).findLast(([, time]) => at >= time);
  return `${name}+${Math.round(at - mark)}: ${Math.round(duration)}`;
}

/** How long the worker took for each tile of a layer while the timeline was zoomed. It has up to two requests at once, so a tile begins when the
 * one before is answered. */
function tileTimes(answers, layer) {
  const timed = answers.map(({ op, layer: of, asked, at }, index) => ({ op, of, time: at - Math.max(asked, answers[index - 1]?.at ?? 0) }));
  return timed.filter(({ op, of }) => op === "tile" && of === layer).map(({ time }) => time);
}

/** The number of values, their median, 95th percentile and maximum. */
function quantiles(values) {
  const sorted = values.toSorted((a, b) => a - b);
  const at = (share) => sorted[Math.min(Math.floor(share * sorted.length), sorted.length - 1)] ?? null;
  return { count: sorted.length, median: at(0.5), p95: at(0.95), longest: at(1) };
}

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM,
  args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
});
try {
  const context = await browser.newContext({ viewport: VIEWPORT });
  const page = await context.newPage();
  const faults = [];
  page.on("pageerror", (error) => faults.push(String(error)));
  await page.addInitScript(observe);
  await importFile(page);
  const { bars_at: barsAt, ...opened } = await opening(page);
  const pickedAt = await page.evaluate(() => window.seen.picked);

  const gesturesAt = await now(page);
  await page.locator(".timeline canvas").first().scrollIntoViewIfNeeded();
  const frames = await page.evaluate(scroll, { frames: FRAMES, turn: TURN_PX });
  await page.waitForTimeout(1_000);
  const { cold, warm } = await turns(page, PLACES);
  const scrolled = page.locator(".timeline-scroll").first();
  await scrolled.evaluate((node) => (node.scrollTop = node.scrollHeight));
  const threads = await turns(page, PLACES_OF_THREADS);
  await scrolled.evaluate((node) => (node.scrollTop = 0));
  const pressed = await keys(page);

  const windowAt = await now(page);
  await page.evaluate(pickWindow, WINDOW);
  await page.waitForFunction(() => location.hash.includes("window="), null, { timeout: LONGEST_MS });
  await page.waitForTimeout(200);
  await settle(page);
  const answers = await page.evaluate(() => window.seen.answers);
  const tasks = await page.evaluate((bars) => window.seen.tasks.filter(({ at }) => at > bars), barsAt);
  if (faults.length > 0) throw new Error(faults.join("\n"));

  console.log(
    JSON.stringify({
      ...opened,
      shift_on_load: await shift(page, 0, pickedAt),
      shift_on_results: await shift(page, pickedAt, gesturesAt),
      shift_on_gestures: await shift(page, gesturesAt, windowAt),
      shift_on_window: await shift(page, windowAt),
      long_tasks: { ...quantiles(tasks.map(({ duration }) => duration)), at: tasks.map((task) => when(task, { barsAt, gesturesAt, windowAt })) },
      frame: quantiles(frames),
      zoom_at_hand: quantiles(warm.map(({ work }) => work)),
      zoom_from_worker: quantiles(cold.map(({ drawn }) => drawn)),
      threads_at_hand: quantiles(threads.warm.map(({ work }) => work)),
      threads_from_worker: quantiles(threads.cold.map(({ drawn }) => drawn)),
      tiles: Object.fromEntries(LAYERS.map((layer) => [layer, quantiles(tileTimes(answers, layer))])),
      key: quantiles(pressed),
      wasm_memory_bytes: Math.max(...answers.filter(({ op }) => op === "analyze").map(({ memory: bytes }) => bytes ?? 0)),
      ...(await memory(browser, page)),
    }),
  );
} finally {
  await browser.close();
}
