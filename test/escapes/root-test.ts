/** Tests that need root, and those that need sandboxes, too: skipped, with the reason, where they cannot run. */
import { rm } from 'node:fs/promises';

import test, { type TestFn } from 'ava';

import { ownFolder } from '../support/own-folder.ts';
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
