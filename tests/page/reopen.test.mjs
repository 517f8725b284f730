// What a reload of the page closed: files whose handles the browser gave can be opened again with one button, copies that the person agreed
// to open by themselves, and of all others one line says what was closed.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as h from './harness.mjs';

const { browser, server } = await h.lend();

const trace = (name) => h.kineto(name, h.SERVER_OPS);
const offer = (page) => page.locator('.card.reopen');

/** Makes the browser's file chooser return handles of files with these contents, which are in the page's own file system. */
const stubChooser = (page, ...files) => page.evaluate(async (files) => {
  const root = await navigator.storage.getDirectory();
  const folder = await root.getDirectoryHandle('chosen', { create: true });
  const handles = await Promise.all(files.map(async ({ name, text }) => {
    const handle = await folder.getFileHandle(name, { create: true });
    const writable = await handle.createWritable();
    await writable.write(text);
    await writable.close();
    return handle;
  }));
  self.showOpenFilePicker = async () => handles;
}, files.map(({ name, body }) => ({ name, text: body.toString() })));

/** The names in a folder of the page's own file system, of all levels. A folder that is deleted while it is listed is listed again. */
const kept = (page) => page.evaluate(async () => {
  const names = async (folder) => {
    const found = [];
    for await (const [name, handle] of folder.entries()) found.push(...handle.kind === 'directory' ? await names(handle) : [name]);
    return found;
  };
  const root = await navigator.storage.getDirectory();
  for (;;) {
    const folder = await root.getDirectoryHandle('gpuprism-open-files').catch(() => null);
    if (!folder) return [];
    try {
      return await names(folder);
    } catch (fault) {
      if (fault.name !== 'NotFoundError') throw fault;
    }
  }
});

const facts = (page) => page.locator('.run-facts').innerText();

/** Resolves when the handles of this many files are stored. */
const storedHandles = (page, count) => page.waitForFunction(async (count) => {
  const opening = indexedDB.open('gpuprism-open-files');
  await new Promise((done) => void (opening.onsuccess = opening.onerror = done));
  const all = opening.result.objectStoreNames.contains('handles') ? opening.result.transaction('handles').objectStore('handles').getAll() : null;
  if (all) await new Promise((done) => void (all.onsuccess = done));
  opening.result.close();
  return (all?.result ?? []).some(({ handles }) => handles.filter(Boolean).length === count);
}, count);

test('chosen files are opened again by one button after a reload', async () => {
  const { page, faults, close } = await h.openPage(browser, server.origin);
  await stubChooser(page, trace('a.json'), trace('b.json'));
  await page.locator('#choose').click();
  await h.settled(page);
  await storedHandles(page, 2);
  await page.reload();
  assert.match(await offer(page).innerText(), /Reloading the page closed a\.json, b\.json/);
  assert.equal(await page.locator('#drop').isVisible(), true);
  // A second reload asks again.
  await page.reload();
  await offer(page).getByRole('button', { name: 'Open 2 files again' }).click();
  await h.settled(page);
  assert.equal(await page.locator('#chips li').count(), 2);
  assert.equal(await offer(page).count(), 0);
  assert.deepEqual(await kept(page), [], 'no copy is made');

  await page.locator('#chips button').first().click();
  await storedHandles(page, 1);
  await page.reload();
  await offer(page).getByRole('button', { name: 'Open b.json again' }).waitFor();
  await page.evaluate(async () => (await (await navigator.storage.getDirectory()).getDirectoryHandle('chosen')).removeEntry('b.json'));
  await offer(page).getByRole('button', { name: 'Open b.json again' }).click();
  await page.locator('.card.error', { hasText: 'b.json was moved or deleted' }).waitFor();
  assert.deepEqual(faults, []);
  await close();
});

test('of files without a handle one line says what was closed, until it is dismissed', async () => {
  const { page, faults, close } = await h.openPage(browser, server.origin);
  await page.reload();
  await page.locator('html[data-simd]').waitFor({ state: 'attached' });
  assert.equal(await offer(page).count(), 0, 'nothing was open');
  await h.drop(page, trace('a.json'));
  await h.settled(page);
  await page.waitForFunction(() => sessionStorage.getItem('gpuprism:open')?.includes('a.json'));
  await page.reload();
  assert.match(await offer(page).innerText(), /Reloading the page closed a\.json: choose or drop it again\./);
  assert.equal(await offer(page).locator('button').count(), 1);
  await offer(page).getByRole('button', { name: 'Dismiss' }).click();
  await page.reload();
  await page.locator('html[data-simd]').waitFor({ state: 'attached' });
  assert.equal(await offer(page).count(), 0);
  assert.deepEqual(await page.evaluate(() => [localStorage.length, sessionStorage.length]), [0, 0]);
  assert.deepEqual(faults, []);
  await close();
});

test('with the person’s agreement a reload opens the files from copies, which are deleted with the agreement', async () => {
  const { page, faults, close } = await h.openPage(browser, server.origin);
  await h.drop(page, trace('a.json'), trace('b.json'));
  await h.settled(page);
  await h.openSettings(page);
  const box = page.locator('#keep input');
  assert.equal(await box.isChecked(), false, 'off by default');
  assert.deepEqual(await kept(page), []);
  await box.check();
  // Two copies and their list, whose content comes last.
  await h.until(async () => (await kept(page)).length === 3, 'two copies and their list');
  await h.quiet(page);
  await h.openTab(page, 'kernels');
  const before = await facts(page).catch(() => '');
  await page.reload();
  await h.settled(page);
  assert.equal(await page.locator('#chips li').count(), 2);
  assert.equal(await page.locator('#tab-kernels').getAttribute('aria-selected'), 'true');
  assert.equal(await facts(page).catch(() => ''), before);
  // A copy that was opened is closed and undone: its file is still there.
  await page.locator('#chips button').first().click();
  await page.locator('.chip.undo button', { hasText: 'Undo' }).click();
  await page.waitForFunction(() => document.querySelectorAll('#chips li').length === 2 && !document.querySelector('.card'));
  await h.settled(page);
  await h.openSettings(page);
  assert.equal(await box.isChecked(), true);
  await box.uncheck();
  await page.waitForFunction(() => localStorage.length === 0);
  // The copies are deleted after the agreement.
  await h.until(async () => (await kept(page)).length === 0, 'the copies are deleted');
  assert.deepEqual(await kept(page), []);
  await page.reload();
  assert.match(await offer(page).innerText(), /closed a\.json, b\.json: choose or drop them again/);
  assert.deepEqual(faults, []);
  await close();
});
