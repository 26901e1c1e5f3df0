/**
 * Starts the processes of thread and process workers, of foreign workers and of users' servers. How strongly they are
 * isolated is the launcher's matter; whoever starts a worker sees pipes, a pid and an end.
 *
 * ```
 * launch ──▶ spare ──assign──▶ worker ──exit, kill──▶ gone
 *       └────── with an assignment ──▶ worker
 * ```
 */
import type { Socket } from 'node:net';
import type { Readable } from 'node:stream';

import type { NodeIsolation } from '../../lib/isolation.ts';
import type { WorkerStart } from '../runtimes/runtime.ts';
import type { WorkerPorts } from './network/worker-networks.ts';

/** What one worker gets of this host; a WorkerStart is one. All paths are the host's. */
export type Assignment = Pick<WorkerStart, 'workerId' | 'folder' | 'workFolder' | 'deviceUuids' | 'memoryBytes' | 'cpuMillis' | 'network'>;

interface OrderBase {
  readonly command: string;
  readonly args: readonly string[];
  /** The whole environment of the process. Contains secrets. */
  readonly env: Readonly<Record<string, string>>;
}

/** Starts one of our own programs, found on this host; it reads the build when it is told to. */
export interface HostSpec extends OrderBase {
  readonly kind: 'host';
  /** Number of two-way pipes, descriptors 3 and following. */
  readonly pipes: number;
  /** Adds one more descriptor, whose close ends the program. */
  readonly lifeline: boolean;
  /** Files and folders of this host that the program itself needs, beside its command. */
  readonly reads: readonly string[];
  /** Absent for a spare: it is assigned later, once. */
  readonly assignment?: Assignment;
}

/**
 * Starts a program of a release in the working folder, which contains the build. A sandbox looks the command up inside:
 * a tenant names it, so nothing of this host is made visible for it.
 */
export interface ProgramSpec extends OrderBase {
  readonly kind: 'program';
  readonly assignment: Assignment;
  /** Of a worker with a network of its own. */
  readonly ports?: WorkerPorts;
}

export type LaunchSpec = HostSpec | ProgramSpec;

export type WorkerExit =
  /** There never was a process. */
  | { readonly kind: 'not-started'; readonly reason: string }
  /** `reason`: why it was killed or told to end, or what the kernel says of its end; undefined: it ended by itself. */
  | { readonly kind: 'exited'; readonly code: number | null; readonly signal: NodeJS.Signals | null; readonly reason: string | undefined };

/**
 * From where a program of the agent's sees the files that a worker sees. The launcher says it: the namespaces of the worker's own
 * processes are the worker's to choose.
 */
export interface Vantage {
  /** Pid of the first process of its sandbox, whose namespaces the launcher made; undefined: the agent's own namespaces. */
  readonly place: number | undefined;
  /** The worker has the agent's user, and opens what the agent opens. */
  readonly isAgentsUser: boolean;
}

export interface WorkerProcess {
  /** Pid on this host of the worker's first process, for /proc statistics; undefined where it is not known (yet). */
  readonly pid: number | undefined;
  /** Undefined where it is not known (yet), and when it is gone. */
  readonly vantage: Vantage | undefined;
  /** Undefined when it could not be started. */
  readonly stdout: Readable | undefined;
  readonly stderr: Readable | undefined;
  /** As many as ordered; none when it could not be started. */
  readonly pipes: readonly Socket[];
  /** Resolves when the process runs; never if it could not be started. */
  readonly started: Promise<void>;
  /** Resolves when everything of it is gone from this host: processes, devices, mounts. Never rejects. */
  readonly gone: Promise<WorkerExit>;
  /**
   * Makes a spare the worker of this assignment; resolves when the build is visible to it. Rejects when that fails: the
   * process is then of no use.
   */
  assign(assignment: Assignment): Promise<void>;
  /** Returns whether it listens on a port; undefined where only a connection shows that. */
  listens?(port: number): boolean | undefined;
  /**
   * Asks it to end (SIGTERM): a host with all processes it started, a program by itself. The first reason given to
   * `terminate` or `kill` becomes that of its exit.
   */
  terminate(reason?: string): void;
  /** Kills it with all processes it started. */
  kill(reason?: string): void;
}

/** Paths as the worker's processes see them. */
export interface WorkerPlace {
  /** The build; empty if there is none. */
  readonly folder: string;
  /** The working folder; empty: the build's. */
  readonly workFolder: string;
}

export interface WorkerLauncher {
  readonly level: NodeIsolation['processes'];
  /** False where a process cannot be assigned later: it is started with its assignment, and there are no spares. */
  readonly hasSpares: boolean;
  /** Returns whether a spare can become the worker of this assignment; otherwise the worker gets a process of its own. */
  takesSpare(assignment: Assignment): boolean;
  /** Returns where a worker of this assignment sees its folders. */
  placeOf(assignment: Pick<Assignment, 'folder' | 'workFolder'>): WorkerPlace;
  /** Returns what workers inherit of these variables of the host, with the values that hold for them. */
  environmentOf(base: Readonly<Record<string, string>>): Readonly<Record<string, string>>;
  /**
   * Looks again for what workers run of this host. `hostEnv`: the host's part of their environment from now on. Returns whether workers
   * that start from now on see something else.
   */
  refresh(hostEnv: Readonly<Record<string, string>>): Promise<boolean>;
  /** Starts a process. Throws what the kernel refuses at once (no memory, an environment that is too long). */
  launch(order: LaunchSpec): WorkerProcess;
  /** Called with the address that workers get as CAPSTAN_URL, empty for none, before the first worker and at each change. */
  setGateway(url: string): void;
  /** Ends what it keeps for its workers. None may be left. */
  close(): Promise<void>;
}
