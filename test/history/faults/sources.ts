/** The faults that can happen here, and what the stack needs for them. What cannot is named with the reason. */
import type { Options } from '../options.ts';
import { plainSurroundings, type Surroundings } from '../stack/stack.ts';
import { cut } from './connections.ts';
import type { FaultKind, FaultSource } from './fault.ts';
import { kill, pause } from './processes.ts';

export interface Prepared {
  readonly sources: ReadonlyMap<FaultKind, FaultSource>;
  readonly surroundings: Surroundings;
  readonly leftOut: readonly string[];
  /** The sum of all steps forward that clocks can make, ms. */
  readonly clockStepMs: number;
  close(): Promise<void>;
}

const ALWAYS = { kill, pause, cut } as const;

export async function sourcesFor({ faults }: Options): Promise<Prepared> {
  const sources = new Map<FaultKind, FaultSource>();
  const leftOut: string[] = [];
  for (const kind of faults) {
    if (kind === 'kill' || kind === 'pause' || kind === 'cut') sources.set(kind, ALWAYS[kind]);
    else leftOut.push(kind);
  }
  return { sources, surroundings: plainSurroundings, leftOut, clockStepMs: 0, close: () => Promise.resolve() };
}
