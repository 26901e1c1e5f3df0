/** What a host needs for sandboxes, and how each missing piece is added. */
import { accessSync, constants, readFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';

import type { MissingIsolation } from '../../../lib/isolation.ts';

/** Programs outside of any sandbox. They are not searched on the path of workers. */
const SYSTEM_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';
const WITHOUT = 'sandbox';

const SETTINGS: readonly { readonly file: string; readonly refuses: (value: number) => boolean; readonly remedy: string }[] = [
  {
    file: '/proc/sys/kernel/unprivileged_userns_clone',
    refuses: (value) => value === 0,
    remedy: 'sysctl -w kernel.unprivileged_userns_clone=1',
  },
  { file: '/proc/sys/user/max_user_namespaces', refuses: (value) => value === 0, remedy: 'sysctl -w user.max_user_namespaces=28633' },
  {
    file: '/proc/sys/kernel/apparmor_restrict_unprivileged_userns',
    refuses: (value) => value === 1,
    remedy: 'sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or an AppArmor profile for bwrap that allows userns',
  },
];

/** Returns a program's path; undefined when it is not installed. */
export function findProgram(name: string, path: string = SYSTEM_PATH): string | undefined {
  return path
    .split(delimiter)
    .map((folder) => join(folder, name))
    .find(isExecutable);
}

/** Returns what is certainly missing before anything is tried. */
export function missingPrograms(
  find: (name: string) => string | undefined = findProgram,
  platform: string = process.platform,
): MissingIsolation[] {
  if (platform !== 'linux') return [{ without: WITHOUT, reason: `${platform} has no namespaces`, remedy: 'run the agent on Linux' }];
  const packages: readonly (readonly [program: string, packageName: string])[] = [
    ['bwrap', 'bubblewrap'],
    ['setpriv', 'util-linux'],
    ['setsid', 'util-linux'],
  ];
  return packages
    .filter(([program]) => find(program) === undefined)
    .map(([program, name]) => ({ without: WITHOUT, reason: `${program} is not installed`, remedy: `apt install ${name}` }));
}

/** Explains why a sandbox that was tried failed; `problem` is what bubblewrap said. */
export function explainFailure(
  problem: string,
  isRoot: boolean,
  settings: (file: string) => number | undefined = readNumber,
): MissingIsolation {
  if (/Unknown option/.test(problem))
    return { without: WITHOUT, reason: `bubblewrap is too old (${problem})`, remedy: 'install bubblewrap 0.8 or newer' };
  if (isRoot) {
    const remedy =
      'run the agent in a container with --cap-add SYS_ADMIN --security-opt apparmor=unconfined --security-opt seccomp=unconfined, or on the host';
    return { without: WITHOUT, reason: `root is not permitted to create namespaces here (${problem})`, remedy };
  }
  const found = SETTINGS.find(({ file, refuses }) => {
    const value = settings(file);
    return value !== undefined && refuses(value);
  });
  if (found !== undefined) return { without: WITHOUT, reason: `user namespaces are disabled (${problem})`, remedy: found.remedy };
  return {
    without: WITHOUT,
    reason: `a sandbox cannot be created here (${problem})`,
    remedy: 'allow user namespaces to this user, or run the agent as root',
  };
}

function readNumber(file: string): number | undefined {
  try {
    return Number(readFileSync(file, 'latin1').trim());
  } catch {
    // Not every kernel has each of them.
    return undefined;
  }
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
