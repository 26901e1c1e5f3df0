/** Blobs: the store of builds and bodies, their service, their removal, and the sweep of those that no row names. */
import { join } from 'node:path';

import type { CapstanError } from '../../lib/errors.ts';
import type { BlobServiceServer } from '../../proto/gen/capstan/v1/blobs.ts';
import type { BlobStore } from '../blobs/blob-store.ts';
import { BodyRemover } from '../blobs/body-remover.ts';
import { FileBlobStore } from '../blobs/file-store.ts';
import { buildId } from '../blobs/ids.ts';
import { S3BlobStore } from '../blobs/s3-store.ts';
import { blobService, type BlobCaller, type BuildOwners } from '../blobs/service.ts';
import { sweepOrphans } from '../blobs/sweep.ts';
import { UnfinishedBuilds } from '../blobs/unfinished-builds.ts';
import { UploadRoom } from '../blobs/upload-room.ts';
import { s3Of, type SchedulerConfig } from '../config.ts';
import { buildUseOf, ownedBuild, runsBuild } from '../core/control/builds.ts';
import { buildQuotaOf } from '../core/control/keys.ts';
import { bodyRefusal } from '../core/jobs/body-use.ts';
import type { Engine, EngineLog } from '../engine/engine.ts';
import type { DiskWatch } from '../files/disk-watch.ts';
import type { Authorizer } from '../services/auth.ts';
import type { Store } from '../store/store.ts';

const SWEEP_INTERVAL_MS = 600_000;
const SWEEP_AGE_MS = 3_600_000;

export interface BlobPartsOptions {
  readonly config: SchedulerConfig;
  /** The data folder. */
  readonly folder: string;
  readonly store: Store;
  readonly log: EngineLog;
  /** Delay before bodies that no row names are removed, ms. */
  readonly bodyWaitMs: number | undefined;
}

export class BlobParts {
  readonly blobs: BlobStore;
  readonly bodies: BodyRemover;
  readonly #unfinished: UnfinishedBuilds;
  readonly #onFault: (error: unknown) => void;
  #sweep: NodeJS.Timeout | undefined;

  private constructor(blobs: BlobStore, unfinished: UnfinishedBuilds, { store, log, bodyWaitMs }: BlobPartsOptions) {
    this.blobs = blobs;
    this.#unfinished = unfinished;
    this.#onFault = (error) => log.error({ err: error }, 'blob service failed');
    const wait = bodyWaitMs === undefined ? {} : { waitMs: bodyWaitMs };
    this.bodies = new BodyRemover({ store: blobs, named: (ids) => store.read('blobsNamed', ids), onFault: this.#onFault, ...wait });
  }

  static async open(options: BlobPartsOptions): Promise<BlobParts> {
    const { config, folder } = options;
    const dir = config.blobDir ?? join(folder, 'scheduler', 'blobs');
    const files = await FileBlobStore.open(dir);
    const s3 = s3Of(config);
    return new BlobParts(s3 === null ? files : new S3BlobStore(files, s3), await UnfinishedBuilds.open(join(dir, 'unfinished')), options);
  }

  /** Size of a build that is in the store, which keeps it for a while; null without one. */
  buildSize(digest: string): Promise<number | null> {
    return this.blobs.hold(buildId(digest));
  }

  /** Room of the accounts for uploads of builds. */
  uploadRoom(engine: Engine): UploadRoom {
    return new UploadRoom({
      unfinished: this.#unfinished,
      built: (account) => buildUseOf(engine.state, account),
      quota: (account) => buildQuotaOf(engine.state, account),
    });
  }

  service({ engine, auth, disk, uploads }: BlobServiceDeps): BlobServiceServer {
    return blobService({
      store: this.blobs,
      unfinished: this.#unfinished,
      authorize: auth.blobs.bind(auth),
      owners: buildOwners(engine),
      isLeased: (node, body) => auth.inputs.has(node, body),
      mustFit: (caller: BlobCaller, bytes: number): void => {
        // Nodes send ends of accepted jobs: they are stored as long as the disk has any space.
        if (caller.kind !== 'node') disk.mustFit(bytes);
      },
      uploads,
      bodyRefusal: (account: string, size: number, underWay: number): CapstanError | null =>
        bodyRefusal(engine.state, account, { size, adds: underWay, field: 'input' }),
      onFault: this.#onFault,
    });
  }

  /** Starts to remove blobs that no row names, at once and every ten minutes. */
  startSweep(engine: Engine): void {
    const sweepNow = (): void => {
      sweepOrphans(this.blobs, { ageMs: SWEEP_AGE_MS, named: (ids) => namedBlobs(engine, ids) }).catch(this.#onFault);
      this.#unfinished.sweep(SWEEP_AGE_MS).catch(this.#onFault);
    };
    // Also sweeps at once: a scheduler that restarts repeatedly must not accumulate what each crash leaves.
    sweepNow();
    clearInterval(this.#sweep);
    this.#sweep = setInterval(sweepNow, SWEEP_INTERVAL_MS);
  }

  stopSweep(): void {
    clearInterval(this.#sweep);
  }
}

export interface BlobServiceDeps {
  readonly engine: Engine;
  readonly auth: Authorizer;
  readonly disk: DiskWatch;
  readonly uploads: UploadRoom;
}

function buildOwners(engine: Engine): BuildOwners {
  return {
    owns: (account, digest) => ownedBuild(engine.state, account, digest) !== undefined,
    runs: (node, digest) => runsBuild(engine.state, node, digest),
    record: async (account, digest, size) => {
      await engine.command({ kind: 'put-build', account, digest, size });
    },
  };
}

/** Control rows name builds; the rows of jobs name bodies. */
async function namedBlobs(engine: Engine, ids: readonly string[]): Promise<string[]> {
  const builds = ids.filter((id) => engine.state.builds.has(id.replace(/^build\//, '')));
  return [...builds, ...(await engine.read('blobsNamed', ids))];
}
