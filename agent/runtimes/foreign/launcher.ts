/** What a foreign worker runs in: a process of this host, or a container. */
import type { WorkerStart } from '../runtime.ts';

export interface LauncherEvents {
  /** As WorkerEvents.preparing. */
  preparing(reason: string, detail: string): void;
  /** As WorkerEvents.startFailed. */
  startFailed(reason: string, detail: string): void;
  /** The program runs. */
  started(): void;
  line(stream: 'stdout' | 'stderr', text: string): void;
  /** It is gone with all it started. Exactly once, even when it never ran. */
  exited(detail: string): void;
}

export interface LaunchedProcess {
  /** Of the program, where it is a process of this host that /proc tells of. */
  readonly pid: number | undefined;
  /** SIGTERM to the program alone: it is asked to end in order. */
  terminate(): void;
  /** Ends it with all it started; `why` becomes the detail of its exit. */
  kill(why: string): void;
}

/** Starts the program with this environment; nothing is told before it has returned. */
export type Launcher = (spec: WorkerStart, env: Readonly<Record<string, string>>, events: LauncherEvents) => LaunchedProcess;
