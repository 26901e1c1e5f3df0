/** Finds the agent's own control groups from what /proc says of mounts (`mountinfo`) and groups (`cgroup`). */
import { join } from 'node:path';

/** The kinds of limit that a worker gets. */
export const CONTROLLERS = ['memory', 'cpu', 'pids'] as const;
export type Controller = (typeof CONTROLLERS)[number];

/** Folders of the agent's own groups. */
export interface OwnGroups {
  /** The mount of version 2, and in it the agent's group; absent when it is not mounted. */
  readonly unified: { readonly mount: string; readonly own: string } | undefined;
  /** By controller of version 1. */
  readonly legacy: ReadonlyMap<Controller, string>;
}

/** Returns the folders of the agent's groups. A group outside of what is mounted is left out. */
export function ownGroups(mountinfo: string, cgroup: string): OwnGroups {
  const paths = new Map<string, string>();
  for (const line of cgroup.split('\n')) {
    const [, controllers, path] = /^\d+:([^:]*):(.*)$/.exec(line) ?? [];
    if (controllers === undefined || path === undefined) continue;
    for (const controller of controllers.split(',')) paths.set(controller, path);
  }
  let unified: OwnGroups['unified'];
  const legacy = new Map<Controller, string>();
  for (const { root, mount, type, options } of mounts(mountinfo)) {
    if (type === 'cgroup2') {
      const own = within(root, mount, paths.get(''));
      if (own !== undefined) unified ??= { mount, own };
    }
    if (type !== 'cgroup') continue;
    for (const controller of CONTROLLERS) {
      const own = options.includes(controller) ? within(root, mount, paths.get(controller)) : undefined;
      if (own !== undefined && !legacy.has(controller)) legacy.set(controller, own);
    }
  }
  return { unified, legacy };
}

interface Mount {
  /** The group that is at the mount's root. */
  readonly root: string;
  readonly mount: string;
  readonly type: string;
  readonly options: readonly string[];
}

/** Format: proc_pid_mountinfo(5). Fields after a single dash: type, source, options. */
function* mounts(mountinfo: string): Generator<Mount> {
  for (const line of mountinfo.split('\n')) {
    const [place, system] = line.split(' - ');
    const [, , , root, mount] = place?.split(' ') ?? [];
    const [type, , options] = system?.split(' ') ?? [];
    if (root === undefined || mount === undefined || type === undefined) continue;
    yield { root: unescaped(root), mount: unescaped(mount), type, options: options?.split(',') ?? [] };
  }
}

/** Spaces and the like are octal there. */
function unescaped(path: string): string {
  return path.replaceAll(/\\([0-7]{3})/g, (_, octal: string) => String.fromCodePoint(Number.parseInt(octal, 8)));
}

function within(root: string, mount: string, path: string | undefined): string | undefined {
  // In another namespace of groups than the mount's.
  if (path === undefined || path.startsWith('/..')) return undefined;
  if (root === '/') return join(mount, path);
  if (path === root || path.startsWith(`${root}/`)) return join(mount, path.slice(root.length));
  return undefined;
}
