/**
 * Tokens of workers: `wkr_<worker id>_<MAC>`, with the MAC under a key derived from the master key. Tokens are not
 * stored. A worker always has the same token, so it can be sent to the agent again. A token is valid while its worker
 * exists, which the verifier must check.
 *
 * A worker keeps its token over a rotation of the master key, because the token is in its environment. Keys derived
 * from earlier master keys are therefore kept for the existing workers only.
 */
import { createHmac, hkdfSync, timingSafeEqual } from 'node:crypto';

import { masterKeyId } from './cipher.ts';

const PREFIX = 'wkr_';

/** A worker, and the id of the master key that its token is made with; empty for the first one. */
export interface TokenHolder {
  readonly id: string;
  readonly tokenKey: string;
}

export class WorkerTokens {
  readonly #keys = new Map<string, Buffer>();
  #current: string;
  #first: string;

  constructor(masterKey: Uint8Array) {
    this.#current = this.#first = masterKeyId(masterKey);
    this.#keys.set(this.#current, tokenKeyOf(masterKey));
  }

  /** Makes new workers' tokens with another master key from now on. */
  use(masterKey: Uint8Array): void {
    this.#current = masterKeyId(masterKey);
    this.#keys.set(this.#current, tokenKeyOf(masterKey));
  }

  /** Adds the key derived from an earlier master key. */
  keep(id: string, tokenKey: Uint8Array): void {
    this.#keys.set(id, Buffer.from(tokenKey));
  }

  /** Sets the master key of workers whose row names none. */
  setFirst(id: string): void {
    this.#first = id;
  }

  tokenOf(worker: TokenHolder): string {
    return `${PREFIX}${worker.id}_${this.#mac(worker).toString('base64url')}`;
  }

  /** Whether the token was made for this worker. */
  isOf(token: string, worker: TokenHolder): boolean {
    const [, , mac = ''] = parts(token) ?? [];
    const given = Buffer.from(mac, 'base64url');
    const right = this.#mac(worker);
    return given.length === right.length && timingSafeEqual(given, right);
  }

  #mac({ id, tokenKey }: TokenHolder): Buffer {
    // Without the earlier key the worker gets another token from its next start on.
    const key = this.#keys.get(tokenKey === '' ? this.#first : tokenKey) ?? this.#keys.get(this.#current);
    if (key === undefined) throw new Error('no key for worker tokens');
    return createHmac('sha256', key).update(id).digest();
  }
}

/** Returns the worker id that a token claims; null if it does not have the form of a token. */
export function claimedWorker(token: string): string | null {
  return parts(token)?.[1] ?? null;
}

/** Derives the key of worker tokens from a master key. */
export function tokenKeyOf(masterKey: Uint8Array): Buffer {
  return Buffer.from(hkdfSync('sha256', masterKey, Buffer.alloc(0), 'capstan worker token', 32));
}

function parts(token: string): RegExpExecArray | null {
  return /^wkr_([a-z0-9]{1,64})_([A-Za-z0-9_-]{43})$/.exec(token);
}
