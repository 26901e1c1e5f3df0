/**
 * The rotation of the master key, while the service runs.
 *
 *   1  the present key is written into master-key.old, a new one into master-key   (files, durable)
 *   2  from now on values are encrypted with the new key; both are read            (memory)
 *   3  the row of the master key names the new one                                 (committed)
 *   4  every value under an earlier key is re-encrypted, in small batches          (committed)
 *   5  when none is left, master-key.old is removed                                (file, durable)
 *
 * If the process ends between any two steps, the next start finds both keys and continues: with step 3 if the row names
 * another key than the file, with step 4 if master-key.old exists.
 *
 * A value that was encrypted before step 2 may reach the store after it. Each such value waits at most for the commits
 * and one read of the store that were requested before it. Two rounds that find nothing, each after all earlier
 * requests, therefore prove that no such value is in transit.
 */
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';

import { CapstanError } from '../../lib/errors.ts';
import { places, encryptedRows } from '../core/control/encryption.ts';
import type { DerivedKey, MasterKeyRow, EncryptedRow } from '../core/state/control-rows.ts';
import type { Clock } from '../engine/clock.ts';
import type { Engine, EngineLog } from '../engine/engine.ts';
import { sweepTemporary } from '../files/durable.ts';
import { MASTER_KEY_BYTES, masterKeyId, type Cipher } from './cipher.ts';
import type { DataFolder } from './data-folder.ts';
import { forgetOlderKeys, keyLines, replaceMasterKey } from './master-key-files.ts';
import { urlKeyOf, type WebhookUrls } from '../webhooks/urls.ts';
import { tokenKeyOf, type WorkerTokens } from './worker-tokens.ts';

/** Values re-encrypted per commit: about 2 ms of processor time. */
const BATCH_VALUES = 100;
/** Delay before a retry after a failure, ms. */
const RETRY_MS = 10_000;
const CLEAN_ROUNDS = 2;

export interface MasterKeyState {
  /** Id of the present key, 8 hex digits. */
  readonly id: string;
  /** Wall clock ms; null if created before this was stored. */
  readonly since: number | null;
  /** Some values may still be encrypted with an earlier key. */
  readonly rotating: boolean;
}

export interface MasterKeysOptions {
  readonly folder: DataFolder;
  readonly engine: Engine;
  readonly cipher: Cipher;
  readonly tokens: WorkerTokens;
  readonly urls: WebhookUrls;
  readonly clock: Clock;
  readonly log: EngineLog;
}

export class MasterKeys {
  readonly #options: MasterKeysOptions;
  readonly #secrets: string;
  #present: Buffer;
  /** In master-key.old; newest first. */
  #older: readonly Buffer[];
  /** The re-encryption in progress; resolves to the number of values. */
  #renewal: Promise<number> | null = null;
  #switching = false;
  #retry: NodeJS.Timeout | null = null;
  #closed = false;

  constructor(options: MasterKeysOptions) {
    this.#options = options;
    const { folder } = options;
    this.#secrets = join(folder.path, 'secrets');
    this.#present = folder.secrets.masterKey;
    // A rotation that was interrupted before it had its new key also leaves the present one there.
    this.#older = folder.secrets.olderMasterKeys.filter((key) => !key.equals(this.#present));
  }

  /** After take-over and before serving: updates the row to match the file, and resumes an interrupted rotation. */
  async recover(): Promise<void> {
    const { engine, cipher, tokens, urls, folder } = this.#options;
    await sweepTemporary(this.#secrets);
    if (engine.state.masterKey === null) {
      const since = folder.created.masterKey ? this.#options.clock.now().wall : 0;
      await this.#put({ id: cipher.keyId, since, first: cipher.keyId, tokenKeys: [] });
    }
    await this.#alignRow();
    const { first, tokenKeys, urlKeys = [] } = this.#row();
    tokens.setFirst(first);
    for (const { id, sealed } of tokenKeys) {
      tokens.keep(id, this.#decrypt(sealed, places.tokenKey(id)));
    }
    for (const { id, sealed } of urlKeys) urls.keep(this.#decrypt(sealed, places.urlKey(id)));
    if (folder.secrets.olderMasterKeys.length > 0) this.#continueRenewal();
  }

  get state(): MasterKeyState {
    const { engine, cipher } = this.#options;
    const since = engine.state.masterKey?.since ?? 0;
    return { id: cipher.keyId, since: since === 0 ? null : since, rotating: this.#older.length > 0 };
  }

  /** The keys that decrypt all stored values: the present key, then earlier ones, one per line. Secret. */
  get text(): string {
    return keyLines([this.#present, ...this.#older]);
  }

  /**
   * Replaces the key and re-encrypts every value; resolves when no value depends on the old key.
   * @throws CapstanError CONFLICT during a rotation, DATA_DIR if the key cannot be written: then the old key stays the
   * present one.
   */
  async rotate(): Promise<{ readonly renewed: number }> {
    if (this.#switching || this.#older.length > 0)
      throw new CapstanError('CONFLICT', 'a rotation of the master key is already in progress');
    this.#switching = true;
    try {
      await this.#switch(randomBytes(MASTER_KEY_BYTES));
    } finally {
      this.#switching = false;
    }
    this.#options.log.info({ key: this.#options.cipher.keyId }, 'master key replaced; re-encrypting values of the previous key');
    try {
      return { renewed: await this.#renew() };
    } catch (error) {
      this.#tryAgain(error);
      throw error;
    }
  }

  /** Ends after the current batch. The next start continues. */
  async close(): Promise<void> {
    this.#closed = true;
    if (this.#retry !== null) clearTimeout(this.#retry);
    await this.#renewal?.catch(() => undefined);
  }

  async #switch(next: Buffer): Promise<void> {
    const { cipher, tokens, urls } = this.#options;
    const older = [this.#present];
    try {
      await replaceMasterKey(this.#secrets, next, older);
    } catch (cause) {
      // It is unknown which of the two is in the file; both are in one of the files.
      throw new CapstanError('DATA_DIR', 'writing the new master key failed', { cause });
    }
    this.#older = older;
    this.#present = next;
    cipher.use(next);
    tokens.use(next);
    urls.use(next);
  }

  /**
   * Returns the row that follows the row of an earlier key: with the keys derived from earlier keys, encrypted with the
   * present key.
   */
  #rowAfter({ id, first, tokenKeys, urlKeys = [] }: MasterKeyRow): MasterKeyRow {
    const { engine, cipher } = this.#options;
    const wanted = new Set([...engine.state.workers.values()].map(({ tokenKey }) => (tokenKey === '' ? first : tokenKey)));
    const tokens = tokenKeys.filter((known) => wanted.has(known.id)).map((known) => this.#under(known, places.tokenKey(known.id)));
    const addresses = urlKeys.map((known) => this.#under(known, places.urlKey(known.id)));
    const before = this.#older.find((key) => masterKeyId(key) === id);
    if (before !== undefined) {
      // Without the key (in a folder assembled by hand) existing workers get new tokens at their next start.
      if (wanted.has(id)) tokens.push({ id, sealed: this.#encrypt(tokenKeyOf(before), places.tokenKey(id)) });
      addresses.push({ id, sealed: this.#encrypt(urlKeyOf(before), places.urlKey(id)) });
    }
    return { id: cipher.keyId, since: this.#options.clock.now().wall, first, tokenKeys: tokens, urlKeys: addresses };
  }

  #under({ id, sealed }: DerivedKey, place: string): DerivedKey {
    const bytes = Buffer.from(sealed, 'base64');
    return { id, sealed: (this.#options.cipher.renew(bytes, place) ?? bytes).toString('base64') };
  }

  #encrypt(key: Buffer, place: string): string {
    return this.#options.cipher.encrypt(key.toString('base64'), place).toString('base64');
  }

  #decrypt(encrypted: string, place: string): Buffer {
    return Buffer.from(this.#options.cipher.decrypt(Buffer.from(encrypted, 'base64'), place), 'base64');
  }

  async #alignRow(): Promise<void> {
    const row = this.#row();
    if (row.id !== this.#options.cipher.keyId) await this.#put(this.#rowAfter(row));
  }

  #row(): MasterKeyRow {
    const row = this.#options.engine.state.masterKey;
    if (row === null) throw new CapstanError('INTERNAL', 'the row of the master key is missing');
    return row;
  }

  async #put(row: MasterKeyRow): Promise<void> {
    await this.#options.engine.command({ kind: 'put-master-key', row });
  }

  /** Runs in the background, and again after a failure. */
  #continueRenewal(): void {
    this.#renew().catch((error: unknown) => this.#tryAgain(error));
  }

  #tryAgain(error: unknown): void {
    if (this.#closed) return;
    this.#options.log.error({ err: error }, 're-encrypting with the new master key failed for some values; retrying');
    this.#retry = setTimeout(() => this.#continueRenewal(), RETRY_MS);
  }

  #renew(): Promise<number> {
    this.#renewal ??= this.#rounds().finally(() => (this.#renewal = null));
    return this.#renewal;
  }

  async #rounds(): Promise<number> {
    await this.#alignRow();
    let renewed = 0;
    for (let clean = 0; clean < CLEAN_ROUNDS;) {
      // Answered after everything that was requested before it is committed.
      await this.#options.engine.command({ kind: 'note-keys', hashes: [] });
      const found = (await this.#renewRows()) + (await this.#renewInputs());
      renewed += found;
      clean = found === 0 ? clean + 1 : 0;
    }
    await forgetOlderKeys(this.#secrets);
    this.#older = [];
    this.#options.log.info({ values: renewed, key: this.#options.cipher.keyId }, 'all values are encrypted with the new master key');
    return renewed;
  }

  async #renewRows(): Promise<number> {
    const { engine, cipher } = this.#options;
    const stale = [...encryptedRows(engine.state)].filter(({ values }) =>
      values.some(({ encrypted }) => !cipher.isCurrent(headOf(encrypted))),
    );
    let found = 0;
    let rows: EncryptedRow[] = [];
    let values = new Map<string, string>();
    const commit = async (): Promise<void> => {
      this.#mustBeOpen();
      await engine.command({ kind: 'reencrypt', rows, values });
      found += values.size;
      rows = [];
      values = new Map();
    };
    for (const { row, values: encryptedValues } of stale) {
      rows.push(row);
      for (const { encrypted, place } of encryptedValues) {
        const renewed = this.#renewed(Buffer.from(encrypted, 'base64'), place);
        if (renewed !== null) values.set(encrypted, renewed.toString('base64'));
      }
      if (values.size >= BATCH_VALUES) await commit();
    }
    if (values.size > 0) await commit();
    return found;
  }

  async #renewInputs(): Promise<number> {
    const { engine } = this.#options;
    let found = 0;
    for (let after = 0; ;) {
      this.#mustBeOpen();
      const page = await engine.read('encryptedInputs', after, BATCH_VALUES);
      const inputs = page.flatMap(({ seq, id, s3 }) => {
        const renewed = this.#renewed(s3, places.s3(id));
        return renewed === null ? [] : [{ seq, from: s3, to: renewed }];
      });
      if (inputs.length > 0) await engine.command({ kind: 'reencrypt-inputs', inputs });
      found += inputs.length;
      const last = page.at(-1);
      if (last === undefined || page.length < BATCH_VALUES) return found;
      after = last.seq;
    }
  }

  /**
   * Returns null for a value that needs no re-encryption, and for one that no key decrypts: it was lost before, and
   * must not keep the old key forever.
   */
  #renewed(encrypted: Uint8Array, place: string): Buffer | null {
    try {
      return this.#options.cipher.renew(encrypted, place);
    } catch (error) {
      this.#options.log.error({ err: error }, 'no key decrypts this value; it is left unchanged');
      return null;
    }
  }

  #mustBeOpen(): void {
    if (this.#closed) throw new CapstanError('UNAVAILABLE', 'the scheduler is stopping; re-encryption continues after its next start');
  }
}

/** Returns the first bytes of a value in base64, sufficient to identify its key. */
function headOf(encrypted: string): Buffer {
  return Buffer.from(encrypted.slice(0, 12), 'base64');
}
