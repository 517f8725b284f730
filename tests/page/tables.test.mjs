// A table of a hundred thousand rows: few rows are in the document, and the right ones at every position in every order. Screen readers
// get the number of rows, the focus is kept, and the first rows are printed.

import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import * as h from './harness.mjs';

const { browser, server } = await h.lend();
const ROWS = 100_000;
const ROW_PX = 28;

/** Kernel `kernel_N` ran N + 1 times and is at position N. */
async function longReport() {
  const short = JSON.parse(await h.jsonReport(h.kineto('long.json', [['k', 0, 1_000]])));
  const [kernel] = short.runs[0].kernels;
  short.runs[0].sections = {};
  short.runs[0].kernels = Array.from({ length: ROWS }, (_, at) => ({ ...kernel, name: `kernel_${at}(void*)`, short_name: `kernel_${at}`, count: at + 1 }));
  return short;
}

// The browser reads it from the disk: sent to the page, its megabytes would take longer than all of the test.
const folder = await mkdtemp(join(tmpdir(), 'gpuprism-rows-'));
after(() => rm(folder, { recursive: true }));
const report = join(folder, 'long.json');
await writeFile(report, JSON.stringify(await longReport()));

async function opened() {
  const opening = await h.openPage(browser, server.origin, '#tab=kernels');
  await opening.page.locator('#files').setInputFiles(report);
  await h.settled(opening.page);
  await opening.page.locator('.long tbody tr').first().waitFor();
  return opening;
}

const scrollTo = (page, top) => page.locator('.scroll.long').evaluate((frame, top) => void (frame.scrollTop = top), top);

/** Waits until a kernel's row is at the point just below the table's head; if it never is, fails with what is there. */
async function waitForTop(page, name) {
  try {
    await page.waitForFunction((name) => {
      const frame = document.querySelector('.scroll.long');
      frame?.scrollIntoView();
      const head = frame?.querySelector('thead th').getBoundingClientRect();
      return head && document.elementFromPoint(head.left + 40, head.bottom + 2)?.closest('tr')?.querySelector('button.kernel')?.textContent === name;
    }, name);
  } catch (problem) {
    const state = await page.evaluate(() => {
      const frame = document.querySelector('.scroll.long');
      const { left, bottom } = frame.querySelector('thead th').getBoundingClientRect();
      const short = (node) => node?.outerHTML.slice(0, 120);
      return {
        at: short(document.elementFromPoint(left + 40, bottom + 2)), left, bottom, scrolled: frame.scrollTop, of: frame.scrollHeight, view: frame.clientHeight,
        rows: [...frame.querySelectorAll('tbody tr')].map((tr) => tr.textContent.slice(0, 16)).filter((_, place) => place % 10 === 0), focus: short(document.activeElement),
      };
    });
    throw new Error(`${name} is not below the head: ${JSON.stringify(state)}`, { cause: problem });
  }
}

const rowsInPage = (page) => page.locator('.long tbody tr').count();

test('few of a hundred thousand rows are in the page, and the right one is at every position', async () => {
  const { page, faults, close } = await opened();
  assert.equal(await page.locator('.long table').getAttribute('aria-rowcount'), String(ROWS + 2), 'with the head and the sums');
  for (const at of [0, 1, 250, 499, 500, 40_000, 99_000, 12_345, 3]) {
    await scrollTo(page, at * ROW_PX);
    await waitForTop(page, `kernel_${at}`);
    assert.ok(await rowsInPage(page) < 100, `${await rowsInPage(page)} rows at ${at}`);
    const index = await page.evaluate((name) => [...document.querySelectorAll('.long tbody tr')].find((tr) => tr.querySelector('button.kernel')?.textContent === name).ariaRowIndex ?? null, `kernel_${at}`);
    if (index !== null) assert.equal(index, String(at + 2));
  }
  await scrollTo(page, 1e9);
  await page.getByRole('button', { name: `kernel_${ROWS - 1}`, exact: true }).waitFor();
  await page.locator('.long thead [data-key=count]').click();
  await waitForTop(page, `kernel_${ROWS - 1}`);
  await scrollTo(page, 70_000 * ROW_PX);
  await waitForTop(page, `kernel_${ROWS - 1 - 70_000}`);
  await page.locator('#filter').fill('kernel_777');
  await page.waitForFunction(() => document.querySelector('.shown').textContent.startsWith('111 of 100,000'));
  assert.deepEqual(faults, []);
  await close();
});

test('a row that scrolls in does not restyle the others', async () => {
  const { page, close } = await opened();
  const session = await browser.newBrowserCDPSession();
  const events = [];
  session.on('Tracing.dataCollected', ({ value }) => events.push(...value));
  await session.send('Tracing.start', { transferMode: 'ReportEvents', traceConfig: { includedCategories: ['devtools.timeline'] } });
  await page.evaluate(async (row) => {
    for (let step = 0; step < 20; step += 1) {
      document.querySelector('.scroll.long').scrollTop += row;
      await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    }
  }, ROW_PX);
  const isTraced = new Promise((done) => session.once('Tracing.tracingComplete', done));
  await session.send('Tracing.end');
  await isTraced;
  await session.detach();
  const styled = events.filter(({ name }) => name === 'UpdateLayoutTree').map(({ args }) => args.elementCount ?? args.data?.elementCount ?? 0);
  const cells = await page.locator('.long tbody :is(td, tr, button)').count();
  const sum = styled.reduce((sum, count) => sum + count, 0);
  assert.ok(sum > 20, `${sum} elements styled`);
  assert.ok(sum / 20 < cells / 4, `${sum / 20} of ${cells} elements styled a row`);
  await close();
});

test('rows have one height, and a pressed name opens the kernel above them', async () => {
  const { page, faults, close } = await opened();
  // At once: the rows are replaced when the fonts are there.
  const heights = await page.evaluate(() => [...document.querySelectorAll('.long tbody tr')].map((tr) => tr.offsetHeight));
  assert.deepEqual([...new Set(heights)], [ROW_PX]);
  await page.getByRole('button', { name: 'kernel_2', exact: true }).click();
  await page.locator('#kernel-title', { hasText: /^kernel_2\(void\*\)$/ }).waitFor();
  await scrollTo(page, 5_000 * ROW_PX);
  await waitForTop(page, 'kernel_5000');
  for (const [text, percent] of await barsOf(page, 'kernels', 'elapsed_share')) assert.equal(percent, Number(text), 'the bar of a row that scrolled in');
  assert.deepEqual(faults, []);
  await close();
});

test('keys scroll, also after the focused row was removed', async () => {
  const { page, faults, close } = await opened();
  await page.getByRole('button', { name: 'kernel_1', exact: true }).focus();
  await scrollTo(page, 60_000 * ROW_PX);
  await waitForTop(page, 'kernel_60000');
  await page.waitForFunction(() => document.activeElement.matches('.scroll.long'));
  await page.keyboard.press('Home');
  await waitForTop(page, 'kernel_0');
  await page.keyboard.press('End');
  await page.getByRole('button', { name: `kernel_${ROWS - 1}`, exact: true }).waitFor();
  assert.deepEqual(faults, []);
  await close();
});

test('the first five hundred rows are printed with the number of all; afterwards the table is as before', async () => {
  const { page, faults, close } = await opened();
  await scrollTo(page, 50_000 * ROW_PX);
  await waitForTop(page, 'kernel_50000');
  await page.emulateMedia({ media: 'print', colorScheme: 'dark' });
  await page.evaluate(() => dispatchEvent(new Event('beforeprint')));
  assert.equal(await page.evaluate(() => getComputedStyle(document.body).backgroundColor), 'rgb(255, 255, 255)', 'paper is white');
  const names = await page.locator('.long tbody tr button.kernel').allTextContents();
  assert.deepEqual(names, Array.from({ length: 500 }, (_, at) => `kernel_${at}`));
  assert.match(await page.locator('.on-paper').first().innerText(), /100,000 rows.*first 500.*CSV/);
  const cut = await page.evaluate(() => [...document.querySelectorAll('.block :is(td, th, .scroll, table)')].filter((node) => node.scrollWidth > node.clientWidth + 1).length);
  assert.equal(cut, 0, 'nothing is cut on paper');
  await page.emulateMedia({ media: 'screen' });
  await page.evaluate(() => dispatchEvent(new Event('afterprint')));
  assert.ok(await rowsInPage(page) < 100);
  assert.ok((await page.pdf()).length > 10_000);
  assert.deepEqual(faults, []);
  await close();
});

test('on paper tables follow each other, without form controls; a chosen window is stated, and the labels over time stay legible', async () => {
  const { page, faults, close } = await h.openPage(browser, server.origin);
  await h.drop(page, h.kineto('a.json', Array.from({ length: 8 }, (_, at) => ['gemm', 1_000_000 + 400_000 * at, 300_000])));
  await h.settled(page);
  await h.openTab(page, 'host');
  const tables = await page.locator('.block').count();
  const sheets = (await page.pdf({ format: 'A4' })).toString('latin1').match(/\/Type ?\/Page\b/g).length;
  assert.ok(tables > 5 && sheets < tables, `${tables} tables on ${sheets} sheets`);
  await page.locator('.strip-tools input').fill('0.001-0.002');
  await page.locator('.strip-tools input').press('Enter');
  await page.locator('.trail', { hasText: 'ms' }).waitFor();
  await page.emulateMedia({ media: 'print' });
  assert.equal(await page.locator('#strips').locator('select, input').filter({ visible: true }).count(), 0);
  assert.match(await page.locator('#strips figcaption').innerText(), /1\.?\d* to 2\.?\d* ms/);
  // As wide as A4 between its margins.
  const heights = await page.evaluate(() => {
    document.querySelector('#strips').style.width = '690px';
    return [...document.querySelectorAll('.strip-drawing text')].map((text) => text.getBoundingClientRect().height);
  });
  assert.ok(heights.length > 0 && Math.min(...heights) >= 8, `${heights}`);
  assert.deepEqual(faults, []);
  await close();
});

test('a table says which hidden category leaves out its rows, and shows all again', async () => {
  const { page, faults, close } = await h.openPage(browser, server.origin);
  await h.drop(page, h.kineto('a.json', [['ampere_gemm', 1_000, 500], ['softmax_kernel', 1_600, 300], ['rms_norm', 2_000, 100]]));
  await h.settled(page);
  await page.locator('#legend button', { hasText: 'gemm' }).click();
  await h.openTab(page, 'kernels');
  const heading = page.locator('.block[data-table=kernels] header');
  await heading.getByText('2 of 3 rows · gemm is hidden').waitFor();
  await page.locator('#filter').fill('GEMM');
  await heading.getByText('0 of 3 rows · gemm is hidden').waitFor();
  await heading.getByRole('button', { name: 'Show all' }).click();
  await heading.getByText('1 of 3 rows', { exact: true }).waitFor();
  assert.equal(await heading.getByRole('button', { name: 'Show all' }).count(), 0);
  assert.deepEqual(faults, []);
  await close();
});

test('selected rows on screen can be copied', async () => {
  const { page, close } = await opened();
  const text = await page.evaluate(() => {
    const rows = document.querySelectorAll('.long tbody tr');
    getSelection().setBaseAndExtent(rows[0], 0, rows[3], 0);
    return getSelection().toString();
  });
  for (const at of [0, 1, 2]) assert.ok(text.includes(`kernel_${at}`), text);
  await close();
});

test('a table with rows of different heights shows its first rows and more on demand', async () => {
  const { page, faults, close } = await h.openPage(browser, server.origin, '#tab=findings');
  const long = JSON.parse(await h.jsonReport(h.kineto('t.json', [['k', 0, 1_000]])));
  const rows = Array.from({ length: 700 }, (_, at) => ({ severity: 'low', title: `finding ${at}`, cost_ms: 1, evidence: 'a\nb', action: 'c' }));
  long.runs[0].sections = { findings: { title: 'Findings', derived_from: '', limits: [], missing: null, summary: {}, rows_in_all: 700, columns: Object.keys(rows[0]), rows } };
  await h.drop(page, { name: 'findings.json', body: Buffer.from(JSON.stringify(long)) });
  await h.settled(page);
  const drawn = page.locator('.table-findings tbody tr');
  for (const count of [200, 400, 600, 700]) {
    await page.waitForFunction((count) => document.querySelectorAll('.table-findings tbody tr').length === count, count);
    if (count < 700) await page.locator('.block .more').first().click();
  }
  assert.match(await drawn.last().innerText(), /finding 699/);
  assert.equal(await page.locator('.block .more').first().isVisible(), false);
  assert.deepEqual(faults, []);
  await close();
});

/** For each cell of a column its text, and how much of its bar's room the bar takes, in percent; 0 without a bar. */
const barsOf = (page, table, key) => page.evaluate(([table, key]) => {
  const grid = document.querySelector(`.table-${table}`);
  const at = grid.querySelector(`thead [data-key=${key}]`).closest('th').cellIndex;
  return [...grid.tBodies[0].rows].map(({ cells }) => [cells[at].textContent, parseFloat(getComputedStyle(cells[at]).backgroundSize.replace('calc(', ''))]);
}, [table, key]);

test('a share has a bar as long as its percentage, a change has none, and rows keep their height', async () => {
  const { page, faults, close } = await h.openPage(browser, server.origin, '#tab=kernels');
  await h.drop(page, h.kineto('t.json', h.SERVER_OPS));
  await h.settled(page);
  const shares = await barsOf(page, 'kernels', 'elapsed_share');
  assert.ok(shares.length > 3 && Number(shares[0][0]) > 30, String(shares));
  for (const [text, percent] of shares) assert.ok(Math.abs(Number(text) - percent) < 0.01, `${text} has ${percent} % of the width`);
  assert.deepEqual([...new Set(await page.evaluate(() => [...document.querySelectorAll('.table-kernels tbody tr')].map((tr) => tr.offsetHeight)))], [ROW_PX]);
  await h.drop(page, h.kineto('u.json', h.SERVER_OPS.map(([name, start, duration], at) => [name, start, at % 2 ? duration * 4 : duration - 30])));
  await h.openTab(page, 'compare');
  await page.locator('.table-compare_categories').waitFor();
  const changes = await barsOf(page, 'compare_categories', 'delta_ns');
  assert.ok(changes.some(([text]) => text.startsWith('-')), String(changes));
  assert.deepEqual(changes.filter(([, percent]) => percent > 0), []);
  assert.deepEqual(faults, []);
  await close();
});

/** Keys of the headings that are shown. */
const shownColumns = (page) => page.evaluate(() => [...document.querySelectorAll('.table-kernels thead th:not([hidden]) button')].map(({ dataset }) => dataset.key));

const columnsNote = (page) => page.locator('.block:first-child .columns-note');

test('a table that is wider than its frame says how many columns are out of sight, and nothing moves when it does', async () => {
  const { page, faults, close } = await h.openPage(browser, server.origin, '#tab=kernels');
  await page.setViewportSize({ width: 1600, height: 900 });
  await h.drop(page, h.kineto('t.json', h.SERVER_OPS));
  await h.settled(page);
  const frame = page.locator('.block:first-child .scroll');
  /** Waits until the note has the number of columns beyond either edge of the frame. */
  const noteIsRight = () => page.waitForFunction(() => {
    const [{ left, right }] = document.querySelector('.block:first-child .scroll').getClientRects();
    const parts = [...document.querySelectorAll('.block:first-child th:not([hidden])')].map((th) => th.getBoundingClientRect());
    const cut = parts.filter((part) => part.left < left - part.width / 9 || part.right > right + part.width / 9).length;
    return cut > 1 && document.querySelector('.columns-note').lastChild?.textContent === `${cut} more columns: scroll sideways`;
  });
  assert.equal(await columnsNote(page).innerText(), '');
  for (const width of [800, 390]) {
    await page.setViewportSize({ width, height: 900 });
    await noteIsRight();
    await frame.evaluate((node) => void (node.scrollLeft = 1e4));
    await noteIsRight();
    const heights = () => page.locator('.block').evaluateAll((blocks) => blocks.map((block) => block.getBoundingClientRect().height));
    const withNote = await heights();
    await page.waitForFunction(() => getComputedStyle(document.querySelector('.block:first-child .scroll')).backgroundImage.includes('gradient'));
    assert.ok(await columnsNote(page).evaluate(({ scrollWidth, clientWidth }) => scrollWidth <= clientWidth), 'the note has room');
    await columnsNote(page).evaluate((note) => note.replaceChildren());
    assert.deepEqual(await heights(), withNote, 'its room is kept');
  }
  assert.deepEqual(faults, []);
  await close();
});

test('a person hides columns; the heading says so, and the choice outlasts sorting, filtering, a window and a reload', async () => {
  const { page, faults, close } = await h.openPage(browser, server.origin, '#tab=kernels');
  const file = h.kineto('t.json', h.SERVER_OPS);
  await h.drop(page, file);
  await h.settled(page);
  const all = await shownColumns(page);
  const menu = page.locator('.block:first-child .column-menu');
  await menu.locator('summary').focus();
  await page.keyboard.press('Enter');
  const box = (name) => menu.getByRole('checkbox', { name });
  await box('Category').waitFor();
  await page.keyboard.press('Tab');
  assert.ok(await box('Kernel').evaluate((node) => node === document.activeElement), 'the keyboard reaches the boxes');
  await box('Category').press('Space');
  await box('Count').press('Space');
  const left = all.filter((key) => !['category', 'count'].includes(key));
  const isAsChosen = async () => {
    await page.waitForFunction(() => document.querySelector('.columns-note').textContent.startsWith('2 columns hidden'));
    assert.deepEqual(await shownColumns(page), left);
    const shown = await page.evaluate(() => [...document.querySelectorAll('.table-kernels tr')].map(({ cells }) => [...cells].filter((cell) => cell.checkVisibility()).length));
    assert.deepEqual([...new Set(shown)], [left.length], 'in each row');
  };
  await isAsChosen();
  await page.keyboard.press('Escape');
  assert.equal(await menu.getAttribute('open'), null);
  assert.ok(await menu.locator('summary').evaluate((node) => node === document.activeElement));
  await page.locator('.table-kernels thead [data-key=mean_ns]').click();
  await page.locator('.table-kernels th[aria-sort=descending] [data-key=mean_ns]').waitFor();
  await isAsChosen();
  await page.locator('#filter').fill('rms');
  await page.waitForFunction(() => document.querySelector('.shown').textContent.startsWith('1 of'));
  await isAsChosen();
  await page.evaluate(() => {
    const field = document.querySelector('[aria-label^="Window of"]');
    field.value = '0.00002-0.00004';
    field.dispatchEvent(new Event('change', { bubbles: true }));
  });
  await page.waitForURL(/window|w=/);
  await h.settled(page);
  await isAsChosen();
  const csv = (await h.exported(page, 'csv')).body.toString();
  assert.match(csv.split('\n')[0], /category.*count/, 'the CSV has all columns');
  await page.reload();
  await page.locator('meta[content="frame-src \'none\'"]').waitFor({ state: 'attached' });
  await h.drop(page, file);
  await h.settled(page);
  await isAsChosen();
  await menu.locator('summary').click();
  await menu.getByRole('button', { name: 'Show all' }).click();
  assert.deepEqual(await shownColumns(page), all);
  assert.equal((await columnsNote(page).innerText()).includes('hidden'), false);
  assert.deepEqual(faults, []);
  await close();
});

test('columns of a long table are hidden in rows that scroll in, too, and one column always stays', async () => {
  const { page, faults, close } = await opened();
  const menu = page.locator('.block:first-child .column-menu');
  await menu.locator('summary').click();
  const boxes = menu.getByRole('checkbox');
  await boxes.first().waitFor();
  for (let at = await boxes.count() - 1; at > 0; at -= 1) await boxes.nth(at).uncheck();
  assert.ok(await boxes.first().isDisabled(), 'the last column cannot be hidden');
  await scrollTo(page, 40_000 * ROW_PX);
  await waitForTop(page, 'kernel_40000');
  assert.deepEqual(await page.evaluate(() => [...new Set([...document.querySelectorAll('.long tr')].flatMap(({ cells }) => [...cells].filter((cell) => cell.checkVisibility()).map(({ cellIndex }) => cellIndex)))]), [0]);
  assert.deepEqual(await page.evaluate(() => [...new Set([...document.querySelectorAll('.long tbody tr')].map((tr) => tr.offsetHeight))]), [ROW_PX]);
  await menu.getByRole('button', { name: 'Show all' }).click();
  assert.ok(await page.locator('.long tbody tr').first().locator('td').last().isVisible());
  assert.deepEqual(faults, []);
  await close();
});

test('on a phone the times and the share of a kernel are in sight next to its name, and other columns can be shown', async () => {
  const { page, faults, close } = await h.openPage(browser, server.origin, '#tab=kernels');
  await page.setViewportSize({ width: 390, height: 844 });
  const file = h.kineto('t.json', h.SERVER_OPS);
  const load = async () => {
    await h.drop(page, file);
    await h.settled(page);
  };
  await load();
  const inSight = () => page.evaluate(() => [...document.querySelectorAll('.table-kernels thead button')]
    .filter((button) => button.checkVisibility() && button.getBoundingClientRect().right <= document.querySelector('.scroll').getBoundingClientRect().right).map(({ dataset }) => dataset.key));
  assert.deepEqual(await inSight(), ['name', 'duration_ns', 'elapsed_ns', 'elapsed_share']);
  await columnsNote(page).filter({ hasText: /^2 columns hidden/ }).waitFor();
  const cut = await page.locator('.table-kernels button.kernel').evaluateAll((names) => names.filter(({ scrollWidth, clientWidth }) => scrollWidth > clientWidth).map((name) => name.textContent));
  assert.deepEqual(cut, [], 'names are shortened, not cut');
  await page.locator('.block:first-child .column-menu summary').click();
  await page.getByRole('button', { name: 'Show all' }).click();
  await page.reload();
  await page.locator('meta[content="frame-src \'none\'"]').waitFor({ state: 'attached' });
  await load();
  assert.deepEqual((await shownColumns(page)).slice(0, 3), ['name', 'category', 'count']);
  assert.deepEqual(faults, []);
  await close();
});
