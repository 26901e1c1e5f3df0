/**
 * Watches the free space of the data folder's disk. Below the limit the scheduler accepts no new jobs, bodies or
 * builds, so that accepted work can still be run, answered and deleted.
 */
import { statfs } from 'node:fs/promises';

import { CapstanError } from '../../lib/errors.ts';

const LOOK_MS = 1_000;
/** Retry delay for callers, ms. */
const RETRY_AFTER_MS = 10_000;

export interface DiskSpace {
  /** Bytes that may still be written; space reserved for root is excluded. */
  readonly free: number;
  /** Bytes that are free or used. */
  readonly total: number;
}

export interface DiskWatchOptions {
  readonly folder: string;
  /** Share of the disk that must stay free, percent; 0: no limit. */
  readonly minFreePercent: number;
  /** Called when the limit is crossed, in either direction. */
  readonly onChange: (isLow: boolean) => void;
}

export class DiskWatch {
  readonly #options: DiskWatchOptions;
  #space: DiskSpace | null = null;
  #isLow = false;
  #timer: NodeJS.Timeout | undefined;

  private constructor(options: DiskWatchOptions) {
    this.#options = options;
  }

  /** Checks once, and then every second until it is closed. */
  static async open(options: DiskWatchOptions): Promise<DiskWatch> {
    const watch = new DiskWatch(options);
    await watch.#look();
    watch.#lookLater();
    return watch;
  }

  /** @throws CapstanError DISK_FULL if less than the limit is free, or would be after `bytes` more. */
  mustFit(bytes: number): void {
    if (this.#space === null) return;
    const { free, total } = this.#space;
    if (free - bytes < this.#bound(total)) throw diskFull(this.#options.minFreePercent);
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  #bound(total: number): number {
    return (total * this.#options.minFreePercent) / 100;
  }

  #lookLater(): void {
    this.#timer = setTimeout(() => {
      void this.#look().then(() => {
        if (this.#timer !== undefined) this.#lookLater();
      });
    }, LOOK_MS);
    this.#timer.unref();
  }

  async #look(): Promise<void> {
    this.#space = await spaceOf(this.#options.folder);
    const isLow = this.#space !== null && this.#space.free < this.#bound(this.#space.total);
    if (isLow === this.#isLow) return;
    this.#isLow = isLow;
    this.#options.onChange(isLow);
  }
}

/** Returns the space on the disk of a folder; null if the system does not report it. */
export async function spaceOf(folder: string): Promise<DiskSpace | null> {
  return statfs(folder).then(
    ({ bavail, bfree, blocks, bsize }) => ({ free: bavail * bsize, total: (blocks - bfree + bavail) * bsize }),
    () => null,
  );
}

/** Returns the error for requests that need more space. */
export function diskFull(minFreePercent: number): CapstanError {
  const message = `the disk of the scheduler's data folder has less than ${minFreePercent} % free space: new jobs, bodies and builds are rejected until there is more`;
  return new CapstanError('DISK_FULL', message, { retryAfterMs: RETRY_AFTER_MS });
}
