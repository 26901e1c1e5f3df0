/** A fault: something that begins, and is healed. */
import type { Random } from '../../simulator/random.ts';
import type { HistoryStack } from '../stack/stack.ts';

export const FAULT_KINDS = ['kill', 'pause', 'cut', 'partition', 'clock', 'disk'] as const;
export type FaultKind = (typeof FAULT_KINDS)[number];

export interface Fault {
  /** What it hits, and how. */
  readonly target: string;
  /** Parts that may end by themselves while it lasts. */
  readonly mayEnd?: readonly string[];
  begin(): void | Promise<void>;
  /** Resolves when the service is whole again. */
  heal(): void | Promise<void>;
  /** How long it lasts, ms. */
  readonly lastsMs: number;
}

/** Prepares faults of one kind; undefined where there is nothing to hit right now. */
export type FaultSource = (random: Random, stack: HistoryStack) => Fault | undefined;
