/** Opens level `sandbox`, or says what this host lacks for it. It is tried by really running a program in a sandbox. */
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import type { Logger } from 'pino';

import { CapstanError } from '../../../lib/errors.ts';
import type { MissingIsolation, WorkerNetwork } from '../../../lib/isolation.ts';
import { messageOf } from '../../../lib/to-error.ts';
import type { ControlGroups } from '../cgroups/control-groups.ts';
import type { WorkerExit } from '../launcher.ts';
import type { Destination } from '../network/destinations.ts';
import { openNetworks, type OpenedNetworks } from '../network/open-networks.ts';
import { hasSeccompFilter, seccompFilter } from '../seccomp/filter.ts';
import { usableUidRange } from '../uid-range.ts';
import { openWorkerUids } from '../user/open-worker-uids.ts';
import type { WorkerUids } from '../worker-uids.ts';
import type { SandboxSizes } from './arguments.ts';
import { Holder, type HolderTools } from './holder.ts';
import { findHostPrograms } from './host-programs.ts';
import { explainFailure, findProgram, missingPrograms } from '../host/requirements.ts';
import { SandboxLauncher, type SandboxOptions } from './sandbox-launcher.ts';

const TRY_MS = 20_000;
/** Everything that a worker must be able to read and write, and what it must not have. */
const TRIAL = [
  'test "$(id -u)" != 0 || exit 90',
  'echo works >/tmp/trial && cat /tmp/trial >/capstan/work/trial && cat /capstan/work/trial >/dev/shm/trial || exit 91',
  'if (echo fails >/usr/trial) 2>/dev/null; then exit 92; fi',
  'grep -q "^CapEff:.0*$" /proc/self/status && grep -q "^NoNewPrivs:.1$" /proc/self/status || exit 93',
].join('\n');
const TRIAL_FAILS: Readonly<Record<number, string>> = {
  90: 'it would run as root',
  91: 'its folders would not be writable',
  92: 'system folders would be writable',
  93: 'it would have capabilities',
};

export interface NetworkOptions {
  /** CAPSTAN_WORKER_NETWORK. */
  readonly setting: 'auto' | 'outbound' | 'host';
  /** CAPSTAN_WORKER_NETWORK_ALLOW. */
  readonly allowed: readonly Destination[];
  /** Namespaces made in advance. */
  readonly spares: number;
}

export interface OpenSandboxOptions {
  /** The agent's folder. */
  readonly folder: string;
  /** The data folder around it, which no sandbox may show. */
  readonly dataDir: string;
  /** CAPSTAN_WORKER_UIDS. */
  readonly uidRange: string | undefined;
  /** The host's part of the workers' environment. */
  readonly env: Readonly<Record<string, string>>;
  readonly sizes: SandboxSizes;
  /** CAPSTAN_SANDBOX_PATHS. */
  readonly paths: readonly string[];
  readonly groups?: ControlGroups | undefined;
  readonly pids: number;
  /** Spares are wanted. */
  readonly spares: boolean;
  readonly network: NetworkOptions;
  readonly log: Pick<Logger, 'warn'>;
}

export interface OpenedSandbox {
  /** Absent where it does not work; `missing` then says why. */
  readonly launcher: SandboxLauncher | undefined;
  readonly missing: readonly MissingIsolation[];
  /** With a launcher: the networks that workers can have, and that of those whose release names none. */
  readonly networks?: readonly WorkerNetwork[];
  readonly defaultNetwork?: WorkerNetwork;
}

/** Rejects with CONFIG for an unusable range of user ids, and with file system errors of the agent's folder. */
export async function openSandbox(options: OpenSandboxOptions): Promise<OpenedSandbox> {
  const { folder, log, paths, pids, sizes, env } = options;
  const missing = missingPrograms();
  const bwrap = findProgram('bwrap');
  if (missing.length > 0 || bwrap === undefined) return { launcher: undefined, missing };
  const isRoot = process.getuid?.() === 0;
  const absent = paths.filter((path) => !existsSync(path));
  if (absent.length > 0) log.warn({ paths: absent }, 'paths of CAPSTAN_SANDBOX_PATHS do not exist; workers see them once they do');
  let uids: WorkerUids | undefined;
  try {
    uids = isRoot ? await openWorkerUids({ range: usableUidRange(options.uidRange), folder }, log) : undefined;
  } catch (error) {
    if (options.uidRange !== undefined) throw error;
    return { launcher: undefined, missing: [{ without: 'sandbox', reason: messageOf(error), remedy: 'set CAPSTAN_WORKER_UIDS' }] };
  }
  const own: Omit<SandboxOptions, 'close'> = {
    uids,
    bwrap,
    programs: await findHostPrograms(env),
    sizes,
    paths,
    hidden: [options.dataDir],
    seccompFile: seccompFile(folder),
    pids,
    groups: options.groups,
    holder: undefined,
    networks: undefined,
    spareNetwork: 'host',
    log,
  };
  const taken = uids;
  const close = (): void => taken?.close();
  const problem = await trial(new SandboxLauncher({ ...own, close }));
  if (problem !== undefined) {
    close();
    return { launcher: undefined, missing: [explainFailure(problem, isRoot)] };
  }
  const filter = own.seccompFile === undefined ? [noFilter()] : [];
  const { holder, reason } = options.spares ? await openHolder(folder, isRoot) : NO_HOLDER;
  const spares = reason === undefined ? [] : [{ without: 'spares', reason, remedy: '' }];
  let opened: Awaited<ReturnType<typeof openNetwork>>;
  try {
    opened = await openNetwork(options, uids, holder);
  } catch (error) {
    await holder?.close();
    throw error;
  }
  const { networks, defaultNetwork } = opened;
  return {
    launcher: new SandboxLauncher({ ...own, holder, networks, spareNetwork: defaultNetwork, close }),
    missing: [...filter, ...opened.missing, ...spares],
    networks: networks === undefined ? HOST_OR_NONE : ALL_NETWORKS,
    defaultNetwork,
  };
}

const NO_HOLDER = { holder: undefined, reason: undefined };

const HOST_OR_NONE: readonly WorkerNetwork[] = ['host', 'none'];
const ALL_NETWORKS: readonly WorkerNetwork[] = ['host', 'outbound', 'none'];

/** Rejects with CONFIG where `outbound` is demanded and does not work. */
async function openNetwork(
  { network, folder, log }: OpenSandboxOptions,
  uids: WorkerUids | undefined,
  holder: Holder | undefined,
): Promise<OpenedNetworks & { readonly defaultNetwork: WorkerNetwork }> {
  // pasta belongs to a user that owns nothing else.
  const uid = uids?.take();
  // A spare of a plain user must be in the holder's user namespace: there it could not enter a network of another one.
  const within = holder?.enterUser;
  const { allowed, spares } = network;
  const opened = await openNetworks({ uid, within, folder: join(folder, 'network'), allowed, spares, log });
  if (opened.networks === undefined) {
    if (uid !== undefined) uids?.free(uid);
    if (network.setting === 'outbound') throw noOutbound(opened.missing);
    return { ...opened, defaultNetwork: 'host' };
  }
  return { ...opened, defaultNetwork: network.setting === 'host' ? 'host' : 'outbound' };
}

/** Says why the network that is demanded does not work. */
export function noOutbound(missing: readonly MissingIsolation[]): CapstanError {
  const why = missing.map(({ reason, remedy }) => `${reason}${remedy === '' ? '' : `; ${remedy}`}`).join('. ');
  return new CapstanError('CONFIG', `CAPSTAN_WORKER_NETWORK: the network outbound does not work on this host: ${why}`, {
    field: 'workerNetwork',
  });
}

async function openHolder(
  folder: string,
  isRoot: boolean,
): Promise<{ readonly holder: Holder | undefined; readonly reason: string | undefined }> {
  const [unshare, nsenter] = [findProgram('unshare'), findProgram('nsenter')];
  if (unshare === undefined || nsenter === undefined)
    return { holder: undefined, reason: 'unshare or nsenter is not installed (util-linux)' };
  const tools: HolderTools = isRoot
    ? { unshare: [unshare, '--mount', '--propagation', 'private'], nsenter: [nsenter, '--mount'] }
    : {
        unshare: [unshare, '--user', '--map-root-user', '--mount'],
        nsenter: [nsenter, '--user', '--preserve-credentials', '--mount'],
        nsenterUser: [nsenter, '--user', '--preserve-credentials'],
      };
  try {
    return { holder: await Holder.open(tools, join(folder, 'sandbox')), reason: undefined };
  } catch (error) {
    return { holder: undefined, reason: messageOf(error) };
  }
}

/** Returns what went wrong; undefined when it worked. */
async function trial(launcher: SandboxLauncher): Promise<string | undefined> {
  const assignment = { workerId: 'trial', folder: '', workFolder: '', deviceUuids: [], memoryBytes: 0, cpuMillis: 0 };
  const env = launcher.environmentOf({});
  const order = { kind: 'host', command: '/bin/sh', args: ['-c', TRIAL], env, pipes: 0, lifeline: false, reads: [], assignment } as const;
  const tried = launcher.launch(order);
  const timer = setTimeout(() => tried.kill('it did not end in time'), TRY_MS);
  let said = '';
  tried.stderr?.on('data', (data: Buffer) => (said += data.toString('utf8').slice(0, 300)));
  tried.stdout?.resume();
  const exit = await tried.gone;
  clearTimeout(timer);
  return problemOf(exit, said.trim().split('\n')[0] ?? '');
}

function problemOf(exit: WorkerExit, said: string): string | undefined {
  if (exit.kind === 'not-started') return exit.reason;
  if (exit.reason !== undefined) return exit.reason;
  if (exit.code === 0) return undefined;
  return TRIAL_FAILS[exit.code ?? 0] ?? (said === '' ? `it ended with code ${exit.code ?? 'unknown'}` : said);
}

function seccompFile(folder: string): string | undefined {
  if (!hasSeccompFilter(process.arch)) return undefined;
  const path = join(folder, 'seccomp.bpf');
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  writeFileSync(path, seccompFilter(process.arch), { mode: 0o600 });
  return path;
}

function noFilter(): MissingIsolation {
  return { without: 'system call filter', reason: `there is no filter for ${process.arch}`, remedy: 'use a host with x86-64 or arm64' };
}
