/**
 * The blob store interface that the services use: a folder (file-store.ts), or a folder with builds in S3
 * (s3-store.ts).
 */
import type { FileBlobStore } from './file-store.ts';

export type BlobStore = Pick<
  FileBlobStore,
  'put' | 'adopt' | 'get' | 'size' | 'hold' | 'delete' | 'olderThan' | 'isOlderThan' | 'wasPutWithin'
>;
