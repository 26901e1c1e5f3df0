/**
 * Space of accounts in the artifact store: their builds, unfinished uploads and uploads in progress. Space for a whole
 * build is reserved before its first byte is kept, so concurrent uploads cannot exceed the quota.
 */
import { CapstanError } from '../../lib/errors.ts';
import type { BuildUse } from '../core/state/control-rows.ts';
import type { UnfinishedBuilds } from './unfinished-builds.ts';

/** Limit for the number of builds and unfinished uploads of an account. */
export const MAX_BUILDS = 10_000;

export interface UploadRoomOptions {
  readonly unfinished: Pick<UnfinishedBuilds, 'heldBy'>;
  /** The builds that the account owns. */
  readonly built: (account: string) => BuildUse;
  /** Bytes. */
  readonly quota: (account: string) => number;
  readonly maxBuilds?: number;
}

export class UploadRoom {
  readonly #options: UploadRoomOptions;
  /** Uploads in progress by account and digest: size of the whole build and number of connections that send it. */
  readonly #underWay = new Map<string, Map<string, { size: number; connections: number }>>();

  constructor(options: UploadRoomOptions) {
    this.#options = options;
  }

  /** Returns the stored builds and the uploads of the account. */
  use(account: string): BuildUse {
    const { built, unfinished } = this.#options;
    const underWay = this.#underWay.get(account);
    let { bytes, builds } = built(account);
    for (const { size } of underWay?.values() ?? []) bytes += size;
    builds += underWay?.size ?? 0;
    for (const [digest, received] of unfinished.heldBy(senderOf(account))) {
      if (underWay?.has(digest) === true) continue;
      bytes += received;
      builds += 1;
    }
    return { bytes, builds };
  }

  /**
   * Reserves space for an upload of a build that the account does not own. The returned function releases it.
   * @throws CapstanError QUOTA_EXCEEDED.
   */
  take(account: string, digest: string, size: number): () => void {
    const { quota, unfinished, maxBuilds = MAX_BUILDS } = this.#options;
    const underWay = this.#underWay.get(account) ?? new Map<string, { size: number; connections: number }>();
    const known = underWay.get(digest);
    const there = known?.size ?? unfinished.heldBy(senderOf(account)).get(digest);
    const { bytes, builds } = this.use(account);
    const used = bytes - (there ?? 0);
    const limit = quota(account);
    if (used + size > limit) {
      const facts = `it has ${used} of ${limit} bytes, unfinished uploads included, and this upload has ${size}`;
      throw refusal(
        `builds: the account would exceed its quota of build bytes: ${facts}`,
        `capstan account set ${account} --build-bytes <bytes>`,
      );
    }
    if (there === undefined && builds >= maxBuilds)
      throw refusal(`builds: the account has ${builds} of ${maxBuilds} builds and unfinished uploads`, null);
    this.#underWay.set(account, underWay);
    const upload = { size: Math.max(size, known?.size ?? 0), connections: (known?.connections ?? 0) + 1 };
    underWay.set(digest, upload);
    return () => this.#release(account, digest);
  }

  #release(account: string, digest: string): void {
    const underWay = this.#underWay.get(account);
    const upload = underWay?.get(digest);
    if (underWay === undefined || upload === undefined) return;
    upload.connections -= 1;
    if (upload.connections === 0) underWay.delete(digest);
    if (underWay.size === 0) this.#underWay.delete(account);
  }
}

/** Returns the sender of an account's parts as it appears in the names of their files. */
export function senderOf(account: string): string {
  return `account ${account}`;
}

function refusal(what: string, command: string | null): CapstanError {
  const raise = command === null ? '' : `, or ask an operator to raise the quota: ${command}`;
  return new CapstanError(
    'QUOTA_EXCEEDED',
    `${what}; delete endpoints whose builds are not needed, wait an hour for uploads that were not deployed${raise}`,
    {
      field: 'size',
    },
  );
}
