/** Every runtime on the host keeps its promises inside a sandbox, too. */
import { rm } from 'node:fs/promises';

import test from 'ava';

import { processRuntime, shared, threadRuntime } from '../conformance/runtime/hosts.ts';
import { python } from '../conformance/runtime/languages.ts';
import { runtimeConformance } from '../conformance/runtime/suite.ts';
import { ownFolder } from '../support/own-folder.ts';
import { openTestSandbox } from '../support/sandbox.ts';

const folder = await ownFolder('capstan-sandbox');
const { launcher, missing } = await openTestSandbox(folder);
const reason = missing.map((each) => each.reason).join('; ');

if (launcher === undefined) test.skip(`sandboxes: skipped, ${reason}`, (t) => t.pass());
else {
  runtimeConformance('sandbox/thread', shared(threadRuntime(1, launcher)), undefined, { atOnce: 4 });
  runtimeConformance('sandbox/node', shared(processRuntime({ node: 1 }, 'python3', launcher)), undefined, { atOnce: 4 });
  runtimeConformance('sandbox/python', shared(processRuntime({ python: 1 }, 'python3', launcher)), python, { atOnce: 4 });
  test.after.always(async () => {
    await launcher.close();
    await rm(folder, { recursive: true, force: true });
  });
}
