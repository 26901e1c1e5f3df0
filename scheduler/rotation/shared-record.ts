/**
 * The queue's record of its master key, and what else it names for all schedulers of the queue: the gateway token and the blob
 * store that they share.
 */
import { CapstanError } from '../../lib/errors.ts';
import { places } from '../core/control/encryption.ts';
import type { MasterKeyRow } from '../core/state/control-rows.ts';
import type { Engine } from '../engine/engine.ts';
import type { EngineLog } from '../engine/engine-options.ts';
import type { Cipher } from '../secrets/cipher.ts';
import type { GatewayToken } from '../secrets/gateway-token.ts';

/** A store that the queue's record names. */
export interface SharedStore {
  /** Returns why it is not the store with this id; null if it is. */
  refusal(id: string): Promise<string | null>;
  /** Returns its id, and makes one unless it has one. */
  id(): Promise<string>;
}

export interface SharedRecordOptions {
  readonly engine: Engine;
  readonly cipher: Cipher;
  readonly log: EngineLog;
  /** The blob store that all schedulers of the queue share; null where it is this one's own. */
  readonly blobStore: SharedStore | null;
  /** Kept by the queue, for several schedulers; null where the file alone decides. */
  readonly gatewayToken: GatewayToken | null;
}

export class SharedRecord {
  readonly #options: SharedRecordOptions;

  constructor(options: SharedRecordOptions) {
    this.#options = options;
  }

  /** Before this scheduler takes the queue over: takes what the record names. Returns why it may not own the queue, or null. */
  async follow(row: MasterKeyRow): Promise<CapstanError | null> {
    await this.#takeGatewayToken(row);
    return this.#storeRefusal(row);
  }

  /** As the owner: names what the record does not name yet. */
  async record(): Promise<void> {
    await this.#recordGatewayToken();
    await this.#recordStore();
  }

  /** Takes a gateway token that an operator put beside the present one, while this scheduler owns the queue. */
  async adoptNext(): Promise<void> {
    const { engine, gatewayToken } = this.#options;
    // Only an owner that has recorded: before, that takes it.
    if (gatewayToken === null || !engine.owns || engine.state.masterKey?.gatewayToken === undefined) return;
    if ((await gatewayToken.next()) !== null) await this.#recordGatewayToken();
  }

  get row(): MasterKeyRow {
    const row = this.#options.engine.state.masterKey;
    if (row === null) throw new CapstanError('INTERNAL', 'the row of the master key is missing');
    return row;
  }

  async put(row: MasterKeyRow): Promise<void> {
    await this.#options.engine.command({ kind: 'put-master-key', row });
  }

  /** A storage that is away does not keep anybody from serving jobs with small bodies. */
  async #storeRefusal({ blobStore }: MasterKeyRow): Promise<CapstanError | null> {
    if (blobStore === undefined || this.#options.blobStore === null) return null;
    try {
      const refusal = await this.#options.blobStore.refusal(blobStore);
      return refusal === null ? null : new CapstanError('CONFLICT', `${refusal}; this scheduler cannot own the queue until then`);
    } catch (error) {
      this.#options.log.warn({ err: error }, 'could not check whether the blob store is that of the queue');
      return null;
    }
  }

  /** As the owner: names the blob store of the queue for all other schedulers. */
  async #recordStore(): Promise<void> {
    const { blobStore, log } = this.#options;
    if (blobStore === null || this.row.blobStore !== undefined) return;
    try {
      await this.put({ ...this.row, blobStore: await blobStore.id() });
    } catch (error) {
      log.warn({ err: error }, 'the id of the blob store could not be recorded; the next take-over records it');
    }
  }

  /** The queue's gateway token replaces that of the folder: gateways and nodes know no other. */
  async #takeGatewayToken({ gatewayToken: sealed }: MasterKeyRow): Promise<void> {
    const { gatewayToken: token, cipher, log } = this.#options;
    if (token === null || sealed === undefined) return;
    if (await token.adopt(cipher.decrypt(Buffer.from(sealed, 'base64'), places.gatewayToken)))
      log.warn({ file: token.file }, "the gateway token of this folder was not the queue's, and was replaced by it");
  }

  /** As the owner: keeps the token in the queue, or the one that an operator put beside it. */
  async #recordGatewayToken(): Promise<void> {
    const { gatewayToken: token, cipher, log } = this.#options;
    if (token === null) return;
    const next = await token.next();
    if (next === null) await this.#takeGatewayToken(this.row);
    else if (await token.adopt(next)) log.warn({ file: token.file }, 'the gateway token was changed: copy it to the gateways');
    const { gatewayToken: sealed } = this.row;
    const kept = sealed === undefined ? null : cipher.decrypt(Buffer.from(sealed, 'base64'), places.gatewayToken);
    if (kept !== token.value) {
      const gatewayToken = cipher.encrypt(token.value, places.gatewayToken).toString('base64');
      await this.put({ ...this.row, gatewayToken });
    }
    if (next !== null) await token.removeNext();
  }
}
