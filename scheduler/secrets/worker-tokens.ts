/**
 * Tokens of workers: `wkr_<worker id>_<MAC>`, the MAC under a key derived from the master key.
 * Nothing of them is stored, and the same worker always has the same one, so that it can be told
 * to the agent again. A token is good while its worker is there; whoever checks it looks.
 *
 * A worker keeps its token over a rotation of the master key: it has it in its environment. So the
 * keys derived from earlier master keys are kept for the workers of before, and for no other.
 */
import { createHmac, hkdfSync, timingSafeEqual } from 'node:crypto';

import { masterKeyId } from './cipher.ts';

const PREFIX = 'wkr_';

/** A worker, and the id of the master key its token is made with; empty for the first one. */
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

  /** New workers' tokens are made with another master key from now on. */
  use(masterKey: Uint8Array): void {
    this.#current = masterKeyId(masterKey);
    this.#keys.set(this.#current, tokenKeyOf(masterKey));
  }

  /** The key that an earlier master key gave. */
  keep(id: string, tokenKey: Uint8Array): void {
    this.#keys.set(id, Buffer.from(tokenKey));
  }

  /** Which master key workers have whose row names none. */
  setFirst(id: string): void {
    this.#first = id;
  }

  tokenOf(worker: TokenHolder): string {
    return `${PREFIX}${worker.id}_${this.#mac(worker).toString('base64url')}`;
  }

  /** True when the token was made for this worker. */
  isOf(token: string, worker: TokenHolder): boolean {
    const [, , mac = ''] = parts(token) ?? [];
    const given = Buffer.from(mac, 'base64url');
    const right = this.#mac(worker);
    return given.length === right.length && timingSafeEqual(given, right);
  }

  #mac({ id, tokenKey }: TokenHolder): Buffer {
    // A key that is not known any more: the worker's token is another one from its next start on.
    const key = this.#keys.get(tokenKey === '' ? this.#first : tokenKey) ?? this.#keys.get(this.#current);
    if (key === undefined) throw new Error('no key for worker tokens');
    return createHmac('sha256', key).update(id).digest();
  }
}

/** The id of the worker that a token says it is of; null when it has not the form of one. */
export function claimedWorker(token: string): string | null {
  return parts(token)?.[1] ?? null;
}

/** What a master key gives for the tokens of workers. */
export function tokenKeyOf(masterKey: Uint8Array): Buffer {
  return Buffer.from(hkdfSync('sha256', masterKey, Buffer.alloc(0), 'capstan worker token', 32));
}

function parts(token: string): RegExpExecArray | null {
  return /^wkr_([a-z0-9]{1,64})_([A-Za-z0-9_-]{43})$/.exec(token);
}
