/** Channels to the scheduler and their credentials. */
import { Metadata, type ChannelOptions } from '@grpc/grpc-js';

import { nameCell } from '../../lib/cells.ts';
import { messageLimits } from '../../lib/batches.ts';
import { OwnerChannel } from '../../lib/owner/owner-channel.ts';
import type { OwnerFinder } from '../../lib/owner/owner-finder.ts';
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

/** Each client has a connection of its own to the owner. */
export function nodeClient(finder: OwnerFinder): NodeServiceClient {
  return new NodeServiceClient(finder.setting, finder.credentials, { channelOverride: new OwnerChannel(finder, OPTIONS) });
}

export function blobClient(finder: OwnerFinder): BlobServiceClient {
  return new BlobServiceClient(finder.setting, finder.credentials, { channelOverride: new OwnerChannel(finder, OPTIONS) });
}

/** docs/borders-grpc.md, Credentials over gRPC. */
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
