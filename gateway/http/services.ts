/** The services that the HTTP routes use. */
import type { FastifyRequest } from 'fastify';

import type { Authenticator } from '../auth/authenticate.ts';
import type { Bodies } from '../blobs/bodies.ts';
import type { Cells } from '../cells/cells.ts';
import type { GatewayConfig } from '../config.ts';
import type { Lookup } from '../lookup/lookup.ts';
import type { FairTurns } from '../graphql/fair-turns.ts';
import type { JobChannel } from '../jobs/channel.ts';
import type { JobCalls } from '../jobs/job-calls.ts';
import type { TrustedProxies } from './forwarded.ts';
import type { Log } from '../log.ts';
import type { GatewayMetrics } from '../metrics/metrics.ts';
import type { ClusterClient } from '../../lib/owner/cluster-list.ts';
import type { Tracing } from '../../lib/telemetry/tracing.ts';
import type { SharedBudget } from '../../lib/shared-budget.ts';
import type { UploadMonitor } from '../../lib/upload-monitor.ts';
import type { KeyRates } from './key-rates.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** The job that this request created. */
    newJobId: string | null;
  }
}

/** The queue of an endpoint: a cell's, or the development server's. */
export interface JobQueue {
  readonly channel: Pick<JobChannel, 'request' | 'abandon' | 'lost'>;
  readonly bodies: Pick<Bodies, 'put' | 'open' | 'read'>;
  readonly jobCalls: JobCalls;
}

/** The services of the routes about jobs. */
export interface JobServices {
  readonly config: Pick<GatewayConfig, 'corsOrigins' | 'maxRunBytes' | 'maxRunsyncBytes'>;
  readonly log: Pick<Log, 'warn' | 'error'>;
  readonly cells: {
    ofEndpoint(endpointId: string): JobQueue;
    atEndpoint<T>(endpointId: string, call: (queue: JobQueue) => Promise<T>): Promise<T>;
  };
  readonly lookup: Pick<Lookup, 'knownEndpoint' | 'endpointOf' | 'knownEndpointOf'>;
  readonly authenticator: Pick<Authenticator, 'cached' | 'authenticate'>;
  /** Memory of request bodies. */
  readonly memory: SharedBudget;
  /** Detects bodies that arrive too slowly. */
  readonly uploads: UploadMonitor;
  readonly proxies: TrustedProxies;
}

export interface Services extends JobServices {
  readonly config: GatewayConfig;
  readonly log: Log;
  readonly version: string;
  /** The connections to the owners of cells. */
  readonly cells: Cells;
  readonly cluster: ClusterClient;
  readonly lookup: Lookup;
  readonly metrics: GatewayMetrics;
  /** Permits reading the metrics; undefined when only keys do. */
  readonly metricsToken: string | undefined;
  readonly tracing: Tracing;
  readonly keyRates: KeyRates;
  /** Turns of GraphQL queries on the event loop. */
  readonly turns: FairTurns;
  /** Monotonic clock, ms. */
  readonly now: () => number;
  /** Aborted once the gateway is about to close: each response ends its connection. */
  readonly draining: AbortSignal;
}

/** Fields of a log line about a request. */
export function idsOf(request: FastifyRequest): {
  readonly requestId: string;
  readonly endpoint?: string;
  readonly job?: string | undefined;
} {
  const { endpointId, jobId } = (request.params ?? {}) as { endpointId?: string; jobId?: string };
  return {
    requestId: request.id,
    ...(endpointId === undefined ? {} : { endpoint: endpointId }),
    ...(jobId === undefined && request.newJobId === null ? {} : { job: request.newJobId ?? jobId }),
  };
}
