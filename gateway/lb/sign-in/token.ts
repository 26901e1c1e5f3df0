/**
 * What the cookie of a sign-in holds: the hash of the caller's key, for one endpoint and a limited time, encrypted and authenticated with a
 * key of the gateway token, so that every gateway reads it and no store keeps it. The key itself is not in it. It ends with the key.
 */
import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto';

export interface SignedIn {
  /** SHA-256 of the API key, hexadecimal. */
  readonly hash: string;
  readonly endpointId: string;
  /** Wall clock of its end, ms. */
  readonly until: number;
}

const VERSION = 1;
const IV_BYTES = 12;
const TAG_BYTES = 16;
const HASH = /^[0-9a-f]{64}$/;
const MAX_LENGTH = 1_024;

export class SignInTokens {
  readonly #key: Buffer;

  /** `gatewayToken`: the secret that all gateways share. */
  constructor(gatewayToken: string) {
    this.#key = Buffer.from(hkdfSync('sha256', gatewayToken, '', 'capstan sign-in of an endpoint', 32));
  }

  issue({ hash, endpointId, until }: SignedIn): string {
    const iv = randomBytes(IV_BYTES);
    const cipher = createCipheriv('aes-256-gcm', this.#key, iv);
    const text = JSON.stringify([VERSION, hash, endpointId, until]);
    return Buffer.concat([iv, cipher.update(text, 'utf8'), cipher.final(), cipher.getAuthTag()]).toString('base64url');
  }

  /** Returns what the token says of this endpoint; null for any other text, and after its end. `wall`: wall clock, ms. */
  read(token: string, endpointId: string, wall: number): SignedIn | null {
    if (token.length > MAX_LENGTH || !/^[\w-]+$/.test(token)) return null;
    const bytes = Buffer.from(token, 'base64url');
    if (bytes.length <= IV_BYTES + TAG_BYTES) return null;
    let text: string;
    try {
      const decipher = createDecipheriv('aes-256-gcm', this.#key, bytes.subarray(0, IV_BYTES));
      decipher.setAuthTag(bytes.subarray(-TAG_BYTES));
      text = Buffer.concat([decipher.update(bytes.subarray(IV_BYTES, -TAG_BYTES)), decipher.final()]).toString('utf8');
    } catch {
      return null; // made by nobody who has the key
    }
    const [version, hash, endpoint, until] = JSON.parse(text) as [number, string, string, number];
    const fits = version === VERSION && HASH.test(hash) && endpoint === endpointId && until > wall;
    return fits ? { hash, endpointId, until } : null;
  }
}
