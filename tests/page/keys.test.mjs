// Each key does what the help says, no key acts while a person types, and the focus returns.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as h from './harness.mjs';

const { browser, server } = await h.lend();

async function opened() {
  const opening = await h.openPage(browser, server.origin);
  await h.drop(opening.page, h.kineto('server.json', h.SERVER_OPS));
  await h.settled(opening.page);
  return opening;
}

const focused = (page) => page.evaluate(() => document.activeElement.id);
const chosen = (page, at) => page.waitForFunction((at) => document.querySelectorAll('[role=tab]')[at]?.getAttribute('aria-selected') === 'true', at);

test('? opens the help and Esc closes it; the focus returns; the button does the same', async () => {
  const { page, faults, close } = await h.openPage(browser, server.origin);
  assert.ok(!server.requests.some((path) => path.endsWith('/help.js')), 'the help is fetched when it is asked for');
  await page.locator('#choose').focus();
  await page.keyboard.press('?');
  const panel = page.getByRole('dialog', { name: 'Keys and files' });
  await panel.waitFor();
  const words = await panel.innerText();
  for (const part of ['filter the rows', 'open files', 'theme', 'Esc', '.sqlite', 'rules', 'server_args.json']) assert.ok(words.includes(part), `${part} in ${words}`);
  await page.keyboard.press('t');
  assert.equal(await page.locator('#theme').textContent(), 'Theme: auto', 'no other key acts while the help is open');
  await page.keyboard.press('Escape');
  await panel.waitFor({ state: 'hidden' });
  assert.equal(await focused(page), 'choose');
  await page.locator('#help').click();
  await panel.waitFor();
  await page.keyboard.press('?');
  await panel.waitFor({ state: 'hidden' });
  assert.equal(await focused(page), 'help');
  await page.locator('#help').click();
  await panel.waitFor();
  await page.mouse.click(4, 4);
  await panel.waitFor({ state: 'hidden' });
  assert.deepEqual(faults, []);
  await close();
});

test('digits and brackets choose tabs, and Back returns through them', async () => {
  const { page, faults, close } = await opened();
  const last = (await page.locator('[role=tab]').count()) - 1;
  await page.keyboard.press('3');
  await chosen(page, 2);
  const third = page.url();
  await page.keyboard.press(']');
  await chosen(page, 3);
  await page.keyboard.press('[');
  await chosen(page, 2);
  await page.keyboard.press('1');
  await chosen(page, 0);
  await page.keyboard.press('[');
  await chosen(page, last);
  await page.goBack();
  await page.goBack();
  await chosen(page, 2);
  assert.equal(page.url(), third);
  assert.deepEqual(faults, []);
  await close();
});

test('/ goes to the filter, e to the exports, o to the files, t to the next theme', async () => {
  const { page, faults, close } = await opened();
  // The browser's other chooser, which gives handles, cannot be driven by a test.
  await page.evaluate(() => delete self.showOpenFilePicker);
  // Before the key is pressed: a file chooser that opens before anybody waits for it is lost.
  const chooser = page.waitForEvent('filechooser');
  await page.keyboard.press('/');
  assert.equal(await focused(page), 'filter');
  await page.keyboard.press('Escape');
  await page.keyboard.press('e');
  assert.equal(await page.evaluate(() => document.activeElement.dataset.format), 'json');
  await page.keyboard.press('Escape');
  assert.equal(await page.locator('#export[open]').count(), 0);
  assert.equal(await page.evaluate(() => document.activeElement.matches('#export summary')), true);
  await page.keyboard.press('t');
  assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), 'light');
  await page.keyboard.press('o');
  assert.ok((await chooser).isMultiple());
  assert.deepEqual(faults, []);
  await close();
});

test('no key acts while a person types, with Ctrl, or before there are results', async () => {
  const { page, faults, close } = await opened();
  await page.locator('#filter').focus();
  await page.keyboard.type('3?/eot[]');
  assert.equal(await page.locator('#filter').inputValue(), '3?/eot[]');
  assert.equal(await page.locator('dialog[open], #export[open]').count(), 0);
  assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), 'auto');
  await page.keyboard.press('Escape');
  await page.keyboard.press('Control+e');
  assert.equal(await page.locator('#export[open]').count(), 0);
  await h.clear(page);
  for (const key of ['2', ']', '/', 'e']) await page.keyboard.press(key);
  assert.equal(await page.locator('#export[open]').count(), 0);
  assert.deepEqual(faults, []);
  await close();
});
