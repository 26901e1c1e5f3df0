/**
 * The records of a history, one JSON object a line. Two sides write them: the clients (calls, returns, webhooks, faults) and the
 * handlers (enter, chunk, exit), which append to a file outside the service. `at` is milliseconds of the host's monotonic clock,
 * the same for all processes, so that the two histories merge by it.
 */

export type Operation = 'run' | 'runsync' | 'status' | 'stream' | 'cancel' | 'retry' | 'purge';

/** What an endpoint promises in a run. */
export interface EndpointPromise {
  readonly name: string;
  readonly maxAttempts: number;
  /** One worker, one job at a time, one priority: jobs start in the order in which they were accepted. */
  readonly inOrder: boolean;
}

/** First record of every history. */
export interface SettingsRecord {
  readonly kind: 'settings';
  readonly at: number;
  /** By endpoint id. */
  readonly endpoints: Readonly<Record<string, EndpointPromise>>;
  readonly runRetentionMs: number;
  readonly runsyncRetentionMs: number;
  /** After a fault heals, its effects (restarts, silence limits, grace periods) last at most this long. */
  readonly settleMs: number;
  /** The furthest that any clock steps forward, added up. */
  readonly clockStepMs: number;
}

/** A request leaves a client. */
export interface CallRecord {
  readonly kind: 'call';
  readonly at: number;
  /** Unique in the history. */
  readonly call: number;
  readonly operation: Operation;
  readonly endpoint: string;
  /** Which gateway receives it. */
  readonly via: string;
  /** Of a submission: the unique input. */
  readonly input?: string;
  /** Of a submission: its Idempotency-Key. */
  readonly key?: string;
  /** Of a submission under a key that was acknowledged with another body. */
  readonly conflicting?: boolean;
  /** Of a submission: a webhook is requested. */
  readonly webhook?: boolean;
  /** Of a submission: `policy.executionTimeout`, ms. */
  readonly timeoutMs?: number;
  /** Of all other calls but purge. */
  readonly job?: string;
  /** Of a stream: the cursor that the read continues after; absent for a reader that keeps none. */
  readonly after?: string;
}

/** An output or chunk of the test's handlers, without its padding. */
export interface Made {
  readonly execution: string;
  readonly input: string;
  /** Of a chunk: its place. */
  readonly index?: number;
  /** Whether the padding has the right bytes. */
  readonly intact: boolean;
}

/** A job's document as the checker needs it. */
export interface JobView {
  readonly id: string;
  readonly status: string;
  /** One for a value, a list for a generator; absent when there is none. */
  readonly output?: Made | readonly Made[];
  readonly error?: string;
  readonly retries?: number;
  /** All other members, as canonical JSON. */
  readonly rest: string;
}

/** A request is answered. */
export interface ReturnRecord {
  readonly kind: 'return';
  readonly at: number;
  readonly call: number;
  readonly status: number;
  /** Of a 200 with a job's document. */
  readonly job?: JobView;
  /** Of a 200 to a stream read. */
  readonly chunks?: readonly Made[];
  readonly cursor?: string;
  /** Of anything but 200: what the answer says. */
  readonly detail?: string;
}

/** A request has no answer: nobody knows whether it took effect, or whether it will. */
export interface LostRecord {
  readonly kind: 'lost';
  readonly at: number;
  readonly call: number;
  readonly reason: string;
  /** The client's own limit ended the wait. */
  readonly timedOut: boolean;
}

/** A handler is entered. */
export interface EnterRecord {
  readonly kind: 'enter';
  readonly at: number;
  /** Unique for every entry. */
  readonly execution: string;
  readonly job: string;
  readonly input: string;
  /** As its context tells, from 1. */
  readonly attempt: number;
  readonly pid: number;
}

/** A generator yields. */
export interface ChunkRecord {
  readonly kind: 'chunk';
  readonly at: number;
  readonly execution: string;
  readonly index: number;
}

/** A handler ends by itself; one that is killed leaves no such record. */
export interface ExitRecord {
  readonly kind: 'exit';
  readonly at: number;
  readonly execution: string;
  readonly how: 'returned' | 'failed' | 'stopped';
}

/** The receiver gets one try of a delivery. */
export interface WebhookRecord {
  readonly kind: 'webhook';
  readonly at: number;
  /** The header `webhook-id`. */
  readonly id: string;
  /** SHA-256 of the payload. */
  readonly digest: string;
  readonly job: JobView;
  /** The input inside the payload. */
  readonly input: string;
  readonly signed: boolean;
  /** What the receiver answers. */
  readonly answer: number;
}

/** A fault begins. */
export interface FaultRecord {
  readonly kind: 'fault';
  readonly at: number;
  readonly number: number;
  readonly fault: string;
  readonly target: string;
}

/** A fault ends: the part serves again, the connection is whole. */
export interface HealedRecord {
  readonly kind: 'healed';
  readonly at: number;
  readonly number: number;
}

/** A part ends although no fault ended it. */
export interface CrashRecord {
  readonly kind: 'crash';
  readonly at: number;
  readonly part: string;
  readonly how: string;
}

/** All faults are healed, and clients waited for the end of every acknowledged job. */
export interface EndRecord {
  readonly kind: 'end';
  readonly at: number;
}

export type ClientRecord =
  | SettingsRecord
  | CallRecord
  | ReturnRecord
  | LostRecord
  | WebhookRecord
  | FaultRecord
  | HealedRecord
  | CrashRecord
  | EndRecord;
export type HandlerRecord = EnterRecord | ChunkRecord | ExitRecord;
export type HistoryRecord = ClientRecord | HandlerRecord;

/** Whether a status is one that only a retry changes. */
export function isTerminal(status: string): boolean {
  return status !== 'IN_QUEUE' && status !== 'IN_PROGRESS';
}
