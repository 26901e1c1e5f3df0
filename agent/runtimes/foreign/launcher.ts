/** Launches a foreign worker as a process of this host or in a container. */
import type { Vantage } from '../../sandbox/launcher.ts';
import type { WorkerStart } from '../runtime.ts';

export interface LauncherEvents {
  /** As WorkerEvents.preparing. */
  preparing(reason: string, detail: string): void;
  /** As WorkerEvents.startFailed. */
  startFailed(reason: string, detail: string): void;
  /** The program runs. */
  started(): void;
  line(stream: 'stdout' | 'stderr', text: string): void;
  /** It is gone with all processes it started. Called exactly once, even if it never ran. `isUnread` as in WorkerEvents. */
  exited(detail: string, isUnread?: boolean): void;
}

export interface LaunchedProcess {
  /** Pid of the program if it is a process of this host visible in /proc. */
  readonly pid: number | undefined;
  /**
   * A job begins: returns what ends the processes that start from now on, where the agent cannot end them as processes of this host.
   * Undefined where it can, or nothing can.
   */
  beginJob?(): { end(): Promise<void> } | undefined;
  /** As WorkerProcess; absent for a container. */
  readonly vantage?: Vantage | undefined;
  /** Returns whether it listens on a port; undefined where only a connection shows that. */
  listens?(port: number): boolean | undefined;
  /** Sends SIGTERM to the program only: a request to end gracefully. */
  terminate(): void;
  /** Ends it with all processes it started; `why` becomes the detail of its exit. */
  kill(why: string): void;
}

/** Starts the program with this environment; no event is sent before it has returned. */
export type Launcher = (spec: WorkerStart, env: Readonly<Record<string, string>>, events: LauncherEvents) => LaunchedProcess;
