/**
 * The master key of a queue: which one it is, and its rotation while the service runs.
 *
 *   1  the present key is written into master-key.old, the new one into master-key   (files, durable)
 *   2  from now on values are encrypted with the new key; both are read              (memory)
 *   3  the row of the master key names the new key, and the earlier ones             (committed before any such value)
 *   4  every value under an earlier key is re-encrypted, in small batches            (committed)
 *   5  when none is left, the row names no earlier key                               (committed)
 *   6  master-key.old is removed                                                     (file, durable)
 *
 * If the process ends between any two steps, the next start finds both keys and continues: with step 3 if the row names
 * another key than the file, with step 4 if master-key.old exists.
 *
 * With several schedulers the new key comes from master-key.next, which an operator copied to all of them before: each
 * shows the others which keys it holds, and the rotation is refused while one lacks it. Standbys follow the row: when it
 * names their next key, it becomes their present one; when it names no earlier key any more, they remove theirs. A
 * scheduler that lacks a key of the row takes nothing over, so that it never writes what others cannot read.
 *
 * A value that was encrypted before step 2 may reach the store after it. Each such value waits at most for the commits
 * and one read of the store that were requested before it. Two rounds that find nothing, each after all earlier
 * requests, therefore prove that no such value is in transit.
 */
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';

import { sweepTemporary } from '../../lib/durable.ts';
import { CapstanError } from '../../lib/errors.ts';
import { messageOf } from '../../lib/to-error.ts';
import { MASTER_KEY_SETTING, places } from '../core/control/encryption.ts';
import type { DerivedKey, MasterKeyRow } from '../core/state/control-rows.ts';
import type { Clock } from '../engine/clock.ts';
import type { Engine } from '../engine/engine.ts';
import type { EngineLog } from '../engine/engine-options.ts';
import { MASTER_KEY_BYTES, masterKeyId, type Cipher } from '../secrets/cipher.ts';
import type { DataFolder } from '../secrets/data-folder.ts';
import type { Store } from '../core/ports/store.ts';
import { HeldKeys } from '../secrets/held-keys.ts';
import { payloadKeyOf, type PayloadKeys } from '../secrets/payload-keys.ts';
import { Reencryption } from './re-encryption.ts';
import { SharedRecord, type SharedRecordOptions } from './shared-record.ts';
import { urlKeyOf, type WebhookUrls } from '../webhooks/urls.ts';
import { tokenKeyOf, type WorkerTokens } from '../secrets/worker-tokens.ts';

/** Delay before a retry after a failure, ms. */
const RETRY_MS = 10_000;
const CLEAN_ROUNDS = 2;
/** How often a folder is read for a key that an operator copied into it, ms. */
const LOOK_MS = 500;
const MAX_SETTINGS = 500;

/** Another scheduler of the queue. */
export interface KeyHolder {
  /** For messages. */
  readonly name: string;
  /** Ids of the keys that it holds. */
  readonly keys: readonly string[];
}

export interface MasterKeyState {
  /** Id of the present key, 8 hex digits. */
  readonly id: string;
  /** Wall clock ms; null if created before this was stored. */
  readonly since: number | null;
  /** Some values may still be encrypted with an earlier key. */
  readonly rotating: boolean;
  /** Id of the key in master-key.next; null without one. */
  readonly nextId: string | null;
}

/** A key that waits for its rotation. */
export interface PreparedKey {
  readonly id: string;
  /** Absolute path on this host. */
  readonly file: string;
  /** Names of the other schedulers that lack it. */
  readonly lacking: readonly string[];
}

export interface MasterKeysOptions extends SharedRecordOptions {
  readonly folder: DataFolder;
  readonly engine: Engine;
  readonly store: Pick<Store, 'read'>;
  readonly cipher: Cipher;
  readonly tokens: WorkerTokens;
  readonly urls: WebhookUrls;
  readonly payloads: PayloadKeys;
  readonly clock: Clock;
  readonly log: EngineLog;
  /** The other schedulers of the queue; none where it has only one. */
  readonly others: () => Promise<readonly KeyHolder[]>;
}

export class MasterKeys {
  readonly #options: MasterKeysOptions;
  readonly #secrets: string;
  readonly #held: HeldKeys;
  readonly #shared: SharedRecord;
  readonly #reencryption: Reencryption;
  /** The re-encryption in progress; resolves to the number of values. */
  #renewal: Promise<number> | null = null;
  #switching = false;
  #retry: NodeJS.Timeout | null = null;
  readonly #look: NodeJS.Timeout;
  #looking: Promise<void> | null = null;
  #lookFailure = '';
  #closed = false;

  constructor(options: MasterKeysOptions) {
    this.#options = options;
    const { folder } = options;
    this.#secrets = join(folder.path, 'secrets');
    this.#held = new HeldKeys(this.#secrets, folder.secrets.masterKey, folder.secrets.olderMasterKeys);
    this.#shared = new SharedRecord(options);
    this.#reencryption = new Reencryption(options);
    this.#look = setInterval(() => {
      this.#looking ??= this.#lookAround().finally(() => (this.#looking = null));
    }, LOOK_MS);
    this.#look.unref();
  }

  /** Ids of the keys in the folder, the present one first. */
  get heldIds(): readonly string[] {
    return this.#held.ids;
  }

  /**
   * Before this scheduler takes the queue over: follows what the queue's record says, and returns why this scheduler may not
   * own the queue; null if it may.
   */
  async refusal(): Promise<CapstanError | null> {
    await this.#held.reread();
    const row = await this.#stored();
    if (row === null) return null;
    const { folder, log } = this.#options;
    if (row.id === this.#held.nextId) {
      const next = await this.#held.readNext();
      if (next !== null) await this.#held.replace(next);
      log.info({ key: row.id }, 'the next master key is now the current one, as stored with the queue');
    }
    this.#useHeld();
    const held = this.#held.ids;
    const lacking = [row.id, ...(row.older ?? [])].filter((id) => !held.includes(id));
    if (lacking.length > 0) {
      const where = join(this.#secrets, 'master-key');
      if (folder.created.masterKey)
        return new CapstanError(
          'CONFIG',
          `${this.#secrets}: was re-created, but the queue is encrypted with another master key; copy the folder from the scheduler that owns the queue`,
        );
      return new CapstanError(
        'CONFLICT',
        `${where}: this scheduler cannot own the queue, because it needs the master keys ${lacking.join(', ')} and the folder holds ${held.join(', ')}; copy ${this.#secrets} from the scheduler that owns the queue`,
      );
    }
    const isOver = row.id === masterKeyId(this.#held.present) && row.older?.length === 0;
    if (isOver && this.#held.older.length > 0) await this.#held.forgetOlder();
    return this.#shared.follow(row);
  }

  /** After take-over and before serving: updates the row to match the file, and resumes an interrupted rotation. */
  async recover(): Promise<void> {
    const { engine, cipher, tokens, urls, payloads, folder } = this.#options;
    await sweepTemporary(this.#secrets);
    await this.#held.readNext();
    if (engine.state.masterKey === null) {
      const since = folder.created.masterKey ? this.#options.clock.now().wall : 0;
      await this.#shared.put({ id: cipher.keyId, since, first: cipher.keyId, tokenKeys: [], older: [] });
    }
    this.#mustDecryptPayloads();
    await this.#alignRow();
    if (payloads.encrypts && this.#shared.row.encryptsPayloads !== true)
      await this.#shared.put({ ...this.#shared.row, encryptsPayloads: true });
    const { first, tokenKeys, urlKeys = [], payloadKeys = [] } = this.#shared.row;
    tokens.setFirst(first);
    for (const { id, sealed } of tokenKeys) {
      tokens.keep(id, this.#decrypt(sealed, places.tokenKey(id)));
    }
    await this.#shared.record();
    for (const { id, sealed } of urlKeys) urls.keep(this.#decrypt(sealed, places.urlKey(id)));
    for (const { id, sealed } of payloadKeys) payloads.keep(this.#decrypt(sealed, places.payloadKey(id)));
    if (this.#held.older.length > 0 || folder.secrets.olderMasterKeys.length > 0) this.#continueRenewal();
  }

  get state(): MasterKeyState {
    const { engine, cipher } = this.#options;
    const since = engine.state.masterKey?.since ?? 0;
    return { id: cipher.keyId, since: since === 0 ? null : since, rotating: this.#held.older.length > 0, nextId: this.#held.nextId };
  }

  /** The keys that decrypt all stored values: the present key, then earlier ones, one per line. Secret. */
  get text(): string {
    return this.#held.text;
  }

  /**
   * Makes a key for the next rotation unless there is one, for an operator to copy to the other schedulers.
   * @throws CapstanError CONFLICT during a rotation.
   */
  async prepare(): Promise<PreparedKey> {
    this.#mustNotRotate();
    const id = await this.#held.makeNext();
    return { id, file: this.#held.nextFile, lacking: await this.#lacking(id) };
  }

  /**
   * Replaces the key and re-encrypts every value; resolves when no value depends on the old key.
   * @throws CapstanError CONFLICT during a rotation and while another scheduler lacks the new key, DATA_DIR if the key
   * cannot be written: then the old key stays the present one.
   */
  async rotate(): Promise<{ readonly renewed: number }> {
    this.#mustNotRotate();
    this.#switching = true;
    try {
      await this.#switch(await this.#nextKey());
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
    this.#reencryption.close();
    clearInterval(this.#look);
    await this.#looking;
    if (this.#retry !== null) clearTimeout(this.#retry);
    await this.#renewal?.catch(() => undefined);
  }

  /** With another master key every encrypted payload would seem to be damaged, and its job would fail. */
  #mustDecryptPayloads(): void {
    const { id, encryptsPayloads } = this.#shared.row;
    const { ids } = this.#held;
    if (encryptsPayloads !== true || ids.includes(id)) return;
    throw new CapstanError(
      'DATA_DIR',
      `${join(this.#secrets, 'master-key')}: payloads are encrypted with the master key ${id}, and the folder holds ${ids.join(', ')}; restore the file from a backup`,
    );
  }

  #mustNotRotate(): void {
    if (this.#switching || this.#held.older.length > 0)
      throw new CapstanError('CONFLICT', 'a rotation of the master key is already in progress');
  }

  /** Returns the key that all schedulers hold; without others a new one. */
  async #nextKey(): Promise<Buffer> {
    const next = await this.#held.readNext();
    const others = await this.#options.others();
    if (others.length === 0) return next ?? randomBytes(MASTER_KEY_BYTES);
    const copy = `copy ${this.#held.nextFile} into the same folder of each`;
    if (next === null)
      throw new CapstanError(
        'CONFLICT',
        `the queue has other schedulers (${others.map(({ name }) => name).join(', ')}): create the new key with \`capstan master-key prepare\`, ${copy}, then rotate`,
      );
    const lacking = await this.#lacking(masterKeyId(next));
    if (lacking.length === 0) return next;
    throw new CapstanError('CONFLICT', `these schedulers lack the new master key ${masterKeyId(next)}: ${lacking.join(', ')}; ${copy}`);
  }

  async #lacking(id: string): Promise<readonly string[]> {
    return (await this.#options.others()).filter(({ keys }) => !keys.includes(id)).map(({ name }) => name);
  }

  async #switch(next: Buffer): Promise<void> {
    try {
      await this.#held.replace(next);
    } catch (cause) {
      // It is unknown which of the two is in the file; both are in one of the files.
      throw new CapstanError('DATA_DIR', 'writing the new master key failed', { cause });
    }
    this.#useHeld();
    // Requested in this turn: no value that is encrypted with the new key is committed before the row.
    await this.#alignRow();
  }

  /** Encrypts with the present key of the folder, and decrypts with all of them. */
  #useHeld(): void {
    const { cipher, tokens, urls, payloads } = this.#options;
    const { present, older } = this.#held;
    for (const key of older) {
      if (cipher.keyIds.includes(masterKeyId(key))) continue;
      cipher.keep(key);
      urls.keep(urlKeyOf(key));
      payloads.keep(payloadKeyOf(key));
    }
    if (cipher.keyId === masterKeyId(present)) return;
    cipher.use(present);
    tokens.use(present);
    urls.use(present);
    payloads.use(present);
  }

  /** The row as the store has it, also before this scheduler owns the queue. */
  async #stored(): Promise<MasterKeyRow | null> {
    const rows = await this.#options.store.read('control', 'setting', '', MAX_SETTINGS);
    const row = rows.find(({ key }) => key === MASTER_KEY_SETTING);
    return row === undefined ? null : (JSON.parse(row.value) as MasterKeyRow);
  }

  /**
   * Returns the row that follows the row of an earlier key: with the keys derived from earlier keys, encrypted with the
   * present key.
   */
  #rowAfter({
    id,
    first,
    tokenKeys,
    urlKeys = [],
    payloadKeys = [],
    encryptsPayloads,
    gatewayToken,
    blobStore,
  }: MasterKeyRow): MasterKeyRow {
    const { engine, cipher } = this.#options;
    const wanted = new Set([...engine.state.workers.values()].map(({ tokenKey }) => (tokenKey === '' ? first : tokenKey)));
    const tokens = tokenKeys.filter((known) => wanted.has(known.id)).map((known) => this.#under(known, places.tokenKey(known.id)));
    const addresses = urlKeys.map((known) => this.#under(known, places.urlKey(known.id)));
    const documents = payloadKeys.map((known) => this.#under(known, places.payloadKey(known.id)));
    const before = this.#held.older.find((key) => masterKeyId(key) === id);
    if (before !== undefined) {
      // Without the key (in a folder assembled by hand) existing workers get new tokens at their next start.
      if (wanted.has(id)) tokens.push({ id, sealed: this.#encrypt(tokenKeyOf(before), places.tokenKey(id)) });
      addresses.push({ id, sealed: this.#encrypt(urlKeyOf(before), places.urlKey(id)) });
      if (encryptsPayloads === true) documents.push({ id, sealed: this.#encrypt(payloadKeyOf(before), places.payloadKey(id)) });
    }
    const older = this.#held.older.map(masterKeyId);
    const since = this.#options.clock.now().wall;
    const store = { ...(blobStore === undefined ? {} : { blobStore }), ...(encryptsPayloads === undefined ? {} : { encryptsPayloads }) };
    const row = { id: cipher.keyId, since, first, tokenKeys: tokens, urlKeys: addresses, payloadKeys: documents, older, ...store };
    return gatewayToken === undefined ? row : { ...row, gatewayToken: this.#renewedText(gatewayToken, places.gatewayToken) };
  }

  #under({ id, sealed }: DerivedKey, place: string): DerivedKey {
    return { id, sealed: this.#renewedText(sealed, place) };
  }

  #renewedText(sealed: string, place: string): string {
    const bytes = Buffer.from(sealed, 'base64');
    return (this.#options.cipher.renew(bytes, place) ?? bytes).toString('base64');
  }

  /** Reads what an operator put into the folder. A failure that lasts is logged once. */
  async #lookAround(): Promise<void> {
    const { log } = this.#options;
    try {
      await this.#held.readNext();
      await this.#shared.adoptNext();
      this.#lookFailure = '';
    } catch (error) {
      const failure = messageOf(error);
      if (failure !== this.#lookFailure) log.error({ err: error }, 'a secret that was added to the folder could not be used');
      this.#lookFailure = failure;
    }
  }

  #encrypt(key: Buffer, place: string): string {
    return this.#options.cipher.encrypt(key.toString('base64'), place).toString('base64');
  }

  #decrypt(encrypted: string, place: string): Buffer {
    return Buffer.from(this.#options.cipher.decrypt(Buffer.from(encrypted, 'base64'), place), 'base64');
  }

  async #alignRow(): Promise<void> {
    const row = this.#shared.row;
    if (row.id !== this.#options.cipher.keyId) await this.#shared.put(this.#rowAfter(row));
  }

  /** Runs in the background, and again after a failure. */
  #continueRenewal(): void {
    // A scheduler that lost the queue continues when it owns it again, if the next owner has not done it.
    if (!this.#options.engine.up) return;
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
      const found = await this.#reencryption.round();
      renewed += found;
      clean = found === 0 ? clean + 1 : 0;
    }
    if (this.#shared.row.older?.length !== 0) await this.#shared.put({ ...this.#shared.row, older: [] });
    await this.#held.forgetOlder();
    this.#options.log.info({ values: renewed, key: this.#options.cipher.keyId }, 'all values are encrypted with the new master key');
    return renewed;
  }
}
