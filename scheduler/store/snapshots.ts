/**
 * Copies of the queue's database for backups, made while everything serves. There is one at a time,
 * under one name in the data folder: a caller says that it wants one, never where.
 */
import { open, rm, stat, statfs } from 'node:fs/promises';
import { dirname } from 'node:path';

import { CapstanError } from '../../proto/errors.ts';
import { syncFolder } from '../files/durable.ts';

/** Bytes of the disk that a copy leaves to the queue, which ends when it cannot write. */
const LEFT_FREE_BYTES = 200_000_000;

export interface Snapshot {
  /** Absolute path. */
  readonly file: string;
  readonly bytes: number;
}

export class Snapshots {
  readonly #database: string;
  readonly #file: string;
  readonly #copy: (file: string) => Promise<void>;
  #busy = false;

  /** `copy` writes a consistent copy of `database` into a file that is there, and empty. */
  constructor(database: string, copy: (file: string) => Promise<void>) {
    this.#database = database;
    this.#file = `${database}.snapshot`;
    this.#copy = copy;
  }

  /** Removes what a backup that was cut off left. */
  async sweep(): Promise<void> {
    for (const file of [this.#file, `${this.#file}-journal`]) await rm(file, { force: true });
  }

  /**
   * Writes a copy in place of the last one; durable when it resolves.
   * @throws CapstanError CONFLICT while another is being written, or where the disk has no room; DATA_DIR when it fails.
   */
  async take(): Promise<Snapshot> {
    if (this.#busy) throw new CapstanError('CONFLICT', 'a copy of the database is being written already');
    this.#busy = true;
    try {
      await this.sweep();
      await this.#mustFit();
      await (await open(this.#file, 'wx', 0o600)).close();
      await this.#copy(this.#file);
      await syncFolder(dirname(this.#file));
      return { file: this.#file, bytes: (await stat(this.#file)).size };
    } catch (error) {
      await this.sweep();
      throw error;
    } finally {
      this.#busy = false;
    }
  }

  async #mustFit(): Promise<void> {
    const { bavail, bsize } = await statfs(dirname(this.#file));
    const sizes = await Promise.all([this.#database, `${this.#database}-wal`].map(async (file) => (await stat(file)).size));
    const wanted = sizes.reduce((sum, size) => sum + size, LEFT_FREE_BYTES);
    if (bavail * bsize >= wanted) return;
    throw new CapstanError('CONFLICT', `the disk of ${dirname(this.#file)} has ${bavail * bsize} bytes free; a copy needs ${wanted}`);
  }
}
