/**
 * Containers started ahead. A spare is the container that a worker started a short while ago had, as far as
 * the engine is concerned (same image, devices, limits, network), with our bootstrap in it that waits to be
 * told whose it is. So no spare holds anything that another worker could miss: a device that a spare may
 * use is untouched until a worker that was given it moves in.
 *
 * Level-triggered: wanted is one spare for each of the shapes that were used last, as many as there may be,
 * and none where memory is short. What is there and not wanted ends; what is missing is started, one at a time.
 */
import { randomUUID } from 'node:crypto';
import { freemem, totalmem } from 'node:os';
import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';

import type { Logger } from 'pino';

import { messageOf } from '../../../lib/to-error.ts';
import { emptyFolder, linkBuild } from './build-links.ts';
import type { ContainerHost } from './container-host.ts';
import type { ContainerShape } from './container-spec.ts';

/** A spare is started once the workers that just started have had the processor for their first jobs, ms. */
const REFILL_DELAY_MS = 1_000;
/** A host with less of its memory free than this has no spares: a share, and bytes. */
const FREE_SHARE = 0.1;
const FREE_BYTES = 512 * 1024 * 1024;

/** How many, how long (CAPSTAN_CONTAINER_SPARES, CAPSTAN_CONTAINER_SPARE_MS). */
export interface SpareLimits {
  readonly count: number;
  /** Time after the last start or end of a worker of its shape that a spare is kept, ms. */
  readonly keptMs: number;
}

/** What a spare is to this pool. */
export type SpareHost = Pick<ContainerHost, 'isUp' | 'gone' | 'up' | 'exited' | 'kill'>;

export interface SparesOptions<H extends SpareHost> {
  readonly limits: SpareLimits;
  /** Folder of the containers, a subfolder for each. */
  readonly folder: string;
  /** As WorkerOrders.keyOf. */
  readonly keyOf: (shape: ContainerShape) => string | undefined;
  /** Starts a container of the shape that has this build folder; its image is there, or it is none. */
  readonly launch: (shape: ContainerShape, start: string, build: string) => H;
  readonly log: Logger;
  /** Monotonic ms. */
  readonly now?: () => number;
  /** The host has memory to spare. */
  readonly hasRoom?: () => boolean;
}

/** A container that has become a worker's. */
export interface Taken<H> {
  readonly start: string;
  readonly host: H;
  /** The build is in it; rejects when it cannot be put there. */
  readonly filled: Promise<void>;
}

interface Use {
  readonly shape: ContainerShape;
  /** The last worker's. */
  build: string;
  at: number;
}

interface Spare<H> {
  readonly key: string;
  readonly start: string;
  readonly host: H;
  readonly folder: string;
  /** What its build folder is filled with. */
  readonly build: string;
  /** We ended it. */
  isEnded: boolean;
}

export class ContainerSpares<H extends SpareHost = ContainerHost> {
  readonly #options: SparesOptions<H>;
  readonly #now: () => number;
  readonly #hasRoom: () => boolean;
  /** By key, the least recently used first. */
  readonly #uses = new Map<string, Use>();
  readonly #spares = new Set<Spare<H>>();
  #starting: Promise<void> | undefined;
  /** What an earlier agent left is gone. */
  #swept: Promise<void> | undefined;
  #timer: NodeJS.Timeout | undefined;
  #isOff = false;

  constructor(options: SparesOptions<H>) {
    this.#options = options;
    this.#now = options.now ?? (() => performance.now());
    this.#hasRoom = options.hasRoom ?? hostHasRoom;
    this.#isOff = options.limits.count === 0;
  }

  /** A spare for a worker of this shape, if there is one; the one that has the build already is preferred. */
  take(shape: ContainerShape, build: string): Taken<H> | undefined {
    const key = this.#options.keyOf(shape);
    const fitting = [...this.#spares].filter((spare) => spare.key === key && spare.host.isUp && !spare.host.gone);
    const spare = fitting.find((each) => each.build === build) ?? fitting[0];
    if (spare === undefined) return undefined;
    this.#spares.delete(spare);
    return { start: spare.start, host: spare.host, filled: spare.build === build ? Promise.resolve() : refill(spare, build) };
  }

  /** A worker of this shape has started or ended: the next one may come soon. */
  used(shape: ContainerShape, build: string): void {
    const key = this.#options.keyOf(shape);
    if (this.#isOff || key === undefined) return;
    this.#uses.delete(key);
    this.#uses.set(key, { shape, build, at: this.#now() });
    this.#convergeLater(REFILL_DELAY_MS);
  }

  /** Spares that wait. */
  get ready(): number {
    return [...this.#spares].filter(({ host }) => host.isUp && !host.gone).length;
  }

  /** Ends what is not wanted, starts what is missing. To be called now and then: time, memory and images change. */
  converge(): void {
    const wanted = this.#wanted();
    for (const spare of this.#spares) if (!wanted.has(spare.key)) this.#end(spare);
    const missing = [...wanted].find(([key]) => [...this.#spares].every((spare) => spare.key !== key));
    if (missing === undefined || this.#starting !== undefined) return;
    this.#starting = this.#start(...missing).finally(() => {
      this.#starting = undefined;
      if (!this.#isOff) this.converge();
    });
  }

  /** Ends them all; resolves when none is there. */
  async close(): Promise<void> {
    this.#isOff = true;
    clearTimeout(this.#timer);
    const hosts = [...this.#spares].map(({ host }) => host.exited);
    for (const spare of this.#spares) this.#end(spare);
    await Promise.all([...hosts, this.#starting]);
  }

  #wanted(): Map<string, Use> {
    const { limits, keyOf } = this.#options;
    const oldest = this.#now() - limits.keptMs;
    for (const [key, { at, shape }] of this.#uses) if (at < oldest || keyOf(shape) !== key) this.#uses.delete(key);
    if (this.#isOff || !this.#hasRoom()) return new Map();
    return new Map([...this.#uses].slice(-limits.count).reverse());
  }

  #convergeLater(ms: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.converge(), ms).unref();
  }

  async #start(key: string, use: Use): Promise<void> {
    const { folder: folders, launch, log } = this.#options;
    const start = randomUUID();
    const folder = join(folders, start);
    const { shape, build } = use;
    try {
      await (this.#swept ??= removeFolder(folders));
      const own = join(folder, 'build');
      await mkdir(own, { recursive: true });
      await linkBuild(build, own);
      if (this.#isOff) {
        await removeFolder(folder);
        return;
      }
      const host = launch(shape, start, own);
      const spare: Spare<H> = { key, start, host, folder, build, isEnded: false };
      this.#spares.add(spare);
      void host.exited.then(async () => {
        this.#spares.delete(spare);
        await removeFolder(folder);
      });
      // One that ends by itself shows that the next one would, too: the next worker's own start tells why.
      if (!(await host.up) && !spare.isEnded) this.#forget(key, use);
    } catch (error) {
      await removeFolder(folder);
      // An evicted build, for instance. The next use has another.
      this.#forget(key, use);
      log.warn({ image: shape.image, reason: messageOf(error) }, 'creating a spare container failed');
    }
  }

  #forget(key: string, use: Use): void {
    if (this.#uses.get(key) === use) this.#uses.delete(key);
  }

  #end(spare: Spare<H>): void {
    this.#spares.delete(spare);
    spare.isEnded = true;
    spare.host.kill('the spare container is no longer needed');
  }
}

async function refill({ folder }: Spare<SpareHost>, build: string): Promise<void> {
  const own = join(folder, 'build');
  await emptyFolder(own, join(folder, `was-${randomUUID()}`));
  await linkBuild(build, own);
}

/** A folder that stays is removed with all others by the agent's next start. */
async function removeFolder(folder: string): Promise<void> {
  await rm(folder, { recursive: true, force: true, maxRetries: 3 }).catch(() => undefined);
}

function hostHasRoom(): boolean {
  return freemem() >= Math.max(FREE_BYTES, totalmem() * FREE_SHARE);
}
