// The rules tab shows the kernels of each rule and the kernels without one. A rule that is written there changes the categories of all
// tables at once and is stored in the browser until it is forgotten. Wrong rules are named, and exported rules can be loaded again.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as h from './harness.mjs';

const { browser, server } = await h.lend();

const ODD = 'zorblax_frob_kernel_64x8';
const trace = () => h.kineto('a.json', [...h.SERVER_OPS, [ODD, 40_000, 9_000], ['zorblax_frob_kernel_128x8', 50_000, 1_000]]);

async function open(fragment = '#tab=rules') {
  const opened = await h.openPage(browser, server.origin, fragment);
  await h.drop(opened.page, trace());
  await h.settled(opened.page);
  return opened;
}

const hasStatus = (page, words) => page.waitForFunction((text) => document.querySelector('#own-rules-status')?.textContent.includes(text), words);
const write = (page, rules) => page.locator('#own-rules').fill(typeof rules === 'string' ? rules : JSON.stringify(rules));
const unfold = (page) => page.locator('#rules summary').click();
const apply = (page) => page.locator('#rules button', { hasText: /^Apply/ }).click();

/** Full kernel name to category, from the table of all names. */
async function categories(page) {
  await h.openTab(page, 'kernels');
  await page.locator('.block[data-table=kernels] table').waitFor();
  await h.settled(page);
  const { keys, rows } = await h.readTable(page, '.block[data-table=kernels]');
  return Object.fromEntries(rows.map(({ name, cells }) => [name, cells[keys.indexOf('category')].text]));
}

async function categoryIs(page, category) {
  await h.openTab(page, 'kernels');
  await page.waitForFunction(([name, wanted]) => [...document.querySelectorAll('.block[data-table=kernels] tbody tr')]
    .some((row) => row.querySelector('td.kernel')?.title === name && row.querySelector('td.category').textContent === wanted), [ODD, category]);
}

const saved = (page, button) => h.download(page, page.locator(button));

test('every name has one rule, and names without a rule are listed by time', async () => {
  const { page, faults, close } = await open();
  await page.locator('.block[data-table=rules_misc] table').waitFor();
  const { keys, rows } = await h.readTable(page, '.block[data-table=rules_in_force]');
  const column = (key) => rows.map(({ cells }) => cells.filter(({ text }) => text !== 'Edit')[keys.indexOf(key)]);
  const sum = (key) => column(key).reduce((all, { text }) => all + Number(text.replaceAll(',', '')), 0);
  assert.equal(sum('rule_names'), 8, 'SERVER_OPS have six names');
  assert.equal(sum('launches'), 9);
  const misc = await h.readTable(page, '.block[data-table=rules_misc]');
  assert.deepEqual(misc.rows.map(({ name }) => name), [ODD, 'zorblax_frob_kernel_128x8']);
  assert.deepEqual(faults, []);
  await close();
});

test('a rule for a kernel in misc applies at once, survives a reload, and is forgotten with its chip', async () => {
  const { page, faults, close } = await open();
  await page.locator('.block[data-table=rules_misc] button[data-rule]').first().click();
  await hasStatus(page, 'gpuprism / default / zorblax_frob_kernel: the category is empty');
  assert.equal(await page.locator('#rules button', { hasText: 'Apply' }).isDisabled(), true);
  await page.keyboard.type('my frobs');
  await hasStatus(page, 'rules are valid');
  await apply(page);
  await hasStatus(page, 'stored in this browser');
  assert.equal(await page.locator('.chip.rules').count(), 1);
  await categoryIs(page, 'my frobs');
  assert.match(await page.locator('#legend').textContent(), /my frobs/);
  assert.equal((await categories(page))['zorblax_frob_kernel_128x8'], 'my frobs', 'the sizes after the name do not matter');

  await page.reload();
  await page.locator('.chip.rules').waitFor();
  assert.equal(await page.locator('#drop').isVisible(), true, 'rules alone are nothing to look at');
  await h.drop(page, trace());
  await h.settled(page);
  await categoryIs(page, 'my frobs');
  assert.match(await page.locator('.chip.rules button').getAttribute('title'), /forgets them/);
  await page.locator('.chip.rules button').click();
  await page.locator('#rules-forgotten').waitFor();
  await categoryIs(page, 'misc');
  assert.equal(await page.evaluate(() => localStorage.length), 0);
  await page.locator('#rules-forgotten button', { hasText: 'Put them back' }).click();
  await categoryIs(page, 'my frobs');
  assert.deepEqual(faults, []);
  await close();
});

test('a wrong rule is named while it is typed and has no effect', async () => {
  const { page, faults, close } = await open();
  await unfold(page);
  for (const [text, words] of [
    [{ gpuprism: { default: { 'zor(': 'x' } } }, 'own rules.json: gpuprism / default / zor(: unusable regex'],
    [{ gpuprism: { default: { zor: 3 } } }, 'own rules.json: gpuprism / default / zor: the category must be a string'],
    ['{"gpuprism": ', 'own rules.json: not valid JSON'],
  ]) {
    await write(page, text);
    await hasStatus(page, words);
    assert.equal(await page.locator('#rules button', { hasText: 'Apply' }).isDisabled(), true);
  }
  assert.equal(await page.locator('.chip.rules').count(), 0);
  assert.equal((await categories(page))[ODD], 'misc');
  assert.deepEqual(faults, []);
  await close();
});

test('a rule in force can be edited, and exported rules give the same categories elsewhere', async () => {
  const { page, faults, close } = await open();
  const first = page.locator('.block[data-table=rules_in_force] tbody tr', { hasText: 'norm' }).filter({ hasText: 'in use' }).first();
  await first.locator('button[data-rule]').click();
  await page.locator('#own-rules:focus').waitFor();
  await page.keyboard.type('my norms');
  await hasStatus(page, 'rules are valid');
  await apply(page);
  await hasStatus(page, 'stored in this browser');
  await page.waitForFunction(() => document.querySelector('#legend').textContent.includes('my norms'));
  await page.locator('.block[data-table=rules_in_force] tbody tr', { hasText: 'my norms' }).waitFor();
  const file = await saved(page, '#export-rules');
  assert.equal(file.name, 'gpuprism_default_engine_model.json');
  const sets = JSON.parse(file.body);
  assert.deepEqual([Object.keys(sets), Object.keys(sets.gpuprism)], [['gpuprism'], ['default']]);
  assert.ok(Object.values(sets.gpuprism.default).every((category) => typeof category === 'string'));
  const here = await categories(page);
  assert.ok(Object.values(here).includes('my norms'));

  const other = await open('#tab=rules');
  await unfold(other.page);
  const [chooser] = await Promise.all([other.page.waitForEvent('filechooser'), other.page.locator('#rules button', { hasText: 'Import' }).click()]);
  await chooser.setFiles({ name: file.name, mimeType: 'application/json', buffer: file.body });
  await hasStatus(other.page, 'rules are valid');
  await apply(other.page);
  await hasStatus(other.page, 'stored in this browser');
  await other.page.waitForFunction(() => document.querySelector('#legend').textContent.includes('my norms'));
  assert.deepEqual(await categories(other.page), here);
  assert.deepEqual([...faults, ...other.faults], []);
  await other.close();
  await close();
});
