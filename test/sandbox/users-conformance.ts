/** The runtimes' conformance suite at level `user`. */
import test from 'ava';

import type { Runtime } from '../../agent/runtimes/runtime.ts';
import type { WorkerLauncher } from '../../agent/sandbox/launcher.ts';
import { attemptProcessesConformance, leavesProcesses } from '../conformance/runtime/attempt-processes-suite.ts';
import { shared } from '../conformance/runtime/hosts.ts';
import type { Language } from '../conformance/runtime/languages.ts';
import { runtimeConformance } from '../conformance/runtime/suite.ts';
import { openUserLevel } from './user-level.ts';
import { hasUserLevel, userTest } from './user-test.ts';

/** To be awaited at the top of a test file. */
export async function userConformance(name: string, runtimeOf: (launcher: WorkerLauncher) => Runtime, language?: Language): Promise<void> {
  if (!hasUserLevel) {
    userTest(`level user, ${name}`, (t) => t.pass());
    return;
  }
  const { launcher, close, complaints } = await openUserLevel();
  const runtime = runtimeOf(launcher);
  runtimeConformance(`level user, ${name}`, shared(runtime), language, { atOnce: 12 });
  const build = name.includes('python') ? leavesProcesses.python : leavesProcesses.javascript;
  attemptProcessesConformance(`level user, ${name}`, shared(runtime), { build, fn: 'start' });
  test.after.always('everything is removed', async (t) => {
    await runtime.close();
    await close();
    t.deepEqual(complaints, []);
  });
}
