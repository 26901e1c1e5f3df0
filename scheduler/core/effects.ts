/** What the core wants done. Effects of a step leave after the commit of the operations beside them. */
import type { DirectoryUpdate } from '../../proto/gen/capstan/v1/control.ts';
import type { JobReply } from '../../proto/gen/capstan/v1/jobs.ts';
import type { SchedulerEvent } from '../../proto/gen/capstan/v1/nodes.ts';
import type { CapstanError } from '../../lib/errors.ts';
import type { Op } from '../store/store.ts';
import type { Cause, ReadPurpose } from './events.ts';
import type { WorkerRecord } from './state/fleet.ts';
import type { Usage } from './jobs/rate-limits.ts';

export type Effect =
  /** Answer a gateway's request, which is open no longer. */
  | { readonly kind: 'reply'; readonly channel: number; readonly reply: JobReply; readonly usage: Usage | null }
  /** Answer a unary call. */
  | { readonly kind: 'answer'; readonly call: number; readonly result: Answer | CapstanError }
  /** Send to a node's session; nothing happens when it is gone. */
  | { readonly kind: 'send'; readonly node: string; readonly session: number; readonly event: SchedulerEvent }
  /** Send the node its desired workers as they stand. */
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
    }
  /** End a node's session: it was silent, or another took its place. */
  | { readonly kind: 'close-session'; readonly node: string; readonly session: number; readonly reason: string }
  | { readonly kind: 'read-job'; readonly purpose: ReadPurpose; readonly endpoint: string; readonly job: string }
  | { readonly kind: 'read-head'; readonly endpoint: string; readonly priority: 0 | 1; readonly after: number; readonly limit: number }
  | { readonly kind: 'read-due'; readonly limit: number }
  /** Read due webhooks, without those that are being sent. */
  | {
      readonly kind: 'read-hooks';
      readonly skipHosts: readonly string[];
      readonly skipIds: readonly string[];
      readonly perHost: number;
      readonly limit: number;
    }
  /** These blobs hold bodies that are not needed any more; the shell deletes those that no row names. */
  | { readonly kind: 'drop-bodies'; readonly blobs: readonly string[] }
  /** Try a webhook; the answer is `hook-tried`. */
  | { readonly kind: 'deliver'; readonly id: string }
  /** A worker became ready: how long it was wanted before it had a place, and its phases from there, ms; for metrics. */
  | {
      readonly kind: 'worker-started';
      readonly endpoint: string;
      readonly runtime: string;
      readonly placedMs: number;
      readonly artifactMs: number;
      readonly startedMs: number;
      readonly loadedMs: number;
    }
  /** Tell gateways what changed. */
  | { readonly kind: 'directory'; readonly update: DirectoryUpdate }
  | {
      readonly kind: 'log';
      readonly level: 'info' | 'warn' | 'error';
      readonly message: string;
      /** `name` is the part's own in every line. */
      readonly facts: Readonly<Record<string, unknown>> & { readonly name?: never };
    };

/** Results of commands. */
export type Answer =
  | {
      readonly kind: 'job';
      readonly id: string;
      readonly state: 'CANCELLED' | 'IN_QUEUE';
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

/** An operation with who asked for it, so that a refusal finds its way back. */
export interface Write {
  readonly op: Op;
  readonly cause: Cause | null;
  /** The endpoint it is about, where whoever watches the writes wants to know. */
  readonly endpoint: string | null;
  /** Bytes in the blob store that the operation adds; counted as pending until the store has counted them. */
  readonly reserved: BodyReservation | null;
}

/** An effect, and the operation of the same batch without which it must not happen. */
export interface Pending {
  readonly effect: Effect;
  readonly write: Write | null;
}

/** Everything one step decided. */
export class StepResult {
  readonly writes: Write[] = [];
  readonly effects: Pending[] = [];

  /** Adds an operation. */
  write(op: Op, cause: Cause | null = null, endpoint: string | null = null, reserved: BodyReservation | null = null): Write {
    const write = { op, cause, endpoint, reserved };
    this.writes.push(write);
    return write;
  }

  /** Adds an effect; with `write`, one that falls when that operation is refused. */
  emit(effect: Effect, write: Write | null = null): void {
    this.effects.push({ effect, write });
  }
}
