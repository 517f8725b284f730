// The way back from the timeline to the table whose cell led there: the tab with its sort order and filter, and where the reader was in it.

/** @import { Page } from './types.js' */

/** How long the table may take to be drawn. */
const DRAWN_WITHIN_MS = 5_000;

export class WayBack {
  #page;
  #view;
  #y = scrollY;
  #table;
  /** Where the rows were scrolled to. */
  #rows;
  /** Finds the pressed cell again. */
  #pressed;
  /** The heading of the table. */
  title;

  /** @param {Page} page @param {HTMLElement} source the pressed cell of a table */
  constructor(page, source) {
    this.#page = page;
    const { tab, of, sort, dir, filter, kernel, run } = page.store.view;
    this.#view = { tab, of, sort, dir, filter, kernel, run };
    const block = /** @type {HTMLElement | null} */ (source.closest('.block'));
    const rows = source.closest('.scroll');
    this.#table = block?.dataset.table ?? '';
    this.#rows = { left: rows?.scrollLeft ?? 0, top: rows?.scrollTop ?? 0 };
    const { time, example, file, run: runOfCase } = source.dataset;
    const ofFile = file ? `[data-file="${CSS.escape(file)}"]` : '';
    const ofRun = runOfCase ? `[data-run="${runOfCase}"]` : '';
    this.#pressed = example ? `[data-example="${CSS.escape(example)}"]${ofFile}${ofRun}` : `[data-time="${CSS.escape(time ?? '')}"]`;
    this.title = block?.querySelector('h2')?.textContent ?? 'the table';
  }

  /** Shows the table as it was, and focuses the pressed cell. */
  async go() {
    this.#page.look(this.#view);
    const block = `.block[data-table~="${CSS.escape(this.#table)}"]`;
    const rows = await drawn(`${block} .scroll`);
    scrollTo({ top: this.#y, behavior: 'instant' });
    rows?.scrollTo({ ...this.#rows, behavior: 'instant' });
    const pressed = await drawn(`${block} ${this.#pressed}`);
    pressed?.focus({ preventScroll: true });
  }
}

/** The first element of a selector, once there is one; null if that takes too long. @param {string} selector @returns {Promise<HTMLElement | null>} */
const drawn = (selector) => whenDrawn(() => document.querySelector(selector));

/** What `find` finds, tried in each frame; null if it finds nothing in time. @template {Element} Found @param {() => Found | null} find */
export async function whenDrawn(find) {
  for (const end = performance.now() + DRAWN_WITHIN_MS; performance.now() < end;) {
    await new Promise((resolve) => {
      requestAnimationFrame(resolve);
    });
    const found = find();
    if (found) return found;
  }
  return null;
}
