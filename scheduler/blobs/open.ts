/** Opens the blob store that the settings select, and the folder of builds that are being uploaded. */
import { join } from 'node:path';

import { holdsBodiesInS3, s3Of, type SchedulerConfig } from '../config.ts';
import type { PayloadKeys } from '../secrets/payload-keys.ts';
import type { BlobStore } from './blob-store.ts';
import { FileBlobStore } from './file-store.ts';
import { S3BlobStore } from './s3-store.ts';
import { sweepOrphans, type SweepOptions } from './sweep.ts';
import { markInFolder, StoreMark } from './store-mark.ts';
import { UnfinishedBuilds } from './unfinished-builds.ts';

const SWEEP_AGE_MS = 3_600_000;

export interface OpenedBlobs {
  readonly blobs: BlobStore;
  /** Always this scheduler's own: after a failover a client begins its upload anew. */
  readonly unfinished: UnfinishedBuilds;
  /** Names the store for all schedulers of the queue; null where it is this scheduler's own. */
  readonly mark: StoreMark | null;
  /** Removes what no row names. Only the owner of the queue may call it. */
  sweep(options: Omit<SweepOptions, 'ageMs'>): Promise<void>;
  close(): Promise<void>;
}

export interface OpenBlobsOptions {
  /** The data folder. */
  readonly folder: string;
  /** Encrypt and decrypt bodies. */
  readonly payloads: PayloadKeys;
  /** Called with failures of S3-compatible storage, for a log. */
  readonly onFault: (error: unknown) => void;
}

export async function openBlobs(config: SchedulerConfig, { folder, payloads, onFault }: OpenBlobsOptions): Promise<OpenedBlobs> {
  const own = join(folder, 'scheduler', 'blobs');
  const dir = config.blobDir ?? own;
  const files = await FileBlobStore.open(dir, { isShared: config.isBlobDirShared, payloads });
  const unfinished = await UnfinishedBuilds.open(join(config.isBlobDirShared ? own : dir, 'unfinished'));
  const s3 = s3Of(config);
  const blobs = s3 === null ? files : new S3BlobStore(files, s3, { holdsBodies: holdsBodiesInS3(config), onFault });
  return {
    blobs,
    unfinished,
    mark: markOf(config, dir, blobs),
    async sweep(options) {
      await Promise.all([
        sweepOrphans(blobs, { ...options, ageMs: SWEEP_AGE_MS }),
        blobs.sweepIncoming(SWEEP_AGE_MS),
        unfinished.sweep(SWEEP_AGE_MS),
      ]);
    },
    async close() {
      if (blobs instanceof S3BlobStore) await blobs.close();
    },
  };
}

/** Bodies decide: builds can be deployed again. */
function markOf(config: SchedulerConfig, dir: string, blobs: BlobStore): StoreMark | null {
  const folder = markInFolder(dir, `CAPSTAN_BLOB_DIR: ${dir}`);
  if (blobs instanceof S3BlobStore && holdsBodiesInS3(config)) return new StoreMark(blobs.mark, folder);
  return config.isBlobDirShared ? new StoreMark(folder) : null;
}
