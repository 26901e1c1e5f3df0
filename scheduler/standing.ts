/**
 * What this scheduler is to its queue, and what it tells callers.
 *
 *   starting ──▶ owner ──the queue is lost──▶ standby ──its turn──▶ owner
 *       └──another owns the queue──▶ standby        any ──▶ stopping
 *
 * The only scheduler of a queue (SQLite) refuses nobody: its clients wait for it as for any server that starts.
 */
import { CapstanError } from '../lib/errors.ts';
import type { Role } from './engine/engine-options.ts';

export type Status =
  | { readonly kind: 'starting' }
  | { readonly kind: 'owner'; readonly term: bigint }
  /** `owner`: address of the owner, where it is known. */
  | { readonly kind: 'standby'; readonly owner?: string }
  | { readonly kind: 'stopping'; readonly owner?: string };

export class OwnershipStatus {
  /** Whether the queue may have another owner. */
  readonly isShared: boolean;
  readonly #watchers = new Set<(status: Status) => void>();
  #status: Status = { kind: 'starting' };
  /** Where others reach this scheduler, `host:port`; empty until it listens. */
  address = '';
  /** Receives the engine's roles. An owner becomes one, here, when it can serve. */
  onRole: (role: Role) => void = () => undefined;

  constructor({ isShared }: { readonly isShared: boolean }) {
    this.isShared = isShared;
  }

  get status(): Status {
    return this.#status;
  }

  /** The term under which it serves; null where terms mean nothing to callers. */
  get term(): bigint | null {
    return this.isShared && this.#status.kind === 'owner' ? this.#status.term : null;
  }

  /** Why calls are refused; null while they are accepted. */
  refusal(): CapstanError | null {
    const status = this.#status;
    if (!this.isShared || status.kind === 'owner') return null;
    const owner = 'owner' in status && status.owner !== this.address ? status.owner : undefined;
    const reason = {
      starting: 'this scheduler is starting',
      standby: 'this scheduler is a standby',
      stopping: 'this scheduler is stopping',
    }[status.kind];
    const message =
      owner === undefined ? `${reason}; the owner of the queue is not known` : `${reason}; the owner of the queue is ${owner}`;
    return new CapstanError('NOT_OWNER', message, { retryAfterMs: RETRY_MS, ...(owner === undefined ? {} : { owner }) });
  }

  /** A stopping scheduler stays one. */
  become(status: Status): void {
    if (this.#status.kind === 'stopping' && status.kind !== 'stopping') return;
    this.#status = status;
    for (const watcher of this.#watchers) watcher(status);
  }

  /** Calls `watcher` after every change. */
  watch(watcher: (status: Status) => void): void {
    this.#watchers.add(watcher);
  }
}

const RETRY_MS = 100;
