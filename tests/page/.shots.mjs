import { readFile } from 'node:fs/promises';
import * as h from './harness.mjs';
const server = await h.servePage();
const browser = await h.launch();
const file = async (name) => ({ name, body: await readFile(`${h.traces}/${name}`) });
async function shot(out, scheme, fragment, files, wait, width = 1280) {
  const { page, faults, close } = await h.openPage(browser, server.origin, fragment);
  await page.setViewportSize({ width, height: 1100 });
  await page.emulateMedia({ colorScheme: scheme });
  await h.drop(page, ...files);
  await page.locator(wait).first().waitFor({ timeout: 90000 });
  await page.waitForTimeout(800);
  await page.locator('#tabs').scrollIntoViewIfNeeded();
  await page.evaluate(() => document.querySelector('#tabs').scrollIntoView());
  await page.screenshot({ path: out });
  console.log(out, faults);
  await close();
}
const b300 = await file('sglang_qwen3_30b_b300_decode.trace.json.gz');
const mi300 = await file('sglang_qwen3_30b_mi300_decode.trace.json.gz');
const vllm = await file('vllm_mi300_decode_full_graph.trace.json.gz');
await shot('/tmp/p_b300_light.png', 'light', '#tab=model', [b300], '#model figure svg');
await shot('/tmp/p_b300_dark.png', 'dark', '#tab=model', [b300], '#model figure svg');
await shot('/tmp/p_vllm_dark.png', 'dark', '#tab=model', [vllm], '#model figure svg');
await shot('/tmp/p_vllm_400.png', 'light', '#tab=model', [vllm], '#model figure svg', 400);
await shot('/tmp/p_compare.png', 'light', '#tab=compare_roles', [b300, mi300], '.block[data-table=compare_roles]');
await browser.close(); await server.close();
