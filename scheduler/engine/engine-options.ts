/** What the engine is given, and what it reports. */
import type { Write } from '../core/effects.ts';
import type { Outcome } from '../core/ports/store.ts';
import type { RandomState } from '../core/random.ts';
import type { Settings } from '../core/settings.ts';
import type { Clock } from './clock.ts';
import type { Step } from './commit-loop.ts';
import type { LoopStore } from './loop-store.ts';

/** The engine's log. */
export interface EngineLog {
  info(facts: object, message: string): void;
  warn(facts: object, message: string): void;
  error(facts: object, message: string): void;
}

/** An observer of the commits, for metrics. */
export interface CommitWatcher {
  /** A batch was committed; `outcomes` are those of `writes`, in order. */
  committed(writes: readonly Write[], outcomes: readonly Outcome[], ms: number): void;
  /** An empty batch of an idle owner has confirmed its term. */
  renewed?(ms: number): void;
}

export interface EngineOptions {
  readonly store: LoopStore;
  readonly settings: Settings;
  readonly clock: Clock;
  readonly random: RandomState;
  readonly owner: string;
  /** The cell of the store that the engine works on; 0 when left out. */
  readonly cell?: number;
  /** Another process may own the cell: the engine waits for its turn. Without it, another owner is fatal. */
  readonly standsBy?: boolean;
  /** Called when the role changes; as a standby also when the owner does. */
  readonly onRole?: (role: Role) => void;
  readonly log: EngineLog;
  readonly watcher?: CommitWatcher;
  /** Bytes of inputs kept in memory for dispatch. */
  readonly payloadBytes: number;
  /** The store is unusable: the process must end. */
  readonly onFatal: (error: unknown) => void;
  /** The core's step; the simulator wraps it with faults and checks. */
  readonly step?: Step;
  /** Receives what a step threw, before its state is dropped. Tests and the simulator fail by it; otherwise it is logged. */
  readonly onBroken?: (error: unknown) => void;
  /** See `CommitLoop`. */
  readonly secondBatchWrites?: number;
}

/** What the engine is to its cell. */
export type Role =
  | { readonly kind: 'owner'; readonly term: bigint }
  /** `owner` is the address of the owner, where it is known. */
  | { readonly kind: 'standby'; readonly heldBy: string; readonly owner?: string }
  /** The state is dropped, and who owns the cell is not known. */
  | { readonly kind: 'lost' };
