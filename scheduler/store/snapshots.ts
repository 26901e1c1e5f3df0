/**
 * Copies of the queue's database for backups, made while the service runs. There is one at a time, under one name in
 * the data folder: a caller cannot choose the path. The master keys that decrypt it are stored beside it, because the
 * present key may have changed by the time the copy is fetched.
 */
import { open, rm, stat, statfs } from 'node:fs/promises';
import { dirname } from 'node:path';

import { createDurably, syncPath } from '../../lib/durable.ts';
import { CapstanError } from '../../lib/errors.ts';

/** Free bytes that a copy must leave on the disk: the queue ends if it cannot write. */
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
  readonly #keys: () => string;
  #busy = false;

  /**
   * `copy` writes a consistent copy of `database` into an existing empty file. `keys` are the master keys that decrypt
   * the database, one per line, the present one first.
   */
  constructor(database: string, copy: (file: string) => Promise<void>, keys: () => string) {
    this.#database = database;
    this.#file = `${database}.snapshot`;
    this.#copy = copy;
    this.#keys = keys;
  }

  /** Whether a copy is being written. */
  get busy(): boolean {
    return this.#busy;
  }

  /** Removes the files of an interrupted backup. */
  async sweep(): Promise<void> {
    for (const file of [this.#file, `${this.#file}-journal`, keysOf(this.#file)]) await rm(file, { force: true });
  }

  /**
   * Writes a copy that replaces the previous one; durable when it resolves.
   * @throws CapstanError CONFLICT while another is being written, or if the disk has no space; DATA_DIR if it fails.
   */
  async take(): Promise<Snapshot> {
    if (this.#busy) throw new CapstanError('CONFLICT', 'another copy of the database is being written');
    this.#busy = true;
    try {
      await this.sweep();
      await this.#mustFit();
      await (await open(this.#file, 'wx', 0o600)).close();
      const before = this.#keys();
      await this.#copy(this.#file);
      // The key may be replaced in the meantime: then the copy has values under either key. No second rotation begins
      // during a copy.
      await createDurably(keysOf(this.#file), union(this.#keys(), before));
      await syncPath(dirname(this.#file));
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
    throw new CapstanError('CONFLICT', `the disk of ${dirname(this.#file)} has ${bavail * bsize} bytes free; a copy requires ${wanted}`);
  }
}

/** The keys of a copy are stored beside it until the caller has fetched both. */
function keysOf(file: string): string {
  return `${file}.keys`;
}

function union(first: string, more: string): string {
  const lines = [...first.split('\n'), ...more.split('\n')].filter((line) => line !== '');
  return [...new Set(lines)].map((line) => `${line}\n`).join('');
}
