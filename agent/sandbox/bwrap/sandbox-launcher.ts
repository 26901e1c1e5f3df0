/**
 * Level `sandbox`: each worker in namespaces of its own, made by bubblewrap. An agent as root gives each worker a uid
 * of its own and no user namespace; another agent's workers run in user namespaces.
 */
import { isDeepStrictEqual } from 'node:util';

import type { Logger } from 'pino';

import { CapstanError } from '../../../lib/errors.ts';
import type { WorkerNetwork } from '../../../lib/isolation.ts';
import { messageOf } from '../../../lib/to-error.ts';
import { withBuildAt } from '../../runtimes/command-line.ts';
import { makeReadable } from '../../runtimes/readable.ts';
import { LIMITS } from '../../runtimes/leash.ts';
import type { ControlGroups } from '../cgroups/control-groups.ts';
import { WorkerLimits } from '../cgroups/worker-limits.ts';
import { exportsOf } from '../user/clean-environment.ts';
import type { Assignment, LaunchSpec, WorkerLauncher, WorkerPlace, WorkerProcess } from '../launcher.ts';
import { MemoryFiles } from './memory-files.ts';
import { INSIDE, sandboxArguments, USER_NAMESPACE_UID, type SandboxSizes } from './arguments.ts';
import { deviceNodes } from './devices.ts';
import type { NetworkSpace } from '../network/network-space.ts';
import type { WorkerNetworks } from '../network/worker-networks.ts';
import type { Holder, Slot } from './holder.ts';
import { findHostPrograms, type HostPrograms } from './host-programs.ts';
import { hostsFile } from './hosts-file.ts';
import { FDS, SandboxProcess, type Preparation, type SandboxParts } from './sandbox-process.ts';
import { workLinks } from './work-links.ts';

/** Names that have another value inside. */
const INSIDE_ENV = { HOME: INSIDE.home, TMPDIR: INSIDE.home, USER: 'worker', LOGNAME: 'worker' };

export interface SandboxOptions {
  /** The agent is root: workers have uids of their own. Otherwise user namespaces. */
  readonly uids: { take(): number; free(uid: number): void } | undefined;
  readonly bwrap: string;
  readonly programs: HostPrograms;
  readonly sizes: SandboxSizes;
  /** More read-only paths of the host, CAPSTAN_SANDBOX_PATHS. */
  readonly paths: readonly string[];
  /** Folders that no sandbox may show. */
  readonly hidden: readonly string[];
  readonly seccompFile: string | undefined;
  readonly groups: ControlGroups | undefined;
  /** Most processes and threads of a worker. */
  readonly pids: number;
  /** Absent: there are no spares. */
  readonly holder: Holder | undefined;
  /** Absent: there is no network `outbound`. */
  readonly networks: WorkerNetworks | undefined;
  /** Network of spares. */
  readonly spareNetwork: WorkerNetwork;
  readonly log: Pick<Logger, 'warn'>;
  /** Called when the launcher is closed. */
  readonly close: () => void;
}

export class SandboxLauncher implements WorkerLauncher {
  readonly level = 'sandbox';
  #options: SandboxOptions;
  readonly #memoryFiles = new MemoryFiles();

  constructor(options: SandboxOptions) {
    this.#options = options;
  }

  get hasSpares(): boolean {
    return this.#options.holder?.works === true;
  }

  /** Device nodes and networks cannot be added later. */
  takesSpare({ deviceUuids, network = 'host' }: Assignment): boolean {
    return this.hasSpares && deviceUuids.length === 0 && network === this.#options.spareNetwork;
  }

  placeOf({ folder, workFolder }: Pick<Assignment, 'folder' | 'workFolder'>): WorkerPlace {
    return { folder: folder === '' ? '' : INSIDE.build, workFolder: workFolder === '' ? '' : INSIDE.work };
  }

  environmentOf(base: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
    return { ...base, ...INSIDE_ENV, PATH: [INSIDE.programs, ...this.#options.programs.path].join(':') };
  }

  async refresh(hostEnv: Readonly<Record<string, string>>): Promise<boolean> {
    const programs = await findHostPrograms(hostEnv);
    if (isDeepStrictEqual(programs, this.#options.programs)) return false;
    this.#options = { ...this.#options, programs };
    return true;
  }

  launch(order: LaunchSpec): WorkerProcess {
    return new SandboxProcess(order, new Parts(this.#options, order, this.#memoryFiles));
  }

  setGateway(url: string): void {
    this.#options.networks?.setGateway(url);
  }

  async close(): Promise<void> {
    await this.#options.holder?.close();
    await this.#options.networks?.close();
    this.#options.close();
  }
}

/** What one sandbox takes of the launcher. */
class Parts implements SandboxParts {
  readonly #options: SandboxOptions;
  readonly #order: LaunchSpec;
  readonly limits: WorkerLimits;
  readonly memoryFiles: MemoryFiles;
  #uid: number | undefined;
  #slot: Slot | undefined;
  #space: NetworkSpace | undefined;
  /** Which address of the gateway its network leads to. */
  #generation = 0;

  constructor(options: SandboxOptions, order: LaunchSpec, memoryFiles: MemoryFiles) {
    this.#options = options;
    this.memoryFiles = memoryFiles;
    this.limits = new WorkerLimits(options);
    this.#order = order;
  }

  get seccompFile(): string | undefined {
    return this.#options.seccompFile;
  }

  get isAgentsUser(): boolean {
    return this.#options.uids === undefined;
  }

  async prepare(): Promise<Preparation> {
    const { uids, bwrap, programs, sizes, holder, seccompFile, networks } = this.#options;
    const order = this.#order;
    const { assignment } = order;
    this.#uid = uids?.take();
    if (this.#network === 'outbound') await this.#connect();
    if (assignment === undefined) this.#slot = await holder?.slot();
    else if (assignment.folder !== '') await this.#makeReadable(assignment.folder);
    const links = order.kind === 'program' ? workLinks(order.assignment.folder) : [];
    const uid = this.#uid ?? USER_NAMESPACE_UID;
    return {
      bwrap: sandboxArguments({
        sizes,
        userNamespace: uids === undefined,
        passwdFd: FDS.passwd,
        hostsFd: FDS.hosts,
        environmentFd: FDS.environment,
        seccompFd: seccompFile === undefined ? undefined : FDS.seccomp,
        infoFd: FDS.info,
        reads: this.#reads(),
        hidden: this.#options.hidden,
        build: this.#build(),
        devices: deviceNodes(assignment?.deviceUuids ?? []),
        node: programs.node,
        links: links ?? [],
        cwd: links === undefined ? INSIDE.build : INSIDE.work,
        resolvConf: this.#space === undefined ? undefined : networks?.resolvConf,
        withoutNetwork: this.#network === 'none',
      }),
      passwd: `root:x:0:0:root:/:/usr/sbin/nologin\nworker:x:${uid}:${uid}:worker:${INSIDE.home}:/bin/sh\n`,
      hosts: await hostsFile(),
      environment: exportsOf(this.#environment()),
      before: this.limits.entry,
      command: [...this.#enter(), bwrap, '--args', String(FDS.arguments), '--', ...this.#drop(), ...this.#command()],
    };
  }

  listens(port: number): boolean | undefined {
    return this.#space?.listens(port);
  }

  async assign({ folder }: Assignment): Promise<void> {
    const { holder, networks } = this.#options;
    if (this.#space !== undefined && this.#generation !== networks?.generation)
      throw new CapstanError('UNAVAILABLE', 'the address of the gateway has changed since this spare started');
    if (folder === '') return;
    await this.#makeReadable(folder);
    if (this.#slot !== undefined) await holder?.fill(this.#slot, folder);
  }

  async release(): Promise<void> {
    const { uids, holder, networks, log } = this.#options;
    if (this.#uid !== undefined) uids?.free(this.#uid);
    this.#uid = undefined;
    const space = this.#space;
    this.#space = undefined;
    if (space !== undefined) await networks?.release(space);
    const slot = this.#slot;
    this.#slot = undefined;
    if (slot === undefined || holder?.works !== true) return;
    await slot.remove().catch((error: unknown) => log.warn({ error: messageOf(error) }, 'removing the slot of a sandbox failed'));
  }

  get #network(): WorkerNetwork {
    const { assignment } = this.#order;
    return assignment === undefined ? this.#options.spareNetwork : (assignment.network ?? 'host');
  }

  /** The words before bubblewrap: the namespaces that are there already. A user namespace comes with the first of them. */
  #enter(): readonly string[] {
    const { holder } = this.#options;
    if (this.#slot === undefined || holder === undefined) return this.#space?.enter ?? [];
    return [...holder.enter, ...(this.#space?.enterAgain ?? [])];
  }

  /** Rejects with UNAVAILABLE. */
  async #connect(): Promise<void> {
    const { networks } = this.#options;
    if (networks === undefined) throw new CapstanError('UNAVAILABLE', 'this node has no network `outbound`');
    await networks.gatewayKnown;
    this.#generation = networks.generation;
    this.#space = await networks.take(this.#order.kind === 'program' ? this.#order.ports : undefined);
  }

  /** With user namespaces, the worker is this process's user, and reads what it reads. */
  async #makeReadable(folder: string): Promise<void> {
    if (this.#options.uids !== undefined) await makeReadable(folder);
  }

  #build(): { readonly kind: 'slot' | 'folder'; readonly path: string } | undefined {
    if (this.#slot !== undefined) return { kind: 'slot', path: this.#slot.path };
    const folder = this.#order.assignment?.folder ?? '';
    return folder === '' ? undefined : { kind: 'folder', path: folder };
  }

  #reads(): string[] {
    const { programs, paths } = this.#options;
    return [...programs.reads, ...paths, ...(this.#order.kind === 'host' ? this.#order.reads : [])];
  }

  /** A program finds its build's programs first, then the agent's Node. */
  #environment(): Readonly<Record<string, string>> {
    const order = this.#order;
    if (order.kind === 'host') return order.env;
    return withBuildAt(order.env, { folder: order.assignment.folder, seen: INSIDE.build, programs: [] });
  }

  #drop(): string[] {
    if (this.#uid === undefined) return [];
    const rights = ['--clear-groups', '--bounding-set=-all', '--inh-caps=-all', '--no-new-privs'];
    return ['setpriv', `--reuid=${this.#uid}`, `--regid=${this.#uid}`, ...rights];
  }

  /** In a process group of its own, which its members signal as a whole. */
  #command(): string[] {
    const { command, args } = this.#order;
    // Counts all processes of the uid: of no use where workers share it. `-p` is dash's name of it, `-u` that of bash.
    const { pids } = this.#options;
    const processes = this.#uid === undefined ? '' : `ulimit -p ${pids} 2>/dev/null || ulimit -u ${pids} 2>/dev/null; `;
    return ['setsid', '/bin/sh', '-c', `unset LC_ALL; . ${INSIDE.environment}; ${LIMITS}; ${processes}exec "$@"`, 'sh', command, ...args];
  }
}
