/** Tests that need root, and those that need sandboxes, too: skipped, with the reason, where they cannot run. */
import { rm } from 'node:fs/promises';

import test, { type TestFn } from 'ava';

import { findProgram } from '../../agent/sandbox/host/requirements.ts';
import { ownFolder } from '../support/own-folder.ts';
import { noEngine } from '../support/container/private-engine.ts';
import { openTestSandbox } from '../support/sandbox.ts';

const isRoot = process.getuid?.() === 0 && process.platform === 'linux';
if (!isRoot) console.log('skipped: escapes: the tests do not run as root on Linux');

export const rootTest: TestFn = (isRoot ? test : test.skip) as TestFn;

async function hasSandbox(): Promise<boolean> {
  const folder = await ownFolder('capstan-sandbox');
  try {
    const { launcher, missing } = await openTestSandbox(folder, { spares: false });
    if (launcher === undefined) console.log(`skipped: escapes: ${missing.map(({ reason }) => reason).join('; ')}`);
    await launcher?.close();
    return launcher !== undefined;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Registers a test of level `sandbox`. */
export const sandboxTest: TestFn = (isRoot && (await hasSandbox()) ? test : test.skip) as TestFn;

/** For the namespace of an engine and its rules. */
const PROGRAMS = ['unshare', 'nsenter', 'ip', 'nft'];

/** Registers a test that starts an engine with these programs. */
function engineTest(level: string, programs: readonly string[]): TestFn {
  const missing = [...PROGRAMS, ...programs].find((name) => findProgram(name) === undefined);
  const reason = noEngine ?? (missing === undefined ? undefined : `needs ${missing}`);
  if (reason !== undefined) console.log(`skipped: escapes at level ${level}: ${reason}`);
  return (reason === undefined ? test : test.skip) as TestFn;
}

/** Registers a test of level `container`. */
export const containerTest = engineTest('container', []);
/** Registers a test of level `gvisor`. */
export const gvisorTest = engineTest('gvisor', ['runsc']);
