/** Level `user` for tests, and for programs that tests start. Needs root. */
import { chmod, mkdir } from 'node:fs/promises';
import { join } from 'node:path';

import type { ControlGroups } from '../../agent/sandbox/cgroups/control-groups.ts';
import { usableUidRange } from '../../agent/sandbox/uid-range.ts';
import type { WorkerUidsOptions } from '../../agent/sandbox/worker-uids.ts';
import { UserLauncher } from '../../agent/sandbox/user/user-launcher.ts';
import { ownFolder } from '../support/own-folder.ts';
import { removeTree } from '../../agent/runtimes/remove-tree.ts';

export const HOST_ENV = { PATH: '/usr/local/bin:/usr/bin:/bin', HOME: '/root', USER: 'root' };

export interface UserLevel {
  readonly launcher: UserLauncher;
  /** Folder of the workers' folders. */
  readonly folder: string;
  /** What went wrong behind the workers' backs. */
  readonly complaints: unknown[];
  close(): Promise<void>;
}

export interface LevelOptions {
  readonly groups?: ControlGroups;
  readonly pids?: number;
  /** User ids and lock files of its own. */
  readonly range?: Pick<WorkerUidsOptions, 'range' | 'locks'>;
}

/** Opens the level with the real range, whose locks are the host's: other tests do so at the same time. */
export async function openUserLevel({ range, ...limits }: LevelOptions = {}): Promise<UserLevel> {
  const own = await ownFolder('capstan-test');
  await chmod(own, 0o711);
  const folder = join(own, 'workers');
  const data = join(own, 'data');
  await mkdir(data, { mode: 0o700 });
  const complaints: unknown[] = [];
  const complain = (...what: unknown[]): void => void complaints.push(what);
  const launcher = await UserLauncher.open({
    uids: range === undefined ? { range: usableUidRange(undefined), folder: data } : { ...range, folder: data },
    folder,
    hostEnv: HOST_ENV,
    ...limits,
    log: { warn: complain, error: complain },
  });
  return {
    launcher,
    folder,
    complaints,
    async close() {
      await launcher.close();
      await removeTree(own);
    },
  };
}
