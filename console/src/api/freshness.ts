/**
 * How current the pages are: live, or stale since the last sign of life of the service. Signs come each second over the stream of
 * changes; a stream that breaks or falls silent, and a request that is not answered, make the pages stale at once.
 */
import { useEffect, useState } from 'preact/hooks';

export interface Freshness {
  /** Undefined while the pages are live; else the time of the last sign of life, ms since 1970. */
  readonly staleSince: number | undefined;
  /** Why they are stale; empty while they are live. */
  readonly reason: string;
}

/** Without a sign of life for this long the pages are stale, ms: signs come each second. */
const SILENCE_MS = 2_500;
const CHECK_MS = 250;
const LIVE: Freshness = { staleSince: undefined, reason: '' };

const listeners = new Set<(freshness: Freshness) => void>();
let current = LIVE;
let aliveAt = Date.now();
let watch: ReturnType<typeof setInterval> | undefined;

/** Records a sign of life of the service. */
export function noteAlive(): void {
  aliveAt = Date.now();
  if (current.staleSince !== undefined) set(LIVE);
}

/** Records that the service does not answer: the pages are stale until its next sign of life. */
export function noteAway(reason: string): void {
  if (current.staleSince === undefined || current.reason !== reason) set({ staleSince: current.staleSince ?? aliveAt, reason });
}

/** Records a request that failed at the service. The stream knows better where there is one: one cell of several may have no owner. */
export function noteFailure(reason: string): void {
  if (watch === undefined) noteAway(reason);
}

/** Records a response to a request. The stream knows better where there is one. */
export function noteResponse(): void {
  if (watch === undefined) noteAlive();
}

/** Expects signs of life from now on. Returns the function that ends it. */
export function expectSigns(): () => void {
  noteAlive();
  watch ??= setInterval(() => {
    if (Date.now() - aliveAt > SILENCE_MS) noteAway(current.reason === '' ? 'The gateway does not respond.' : current.reason);
  }, CHECK_MS);
  return () => {
    clearInterval(watch);
    watch = undefined;
    set(LIVE);
  };
}

export function isStale(): boolean {
  return current.staleSince !== undefined;
}

export function useFreshness(): Freshness {
  const [freshness, setFreshness] = useState(current);
  useEffect(() => {
    listeners.add(setFreshness);
    setFreshness(current);
    return () => void listeners.delete(setFreshness);
  }, []);
  return freshness;
}

function set(next: Freshness): void {
  current = next;
  for (const listener of listeners) listener(next);
}
