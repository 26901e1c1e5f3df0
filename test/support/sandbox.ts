/** Level `sandbox` as tests, and programs that they start, open it. */
import { rm } from 'node:fs/promises';

import { openSandbox, type OpenedSandbox, type OpenSandboxOptions } from '../../agent/sandbox/bwrap/open-sandbox.ts';
import type { SandboxLauncher } from '../../agent/sandbox/bwrap/sandbox-launcher.ts';
import { ownFolder } from './own-folder.ts';

const MEBIBYTE = 1_048_576;

/** For a test of its own: the caller closes the launcher. */
export function openTestSandbox(folder: string, options: Partial<OpenSandboxOptions> = {}): Promise<OpenedSandbox> {
  return openSandbox({
    folder,
    dataDir: folder,
    uidRange: undefined,
    env: { PATH: '/usr/local/bin:/usr/bin:/bin' },
    sizes: { tmpBytes: 64 * MEBIBYTE, shmBytes: 64 * MEBIBYTE },
    paths: [],
    pids: 512,
    spares: true,
    network: { setting: 'host', allowed: [], spares: 0 },
    log: { warn: () => undefined },
    ...options,
  });
}

/** A launcher for all cases of a file, or the reason why there is none. */
export async function sandboxForFile(): Promise<{ readonly launcher: SandboxLauncher | undefined; readonly reason: string }> {
  // Programs that tests start import this file, too, and cannot import ava.
  const { default: test } = await import('ava');
  const folder = await ownFolder('capstan-sandbox');
  const { launcher, missing } = await openTestSandbox(folder);
  test.after.always(async () => {
    await launcher?.close();
    await rm(folder, { recursive: true, force: true });
  });
  return { launcher, reason: missing.map(({ reason }) => reason).join('; ') };
}
