/** Which incidents a channel is told of now: each once when it has lasted, and once when it has been over for as long. Pure. */
import type { ToldIncident } from '../core/state/control-rows.ts';
import { keyOf, type Incident, type IncidentKind } from '../incidents/incident.ts';

/** What a scheduler has seen since it took over: monotonic times, ms. */
export interface Watched {
  /** Incidents that are there and that the channel was not told of: since when. */
  readonly begun: Map<string, number>;
  /** Incidents that the channel was told of and that are not there: since when. */
  readonly over: Map<string, number>;
}

export function newWatched(): Watched {
  return { begun: new Map(), over: new Map() };
}

export interface ChangeRules {
  /** Monotonic, ms. */
  readonly now: number;
  /** For how long an incident must last, and be over, before the channel is told. */
  readonly delayMs: number;
  /** Monotonic time of the take-over. */
  readonly ownedSince: number;
  /** Time within which hosts return after a take-over, ms. */
  readonly graceMs: number;
}

export interface Changes {
  readonly begun: readonly Incident[];
  readonly over: readonly ToldIncident[];
}

/** Incidents that a channel remembers, and of which one message tells. */
export const MAX_TOLD = 500;

const MINUTE_MS = 60_000;

/**
 * Time after a take-over before which the absence of an incident says nothing: it is derived from what the scheduler counts in memory.
 * The others are known once the hosts are back.
 */
const LEARNED_WITHIN_MS: Partial<Record<IncidentKind, number>> = {
  CRASH_LOOP: 10 * MINUTE_MS,
  RELEASE_CRASHES: 10 * MINUTE_MS,
  FAILURE_RATE: 6 * MINUTE_MS,
  GPU_IDLE: 32 * MINUTE_MS,
};

/** Updates `watched`. An incident that is folded below another one is not over, and is not told of by itself. */
export function changesOf(told: readonly ToldIncident[], found: readonly Incident[], watched: Watched, rules: ChangeRules): Changes {
  const known = new Set(told.map(({ key }) => key));
  const roots = new Map(found.map((incident) => [keyOf(incident), incident]));
  const present = new Set([...roots.keys(), ...found.flatMap(({ effects }) => effects.map(keyOf))]);
  const begun = [...roots].filter(([key]) => !known.has(key) && hasLasted(watched.begun, key, rules));
  const over = told.filter(({ key }) => !present.has(key) && isKnown(key, rules) && hasLasted(watched.over, key, rules));
  for (const key of watched.begun.keys()) if (!roots.has(key) || known.has(key)) watched.begun.delete(key);
  for (const key of watched.over.keys()) if (!known.has(key) || present.has(key)) watched.over.delete(key);
  const room = Math.max(0, MAX_TOLD - told.length + over.length);
  return { begun: begun.slice(0, room).map(([, incident]) => incident), over };
}

function hasLasted(since: Map<string, number>, key: string, { now, delayMs }: ChangeRules): boolean {
  const first = since.get(key) ?? now;
  since.set(key, first);
  return now - first >= delayMs;
}

function isKnown(key: string, { now, ownedSince, graceMs }: ChangeRules): boolean {
  const [kind = ''] = key.split(' ');
  return now - ownedSince >= (LEARNED_WITHIN_MS[kind as IncidentKind] ?? graceMs);
}
