// The gestures of the timeline, aligned timelines and the ten tasks in Firefox, with real pointer, wheel and keys: the same tests as in Chromium. Skipped
// without a Firefox.

import { test } from 'node:test';

process.env.GPUPRISM_ENGINE = 'firefox';
const { lacksFirefox } = await import('./harness.mjs');
if (lacksFirefox) test('gestures in Firefox', { skip: lacksFirefox });
else {
  await import('./timeline.test.mjs');
  await import('./gestures.test.mjs');
  await import('./align.test.mjs');
  await import('./tasks.test.mjs');
}
