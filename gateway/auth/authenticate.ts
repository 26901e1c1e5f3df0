/** Resolves the Authorization header to a key, by hash. A cache spares the hot path the hashing. */
import { createHash, timingSafeEqual } from 'node:crypto';

import { LRUCache } from 'lru-cache';

import { CapstanError } from '../../lib/errors.ts';
import { isSessionToken, SESSION_PREFIX } from '../../lib/session-token.ts';
import type { Directory, Key } from '../directory/directory.ts';
import type { Lookup } from '../lookup/lookup.ts';

/** Longer headers cannot hold a valid key and are not cached. */
const MAX_HEADER = 1024;
/** Prefixes of API keys, of worker tokens and of the console's sessions. */
const OUR_TOKEN = /^(cap|wkr|ses)_/;
const WORKER_PREFIX = 'wkr_';
/** `wkr_<worker id>_<MAC>`. */
const WORKER_TOKEN = /^wkr_[a-z0-9]{1,64}_[A-Za-z0-9_-]{43}$/;
/** Time after which a worker token is looked up again, because it ends with its worker, ms. */
const WORKER_TOKEN_MS = 5_000;

export class Authenticator {
  readonly #lookup: Lookup;
  readonly #used = new Set<Key>();
  /** Keyed by the raw header. Cleared when any key changes or is revoked. */
  readonly #seen: LRUCache<string, Key>;

  constructor(directory: Directory, lookup: Lookup, cacheSize: number) {
    this.#lookup = lookup;
    this.#seen = new LRUCache({ max: cacheSize });
    directory.onKeysChanged = () => {
      this.#seen.clear();
    };
  }

  /** Returns the key of a header that is cached, without a promise or a hash. */
  cached(header: string | undefined): Key | undefined {
    const key = header === undefined ? undefined : this.#seen.get(header);
    if (key !== undefined) this.#used.add(key);
    return key;
  }

  /**
   * Whether the header holds an API key or a worker token of this service, valid or not. Such headers are not passed to
   * endpoints.
   */
  isKey(header: string | undefined): boolean {
    if (header === undefined) return false;
    if (this.#seen.has(header)) return true;
    return [header.trim(), header.trim().replace(/^\S+\s+/, '')].some((text) => OUR_TOKEN.test(text) || this.isKnown(text));
  }

  /** Whether a text is an API key, or the token of a session, that the gateway knows. */
  isKnown(text: string): boolean {
    return this.#lookup.knownKey(createHash('sha256').update(text, 'utf8').digest('hex')) !== undefined;
  }

  /** Returns and clears the keys used since the last call, without worker tokens. */
  takeUsed(): Key[] {
    const keys = [...this.#used].filter(({ hash }) => hash.length > 0);
    this.#used.clear();
    return keys;
  }

  /**
   * `peer`: where the request came from; shares a budget of look-ups.
   * @throws CapstanError UNAUTHENTICATED, never showing the key; UNAVAILABLE when it could not be looked up.
   */
  async authenticate(header: string | undefined, peer: string): Promise<Key> {
    const text = keyText(header);
    const hash = createHash('sha256').update(text, 'utf8').digest();
    const name = hash.toString('hex');
    if (text.startsWith(WORKER_PREFIX)) return this.#worker(header ?? '', text, name, peer);
    const key = text.startsWith(SESSION_PREFIX) ? undefined : await this.#find(hash, peer);
    if (key === undefined || key.isSession) throw new CapstanError('UNAUTHENTICATED', 'the API key is unknown or revoked');
    this.#used.add(key);
    // Cached only if the directory holds the key: the directory announces revocations of its own keys only.
    if (header !== undefined && this.#lookup.knownKey(name) === key) this.#seen.set(header, key);
    return key;
  }

  /**
   * Returns the key of a session of the console; `token`: as its cookie holds it.
   * @throws CapstanError UNAUTHENTICATED; UNAVAILABLE when it could not be looked up.
   */
  async session(token: string, peer: string): Promise<Key> {
    const key = isSessionToken(token) ? await this.#find(createHash('sha256').update(token, 'utf8').digest(), peer) : undefined;
    if (key?.isSession !== true) throw new CapstanError('UNAUTHENTICATED', 'the session has ended; sign in again');
    this.#used.add(key);
    return key;
  }

  /** Returns the known API key with this SHA-256 (hex), without a promise. */
  knownHolder(hash: string): Key | undefined {
    const key = this.#lookup.knownKey(hash);
    if (key === undefined || key.isSession) return undefined;
    this.#used.add(key);
    return key;
  }

  /**
   * Returns the API key with this SHA-256 (hex), of a sign-in.
   * @throws CapstanError UNAUTHENTICATED; UNAVAILABLE when it could not be looked up.
   */
  async holder(hash: string, peer: string): Promise<Key> {
    const key = await this.#find(Buffer.from(hash, 'hex'), peer);
    if (key === undefined || key.isSession) throw new CapstanError('UNAUTHENTICATED', 'the key of this sign-in was revoked; sign in again');
    this.#used.add(key);
    return key;
  }

  async #find(hash: Buffer, peer: string): Promise<Key | undefined> {
    const name = hash.toString('hex');
    const key = this.#lookup.knownKey(name) ?? (await this.#lookup.key(name, peer));
    return key?.hash.length === hash.length && timingSafeEqual(key.hash, hash) ? key : undefined;
  }

  async #worker(header: string, text: string, hash: string, peer: string): Promise<Key> {
    // Anything without the form of a token needs no look-up.
    const key = WORKER_TOKEN.test(text) ? await this.#lookup.worker(text, hash, peer) : undefined;
    if (key === undefined) throw new CapstanError('UNAUTHENTICATED', 'the token does not belong to a known worker');
    this.#seen.set(header, key, { ttl: WORKER_TOKEN_MS });
    return key;
  }
}

export function isWorkerToken(text: string): boolean {
  return WORKER_TOKEN.test(text);
}

/** Returns the key in `Bearer KEY`, or the raw key. */
export function keyText(header: string | undefined): string {
  if (header === undefined || header.trim() === '') {
    throw new CapstanError('UNAUTHENTICATED', 'the header Authorization is required; send Authorization: Bearer <API_KEY>');
  }
  if (header.length > MAX_HEADER) throw new CapstanError('UNAUTHENTICATED', 'the API key is unknown or revoked');
  const text = /^bearer\s+(.*)$/i.exec(header.trim())?.[1]?.trim() ?? header.trim();
  if (text === '' || /^bearer$/i.test(text)) throw new CapstanError('UNAUTHENTICATED', 'the header Authorization has no key after Bearer');
  if (/\s/.test(text)) throw new CapstanError('UNAUTHENTICATED', 'the header Authorization must be Bearer <API_KEY>');
  return text;
}
