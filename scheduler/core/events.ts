/** What happens to the core: facts from gateways, agents, the store and the clock. */
import type { AgentEvent, FunctionSpec, Hello } from '../../proto/gen/capstan/v1/nodes.ts';
import type { Body, HookHead, JobKind, JobRow, Op, Outcome, QueuedJob, WholeJob } from '../store/store.ts';
import type { LimitedOperation, Usage } from './rate-limits.ts';
import type { BuildRow, EndpointConfig, JobImage, KeyRow, NodeConfig } from './image.ts';

/** A gateway's request: which channel, which request on it. */
export interface Ref {
  readonly channel: number;
  readonly request: number;
}

/** How a request counts towards rate limits. */
export interface Counting {
  /** Null for what is not counted. */
  readonly limitedAs: LimitedOperation | null;
  /** Sent again after a broken stream: let in before. */
  readonly resent: boolean;
}

/** Per-job overrides as the caller gave them; ms. */
export interface PolicyInput {
  readonly executionTimeoutMs: number | null;
  readonly ttlMs: number | null;
  readonly lowPriority: boolean;
}

/** One resource of a manifest, validated, its environment already encrypted. */
export interface EndpointInput extends Omit<EndpointConfig, 'id' | 'account' | 'environment' | 'release'> {
  readonly functions: readonly FunctionSpec[];
  readonly runtime: string;
  readonly envSealed: string | null;
  readonly envDigest: string;
}

/** A unary call of the control plane; answered by one `answer` effect with the same `call`. */
export type Command =
  | { readonly command: 'cancel' | 'retry'; readonly endpoint: string; readonly job: string }
  | { readonly command: 'purge'; readonly endpoint: string }
  | {
      readonly command: 'deploy';
      readonly account: string;
      readonly environment: string;
      readonly build: BuildRow;
      readonly endpoints: readonly EndpointInput[];
    }
  | { readonly command: 'put-key'; readonly key: KeyRow }
  /** The secret is kept unless the account has one already. */
  | { readonly command: 'put-webhook-secret'; readonly account: string; readonly sealed: string }
  | { readonly command: 'redeliver'; readonly webhook: string }
  | { readonly command: 'put-join-token'; readonly hash: string }
  | { readonly command: 'join'; readonly tokenHash: string; readonly node: NodeConfig };

export type CoreEvent =
  | {
      readonly event: 'submit';
      readonly ref: Ref;
      readonly counting: Counting;
      readonly endpoint: string;
      readonly job: string;
      readonly kind: JobKind;
      readonly input: Body;
      readonly webhook: string | null;
      readonly policy: PolicyInput;
      readonly s3: Uint8Array | null;
      readonly idempotency: { readonly key: string; readonly bodyHash: Uint8Array } | null;
      readonly waitMs: number;
    }
  | {
      readonly event: 'get';
      readonly ref: Ref;
      readonly counting: Counting;
      readonly endpoint: string;
      readonly job: string;
      readonly waitMs: number;
    }
  | {
      readonly event: 'read-stream';
      readonly ref: Ref;
      readonly counting: Counting;
      readonly endpoint: string;
      readonly job: string;
      readonly waitMs: number;
    }
  | { readonly event: 'abandon'; readonly ref: Ref }
  | { readonly event: 'channel-closed'; readonly channel: number }
  | { readonly event: 'command'; readonly call: number; readonly command: Command }
  | { readonly event: 'session-opened'; readonly node: string; readonly session: number; readonly hello: Hello }
  | { readonly event: 'session-closed'; readonly node: string; readonly session: number }
  | { readonly event: 'agent'; readonly node: string; readonly session: number; readonly events: readonly AgentEvent[] }
  /** An operation of a batch was not carried out. */
  | { readonly event: 'refused'; readonly op: Op; readonly outcome: Outcome; readonly cause: Cause | null }
  /** Answers to read effects. */
  | { readonly event: 'job-read'; readonly purpose: ReadPurpose; readonly found: WholeJob | null }
  | {
      readonly event: 'head-read';
      readonly endpoint: string;
      readonly priority: 0 | 1;
      readonly rows: readonly QueuedJob[];
      readonly limit: number;
    }
  | { readonly event: 'due-read'; readonly jobs: readonly JobRow[]; readonly nextAt: number | null; readonly wall: number }
  | { readonly event: 'hooks-read'; readonly hooks: readonly HookHead[]; readonly nextAt: number | null; readonly limit: number }
  /** A delivery was tried; `gone` when it was not there any more. */
  | { readonly event: 'hook-tried'; readonly id: string; readonly result: 'delivered' | 'gone' }
  | { readonly event: 'hook-tried'; readonly id: string; readonly result: 'failed'; readonly error: string }
  /** The input of a dispatched job could not be read: the agent never got it. */
  | { readonly event: 'undelivered'; readonly node: string; readonly job: string; readonly token: number; readonly worker: string }
  | { readonly event: 'tick' };

/** Who asked for an operation that may be refused. */
export type Cause =
  | { readonly cause: 'submit'; readonly ref: Ref; readonly usage: Usage | null; readonly job: JobImage; readonly waitMs: number }
  | { readonly cause: 'retry'; readonly call: number; readonly job: JobImage }
  | { readonly cause: 'redeliver'; readonly call: number; readonly id: string }
  | { readonly cause: 'command'; readonly call: number };

/** What a job read from the store is wanted for. */
export type ReadPurpose =
  | { readonly purpose: 'waiter'; readonly ref: Ref }
  | { readonly purpose: 'submit'; readonly event: Extract<CoreEvent, { event: 'submit' }>; readonly usage: Usage | null }
  | { readonly purpose: 'cancel' | 'retry'; readonly call: number; readonly endpoint: string; readonly job: string };
