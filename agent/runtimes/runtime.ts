/**
 * The interface of every runtime, whatever a worker is in it: a host process with threads, a process, a container. All
 * have the same semantics; each must pass the tests in test/conformance/runtime/.
 */
import type { ErrorCode } from '../../lib/errors.ts';
import type { WorkerNetwork } from '../../lib/isolation.ts';
import type { S3Config } from '../../proto/gen/capstan/v1/common.ts';
import type { AccountReading } from './account-reading.ts';
import type { WorkerEnd } from '../../proto/gen/capstan/v1/invoke.ts';
import type { FunctionSpec } from '../../proto/gen/capstan/v1/nodes.ts';

export interface Runtime {
  /** As in releases and the inventory. */
  readonly name: string;
  /**
   * Starts one worker. Returns immediately; `events` report what follows, ending with exactly one `exited`, even if
   * nothing could be started. No event is sent before this function has returned.
   */
  start(spec: WorkerStart, events: WorkerEvents): RunningWorker;
  /** What workers that start from now on inherit of this host. Absent: nothing. */
  setBaseEnv?(baseEnv: Readonly<Record<string, string>>): void;
  /**
   * Looks whether a worker's GPUs can be used from inside of it. Resolves with the reason why not; undefined where they can, or where
   * it cannot be told. Absent: workers see the devices as the agent does.
   */
  gpuProblem?(workerId: string): Promise<string | undefined>;
  /** Kills what is left, spares included; resolves when no process of this runtime is left. */
  close(): Promise<void>;
}

export interface WorkerStart {
  readonly workerId: string;
  readonly endpointId: string;
  /** The unpacked build; empty if the release has none. Read-only. */
  readonly folder: string;
  /**
   * An empty folder of the worker's own as its working folder; empty: the build's folder. In a container it is created
   * inside.
   */
  readonly workFolder: string;
  readonly functions: readonly FunctionSpec[];
  /** Secret values. */
  readonly env: Readonly<Record<string, string>>;
  readonly deviceUuids: readonly string[];
  /** Concurrent jobs, at least 1. */
  readonly maxConcurrency: number;
  /** Limit of resident memory, bytes; 0: no limit. */
  readonly memoryBytes: number;
  /** Limit of processor time, thousandths of a core; 0: no limit. */
  readonly cpuMillis: number;
  /** Container image; empty: the base image. Only containers have one. */
  readonly image: string;
  /** Command of a worker without functions (ReleaseSpec.command). */
  readonly command: readonly string[];
  /** Its functions serve HTTP requests; otherwise its single function runs jobs. */
  readonly servesHttp?: boolean;
  /** Time within which it must be ready, ms; the agent's core measures it. */
  readonly startTimeoutMs?: number;
  /** What its network reaches; absent: `host`. */
  readonly network?: WorkerNetwork;
  /** How its account's workers are read; absent where the agent itself reads them. */
  readonly reading?: AccountReading;
}

export interface RunningWorker {
  run(task: Task): void;
  /**
   * Stops one task: first by its AbortSignal, one second later by force. Force may end its neighbours: `reloading` or
   * an `exited` with `hardStop` reports that.
   */
  cancel(key: string): void;
  /** Ends the task as `stopped` if its handler was not entered; otherwise it goes on. */
  recall?(key: string): void;
  /** Lets the task's generator produce `count` more chunks. */
  credit(key: string, count: number): void;
  /** Hands an HTTP request to a worker that serves them; `events` report the outcome, not before this returns. */
  serve?(request: HttpRequest, events: HttpEvents): HttpCall;
  /** Ends the worker; by force immediately with everything it started. */
  end(force: boolean): void;
}

/** One HTTP request for a function of the worker. */
export interface HttpRequest {
  readonly function: string;
  readonly method: string;
  /** The full URL as the caller requested it. */
  readonly url: string;
  readonly headers: readonly (readonly [string, string])[];
  /** Values of the path's parameters. */
  readonly pathValues: Readonly<Record<string, string>>;
  /** The first bytes of the body, and whether the body is complete. */
  readonly body: Uint8Array;
  readonly ended: boolean;
  /** The caller requests an upgrade of the connection; after a 101 both bodies are its raw bytes. */
  readonly upgrade?: boolean;
}

/** Events of an HTTP request: a head and a body, or a failure. Ends with `ended` or `failed`, exactly once. */
export interface HttpEvents {
  head(status: number, headers: readonly (readonly [string, string])[], body: Buffer, ended: boolean): void;
  body(bytes: Buffer, ended: boolean): void;
  /** This many bytes of the request's body were read. */
  credit(bytes: number): void;
  /** There will be no response, or no more of it. `untouched` and `workerEnd` are those of Abort (invoke.proto). */
  failed(code: ErrorCode, message: string, untouched: boolean, workerEnd?: WorkerEnd): void;
}

/** Events from the caller's side. */
export interface HttpCall {
  body(bytes: Uint8Array, ended: boolean): void;
  /** This many bytes of the response's body were read. */
  credit(bytes: number): void;
  /** The response is no longer wanted. By force: the function must end, with its worker if necessary. */
  abort(force: boolean): void;
}

/** Most unread bytes of a body in transit, per direction (invoke.proto). */
export const HTTP_WINDOW_BYTES = 256 * 1024;

export interface Task {
  readonly key: string;
  readonly jobId: string;
  /** JSON text, UTF-8. */
  readonly input: Buffer;
  /** Secret. */
  readonly s3Config: S3Config | undefined;
  /** 1 for the first started attempt. */
  readonly attempt: number;
  /** Trace context for the handler (lib/trace-context.ts); absent or empty without one. */
  readonly trace?: string | undefined;
}

/** How a handler ended, as reported by its worker. `ms`: how long it ran. */
export type TaskResult =
  | { readonly kind: 'returned'; readonly output: Buffer; readonly ms: number }
  /** `output`: sent by a foreign worker beside its error. */
  | { readonly kind: 'failed'; readonly error: string; readonly output?: Buffer; readonly ms: number }
  | { readonly kind: 'stopped'; readonly ms: number };

export interface WorkerEvents {
  /**
   * Progress of the start before a process exists, as a reason code and a readable text: IMAGE_PULL with its progress.
   * Each report restarts the start-up time-out.
   */
  preparing(reason: string, detail: string): void;
  /** The start failed for a reason with its own code: IMAGE_PULL_FAILED. `exited` follows. */
  startFailed(reason: string, detail: string): void;
  /** The worker's process exists. */
  started(): void;
  /** It runs and is not ready: what was tried and what came back. Does not restart the start-up time-out. */
  waiting(detail: string): void;
  /** The user's module is loaded: the worker accepts tasks. Sent again after `reloading`. */
  loaded(): void;
  /** The module cannot be loaded; the worker is unusable and must be ended. */
  loadFailed(detail: string): void;
  /** The handler of this task was entered. */
  entered(key: string): void;
  /** One chunk of a generator, JSON text; uses one credit. */
  chunk(key: string, data: Buffer): void;
  progress(key: string, data: Buffer): void;
  ended(key: string, result: TaskResult): void;
  /** Every task on the worker was stopped by force; it reloads its module. */
  reloading(): void;
  /** Jobs that a foreign worker takes at once, as it has shown; first before `loaded`. Others take those of their release. */
  slots?(count: number): void;
  /**
   * Whether HTTP requests reach a loaded worker: false while its server refuses connections, and once its host is about
   * to exit.
   */
  reachable(is: boolean): void;
  /** The worker said what it must not say; it was killed, and `exited` follows. */
  violation(detail: string): void;
  log(entry: LogEntry): void;
  /**
   * The worker is gone with all its processes. `hardStop`: it was killed to end one task. `culprit`: the key of the
   * running task or request whose code ended it; absent where that is not known. `isUnread`: it was killed because the
   * reader of its account ended, which another worker of the account may have caused.
   */
  exited(detail: string, hardStop: boolean, culprit?: string, isUnread?: boolean): void;
}

export interface LogEntry {
  readonly stream: 'stdout' | 'stderr' | 'system';
  /** Empty when the job that wrote it is unknown. */
  readonly jobId: string;
  /** One line, without its line end. */
  readonly text: string;
}

/** Chunks that a generator may be ahead of its granted credits. */
export const FIRST_CREDITS = 32;
/** Longest result, bytes. */
export const MAX_RESULT_BYTES = 20 * 1024 * 1024;
/** Longest chunk, bytes. */
export const MAX_CHUNK_BYTES = 1024 * 1024;
/** Longest progress update, bytes: it travels inline. */
export const MAX_PROGRESS_BYTES = 64 * 1024;
/** Time before force for a cancelled handler, and before SIGKILL after force, ms. */
export const STOP_GRACE_MS = 1_000;
