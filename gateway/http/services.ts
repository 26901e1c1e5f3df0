/** What the HTTP routes work with. */
import type { Metadata } from '@grpc/grpc-js';

import type { Authenticator } from '../auth/authenticate.ts';
import type { Bodies } from '../blobs/bodies.ts';
import type { GatewayConfig } from '../config.ts';
import type { Lookup } from '../directory/lookup.ts';
import type { JobChannel } from '../jobs/channel.ts';
import type { Budget } from '../limits/budget.ts';
import type { Log } from '../log.ts';
import type { JobServiceClient } from '../../proto/gen/capstan/v1/jobs.ts';

export interface Services {
  readonly config: GatewayConfig;
  readonly log: Log;
  readonly version: string;
  readonly channel: JobChannel;
  readonly jobs: JobServiceClient;
  /** For unary calls: waits for the connection within the call's deadline. */
  readonly metadata: Metadata;
  readonly bodies: Bodies;
  readonly lookup: Lookup;
  readonly authenticator: Authenticator;
  /** Memory of request bodies. */
  readonly memory: Budget;
  /** True once the gateway closes: new requests are refused. */
  readonly closing: () => boolean;
}
