/** Tests of level `user`: skipped, with the reason, where there is none. */
import { spawnSync } from 'node:child_process';

import test, { type TestFn } from 'ava';

function missing(): string | undefined {
  if (process.getuid?.() !== 0) return 'the tests do not run as root';
  const { status } = spawnSync('setpriv', ['--reuid=1900000000', '--clear-groups', process.execPath, '--version'], { stdio: 'ignore' });
  return status === 0 ? undefined : `another user cannot run ${process.execPath}`;
}

const reason = missing();
if (reason !== undefined) console.log(`skipped: level user: ${reason}`);

export const userTest: TestFn = (reason === undefined ? test : test.skip) as TestFn;
export const hasUserLevel = reason === undefined;
