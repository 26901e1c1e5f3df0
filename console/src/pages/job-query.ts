/** What the page of a job shows. */
import { graphql } from '../api/request.ts';

export interface Job {
  readonly id: string;
  readonly status: string;
  readonly isSync: boolean;
  readonly lowPriority: boolean;
  readonly submittedAt: string;
  readonly startedAt: string | null;
  readonly endedAt: string | null;
  readonly deleteAt: string;
  readonly delayTime: number | null;
  readonly executionTime: number | null;
  readonly attempts: number;
  readonly chunks: number;
  readonly executionTimeout: number;
  readonly worker: string | null;
  readonly node: string | null;
  readonly tags: readonly string[];
  /** Of OpenTelemetry. */
  readonly traceId: string | null;
  readonly queueReason: string | null;
  readonly error: string | null;
  readonly webhook: string | null;
  readonly input: string | null;
  readonly inputBytes: number | null;
  readonly output: string | null;
  readonly outputBytes: number | null;
  readonly pastAttempts: readonly PastAttempt[];
  readonly queueReasons: readonly QueueReason[];
}

export interface PastAttempt {
  /** Of the submission or retry that it belongs to. */
  readonly submittedAt: string;
  readonly attempt: number;
  readonly worker: string | null;
  readonly node: string | null;
  readonly leasedAt: string | null;
  /** Null: it did not start. */
  readonly startedAt: string | null;
  readonly endedAt: string;
  readonly reason: string;
  readonly error: string | null;
  /** Attempts in a row that did not start. */
  readonly count: number;
}

export interface QueueReason {
  readonly at: string;
  /** Null: it still waits. */
  readonly until: string | null;
  readonly reason: string;
  readonly detail: string | null;
}

interface Worker {
  readonly id: string;
  readonly node: string;
  readonly state: string;
  readonly decision: string;
  readonly start: { readonly artifactMs: number; readonly startedMs: number; readonly loadedMs: number };
}

export interface Answer {
  readonly job: Job | null;
  readonly endpoint: {
    readonly name: string;
    readonly url: string;
    readonly queue: { readonly reason: string | null; readonly detail: string | null };
    readonly scaling: {
      readonly workers: readonly Worker[];
      readonly rejections: readonly {
        readonly reason: string;
        readonly examples: readonly { readonly node: string; readonly detail: string }[];
      }[];
    } | null;
  } | null;
}

/** A delivery of a webhook that has not succeeded. */
export interface Delivery {
  readonly id: string;
  readonly state: string;
  readonly tries: number;
  readonly dueAt: string | null;
  readonly error: string | null;
}

export const JOB_QUERY = `query ($endpoint: ID!, $id: ID!) {
  job(endpoint: $endpoint, id: $id) {
    id status isSync lowPriority submittedAt startedAt endedAt deleteAt delayTime executionTime attempts chunks executionTimeout
    worker node queueReason error webhook traceId tags input inputBytes output outputBytes
    pastAttempts { submittedAt attempt worker node leasedAt startedAt endedAt reason error count }
    queueReasons { at until reason detail }
  }
  endpoint(id: $endpoint) {
    name url queue { reason detail }
    scaling { workers { id node state decision start { artifactMs startedMs loadedMs } } rejections { reason examples { node detail } } }
  }
}`;

export const ENDED = new Set(['COMPLETED', 'FAILED', 'CANCELLED', 'TIMED_OUT']);

const DELIVERIES = `query ($after: ID!) { webhooks(after: $after, limit: 5) { webhooks { id state tries dueAt error } } }`;

/** Reads the undelivered webhooks of a job: their ids begin with that of the job. */
export async function readDeliveries(job: string, signal: AbortSignal): Promise<readonly Delivery[]> {
  const { webhooks } = await graphql<{ webhooks: { webhooks: readonly Delivery[] } }>(DELIVERIES, { after: `${job}_` }, signal);
  return webhooks.webhooks.filter(({ id }) => id.startsWith(`${job}_`));
}
