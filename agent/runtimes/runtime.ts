/**
 * What every runtime offers, whatever a worker is to it: a host process with threads, a process,
 * a container. All have the same semantics; test/conformance/runtime/ holds the list that each
 * must pass.
 */
import type { ErrorCode } from '../../lib/errors.ts';
import type { S3Config } from '../../proto/gen/capstan/v1/common.ts';
import type { FunctionSpec } from '../../proto/gen/capstan/v1/nodes.ts';

export interface Runtime {
  /** As releases and the inventory name it. */
  readonly name: string;
  /**
   * Starts one worker. Returns at once; what happens is told through `events`, ending with
   * exactly one `exited`, even when nothing could be started. Nothing is told before this
   * function has returned.
   */
  start(spec: WorkerStart, events: WorkerEvents): RunningWorker;
  /** Kills what is left, spares included; resolves when no process of this runtime is there. */
  close(): Promise<void>;
}

export interface WorkerStart {
  readonly workerId: string;
  readonly endpointId: string;
  /** The unpacked build; empty where the release has none. Read-only. */
  readonly folder: string;
  /** An empty folder of the worker's own, to be its working folder; empty: the build's is. In a container it is made there. */
  readonly workFolder: string;
  readonly functions: readonly FunctionSpec[];
  /** Secret values. */
  readonly env: Readonly<Record<string, string>>;
  readonly deviceUuids: readonly string[];
  /** Jobs at once, at least 1. */
  readonly maxConcurrency: number;
  /** Limit of resident memory, bytes; 0 for none. */
  readonly memoryBytes: number;
  /** Limit of processor time, thousandths of a core; 0 for none. */
  readonly cpuMillis: number;
  /** Container image; empty for the base image. Only containers have one. */
  readonly image: string;
  /** What a worker without functions runs (ReleaseSpec.command). */
  readonly command: readonly string[];
  /** Its functions answer HTTP requests; else its one function runs jobs. */
  readonly servesHttp?: boolean;
}

export interface RunningWorker {
  run(task: Task): void;
  /**
   * Stops one task: first by its AbortSignal, a second later by force. Force may end its
   * neighbours: `reloading` or an `exited` with `hardStop` says so.
   */
  cancel(key: string): void;
  /** Lets the task's generator run `count` chunks further. */
  credit(key: string, count: number): void;
  /** Hands an HTTP request to a worker that serves them; what comes of it is told through `events`, not before this returns. */
  serve?(request: HttpRequest, events: HttpEvents): HttpCall;
  /** Ends the worker; by force at once with everything it started. */
  end(force: boolean): void;
}

/** One HTTP request for a function of the worker. */
export interface HttpRequest {
  readonly function: string;
  readonly method: string;
  /** The whole address, as the caller asked for it. */
  readonly url: string;
  readonly headers: readonly (readonly [string, string])[];
  /** Values of the path's parameters. */
  readonly pathValues: Readonly<Record<string, string>>;
  /** The first bytes of the body, and whether there are no more. */
  readonly body: Uint8Array;
  readonly ended: boolean;
  /** The caller wants the connection itself; after a 101 both bodies are its raw bytes. */
  readonly upgrade?: boolean;
}

/** What comes of an HTTP request: a head and a body, or a failure. Ends with `ended` or `failed`, exactly once. */
export interface HttpEvents {
  head(status: number, headers: readonly (readonly [string, string])[], body: Buffer, ended: boolean): void;
  body(bytes: Buffer, ended: boolean): void;
  /** This many bytes of the request's body were read. */
  credit(bytes: number): void;
  /** There will be no answer, or no more of it. `untouched`: nothing of the request reached the function. */
  failed(code: ErrorCode, message: string, untouched: boolean): void;
}

/** What the caller's side does meanwhile. */
export interface HttpCall {
  body(bytes: Uint8Array, ended: boolean): void;
  /** This many bytes of the answer's body were read. */
  credit(bytes: number): void;
  /** Nobody wants the answer any more. By force: the function must end, with its worker if need be. */
  abort(force: boolean): void;
}

/** Bytes of a body that may be on their way unread, per direction (invoke.proto). */
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
}

/** How a handler ended, as its worker saw it. `ms`: how long it ran. */
export type TaskResult =
  | { readonly kind: 'returned'; readonly output: Buffer; readonly ms: number }
  /** `output`: what a foreign worker sent beside its error. */
  | { readonly kind: 'failed'; readonly error: string; readonly output?: Buffer; readonly ms: number }
  | { readonly kind: 'stopped'; readonly ms: number };

export interface WorkerEvents {
  /**
   * What the start is busy with before there is a process, as a reason code and a text for people: IMAGE_PULL
   * with how far it is. As long as this is said again, the start-up time-out begins anew.
   */
  preparing(reason: string, detail: string): void;
  /** The start came to nothing for a reason that has a code of its own: IMAGE_PULL_FAILED. `exited` follows. */
  startFailed(reason: string, detail: string): void;
  /** The worker's process is there. */
  started(): void;
  /** The user's module is loaded: the worker takes tasks. Said again after `reloading`. */
  loaded(): void;
  /** The module cannot be loaded; the worker is of no use and is to be ended. */
  loadFailed(detail: string): void;
  /** The handler of this task was entered. */
  entered(key: string): void;
  /** One chunk of a generator, JSON text; uses up one credit. */
  chunk(key: string, data: Buffer): void;
  progress(key: string, data: Buffer): void;
  ended(key: string, result: TaskResult): void;
  /** Every task on the worker was stopped by force; it loads its module again. */
  reloading(): void;
  /** Whether HTTP requests reach a loaded worker: false while its server refuses connections, and once its host is about to be gone. */
  reachable(is: boolean): void;
  log(entry: LogEntry): void;
  /** The worker is gone with all its processes. `hardStop`: it was killed to end one task. */
  exited(detail: string, hardStop: boolean): void;
}

export interface LogEntry {
  readonly stream: 'stdout' | 'stderr' | 'system';
  /** Empty when it is not known which job wrote it. */
  readonly jobId: string;
  /** One line, without its end. */
  readonly text: string;
}

/** Chunks a generator may be ahead of the credits it was given. */
export const FIRST_CREDITS = 32;
/** Longest result, bytes. */
export const MAX_RESULT_BYTES = 20 * 1024 * 1024;
/** Longest chunk, bytes. */
export const MAX_CHUNK_BYTES = 1024 * 1024;
/** Longest progress update, bytes: it travels inline. */
export const MAX_PROGRESS_BYTES = 64 * 1024;
/** Time a cancelled handler has before force, and force has before SIGKILL, ms. */
export const STOP_GRACE_MS = 1_000;
