/**
 * The rotation of the master key, while everything serves.
 *
 *   1  the present key is written into master-key.old, a new one into master-key   (files, durable)
 *   2  from now on values are encrypted with the new key; both are read            (memory)
 *   3  the row of the master key names the new one                                 (committed)
 *   4  every value under an earlier key is encrypted anew, some at a time          (committed)
 *   5  when none is left, master-key.old is removed                                (file, durable)
 *
 * Wherever the process ends between two of them, the next start finds both keys and goes on: with 3
 * when the row names another key than the file, with 4 when there is a master-key.old.
 *
 * A value that was encrypted before 2 may reach the store after it. Each such value waits for no more
 * than the commits and one read of the store that were asked for before, so two rounds that find
 * nothing, each after all that was asked for before it, prove that none is on its way.
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

/** Values encrypted anew with one commit: about 2 ms of processor time. */
const BATCH_VALUES = 100;
/** After a failure the rest is tried again, ms. */
const RETRY_MS = 10_000;
const CLEAN_ROUNDS = 2;

export interface MasterKeyState {
  /** Of the present key, 8 hex digits. */
  readonly id: string;
  /** Wall clock ms; null when it was made before this was kept. */
  readonly since: number | null;
  /** Some values may still be under an earlier key. */
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
  /** Encrypting anew, while it is under way; resolves to how many values it was. */
  #renewal: Promise<number> | null = null;
  #switching = false;
  #retry: NodeJS.Timeout | null = null;
  #closed = false;

  constructor(options: MasterKeysOptions) {
    this.#options = options;
    const { folder } = options;
    this.#secrets = join(folder.path, 'secrets');
    this.#present = folder.secrets.masterKey;
    // A rotation that was cut off before it had its new key leaves the present one there, too.
    this.#older = folder.secrets.olderMasterKeys.filter((key) => !key.equals(this.#present));
  }

  /** After take-over, before anything is served: brings the row in line with the file, and goes on with what was cut off. */
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
    if (folder.secrets.olderMasterKeys.length > 0) this.#goOn();
  }

  get state(): MasterKeyState {
    const { engine, cipher } = this.#options;
    const since = engine.state.masterKey?.since ?? 0;
    return { id: cipher.keyId, since: since === 0 ? null : since, rotating: this.#older.length > 0 };
  }

  /** What reads everything that is stored now: the present key, then earlier ones, one a line. Secret. */
  get text(): string {
    return keyLines([this.#present, ...this.#older]);
  }

  /**
   * Replaces the key and encrypts everything anew; resolves when nothing depends on the old one any more.
   * @throws CapstanError CONFLICT while a rotation is under way, DATA_DIR when the key cannot be written: it stays the old one then.
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

  /** Ends after the batch that is under way; the next start does the rest. */
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
      // Which of the two is in the file is not known; both are in one of them.
      throw new CapstanError('DATA_DIR', 'writing the new master key failed', { cause });
    }
    this.#older = older;
    this.#present = next;
    cipher.use(next);
    tokens.use(next);
    urls.use(next);
  }

  /** The row that stands after the one of an earlier key: with the keys derived from earlier keys, under the present key. */
  #rowAfter({ id, first, tokenKeys, urlKeys = [] }: MasterKeyRow): MasterKeyRow {
    const { engine, cipher } = this.#options;
    const wanted = new Set([...engine.state.workers.values()].map(({ tokenKey }) => (tokenKey === '' ? first : tokenKey)));
    const tokens = tokenKeys.filter((known) => wanted.has(known.id)).map((known) => this.#under(known, places.tokenKey(known.id)));
    const addresses = urlKeys.map((known) => this.#under(known, places.urlKey(known.id)));
    const before = this.#older.find((key) => masterKeyId(key) === id);
    if (before !== undefined) {
      // Without it (a folder put together by hand) the workers of before get new tokens with their next start.
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

  /** In the background, and again after a failure. */
  #goOn(): void {
    this.#renew().catch((error: unknown) => this.#tryAgain(error));
  }

  #tryAgain(error: unknown): void {
    if (this.#closed) return;
    this.#options.log.error({ err: error }, 're-encrypting with the new master key failed for some values; retrying');
    this.#retry = setTimeout(() => this.#goOn(), RETRY_MS);
  }

  #renew(): Promise<number> {
    this.#renewal ??= this.#rounds().finally(() => (this.#renewal = null));
    return this.#renewal;
  }

  async #rounds(): Promise<number> {
    await this.#alignRow();
    let renewed = 0;
    for (let clean = 0; clean < CLEAN_ROUNDS;) {
      // Answered after everything that was asked for before it is committed.
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

  /** Null for what needs nothing, or what no key opens: it was lost before, and must not keep the old key for ever. */
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

/** The first bytes of a value in base64, enough to tell its key. */
function headOf(encrypted: string): Buffer {
  return Buffer.from(encrypted.slice(0, 12), 'base64');
}
