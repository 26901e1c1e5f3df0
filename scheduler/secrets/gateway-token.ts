/**
 * The gateway token of a queue. With several schedulers the queue keeps it, encrypted, and every scheduler takes it from
 * there: gateways and nodes must not be locked out by a takeover of a scheduler whose file differs. An operator changes it
 * by a file `gateway-token.next` beside it, which the owner adopts.
 */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

import { removeDurably, replaceDurably } from '../../lib/durable.ts';
import { CapstanError } from '../../lib/errors.ts';
import { isErrno } from '../../lib/to-error.ts';

const FILE = 'gateway-token';
const NEXT = 'gateway-token.next';

export class GatewayToken {
  readonly #secrets: string;
  #value: string;

  /** @param secrets path of the folder `secrets`. */
  constructor(secrets: string, value: string) {
    this.#secrets = secrets;
    this.#value = value;
  }

  /** Secret. */
  get value(): string {
    return this.#value;
  }

  get file(): string {
    return join(this.#secrets, FILE);
  }

  /**
   * Returns the token that an operator put beside the present one; null without one.
   * @throws CapstanError CONFIG if it is not one.
   */
  async next(): Promise<string | null> {
    let text: string;
    try {
      text = (await readFile(join(this.#secrets, NEXT), 'utf8')).trim();
    } catch (error) {
      if (isErrno(error, 'ENOENT')) return null;
      throw error;
    }
    if (/^[\x21-\x7e]{16,256}$/.test(text)) return text;
    throw new CapstanError('CONFIG', `${join(this.#secrets, NEXT)}: must be 16 to 256 printable ASCII characters without spaces`);
  }

  /** Makes it the token, in the file and in memory. Returns whether the file had another one. */
  async adopt(value: string): Promise<boolean> {
    if (value === this.#value) return false;
    await replaceDurably(this.file, `${value}\n`);
    this.#value = value;
    return true;
  }

  async removeNext(): Promise<void> {
    await removeDurably(join(this.#secrets, NEXT));
  }
}
