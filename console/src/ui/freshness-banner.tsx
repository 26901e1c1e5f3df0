/** Says on every page whether it is live, or why not and how old its data is. */
import type { JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';

import { useFreshness } from '../api/freshness.ts';
import { age, time } from './format.ts';
import { setTitle } from './title.ts';

const TICK_MS = 1_000;

/** Returns the time, anew each second while `isTicking`. */
function useNow(isTicking: boolean): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    setNow(Date.now());
    if (!isTicking) return undefined;
    const timer = setInterval(() => setNow(Date.now()), TICK_MS);
    return () => clearInterval(timer);
  }, [isTicking]);
  return now;
}

export function LiveMark(): JSX.Element {
  const { staleSince } = useFreshness();
  return staleSince === undefined ? <span class="live">Live</span> : <span class="live stale">Not live</span>;
}

export function FreshnessBanner(): JSX.Element {
  const { staleSince, reason } = useFreshness();
  const isStale = staleSince !== undefined;
  const now = useNow(isStale);
  useEffect(() => setTitle({ isStale }), [isStale]);
  // The region is there before its text, so that screen readers announce it; the age alone is not announced each second.
  return (
    <div class={isStale ? 'stale-banner' : ''}>
      <span role="status">{isStale && `Not live: ${reason}`}</span>
      {isStale && (
        <span>
          {' '}
          What is shown is {age(now - staleSince)} old, from {time(new Date(staleSince).toISOString())}. The page tries again by itself.
        </span>
      )}
    </div>
  );
}
