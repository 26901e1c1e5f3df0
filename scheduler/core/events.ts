/** The core's input: events from gateways, agents, the store and the clock. */
import type { CapstanError } from '../../lib/errors.ts';
import type { Payload } from '../../lib/payload.ts';
import type { EndpointLevel } from '../../proto/gen/capstan/v1/invoke.ts';
import type { AgentEvent, Hello } from '../../proto/gen/capstan/v1/nodes.ts';
import type { RequestedFields } from './ports/columns.ts';
import type { Damaged } from './ports/stored-payload.ts';
import type { AuditPosition, DeliveryHead, JobKind, JobRow, Op, Outcome, QueuedJob, WholeJob } from './ports/store.ts';
import type { LimitedOperation, Usage } from './state/rate-limits.ts';
import type { SourceRevision } from '../../lib/source-revision.ts';
import type { AuditEntry } from './audit.ts';
import type { AccountRow, AlertChannelRow, EncryptedRow, KeptNames, KeyRow, MasterKeyRow, SessionRow } from './state/control-rows.ts';
import type { EndpointInput } from './state/endpoints.ts';
import type { NodeConfig } from './state/fleet.ts';
import type { Cursor, JobRecord } from './state/jobs.ts';

/** A gateway's request: its channel and its number on the channel. */
export interface Ref {
  readonly channel: number;
  readonly request: number;
}

/** How a request counts towards rate limits. */
export interface Counting {
  /** Null for a request that is not counted. */
  readonly limitedAs: LimitedOperation | null;
  /** Sent again after a broken stream: it was admitted before. */
  readonly resent: boolean;
}

/** A unary call that counts towards rate limits; it is open until a `call-ended` with its ticket. */
export interface CountedCall {
  readonly operation: LimitedOperation;
  /** Unique within a process. */
  readonly ticket: number;
}

/** Per-job overrides from the caller; ms. */
export interface PolicyInput {
  readonly executionTimeoutMs: number | null;
  readonly ttlMs: number | null;
  readonly lowPriority: boolean;
}

/** Quotas of an account; null for the service's default. Absent fields stay unchanged. */
export type Quotas = Pick<AccountRow, 'workerQuota' | 'buildQuota' | 'bodyQuota'>;

/** Rules for the workers of an account. Absent fields stay unchanged. */
export type IsolationRules = Pick<AccountRow, 'leastIsolation' | 'runtimes' | 'network'>;

/** A unary call of the control plane, answered by one `answer` effect with the same `call`. */
export type Command =
  | { readonly kind: 'cancel' | 'retry'; readonly endpoint: string; readonly job: string; readonly counted?: CountedCall }
  | { readonly kind: 'purge'; readonly endpoint: string; readonly counted?: CountedCall }
  /** Counts a listing of an endpoint's jobs, which the shell reads from the store. */
  | { readonly kind: 'count-listing'; readonly endpoint: string; readonly counted: CountedCall }
  | {
      readonly kind: 'deploy';
      readonly account: string;
      readonly environment: string;
      /** Digest; empty for workers that bring their own program. */
      readonly build: string;
      readonly endpoints: readonly EndpointInput[];
      readonly source?: SourceRevision | undefined;
      /** By the endpoint's name: what is kept of its present settings, which `endpoints` has. */
      readonly kept?: ReadonlyMap<string, KeptNames>;
    }
  /** The account sent this build, which is in the artifact store, or requested one that it owns. */
  | { readonly kind: 'put-build'; readonly account: string; readonly digest: string; readonly size: number }
  | { readonly kind: 'update-endpoint'; readonly endpoint: string; readonly input: EndpointInput }
  /** A caller waits for a first worker of the endpoint's release; repeated while it waits. */
  | { readonly kind: 'start-worker'; readonly endpoint: string }
  /**
   * `endpoint` null: everything that the newest deployment changed, or (with a build) every endpoint that had the
   * build.
   */
  | {
      readonly kind: 'rollback';
      readonly account: string;
      readonly environment: string;
      readonly endpoint: string | null;
      readonly build: string | null;
    }
  | { readonly kind: 'undeploy'; readonly account: string; readonly endpoints: readonly string[]; readonly stopJobs: boolean }
  | { readonly kind: 'create-environment'; readonly account: string; readonly environment: string }
  | {
      readonly kind: 'delete-environment';
      readonly account: string;
      readonly environment: string;
      readonly force: boolean;
      readonly stopJobs: boolean;
    }
  | { readonly kind: 'put-key'; readonly key: KeyRow }
  /** Refused if the key of the session was revoked. */
  | { readonly kind: 'put-session'; readonly session: SessionRow }
  /** The hash of its token. */
  | { readonly kind: 'end-session'; readonly hash: string }
  | { readonly kind: 'revoke-key'; readonly hash: string }
  /** Keys that were used recently. */
  | { readonly kind: 'note-keys'; readonly hashes: readonly string[] }
  /** With `create`, refused if the account exists; otherwise refused if it does not exist. */
  | {
      readonly kind: 'put-account';
      readonly account: string;
      readonly quotas: Partial<Quotas>;
      readonly rules?: IsolationRules;
      readonly create: boolean;
      /** With `create`: the account's first key. */
      readonly firstKey?: KeyRow;
    }
  /** Refused while the account has endpoints, unless forced. */
  | { readonly kind: 'delete-account'; readonly account: string; readonly force: boolean; readonly stopJobs: boolean }
  /** The secret is stored unless the account already has one. */
  | { readonly kind: 'put-webhook-secret'; readonly account: string; readonly encrypted: string }
  /** The secret replaces the present one, which still signs for a while. */
  | { readonly kind: 'rotate-webhook-secret'; readonly account: string; readonly encrypted: string }
  /** Changes nothing but the audit log: for changes that are made elsewhere. */
  | { readonly kind: 'audit' }
  /** Creates a secret or replaces its value. `environment` empty: for every environment of the account. */
  | {
      readonly kind: 'put-secret';
      readonly account: string;
      readonly environment: string;
      readonly name: string;
      readonly encrypted: string;
    }
  /** Refused while an endpoint uses it. */
  | { readonly kind: 'delete-secret'; readonly account: string; readonly environment: string; readonly name: string }
  /** Refused above {@link MAX_ALERT_CHANNELS} of the account. */
  | {
      readonly kind: 'put-alert-channel';
      readonly account: string;
      readonly channel: Omit<AlertChannelRow, 'account' | 'createdAt' | 'told' | 'failure'>;
    }
  | { readonly kind: 'delete-alert-channel'; readonly account: string; readonly id: string }
  /** What a channel was told by now, or why it was not. Ignored if the channel does not exist. */
  | {
      readonly kind: 'note-alerts';
      readonly account: string;
      readonly id: string;
      readonly change: Partial<Pick<AlertChannelRow, 'told' | 'failure'>>;
    }
  | { readonly kind: 'put-master-key'; readonly row: MasterKeyRow }
  /** Records up to where the audit log was exported. */
  | { readonly kind: 'note-audit-export'; readonly position: AuditPosition }
  /** Encrypted values in base64 and their replacements in these rows. */
  | { readonly kind: 'reencrypt'; readonly rows: readonly EncryptedRow[]; readonly values: ReadonlyMap<string, string> }
  | {
      readonly kind: 'reencrypt-inputs';
      readonly inputs: readonly { readonly seq: number; readonly from: Uint8Array; readonly to: Uint8Array }[];
    }
  | { readonly kind: 'redeliver'; readonly webhook: string }
  | {
      readonly kind: 'put-join-token';
      readonly hash: string;
      readonly name?: string;
      /** From its creation on, ms; null for never. */
      readonly expiresInMs?: number | null;
      readonly maxUses?: number | null;
      /** The token in the data folder: its row stays when it is used up. */
      readonly isOfFolder?: true;
    }
  | { readonly kind: 'revoke-join-token'; readonly id: string }
  | { readonly kind: 'join'; readonly tokenHash: string; readonly node: Omit<NodeConfig, 'draining'> }
  | { readonly kind: 'drain-node' | 'resume-node'; readonly node: string }
  | { readonly kind: 'remove-node'; readonly node: string; readonly force: boolean };

export type CoreEvent =
  | (RequestedFields & {
      readonly kind: 'submit';
      readonly ref: Ref;
      readonly counting: Counting;
      readonly endpoint: string;
      readonly job: string;
      readonly jobKind: JobKind;
      readonly input: Payload;
      readonly policy: PolicyInput;
      readonly s3: Uint8Array | null;
      readonly idempotency: { readonly key: string; readonly bodyHash: Uint8Array } | null;
      readonly waitMs: number;
    })
  | {
      readonly kind: 'get';
      readonly ref: Ref;
      readonly counting: Counting;
      readonly endpoint: string;
      readonly job: string;
      readonly waitMs: number;
    }
  | {
      readonly kind: 'read-stream';
      readonly ref: Ref;
      readonly counting: Counting;
      readonly endpoint: string;
      readonly job: string;
      /** Null if the gateway does not know which chunks its reader has. */
      readonly after: Cursor | null;
      readonly waitMs: number;
    }
  | { readonly kind: 'abandon'; readonly ref: Ref }
  | { readonly kind: 'channel-closed'; readonly channel: number }
  | { readonly kind: 'command'; readonly call: number; readonly command: Command; readonly audit: AuditEntry | null }
  | { readonly kind: 'session-opened'; readonly node: string; readonly session: number; readonly hello: Hello }
  | { readonly kind: 'session-closed'; readonly node: string; readonly session: number }
  | { readonly kind: 'agent'; readonly node: string; readonly session: number; readonly events: readonly AgentEvent[] }
  /** Replies were sent: their requests no longer count as open. */
  | { readonly kind: 'replied'; readonly usages: readonly Usage[] }
  /** A unary call has ended, whether it was counted or refused. */
  | { readonly kind: 'call-ended'; readonly ticket: number }
  /** An operation of a batch was refused. */
  | { readonly kind: 'refused'; readonly op: Op; readonly outcome: Outcome; readonly cause: Cause | null }
  /** Results of read effects. */
  | { readonly kind: 'job-read'; readonly purpose: ReadPurpose; readonly found: WholeJob | null }
  | {
      readonly kind: 'head-read';
      readonly endpoint: string;
      readonly priority: 0 | 1;
      readonly rows: readonly QueuedJob[];
      readonly limit: number;
    }
  | { readonly kind: 'due-read'; readonly jobs: readonly JobRow[]; readonly nextAt: number | null; readonly wall: number }
  | {
      readonly kind: 'deliveries-read';
      readonly deliveries: readonly DeliveryHead[];
      readonly nextAt: number | null;
      readonly limit: number;
    }
  /** A delivery was tried; `gone` if it no longer existed. */
  | { readonly kind: 'delivery-tried'; readonly id: string; readonly result: 'delivered' | 'gone' }
  | { readonly kind: 'delivery-tried'; readonly id: string; readonly result: 'failed'; readonly error: string }
  /** The input of a dispatched job could not be read, so the agent never received it. `damage`: why it never will; else null. */
  | {
      readonly kind: 'undelivered';
      readonly node: string;
      readonly job: string;
      readonly token: number;
      readonly worker: string;
      readonly damage: Damaged | null;
    }
  /** The input of a leased job, which its node wanted to fetch from the blob store, is damaged. */
  | { readonly kind: 'input-damaged'; readonly node: string; readonly job: string; readonly token: number; readonly damage: Damaged }
  /** Changed numbers of a gateway's requests to load-balanced endpoints. */
  | { readonly kind: 'levels'; readonly gateway: number; readonly levels: readonly EndpointLevel[] }
  | { readonly kind: 'gateway-closed'; readonly gateway: number }
  /** The disk of the store is so full that no new jobs are accepted; null: there is space again. */
  | { readonly kind: 'disk'; readonly refusal: CapstanError | null }
  /**
   * The store counted the bodies it names, bytes by account; `settled`: reservations whose operations the count
   * includes.
   */
  | { readonly kind: 'bodies-counted'; readonly stored: ReadonlyMap<string, number>; readonly settled: ReadonlyMap<string, number> }
  | { readonly kind: 'tick' };

/** The origin of an operation that may be refused. */
export type Cause =
  | { readonly kind: 'submit'; readonly ref: Ref; readonly usage: Usage | null; readonly job: JobRecord; readonly waitMs: number }
  | { readonly kind: 'retry'; readonly call: number; readonly job: JobRecord }
  | { readonly kind: 'redeliver'; readonly call: number; readonly id: string }
  | { readonly kind: 'command'; readonly call: number };

/** A read of a job, by its number (`State.reads`), and its purpose. */
export type ReadPurpose = { readonly read: number } & ReadAim;

/** The purpose of a job read from the store. */
export type ReadAim =
  /** `job`: what the request waited for when the read began; it may wait for another job by now. */
  | { readonly kind: 'waiter'; readonly ref: Ref; readonly job: string }
  | { readonly kind: 'submit'; readonly event: Extract<CoreEvent, { kind: 'submit' }>; readonly usage: Usage | null }
  | { readonly kind: 'cancel' | 'retry'; readonly call: number; readonly endpoint: string; readonly job: string };
