/** What happens to the core, and what it wants done. Both are plain data; the engine (agent/engine/) feeds and carries out. */
import type { BlobRef, Payload } from '../../proto/gen/capstan/v1/common.ts';
import type {
  AgentEvent,
  AttemptAck,
  ChunksDrained,
  DesiredWorkers,
  Dispatch,
  ReleaseSpec,
  StopAttempt,
} from '../../proto/gen/capstan/v1/nodes.ts';
import type { AttemptKey } from './image.ts';

export type CoreEvent =
  // From the scheduler.
  | { readonly on: 'welcome' }
  | { readonly on: 'disconnected' }
  /** The node has another identity now: what the old one was told to run is nothing to the new one. */
  | { readonly on: 'rejoined' }
  | { readonly on: 'desired'; readonly desired: DesiredWorkers }
  | { readonly on: 'dispatch'; readonly dispatch: Dispatch }
  | { readonly on: 'stop'; readonly stop: StopAttempt }
  | { readonly on: 'ack'; readonly ack: AttemptAck }
  | { readonly on: 'drained'; readonly drained: ChunksDrained }
  // From the artifact cache and the blob store.
  | { readonly on: 'artifact-ready'; readonly workerId: string; readonly start: number; readonly folder: string }
  | { readonly on: 'artifact-failed'; readonly workerId: string; readonly start: number; readonly detail: string }
  | { readonly on: 'input-ready'; readonly key: AttemptKey; readonly input: Buffer }
  | { readonly on: 'input-failed'; readonly key: AttemptKey; readonly detail: string }
  | { readonly on: 'output-stored'; readonly key: AttemptKey; readonly output: Payload }
  | { readonly on: 'output-refused'; readonly key: AttemptKey; readonly detail: string }
  | { readonly on: 'chunk-stored'; readonly key: AttemptKey; readonly index: number; readonly data: Payload }
  // From the runtime.
  /** Reason codes and texts as WorkerEvents has them. */
  | { readonly on: 'preparing'; readonly workerId: string; readonly start: number; readonly reason: string; readonly detail: string }
  | { readonly on: 'start-failed'; readonly workerId: string; readonly start: number; readonly reason: string; readonly detail: string }
  | { readonly on: 'host-started'; readonly workerId: string; readonly start: number }
  | { readonly on: 'loaded'; readonly workerId: string; readonly start: number }
  | { readonly on: 'load-failed'; readonly workerId: string; readonly start: number; readonly detail: string }
  /** The handlers of the worker were stopped hard to end one of them; its host lives and loads the module again. */
  | { readonly on: 'reloading'; readonly workerId: string; readonly start: number }
  /** HTTP requests reach the worker, or do not although it is there. */
  | { readonly on: 'reachable'; readonly workerId: string; readonly start: number; readonly is: boolean }
  /** The host is gone. Said exactly once for each start that was asked for. */
  | { readonly on: 'exited'; readonly workerId: string; readonly start: number; readonly detail: string; readonly hardStop: boolean }
  | { readonly on: 'handler-entered'; readonly key: AttemptKey }
  | { readonly on: 'chunk'; readonly key: AttemptKey; readonly data: Buffer }
  | { readonly on: 'progress'; readonly key: AttemptKey; readonly data: Buffer }
  | { readonly on: 'handler-ended'; readonly key: AttemptKey; readonly result: HandlerResult }
  /** How many HTTP requests a worker has under way now. */
  | { readonly on: 'requests'; readonly workerId: string; readonly start: number; readonly count: number }
  // From the inventory.
  /** The devices that cannot be used now, each with the reason; the whole set. */
  | { readonly on: 'devices'; readonly problems: ReadonlyMap<string, string> }
  // From the clock and the process.
  | { readonly on: 'tick' }
  | { readonly on: 'close' }
  | { readonly on: 'close-now' };

/** How a handler ended, as its worker saw it. */
export type HandlerResult =
  | { readonly kind: 'returned'; readonly output: Buffer; readonly ms: number }
  /** `output`: what a foreign worker sent beside its error. */
  | { readonly kind: 'failed'; readonly error: string; readonly output?: Buffer; readonly ms: number }
  /** It was told to stop, and did, however. */
  | { readonly kind: 'stopped'; readonly ms: number };

export type Effect =
  | { readonly do: 'report'; readonly event: AgentEvent }
  | { readonly do: 'fetch-artifact'; readonly workerId: string; readonly start: number; readonly release: ReleaseSpec }
  | {
      readonly do: 'start-host';
      readonly workerId: string;
      readonly start: number;
      readonly release: ReleaseSpec;
      readonly runtime: string;
      /** The unpacked build; empty where the release has none. */
      readonly folder: string;
      readonly deviceUuids: readonly string[];
    }
  | { readonly do: 'end-host'; readonly workerId: string; readonly start: number; readonly force: boolean }
  | { readonly do: 'fetch-input'; readonly key: AttemptKey; readonly blob: BlobRef }
  | { readonly do: 'run'; readonly key: AttemptKey; readonly dispatch: Dispatch; readonly input: Buffer }
  | { readonly do: 'cancel'; readonly key: AttemptKey; readonly workerId: string }
  | { readonly do: 'credit'; readonly key: AttemptKey; readonly workerId: string; readonly count: number }
  | { readonly do: 'store-output'; readonly key: AttemptKey; readonly bytes: Buffer }
  | { readonly do: 'store-chunk'; readonly key: AttemptKey; readonly index: number; readonly bytes: Buffer }
  /** The attempt is over for the agent: give up transfers for it. */
  | { readonly do: 'forget'; readonly key: AttemptKey };
