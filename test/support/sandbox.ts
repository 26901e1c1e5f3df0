/** Level `sandbox` as tests, and programs that they start, open it. */
import { openSandbox, type OpenedSandbox, type OpenSandboxOptions } from '../../agent/sandbox/bwrap/open-sandbox.ts';

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
    log: { warn: () => undefined },
    ...options,
  });
}
