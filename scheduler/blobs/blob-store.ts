/**
 * The blob store interface that the services use: a folder (file-store.ts), or S3-compatible storage
 * (s3-store.ts).
 */
import type { FileBlobStore } from './file-store.ts';

export type BlobStore = Pick<
  FileBlobStore,
  'put' | 'adopt' | 'get' | 'size' | 'hold' | 'delete' | 'olderThan' | 'isOlderThan' | 'wasPutWithin' | 'sweepIncoming'
>;
