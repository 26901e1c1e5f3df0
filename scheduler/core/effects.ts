/** The effects that the core requests. The effects of a step are run after the commit of its operations. */
import type { DirectoryUpdate } from '../../proto/gen/capstan/v1/control.ts';
import type { JobReply } from '../../proto/gen/capstan/v1/jobs.ts';
import type { SchedulerEvent } from '../../proto/gen/capstan/v1/nodes.ts';
import type { CapstanError } from '../../lib/errors.ts';
import type { Op } from './ports/store.ts';
import type { Cause, ReadPurpose } from './events.ts';
import type { StartPhases, WorkerRecord, WorkerStartFacts } from './state/fleet.ts';
import type { JobRecord } from './state/jobs.ts';
import type { Usage } from './state/rate-limits.ts';

export type Effect =
  /** Reply to a gateway's request, which is then no longer open. */
  | { readonly kind: 'reply'; readonly channel: number; readonly reply: JobReply; readonly usage: Usage | null }
  /** Reply to a unary call. */
  | { readonly kind: 'command-result'; readonly call: number; readonly result: CommandResult | CapstanError }
  /** Send to a node's session; no effect if the session has ended. */
  | { readonly kind: 'send'; readonly node: string; readonly session: number; readonly event: SchedulerEvent }
  /** Send the node its current desired workers. */
  | {
      readonly kind: 'send-desired';
      readonly node: string;
      readonly session: number;
      readonly epoch: number;
      readonly workers: readonly WorkerRecord[];
    }
  /** Send a leased job with its input. */
  | {
      readonly kind: 'dispatch';
      readonly node: string;
      readonly session: number;
      readonly seq: number;
      readonly job: string;
      readonly token: number;
      readonly worker: string;
      readonly executionTimeoutMs: number;
      readonly attempt: number;
      readonly hasS3: boolean;
      readonly webhook: string;
      /** Trace context of the submission; empty without one. */
      readonly trace: string;
      /** Wall time since which the job waited. */
      readonly queuedAt: number;
      readonly endpoint: string;
      /** The start of the worker, if the job waited for it. */
      readonly start: WorkerStartFacts | null;
    }
  /** A job with a trace context ended in the queue: no dispatch ends its wait. */
  | {
      readonly kind: 'wait-ended';
      readonly job: string;
      readonly endpoint: string;
      readonly trace: string;
      /** Wall time since which the job waited. */
      readonly queuedAt: number;
      /** Number of the attempt that did not take place. */
      readonly attempt: number;
      readonly outcome: 'cancelled' | 'expired';
      readonly reason: string;
    }
  /** End a node's session: it was silent, or another session replaced it. */
  | { readonly kind: 'close-session'; readonly node: string; readonly session: number; readonly reason: string }
  | { readonly kind: 'read-job'; readonly purpose: ReadPurpose; readonly endpoint: string; readonly job: string }
  | { readonly kind: 'read-head'; readonly endpoint: string; readonly priority: 0 | 1; readonly after: number; readonly limit: number }
  | { readonly kind: 'read-due'; readonly limit: number }
  /** Read due webhooks, except those that are being sent. */
  | {
      readonly kind: 'read-deliveries';
      readonly skipHosts: readonly string[];
      readonly skipIds: readonly string[];
      readonly perHost: number;
      readonly limit: number;
    }
  /** These blobs hold bodies that are no longer needed. The shell deletes those that no row names. */
  | { readonly kind: 'drop-bodies'; readonly blobs: readonly string[] }
  /** Try to deliver a webhook; the result is `delivery-tried`. */
  | { readonly kind: 'deliver'; readonly id: string }
  /** A worker became ready; for metrics. */
  | ({ readonly kind: 'worker-started'; readonly endpoint: string } & StartPhases)
  /** Send gateways the changes. */
  | { readonly kind: 'directory'; readonly update: DirectoryUpdate }
  | {
      readonly kind: 'log';
      readonly level: 'info' | 'warn' | 'error';
      readonly message: string;
      /** `name` is set by the component in every line. */
      readonly facts: Readonly<Record<string, unknown>> & { readonly name?: never };
    };

/** Results of commands. */
export type CommandResult =
  | {
      readonly kind: 'job';
      readonly id: string;
      readonly state: 'CANCELLED' | 'IN_QUEUE' | 'COMPLETED' | 'FAILED' | 'TIMED_OUT';
      readonly delayMs: number | null;
      readonly executionMs: number | null;
    }
  | { readonly kind: 'purged'; readonly removed: number }
  | {
      readonly kind: 'deployed';
      readonly environment: string;
      readonly endpoints: readonly { readonly id: string; readonly created: boolean }[];
    }
  | { readonly kind: 'undeployed'; readonly endpoints: readonly string[] }
  | { readonly kind: 'done' };

/** Bytes that an operation adds once it is committed. */
export interface BodyReservation {
  readonly account: string;
  readonly bytes: number;
}

/** An operation with the request that caused it, so that a refusal reaches the caller. */
export interface Write {
  readonly op: Op;
  readonly cause: Cause | null;
  /** The job that it ends, for observers of the writes. */
  readonly subject: WriteSubject | null;
  /** Bytes of bodies that the operation adds. They count as pending until the store has counted them. */
  readonly reserved: BodyReservation | null;
}

/** The endpoint of a job, and the trace context of its submission. */
export type WriteSubject = Pick<JobRecord, 'endpoint' | 'trace'>;

/** An effect, and the operation of the same batch on which it depends. */
export interface Pending {
  readonly effect: Effect;
  readonly write: Write | null;
}

/** The operations and effects of one step. */
export class StepResult {
  readonly writes: Write[] = [];
  readonly effects: Pending[] = [];

  write(op: Op, cause: Cause | null = null, subject: WriteSubject | null = null, reserved: BodyReservation | null = null): Write {
    const write = { op, cause, subject, reserved };
    this.writes.push(write);
    return write;
  }

  /** Adds an effect. With `write`, the effect is dropped if that operation is refused. */
  emit(effect: Effect, write: Write | null = null): void {
    this.effects.push({ effect, write });
  }
}
