/**
 * Tokens of workers: `wkr_<worker id>_<MAC>`, the MAC under a key derived from the master key.
 * Nothing of them is stored, and the same worker always has the same one, so that it can be told
 * to the agent again. A token is good while its worker is there; whoever checks it looks.
 */
import { createHmac, hkdfSync, timingSafeEqual } from 'node:crypto';

const PREFIX = 'wkr_';

export class WorkerTokens {
  readonly #key: Buffer;

  constructor(masterKey: Uint8Array) {
    this.#key = Buffer.from(hkdfSync('sha256', masterKey, Buffer.alloc(0), 'capstan worker token', 32));
  }

  tokenOf(workerId: string): string {
    return `${PREFIX}${workerId}_${this.#mac(workerId).toString('base64url')}`;
  }

  /** The worker a token was made for; null when it is no token of ours. */
  workerOf(token: string): string | null {
    const [, id = '', mac = ''] = /^wkr_([a-z0-9]{1,64})_([A-Za-z0-9_-]{43})$/.exec(token) ?? [];
    if (id === '') return null;
    const given = Buffer.from(mac, 'base64url');
    const right = this.#mac(id);
    return given.length === right.length && timingSafeEqual(given, right) ? id : null;
  }

  #mac(workerId: string): Buffer {
    return createHmac('sha256', this.#key).update(workerId).digest();
  }
}
