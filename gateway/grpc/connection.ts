/**
 * Connections to the scheduler. The job channel has its own; unary calls and bodies share a second one, so that a 20 MB
 * body does not delay a submission.
 */
import { ADDRESS_KEY, GATEWAY_KEY } from '../../lib/caller-address.ts';
import { Metadata, type ChannelOptions } from '@grpc/grpc-js';

import { nameCell } from '../../lib/cells.ts';
import { messageLimits } from '../../lib/batches.ts';

/** First and longest wait before a broken connection is opened again, ms. */
const BACKOFF_MIN_MS = 50;
const BACKOFF_MAX_MS = 1000;

export const channelOptions: ChannelOptions = {
  'grpc.initial_reconnect_backoff_ms': BACKOFF_MIN_MS,
  'grpc.max_reconnect_backoff_ms': BACKOFF_MAX_MS,
  'grpc.dns_min_time_between_resolutions_ms': BACKOFF_MAX_MS,
  'grpc.keepalive_time_ms': 10_000,
  'grpc.keepalive_timeout_ms': 5000,
  'grpc.keepalive_permit_without_calls': 1,
  ...messageLimits,
  // The client has its own connection.
  'grpc.use_local_subchannel_pool': 1,
  // The gateway retries idempotent calls itself; the library's retries would buffer every message again.
  'grpc.enable_retries': 0,
  'grpc.enable_channelz': 0,
  'grpc-node.flow_control_window': 4 * 1024 * 1024,
  'grpc.enable_http_proxy': 0,
};

/** Where a call comes from, for the audit log, and the gateway's token, by which the scheduler believes it. */
export interface CallOrigin {
  readonly address: string;
  readonly gatewayToken: string;
}

/** Metadata of every call to a cell. `waitForReady`: wait for the connection instead of failing while it is unavailable. */
export function callMetadata(token: string, waitForReady: boolean, cell: string, origin?: CallOrigin): Metadata {
  const metadata = new Metadata({ waitForReady });
  metadata.set('authorization', `Bearer ${token}`);
  if (origin !== undefined) {
    metadata.set(ADDRESS_KEY, origin.address);
    metadata.set(GATEWAY_KEY, origin.gatewayToken);
  }
  nameCell(metadata, cell);
  return metadata;
}
