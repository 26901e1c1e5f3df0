/** Blobs: the store of builds and bodies, their service, their removal, and the sweep of those that no row names. */
import type { CapstanError } from '../../lib/errors.ts';
import type { BlobServiceServer } from '../../proto/gen/capstan/v1/blobs.ts';
import type { BlobStore } from '../blobs/blob-store.ts';
import { BodyRemover } from '../blobs/body-remover.ts';
import { isBodyId } from '../../lib/body-id.ts';
import { buildId } from '../blobs/ids.ts';
import { openBlobs, type OpenedBlobs } from '../blobs/open.ts';
import type { StoreMark } from '../blobs/store-mark.ts';
import { blobService, type BlobCaller, type BuildOwners } from '../blobs/service.ts';
import { UploadRoom } from '../blobs/upload-room.ts';
import type { SchedulerConfig } from '../config.ts';
import { buildUseOf, ownedBuild, runsBuild } from '../core/control/builds.ts';
import { buildQuotaOf } from '../core/endpoints/quotas.ts';
import { bodyRefusal } from '../core/jobs/body-use.ts';
import type { Engine } from '../engine/engine.ts';
import type { EngineLog } from '../engine/engine-options.ts';
import type { DiskWatch } from '../files/disk-watch.ts';
import type { PayloadKeys } from '../secrets/payload-keys.ts';
import type { Authorizer } from '../services/auth.ts';
import type { Store } from '../core/ports/store.ts';

const SWEEP_INTERVAL_MS = 600_000;

export interface BlobPartsOptions {
  readonly config: SchedulerConfig;
  /** The data folder. */
  readonly folder: string;
  readonly store: Store;
  readonly payloads: PayloadKeys;
  readonly log: EngineLog;
  /** Delay before bodies that no row names are removed, ms. */
  readonly bodyWaitMs: number | undefined;
}

export class BlobParts {
  readonly blobs: BlobStore;
  readonly bodies: BodyRemover;
  readonly #opened: OpenedBlobs;
  readonly #onFault: (error: unknown) => void;
  #sweep: NodeJS.Timeout | undefined;
  /** Set while this scheduler owns the queue. */
  #engine: Engine | null = null;

  private constructor(opened: OpenedBlobs, onFault: (error: unknown) => void, { store, bodyWaitMs }: BlobPartsOptions) {
    this.blobs = opened.blobs;
    this.#opened = opened;
    this.#onFault = onFault;
    const wait = bodyWaitMs === undefined ? {} : { waitMs: bodyWaitMs };
    const named = (ids: readonly string[]): Promise<string[]> => store.read('blobsNamed', ids);
    this.bodies = new BodyRemover({ store: this.blobs, named, mayRemove: () => this.#engine?.owns === true, onFault, ...wait });
  }

  static async open(options: BlobPartsOptions): Promise<BlobParts> {
    const { config, folder, payloads, log } = options;
    const onFault = (error: unknown): void => log.error({ err: error }, 'blob service failed');
    return new BlobParts(await openBlobs(config, { folder, payloads, onFault }), onFault, options);
  }

  get mark(): StoreMark | null {
    return this.#opened.mark;
  }

  /** Size of a build that is in the store, which keeps it for a while; null without one. */
  buildSize(digest: string): Promise<number | null> {
    return this.blobs.hold(buildId(digest));
  }

  /** Room of the accounts for uploads of builds. */
  uploadRoom(engine: Engine): UploadRoom {
    return new UploadRoom({
      unfinished: this.#opened.unfinished,
      built: (account) => buildUseOf(engine.state, account),
      quota: (account) => buildQuotaOf(engine.state, account),
    });
  }

  service({ engine, auth, disk, uploads }: BlobServiceDeps): BlobServiceServer {
    return blobService({
      store: this.blobs,
      unfinished: this.#opened.unfinished,
      authorize: auth.blobs.bind(auth),
      owners: buildOwners(engine),
      isLeased: (node, body) => auth.inputs.leasedTo(node, body) !== undefined,
      onDamaged: (node, body, damage) => {
        const leased = auth.inputs.leasedTo(node, body);
        if (leased !== undefined) engine.handle({ kind: 'input-damaged', node, job: leased.job, token: leased.token, damage });
      },
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

  /**
   * Starts to remove blobs that no row names, at once and every ten minutes. At once only builds: an agent that was
   * without a scheduler for longer than the age of orphans still has to name the bodies of its results.
   */
  startSweep(engine: Engine): void {
    this.#engine = engine;
    const sweep = (spares: (id: string) => boolean): void => {
      if (!engine.owns) return;
      this.#opened.sweep({ named: (ids) => namedBlobs(engine, ids), mayRemove: () => engine.owns, spares }).catch((error: unknown) => {
        // The next owner sweeps, too.
        if (engine.owns) this.#onFault(error);
      });
    };
    sweep(isBodyId);
    clearInterval(this.#sweep);
    this.#sweep = setInterval(() => sweep(() => false), SWEEP_INTERVAL_MS);
  }

  stopSweep(): void {
    clearInterval(this.#sweep);
    this.#engine = null;
    this.bodies.forget();
  }

  /** Resolves when no removal is in progress. */
  async close(): Promise<void> {
    this.stopSweep();
    await this.bodies.close();
    await this.#opened.close();
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
