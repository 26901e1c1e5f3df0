/**
 * Events that the core receives and effects that it requests. Both are plain data; the engine (agent/engine/) delivers
 * events and carries out effects.
 */
import type { BlobReference, Payload } from '../../lib/payload.ts';
import type {
  AgentEvent,
  AttemptAck,
  ChunksDrained,
  DesiredWorkers,
  Dispatch,
  ReleaseSpec,
  RecallAttempt,
  StopAttempt,
} from '../../proto/gen/capstan/v1/nodes.ts';
import type { AttemptKey } from './state.ts';

/** What one start of a worker says about an attempt. It may speak of the attempts that were handed to it, and of no other. */
export interface FromWorker {
  readonly workerId: string;
  readonly start: number;
  readonly key: AttemptKey;
}

export type CoreEvent =
  // From the scheduler.
  | { readonly kind: 'welcome' }
  | { readonly kind: 'disconnected' }
  /** Whether messages to the scheduler wait for the connection. */
  | { readonly kind: 'congested'; readonly is: boolean }
  /** The node has a new identity: work assigned to the old identity is dropped. */
  | { readonly kind: 'rejoined' }
  | { readonly kind: 'desired'; readonly desired: DesiredWorkers }
  | { readonly kind: 'dispatch'; readonly dispatch: Dispatch }
  | { readonly kind: 'stop'; readonly stop: StopAttempt }
  | { readonly kind: 'recall'; readonly recall: RecallAttempt }
  | { readonly kind: 'ack'; readonly ack: AttemptAck }
  | { readonly kind: 'drained'; readonly drained: ChunksDrained }
  // From the artifact cache and the blob store.
  | { readonly kind: 'artifact-ready'; readonly workerId: string; readonly start: number; readonly folder: string }
  | { readonly kind: 'artifact-failed'; readonly workerId: string; readonly start: number; readonly detail: string }
  | { readonly kind: 'input-ready'; readonly key: AttemptKey; readonly input: Buffer }
  | { readonly kind: 'input-failed'; readonly key: AttemptKey; readonly isMissing: boolean; readonly detail: string }
  | { readonly kind: 'output-stored'; readonly key: AttemptKey; readonly output: Payload }
  | { readonly kind: 'output-refused'; readonly key: AttemptKey; readonly detail: string }
  | { readonly kind: 'chunk-stored'; readonly key: AttemptKey; readonly index: number; readonly data: Payload }
  // From the runtime.
  /** Reason codes and texts as in WorkerEvents. */
  | { readonly kind: 'preparing'; readonly workerId: string; readonly start: number; readonly reason: string; readonly detail: string }
  /** What a starting worker waits for; its start-up time-out goes on. */
  | { readonly kind: 'waiting'; readonly workerId: string; readonly start: number; readonly detail: string }
  | { readonly kind: 'start-failed'; readonly workerId: string; readonly start: number; readonly reason: string; readonly detail: string }
  | { readonly kind: 'host-started'; readonly workerId: string; readonly start: number }
  | { readonly kind: 'loaded'; readonly workerId: string; readonly start: number }
  | { readonly kind: 'load-failed'; readonly workerId: string; readonly start: number; readonly detail: string }
  /**
   * All handlers of the worker were stopped by force to end one of them; its host is alive and loads the module again.
   */
  | { readonly kind: 'reloading'; readonly workerId: string; readonly start: number }
  /** Jobs that the worker takes at once, as it has shown. */
  | { readonly kind: 'slots'; readonly workerId: string; readonly start: number; readonly count: number }
  /** Whether HTTP requests reach a worker that is alive. */
  | { readonly kind: 'reachable'; readonly workerId: string; readonly start: number; readonly is: boolean }
  /** The host is gone. Reported exactly once for each requested start. `culprit` and `isUnread` as in WorkerEvents. */
  | {
      readonly kind: 'exited';
      readonly workerId: string;
      readonly start: number;
      readonly detail: string;
      readonly hardStop: boolean;
      readonly culprit?: string | undefined;
      readonly isUnread?: boolean | undefined;
    }
  | ({ readonly kind: 'handler-entered' } & FromWorker)
  | ({ readonly kind: 'chunk'; readonly data: Buffer } & FromWorker)
  | ({ readonly kind: 'progress'; readonly data: Buffer } & FromWorker)
  | ({ readonly kind: 'handler-ended'; readonly result: HandlerResult } & FromWorker)
  /** Number of HTTP requests in progress on a worker, and of the open WebSockets among them. */
  | {
      readonly kind: 'requests';
      readonly workerId: string;
      readonly start: number;
      readonly count: number;
      readonly webSockets: number;
      /** How the request ended that there is one less of: its connection was lost, or not. */
      readonly isLost?: boolean;
    }
  // From the inventory.
  /** The complete set of unusable devices, each with the reason. */
  /** The worker's GPUs cannot be used from inside of it; on the host nothing shows. */
  | { readonly kind: 'gpus-lost'; readonly workerId: string; readonly start: number; readonly detail: string }
  | { readonly kind: 'devices'; readonly problems: ReadonlyMap<string, string> }
  // From the clock and the process.
  /** `held`: workers whose execution times do not count now. */
  | { readonly kind: 'tick'; readonly held?: ReadonlySet<string> }
  | { readonly kind: 'close' }
  | { readonly kind: 'close-now' };

/** How a handler ended, as reported by its worker. */
export type HandlerResult =
  | { readonly kind: 'returned'; readonly output: Buffer; readonly ms: number }
  /** `output`: sent by a foreign worker beside its error. */
  | { readonly kind: 'failed'; readonly error: string; readonly output?: Buffer; readonly ms: number }
  /** The handler was asked to stop and did, in whatever way. */
  | { readonly kind: 'stopped'; readonly ms: number };

export type Effect =
  | { readonly kind: 'report'; readonly event: AgentEvent }
  | { readonly kind: 'fetch-artifact'; readonly workerId: string; readonly start: number; readonly release: ReleaseSpec }
  | {
      readonly kind: 'start-host';
      readonly workerId: string;
      readonly start: number;
      readonly release: ReleaseSpec;
      readonly runtime: string;
      /** The unpacked build; empty if the release has none. */
      readonly folder: string;
      readonly deviceUuids: readonly string[];
    }
  | { readonly kind: 'end-host'; readonly workerId: string; readonly start: number; readonly force: boolean }
  | { readonly kind: 'fetch-input'; readonly key: AttemptKey; readonly blob: BlobReference }
  | { readonly kind: 'run'; readonly key: AttemptKey; readonly dispatch: Dispatch; readonly input: Buffer }
  | { readonly kind: 'cancel'; readonly key: AttemptKey; readonly workerId: string }
  /** The worker returns the attempt as stopped if its handler was not entered. */
  | { readonly kind: 'recall'; readonly key: AttemptKey; readonly workerId: string }
  | { readonly kind: 'credit'; readonly key: AttemptKey; readonly workerId: string; readonly count: number }
  | { readonly kind: 'store-output'; readonly key: AttemptKey; readonly bytes: Buffer }
  | { readonly kind: 'store-chunk'; readonly key: AttemptKey; readonly index: number; readonly bytes: Buffer }
  /** A worker spoke of what is not its own: it is ended, and the operator and its account are told. */
  | { readonly kind: 'violation'; readonly workerId: string; readonly detail: string }
  /** The attempt is over for the agent: cancel its transfers. */
  | { readonly kind: 'forget'; readonly key: AttemptKey };
