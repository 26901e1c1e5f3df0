/**
 * The arguments of bubblewrap for one sandbox: what a worker sees of this host, in the order in which it is mounted.
 * Everything is read-only but /tmp, /dev/shm and the working folder, which are in memory and bounded.
 */
import { existsSync, lstatSync } from 'node:fs';
import { dirname, join } from 'node:path';

import { WORKER_HOST } from './hosts-file.ts';

/** Paths inside. Containers have the same path of the build. */
export const INSIDE = {
  root: '/capstan',
  build: '/capstan/build',
  work: '/capstan/work',
  /** Holds `node`, the agent's own. */
  programs: '/capstan/bin',
  /** A script for `sh`: nothing outside of the sandbox may run with the environment that a tenant chose. */
  environment: '/capstan/env',
  home: '/tmp',
} as const;

/** Uid and gid of every worker of an agent that is not root. */
export const USER_NAMESPACE_UID = 60_000;

/** Folders of programs and libraries; links where /usr holds all. */
const SYSTEM = ['/bin', '/sbin', '/lib', '/lib32', '/lib64', '/libx32'];
/** Facts about the system that libraries read; nothing that is private to this host. */
const ETC = [
  ...['alternatives', 'ca-certificates', 'crypto-policies', 'fonts', 'gai.conf', 'group', 'host.conf', 'ld.so.cache', 'ld.so.conf'],
  ...['ld.so.conf.d', 'localtime', 'mime.types', 'nsswitch.conf', 'pki/ca-trust', 'pki/tls/cert.pem', 'pki/tls/certs', 'protocols'],
  ...['resolv.conf', 'services', 'ssl/certs', 'ssl/openssl.cnf', 'timezone'],
].map((name) => join('/etc', name));
/** The processors, as numeric libraries read them. */
const SYS = ['/sys/devices/system/cpu', '/sys/devices/system/node'];
/** What CUDA reads of the devices. */
const SYS_OF_DEVICES = ['/sys/bus/pci', '/sys/devices', '/sys/module/nvidia', '/sys/module/nvidia_uvm'];

export interface SandboxSizes {
  /** /tmp and the working folder, bytes each. */
  readonly tmpBytes: number;
  readonly shmBytes: number;
}

export interface SandboxPlan {
  readonly sizes: SandboxSizes;
  /** A user namespace keeps the worker from this user; without one the caller drops to the worker's uid. */
  readonly userNamespace: boolean;
  /** Descriptors of the contents of /etc/passwd and /etc/hosts, and of a script that sets the environment. */
  readonly passwdFd: number;
  readonly hostsFd: number;
  readonly environmentFd: number;
  /** Descriptor of the filter of system calls; undefined: none on this architecture. */
  readonly seccompFd: number | undefined;
  readonly infoFd: number;
  /** Read-only files and folders of this host, at their own paths. */
  readonly reads: readonly string[];
  /** Folders of the agent that must not be seen although a folder above is. */
  readonly hidden: readonly string[];
  /** A slot in which the build appears later, or the build itself, or nothing. */
  readonly build: { readonly kind: 'slot' | 'folder'; readonly path: string } | undefined;
  /** Device nodes. */
  readonly devices: readonly string[];
  /** The agent's own Node. */
  readonly node: string;
  /** Contents of the working folder: names relative to it. */
  readonly links: readonly WorkLink[];
  readonly cwd: string;
  /** /etc/resolv.conf of the worker's network, if it has one of its own. */
  readonly resolvConf: string | undefined;
  /** The worker has no network at all. */
  readonly withoutNetwork: boolean;
}

/** A folder, or a link to a path inside. */
export interface WorkLink {
  readonly name: string;
  readonly target?: string;
}

export function sandboxArguments(plan: SandboxPlan): string[] {
  const { sizes, devices, links } = plan;
  const tmpfs = (path: string, bytes: number, mode = '1777'): string[] => ['--size', String(bytes), '--perms', mode, '--tmpfs', path];
  const reads = withoutNested([...plan.reads, ...SYS, ...(devices.length > 0 ? SYS_OF_DEVICES : [])].filter((path) => existsSync(path)));
  const folders = new Folders();
  return [
    ...namespaces(plan),
    ...['--ro-bind', '/usr', '/usr'],
    ...SYSTEM.flatMap(systemFolder),
    ...hiddenBelow('/usr', plan.hidden),
    ...folders.above('/etc/passwd'),
    ...['--perms', '0644', '--file', String(plan.passwdFd), '/etc/passwd'],
    ...['--perms', '0644', '--file', String(plan.hostsFd), '/etc/hosts'],
    ...ETC.flatMap((path) => {
      const source = path === '/etc/resolv.conf' ? (plan.resolvConf ?? path) : path;
      return existsSync(source) ? [...folders.above(path), '--ro-bind', source, path] : [];
    }),
    ...['--proc', '/proc', '--dev', '/dev'],
    ...tmpfs('/dev/shm', sizes.shmBytes),
    ...tmpfs(INSIDE.home, sizes.tmpBytes),
    ...reads.flatMap((path) => [...folders.above(path), '--ro-bind', path, path, ...hiddenBelow(path, plan.hidden)]),
    ...devices.flatMap((path) => [...folders.above(path), '--dev-bind', path, path]),
    ...buildArguments(plan),
    ...['--perms', '0755', '--dir', INSIDE.programs, '--symlink', plan.node, join(INSIDE.programs, 'node')],
    ...['--perms', '0444', '--file', String(plan.environmentFd), INSIDE.environment],
    // Not 1777: the worker replaces links that are not its own.
    ...tmpfs(INSIDE.work, sizes.tmpBytes, '0777'),
    ...links.flatMap(({ name, target }) =>
      target === undefined ? ['--perms', '0777', '--dir', join(INSIDE.work, name)] : ['--symlink', target, join(INSIDE.work, name)],
    ),
    ...['--remount-ro', '/dev', '--remount-ro', INSIDE.root, '--remount-ro', '/', '--chdir', plan.cwd],
    ...(plan.seccompFd === undefined ? [] : ['--seccomp', String(plan.seccompFd)]),
    ...['--info-fd', String(plan.infoFd)],
  ];
}

function namespaces({ userNamespace, withoutNetwork }: SandboxPlan): string[] {
  const uid = String(USER_NAMESPACE_UID);
  return [
    ...['--unshare-pid', '--unshare-ipc', '--unshare-uts', '--unshare-cgroup-try', '--hostname', WORKER_HOST],
    ...['--new-session', '--die-with-parent'],
    ...(withoutNetwork ? ['--unshare-net'] : []),
    ...(userNamespace
      ? ['--unshare-user', '--disable-userns', '--uid', uid, '--gid', uid]
      : ['--cap-add', 'CAP_SETUID', '--cap-add', 'CAP_SETGID', '--cap-add', 'CAP_SETPCAP']),
  ];
}

/** A mount of its own in either case, which is made read-only at the end. */
function buildArguments({ build }: SandboxPlan): string[] {
  if (build?.kind === 'slot') return ['--perms', '0755', '--dir', INSIDE.root, '--bind', build.path, INSIDE.root];
  const root = ['--perms', '0755', '--tmpfs', INSIDE.root, '--perms', '0755', '--dir', INSIDE.build];
  return build === undefined ? root : [...root, '--ro-bind', build.path, INSIDE.build];
}

function systemFolder(path: string): string[] {
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (found === undefined) return [];
  return found.isSymbolicLink() ? ['--symlink', join('usr', path), path] : ['--ro-bind', path, path];
}

function hiddenBelow(path: string, hidden: readonly string[]): string[] {
  return hidden
    .filter((each) => isWithin(each, path) && existsSync(each))
    .flatMap((each) => ['--size', '4096', '--perms', '0', '--tmpfs', each]);
}

/** Paths in order, without those within others and within /usr. */
function withoutNested(paths: readonly string[]): string[] {
  const kept: string[] = [];
  for (const path of [...new Set(paths)].toSorted((one, other) => one.length - other.length)) {
    if (![...kept, '/usr'].some((above) => isWithin(path, above))) kept.push(path);
  }
  return kept;
}

export function isWithin(path: string, above: string): boolean {
  return path === above || path.startsWith(above === '/' ? '/' : `${above}/`);
}

/** Creates folders above mount points itself: bubblewrap 0.8 would make them unreadable for other users. */
class Folders {
  readonly #made = new Set(['/', '/usr', '/dev', '/dev/shm', '/proc', INSIDE.home]);

  above(path: string): string[] {
    const missing: string[] = [];
    for (let folder = dirname(path); !this.#made.has(folder) && !isWithin(folder, '/usr'); folder = dirname(folder))
      missing.unshift(folder);
    for (const folder of missing) this.#made.add(folder);
    return missing.flatMap((folder) => ['--perms', '0755', '--dir', folder]);
  }
}
