/**
 * The protocol between the agent and a worker's host process: frames (runtimes/frames.ts) in both directions on one
 * channel, and on a second one the keys of the tasks whose handlers were entered, one per line. The second one also takes
 * back tasks that were not entered, where user code may block whatever reads the first: the agent sends `<number> <key>`,
 * the host replies `-<key>`. The handler and whoever takes the task back claim its number first.
 *
 * Texts (of lines, errors, details) are bodies, so that headers are short (host-frames.ts, message-frames.ts).
 *
 * The process that runs the handler writes the key there itself, with one blocking system call, before it calls the
 * handler. The agent therefore learns of the start even if the handler ends the process at once: an attempt that
 * crashes its worker is always charged and cannot be retried forever.
 */
import type { FunctionSpec } from '../../proto/gen/capstan/v1/nodes.ts';
import type { WorkerS3Config } from './s3-config.ts';

/** File descriptor of the frames, in the host. */
export const CHANNEL_FD = 3;
/** File descriptor of the entered tasks, in the host. */
export const ENTRY_FD = 4;
/** File descriptor whose close means that the agent is gone, in hosts whose program has a lifeline. */
export const LIFELINE_FD = 5;

/** Longest text of one frame of lines, characters and bytes; a longer one is several frames. */
export const MAX_LOG_CHARACTERS = 16 * 1024;
export const MAX_LOG_BYTES = 64 * 1024;

/**
 * Which processes belong to the worker: all that its host sees; those of its user; its descendants, and those that
 * inherited its mark or work in its folder.
 */
export type ProcessScope = 'own' | 'user' | 'marked';

export interface LoadSpec {
  readonly folder: string;
  /** The working folder, which the host fills from `folder`; empty: `folder` itself. */
  readonly workFolder: string;
  /** The function that runs jobs. */
  readonly function: FunctionSpec;
  /** The functions that serve HTTP requests; empty for a worker of jobs. */
  readonly httpFunctions: readonly FunctionSpec[];
  readonly endpointId: string;
  /** Most concurrent tasks. */
  readonly maxConcurrency: number;
  readonly processScope: ProcessScope;
}

export interface RunSpec {
  readonly key: string;
  /** 1 for the worker's first task. */
  readonly no: number;
  readonly jobId: string;
  readonly attempt: number;
  readonly s3Config: WorkerS3Config | undefined;
  /** Trace context; absent without one. */
  readonly trace?: string | undefined;
}

/** An HTTP request and its events, on the way to the function; frame bodies are bytes of its body. */
export type HttpToHost =
  | {
      readonly t: 'http';
      readonly key: string;
      readonly function: string;
      readonly method: string;
      readonly url: string;
      readonly headers: readonly (readonly [string, string])[];
      readonly pathValues: Readonly<Record<string, string>>;
      readonly ended: boolean;
      /** The caller opens a WebSocket; after a 101 both bodies are its frames. */
      readonly upgrade?: true;
    }
  | { readonly t: 'http-body'; readonly key: string; readonly ended: boolean }
  /** Bytes of the response that were read. */
  | { readonly t: 'http-credit'; readonly key: string; readonly count: number }
  | { readonly t: 'http-abort'; readonly key: string };

/** Its response; head and body have bytes. */
export type HttpFromHost =
  | {
      readonly t: 'http-head';
      readonly key: string;
      readonly status: number;
      readonly headers: readonly (readonly [string, string])[];
      readonly ended: boolean;
    }
  | { readonly t: 'http-body'; readonly key: string; readonly ended: boolean }
  /** Bytes of the request that were read. */
  | { readonly t: 'http-credit'; readonly key: string; readonly count: number }
  /** The response ended prematurely. */
  | { readonly t: 'http-failed'; readonly key: string; readonly message: string };

export type ToHost =
  /** `life` as for `run`. */
  | (Extract<HttpToHost, { t: 'http' }> & { readonly life: number })
  | Exclude<HttpToHost, { t: 'http' }>
  /** `env` is set in the process before the module is loaded: a spare was started without it. */
  | ({ readonly t: 'load'; readonly env: Readonly<Record<string, string>> } & LoadSpec)
  /**
   * Body: the input. `life`: the number of `reloading` messages the agent has received; a task of an earlier life was
   * already returned and must not run.
   */
  | ({ readonly t: 'run'; readonly life: number } & RunSpec)
  | { readonly t: 'cancel'; readonly key: string }
  /** Returns the task (`stopped`) unless its handler was entered. For thread hosts; others are told on the second channel. */
  | { readonly t: 'recall'; readonly key: string }
  | { readonly t: 'credit'; readonly key: string; readonly count: number };

/** Messages of a handler thread to its host's main thread; `bytes` become the frame's body. */
export type FromThread =
  | Extract<HttpFromHost, { t: 'http-credit' | 'http-failed' }>
  | (Extract<HttpFromHost, { t: 'http-head' | 'http-body' }> & { readonly bytes: Uint8Array })
  | { readonly t: 'loaded' }
  | { readonly t: 'load-failed'; readonly detail: string }
  | { readonly t: 'chunk'; readonly key: string; readonly bytes: Uint8Array }
  | { readonly t: 'progress'; readonly key: string; readonly bytes: Uint8Array }
  | { readonly t: 'returned'; readonly key: string; readonly ms: number; readonly bytes: Uint8Array }
  | { readonly t: 'failed'; readonly key: string; readonly ms: number; readonly error: string }
  /** It was asked to stop, before or after its handler was entered. */
  | { readonly t: 'stopped'; readonly key: string; readonly ms: number; readonly entered: boolean }
  /** The code of this task or request ends the thread, and the process with it. */
  | { readonly t: 'culprit'; readonly key: string }
  | { readonly t: 'log'; readonly stream: 'stdout' | 'stderr'; readonly jobId: string; readonly text: string };

/** Messages of a running task. */
export type FromTask = Exclude<FromThread, { t: HttpFromHost['t'] }>;

/** Frames of HTTP requests between the two threads of a host (thread/host/http/posted-frames.ts). */
export interface PostedFrames {
  readonly t: 'http-frames';
  /** Header (JSON) and bytes of each, in turn; short bytes as Latin-1 text. */
  readonly frames: readonly (string | Uint8Array)[];
}

/** Messages of the main thread to its handler thread, on the control port. */
export type ToThread =
  | PostedFrames
  | { readonly t: 'abort'; readonly key: string }
  | { readonly t: 'credit'; readonly key: string; readonly count: number };

export type FromHost =
  | HttpFromHost
  | Exclude<FromThread, { bytes: Uint8Array }>
  | { readonly t: 'chunk'; readonly key: string }
  | { readonly t: 'progress'; readonly key: string }
  | { readonly t: 'returned'; readonly key: string; readonly ms: number }
  | { readonly t: 'up' }
  | { readonly t: 'reloading' }
  /** The handler of a stopped task has ended; what it left behind is being ended. */
  | { readonly t: 'clearing'; readonly key: string }
  /** The handler thread cannot be ended: the host is about to be killed. */
  | { readonly t: 'stuck' }
  /** The handler thread died by itself; the host follows. */
  | { readonly t: 'died'; readonly detail: string };
