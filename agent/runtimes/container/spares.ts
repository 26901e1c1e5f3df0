/**
 * Containers started ahead of time. To the engine, a spare is the container that a worker started a short while ago had
 * (same image, devices, limits, network); our bootstrap waits in it to be assigned to a worker. A spare therefore holds
 * nothing that another worker could miss: a device that a spare may use is untouched until a worker that was given the
 * device moves in.
 *
 * The pool is level-triggered. Desired is one spare for each of the most recently used shapes, up to the limit, and
 * none when memory is short. Surplus spares are ended; missing ones are started, one at a time.
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

/** Delay before a spare is started, ms: workers that just started get the processor for their first jobs. */
const REFILL_DELAY_MS = 1_000;
/** A host with less free memory than this has no spares: a share, and bytes. */
const FREE_SHARE = 0.1;
const FREE_BYTES = 512 * 1024 * 1024;

/** Number and lifetime of spares (CAPSTAN_CONTAINER_SPARES, CAPSTAN_CONTAINER_SPARE_MS). */
export interface SpareLimits {
  readonly count: number;
  /** How long a spare is kept after the last start or end of a worker of its shape, ms. */
  readonly keptMs: number;
}

/** A spare as the pool sees it. */
export type SpareHost = Pick<ContainerHost, 'isUp' | 'gone' | 'up' | 'exited' | 'kill'>;

export interface SparesOptions<H extends SpareHost> {
  readonly limits: SpareLimits;
  /** Parent of the containers' folders, one for each. */
  readonly folder: string;
  /** As ContainerSpecBuilder.keyOf. */
  readonly keyOf: (shape: ContainerShape) => string | undefined;
  /** Starts a container of the shape with this build folder; fails if the image is missing. */
  readonly launch: (shape: ContainerShape, start: string, build: string) => H;
  readonly log: Logger;
  /** Monotonic ms. */
  readonly now?: () => number;
  /** The host has free memory for spares. */
  readonly hasRoom?: () => boolean;
}

/** A container that was assigned to a worker. */
export interface Taken<H> {
  readonly start: string;
  readonly host: H;
  /** Resolves when the build is in it; rejects when placing it fails. */
  readonly filled: Promise<void>;
}

interface Use {
  readonly shape: ContainerShape;
  /** Of the most recent worker. */
  build: string;
  at: number;
}

interface Spare<H> {
  readonly key: string;
  readonly start: string;
  readonly host: H;
  readonly folder: string;
  /** The build that fills its build folder. */
  readonly build: string;
  /** The pool ended it. */
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
  /** Leftovers of an earlier agent are removed. */
  #swept: Promise<void> | undefined;
  #timer: NodeJS.Timeout | undefined;
  #isOff = false;

  constructor(options: SparesOptions<H>) {
    this.#options = options;
    this.#now = options.now ?? (() => performance.now());
    this.#hasRoom = options.hasRoom ?? hostHasRoom;
    this.#isOff = options.limits.count === 0;
  }

  /** Returns a spare for a worker of this shape, if there is one; prefers a spare that already has the build. */
  take(shape: ContainerShape, build: string): Taken<H> | undefined {
    const key = this.#options.keyOf(shape);
    const fitting = [...this.#spares].filter((spare) => spare.key === key && spare.host.isUp && !spare.host.gone);
    const spare = fitting.find((each) => each.build === build) ?? fitting[0];
    if (spare === undefined) return undefined;
    this.#spares.delete(spare);
    return { start: spare.start, host: spare.host, filled: spare.build === build ? Promise.resolve() : refill(spare, build) };
  }

  /** Records that a worker of this shape has started or ended: another one may follow. */
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

  /** Ends surplus spares and starts missing ones. Must be called periodically: time, memory and images change. */
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

  /** Ends all spares; resolves when none is left. */
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
      // A spare that exits by itself shows that the next one would, too: the next worker's own start reports the
      // reason.
      if (!(await host.up) && !spare.isEnded) this.#forget(key, use);
    } catch (error) {
      await removeFolder(folder);
      // For example an evicted build. The next use has another one.
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

/** A folder that remains is removed at the agent's next start. */
async function removeFolder(folder: string): Promise<void> {
  await rm(folder, { recursive: true, force: true, maxRetries: 3 }).catch(() => undefined);
}

function hostHasRoom(): boolean {
  return freemem() >= Math.max(FREE_BYTES, totalmem() * FREE_SHARE);
}
