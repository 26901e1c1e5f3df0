/**
 * Puts into the blob store, a few of an account at a time: large chunks and outputs leave by the connection that carries
 * the starts and ends of all accounts, and those must not queue behind many of them.
 */

import type { BlobReference } from '../../lib/payload.ts';
import type { BlobTransfer } from '../blobs/blob-transfer.ts';
import type { AttemptKey } from '../core/state.ts';

/** Puts of one account at a time. */
const MAX_AT_ONCE = 2;

type Blobs = Pick<BlobTransfer, 'put'>;

interface Account {
  running: number;
  readonly waiting: (() => void)[];
}

export class StoreTurns {
  readonly #blobs: Blobs;
  readonly #accountOf: (key: AttemptKey) => string;
  readonly #accounts = new Map<string, Account>();

  constructor(blobs: Blobs, accountOf: (key: AttemptKey) => string) {
    this.#blobs = blobs;
    this.#accountOf = accountOf;
  }

  /** Puts bytes of an attempt when it is its account's turn. */
  async put(key: AttemptKey, bytes: Buffer, signal: AbortSignal): Promise<BlobReference> {
    const accountId = this.#accountOf(key);
    let account = this.#accounts.get(accountId);
    if (account === undefined) this.#accounts.set(accountId, (account = { running: 0, waiting: [] }));
    const { waiting } = account;
    if (account.running >= MAX_AT_ONCE) await new Promise<void>((resolve) => waiting.push(resolve));
    else account.running += 1;
    try {
      return await this.#blobs.put(bytes, signal);
    } finally {
      const next = waiting.shift();
      if (next !== undefined) next();
      else {
        account.running -= 1;
        if (account.running === 0) this.#accounts.delete(accountId);
      }
    }
  }
}
