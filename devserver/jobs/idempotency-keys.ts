/** The Idempotency-Keys of submissions, with the job of each. */
import { otherBody } from '../../lib/job-errors.ts';
import type { Submit } from '../../proto/gen/capstan/v1/jobs.ts';

const KEPT_MS = 86_400_000;
const MAX_KEYS = 10_000;

interface Known {
  readonly job: string;
  readonly bodyHash: Buffer;
  readonly since: number;
}

export class IdempotencyKeys {
  /** Oldest first. */
  readonly #known = new Map<string, Known>();

  /** Returns the job of an earlier submission. @throws CapstanError IDEMPOTENCY_MISMATCH when that had another body. */
  find(endpoint: string, { idempotencyKey, bodyHash }: Submit, now: number): string | undefined {
    const known = this.#known.get(nameOf(endpoint, idempotencyKey));
    if (known === undefined || now - known.since > KEPT_MS) return undefined;
    if (known.bodyHash.equals(bodyHash)) return known.job;
    throw otherBody();
  }

  add(endpoint: string, { idempotencyKey, bodyHash, jobId }: Submit, now: number): void {
    const name = nameOf(endpoint, idempotencyKey);
    this.#known.delete(name);
    this.#known.set(name, { job: jobId, bodyHash, since: now });
    const [oldest] = this.#known.keys();
    if (this.#known.size > MAX_KEYS && oldest !== undefined) this.#known.delete(oldest);
  }
}

function nameOf(endpoint: string, key: string): string {
  return `${endpoint} ${key}`;
}
