/** What the services want of a store of blobs: the folder of file-store.ts, or that with builds elsewhere (s3-store.ts). */
import type { FileBlobStore } from './file-store.ts';

export type BlobStore = Pick<
  FileBlobStore,
  'put' | 'adopt' | 'get' | 'size' | 'hold' | 'delete' | 'olderThan' | 'isOlderThan' | 'wasPutWithin'
>;
