/**
 * The master keys in the `secrets` of a data folder, and in memory what was last read of them.
 *
 * | File | Holds |
 * |---|---|
 * | `master-key` | the present key |
 * | `master-key.old` | earlier keys, exactly while values may still be encrypted with them |
 * | `master-key.next` | a key that a rotation will make the present one, once every scheduler has it |
 */
import { randomBytes } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

import { createDurably, removeDurably } from '../../lib/durable.ts';
import { CapstanError } from '../../lib/errors.ts';
import { isErrno } from '../../lib/to-error.ts';
import { MASTER_KEY_BYTES, masterKeyId } from './cipher.ts';
import { forgetOlderKeys, keyLines, readOlderKeys, replaceMasterKey } from './master-key-files.ts';

const NEXT = 'master-key.next';

export class HeldKeys {
  readonly #secrets: string;
  #present: Buffer;
  #older: readonly Buffer[];
  #next: Buffer | null = null;

  /** @param secrets path of the folder. */
  constructor(secrets: string, present: Buffer, older: readonly Buffer[]) {
    this.#secrets = secrets;
    this.#present = present;
    this.#older = withoutPresent(older, present);
  }

  get present(): Buffer {
    return this.#present;
  }

  /** Newest first. */
  get older(): readonly Buffer[] {
    return this.#older;
  }

  /** Ids of all keys, the present one first. */
  get ids(): readonly string[] {
    return [this.#present, ...this.#older, ...(this.#next === null ? [] : [this.#next])].map(masterKeyId);
  }

  get nextId(): string | null {
    return this.#next === null ? null : masterKeyId(this.#next);
  }

  get nextFile(): string {
    return join(this.#secrets, NEXT);
  }

  /** The keys that decrypt all stored values: the present key, then earlier ones, one per line. Secret. */
  get text(): string {
    return keyLines([this.#present, ...this.#older]);
  }

  /** Reads what an operator may have copied into the folder. A file that is being copied counts as missing. */
  async reread(): Promise<void> {
    await this.readNext();
    const present = await readKey(join(this.#secrets, 'master-key'));
    if (present === null) return;
    const older = await readOlderKeys(this.#secrets).catch((error: unknown) => {
      if (error instanceof CapstanError) return this.#older;
      throw error;
    });
    this.#present = present;
    this.#older = withoutPresent(older, present);
  }

  /** Reads `master-key.next`. Returns its key; null if there is none yet. */
  async readNext(): Promise<Buffer | null> {
    const next = await readKey(this.nextFile);
    // A promotion that was interrupted leaves a copy of the present key.
    this.#next = next?.equals(this.#present) === true ? null : next;
    return this.#next;
  }

  /** Makes a next key unless there is one. Returns its id. */
  async makeNext(): Promise<string> {
    if ((await this.readNext()) === null) {
      await removeDurably(this.nextFile);
      await createDurably(this.nextFile, keyLines([randomBytes(MASTER_KEY_BYTES)]));
      await this.readNext();
    }
    if (this.nextId === null) throw new CapstanError('DATA_DIR', `${this.nextFile}: must be 64 hex digits`);
    return this.nextId;
  }

  /** Makes a key the present one, and keeps the one before. At every interruption all keys that may be needed are in the files. */
  async replace(next: Buffer): Promise<void> {
    const older = [this.#present, ...this.#older];
    await replaceMasterKey(this.#secrets, next, older);
    await removeDurably(this.nextFile);
    this.#older = older;
    this.#present = next;
    this.#next = null;
  }

  /** No value is encrypted with an earlier key any more. */
  async forgetOlder(): Promise<void> {
    await forgetOlderKeys(this.#secrets);
    this.#older = [];
  }
}

/** Returns the key in a file; null if there is no file, or not a whole key in it. */
async function readKey(path: string): Promise<Buffer | null> {
  try {
    const text = (await readFile(path, 'utf8')).trim();
    return /^[0-9a-f]{64}$/.test(text) ? Buffer.from(text, 'hex') : null;
  } catch (error) {
    if (isErrno(error, 'ENOENT')) return null;
    throw error;
  }
}

/** A rotation that was interrupted before it had its new key leaves the present one among the earlier ones. */
function withoutPresent(older: readonly Buffer[], present: Buffer): Buffer[] {
  return older.filter((key) => !key.equals(present));
}
