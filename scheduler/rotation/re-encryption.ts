/** Encrypts with the present master key what is encrypted with an earlier one, in small batches between other work. */
import { CapstanError } from '../../lib/errors.ts';
import { places, encryptedRows } from '../core/control/encryption.ts';
import type { EncryptedRow } from '../core/state/control-rows.ts';
import type { Engine } from '../engine/engine.ts';
import type { EngineLog } from '../engine/engine-options.ts';
import type { Cipher } from '../secrets/cipher.ts';

/** Values re-encrypted per commit: about 2 ms of processor time. */
const BATCH_VALUES = 100;

export interface ReencryptionOptions {
  readonly engine: Engine;
  readonly cipher: Cipher;
  readonly log: EngineLog;
}

export class Reencryption {
  readonly #options: ReencryptionOptions;
  #closed = false;

  constructor(options: ReencryptionOptions) {
    this.#options = options;
  }

  /** Ends a round after its current batch. */
  close(): void {
    this.#closed = true;
  }

  /** Goes through all values once. Returns the number of values that it encrypted again. */
  async round(): Promise<number> {
    // Answered after everything that was requested before it is committed.
    await this.#options.engine.command({ kind: 'note-keys', hashes: [] });
    return (await this.#renewRows()) + (await this.#renewInputs());
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
      this.#requireOpen();
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
      this.#requireOpen();
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

  #requireOpen(): void {
    if (this.#closed) throw new CapstanError('UNAVAILABLE', 'the scheduler is stopping; re-encryption continues after its next start');
  }
}

/** Returns the first bytes of a value in base64, sufficient to identify its key. */
function headOf(encrypted: string): Buffer {
  return Buffer.from(encrypted.slice(0, 12), 'base64');
}
