/** The connections to the owner of one cell, and what they keep up to date. */
import type { ChannelCredentials, Metadata } from '@grpc/grpc-js';

import { BlobServiceClient } from '../../proto/gen/capstan/v1/blobs.ts';
import { ControlServiceClient } from '../../proto/gen/capstan/v1/control.ts';
import { GatewayServiceClient } from '../../proto/gen/capstan/v1/invoke.ts';
import { JobServiceClient } from '../../proto/gen/capstan/v1/jobs.ts';
import { OwnerChannel } from '../../lib/owner/owner-channel.ts';
import { OwnerFinder } from '../../lib/owner/owner-finder.ts';
import { Bodies } from '../blobs/bodies.ts';
import type { GatewayConfig } from '../config.ts';
import type { Directory } from '../directory/directory.ts';
import { DirectoryWatch } from '../directory/watch.ts';
import { callMetadata, channelOptions } from '../grpc/connection.ts';
import { LoadReport, type LoadReportOptions } from '../invoke/report.ts';
import { JobChannel } from '../jobs/channel.ts';
import { SchedulerJobCalls, type JobCalls } from '../jobs/job-calls.ts';
import type { Budget } from '../limits/budget.ts';
import type { Log } from '../log.ts';

export interface CellLinkOptions {
  readonly config: GatewayConfig;
  readonly token: string;
  readonly credentials: ChannelCredentials;
  readonly directory: Directory;
  /** Pending requests of all cells together. */
  readonly inFlight: Budget;
  readonly load: Pick<LoadReportOptions, 'level' | 'endpoints' | 'takeRoutes' | 'onRemovedNodes' | 'onUnreachedBy' | 'onUnservable'>;
  readonly log: Log;
  /** The cell that has an endpoint by now, if this one's owner does not know it. */
  readonly elsewhere: (endpointId: string) => Promise<CellLink | undefined>;
  /** Monotonic clock, ms. */
  readonly now: () => number;
}

/** A failover takes less. */
const UNREACHED_READINGS = 5;

export class CellLink {
  readonly name: string;
  /** The gateway's token at this cell. */
  readonly token: string;
  readonly channel: JobChannel;
  readonly jobCalls: JobCalls;
  readonly control: ControlServiceClient;
  readonly blobs: BlobServiceClient;
  readonly bodies: Bodies;
  readonly watch: DirectoryWatch;
  readonly report: LoadReport;
  /** For unary calls: waits for the connection within the call's deadline. */
  readonly metadata: Metadata;
  /** The same, but fails at once while there is no connection. */
  readonly quickMetadata: Metadata;
  readonly #finder: OwnerFinder;
  readonly #channelClient: JobServiceClient;
  readonly #jobs: JobServiceClient;
  readonly #log: Log;
  /** Readings of the list in a row that showed an owner without a connection to it. */
  #unreached = 0;

  constructor(name: string, { config, token, credentials, directory, inFlight, load, log, elsewhere, now }: CellLinkOptions) {
    this.name = name;
    this.token = token;
    this.#log = log;
    this.#finder = new OwnerFinder({ setting: config.scheduler, credentials, log, cell: () => name });
    this.#finder.start();
    this.metadata = callMetadata(token, true, name);
    this.quickMetadata = callMetadata(token, false, name);
    const own = { channelOverride: new OwnerChannel(this.#finder, channelOptions) };
    // One connection for unary calls and bodies.
    const shared = { channelOverride: new OwnerChannel(this.#finder, channelOptions) };
    this.#channelClient = new JobServiceClient(config.scheduler, credentials, own);
    this.#jobs = new JobServiceClient(config.scheduler, credentials, shared);
    this.control = new ControlServiceClient(config.scheduler, credentials, shared);
    this.blobs = new BlobServiceClient(config.scheduler, credentials, shared);
    this.bodies = new Bodies(this.blobs, this.metadata, config.submitTimeoutMs, now);
    this.watch = new DirectoryWatch({ client: this.control, metadata: this.metadata, directory, cell: name, log });
    this.channel = new JobChannel(this.#channelClient, this.metadata, {
      inFlight,
      submitTimeoutMs: config.submitTimeoutMs,
      readTimeoutMs: config.readTimeoutMs,
      elsewhere: async (endpointId) => (await elsewhere(endpointId))?.channel,
      log,
      now,
    });
    this.jobCalls = new SchedulerJobCalls({
      jobs: this.#jobs,
      channel: this.channel,
      metadata: this.metadata,
      timeoutMs: config.readTimeoutMs,
    });
    this.report = new LoadReport({
      client: new GatewayServiceClient(config.scheduler, credentials, shared),
      metadata: this.metadata,
      log,
      ...load,
    });
  }

  get term(): bigint | undefined {
    return this.#finder.term;
  }

  /**
   * The list of cells shows an owner. Says so once when it stays out of reach: a finder that knows none of the cell's schedulers
   * finds nothing, however long it searches.
   */
  seen(owner: string): void {
    this.#unreached = this.channel.connected ? 0 : this.#unreached + 1;
    if (this.#unreached !== UNREACHED_READINGS) return;
    this.#log.warn(
      { cell: this.name, owner },
      'the owner of the cell is unreachable; CAPSTAN_SCHEDULER of this gateway must list the schedulers of all cells',
    );
  }

  close(): void {
    this.report.close();
    this.watch.close();
    this.channel.close();
    this.#channelClient.close();
    this.#jobs.close();
    this.#finder.close();
  }
}
