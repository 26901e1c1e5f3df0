/** One connection to one scheduler. */
import type { Channel } from '@grpc/grpc-js';

import type { Candidate } from './addresses.ts';
import type { OwnerFinder } from './owner-finder.ts';

/** An open call on a connection. */
export interface LinkCall {
  /** Nothing has arrived for it, and everything it sent is kept. */
  readonly isUnanswered: boolean;
  /** Ends it: its scheduler is no longer followed, whatever it still sends. */
  cut(reason: string): void;
}

export interface Link {
  readonly candidate: Candidate;
  readonly channel: Channel;
  readonly calls: Set<LinkCall>;
  /** The connection is open. */
  isReady: boolean;
  heardAt: number;
  /** When its scheduler was asked whether it serves; absent while no answer is due. */
  askedAt: number | undefined;
}

/** Notes that something arrived over this connection. */
export function noteHeard(link: Link, finder: OwnerFinder): void {
  link.heardAt = performance.now();
  if (link.askedAt === undefined) return;
  link.askedAt = undefined;
  finder.noteMessage(link.candidate);
}
