/** Channels to the scheduler and their credentials. */
import { Metadata, type ChannelCredentials, type ChannelOptions } from '@grpc/grpc-js';

import { nameCell } from '../../lib/cells.ts';
import { messageLimits } from '../../lib/batches.ts';
import { NodeServiceClient } from '../../proto/gen/capstan/v1/nodes.ts';
import { BlobServiceClient } from '../../proto/gen/capstan/v1/blobs.ts';
import type { Identity } from './identity.ts';

/** Keeps the library's own delays between dials below ours. */
const OPTIONS: ChannelOptions = {
  ...messageLimits,
  'grpc.initial_reconnect_backoff_ms': 50,
  'grpc.max_reconnect_backoff_ms': 2_000,
  'grpc.use_local_subchannel_pool': 1,
  'grpc.enable_retries': 0,
};

/** Address of the scheduler, and security of the connection to it. */
export interface SchedulerTarget {
  readonly address: string;
  readonly credentials: ChannelCredentials;
}

export function nodeClient({ address, credentials }: SchedulerTarget): NodeServiceClient {
  return new NodeServiceClient(address, credentials, OPTIONS);
}

export function blobClient({ address, credentials }: SchedulerTarget): BlobServiceClient {
  return new BlobServiceClient(address, credentials, OPTIONS);
}

/** docs/borders.md, Credentials over gRPC. */
export function nodeMetadata(identity: Identity): Metadata {
  const metadata = new Metadata();
  metadata.set('authorization', `Bearer ${identity.nodeSecret}`);
  metadata.set('capstan-node', identity.nodeId);
  nameCell(metadata, identity.cell);
  return metadata;
}

/** Metadata of a call without an identity, for a cell. */
export function joinMetadata(cell: string): Metadata {
  const metadata = new Metadata();
  nameCell(metadata, cell);
  return metadata;
}
